//! Power cuts, for any duration.

use std::time::Duration;

use crate::build;
use crate::check::Tally;
use crate::repository::Repository;
use crate::setup::{DISKS, GUEST, ensure};

/// Longer than any run with power cuts.
const LIMIT: Duration = Duration::from_hours(24);

/// Runs the harness with its own options.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![GUEST, DISKS].into_iter().all(ensure) {
        return Tally::of(false);
    }
    Tally::of(build::run(repository, "leasehold-crash", options, LIMIT).succeeded)
}
