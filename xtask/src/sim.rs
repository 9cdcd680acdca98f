//! The seeded simulator.

use std::time::Duration;

use crate::build;
use crate::check::Tally;
use crate::program;
use crate::repository::Repository;

/// Longer than any simulation.
const LIMIT: Duration = Duration::from_hours(24);

/// Runs the simulator with its own options. A seed describes the same world only at one commit, so
/// a failure reports the commit as well.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    let outcome = build::run(repository, "leasehold-sim", options, LIMIT);
    if !outcome.succeeded {
        let commit =
            program::output(repository.root(), &["git", "describe", "--always", "--dirty"]);
        println!("at commit {}", commit.unwrap_or_else(|error| error).trim());
    }
    Tally::of(outcome.succeeded)
}
