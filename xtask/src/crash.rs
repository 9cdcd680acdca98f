//! Power cuts, for any duration.

use std::time::Duration;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{DISKS, GUEST, ensure};

/// Longer than any run with power cuts.
const LIMIT: Duration = Duration::from_hours(24);

/// Runs the harness with its own options.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![GUEST, DISKS].into_iter().all(ensure) {
        return Tally::of(false);
    }
    let package = ["--package", "leasehold-system-tests", "--bin", "leasehold-crash", "--"];
    let mut words = vec!["cargo", "run", "--quiet"];
    words.extend(package);
    words.extend(options.iter().map(String::as_str));
    Tally::of(program::run(repository.root(), &words, LIMIT).succeeded)
}
