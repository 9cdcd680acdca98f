//! What programs of others expect of a file system, for as long as they like.

use std::time::Duration;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{MORE_POSIX, MOUNTS, POSIX, ensure};

/// Longer than all of them take.
const LIMIT: Duration = Duration::from_hours(3);

/// Runs them with options of their own.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![MOUNTS, POSIX, MORE_POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    let package = ["--package", "leasehold-system-tests", "--bin", "leasehold-posix", "--"];
    let mut words = vec!["cargo", "run", "--quiet"];
    words.extend(package);
    words.extend(options.iter().map(String::as_str));
    Tally::of(program::run(repository.root(), &words, LIMIT).succeeded)
}
