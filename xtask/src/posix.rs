//! What programs of others expect of a file system, and what several mounts see of one, for as long
//! as anybody likes.

use std::time::Duration;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{GUEST, MORE_POSIX, MOUNTS, POSIX, ensure};

/// Longer than all of them take.
const LIMIT: Duration = Duration::from_hours(3);

/// Runs them with options of their own.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![MOUNTS, POSIX, MORE_POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    long(repository, "leasehold-posix", options)
}

/// Has several mounts work on the same files, with options of their own.
pub(crate) fn share(repository: &Repository, options: &[String]) -> Tally {
    if ![GUEST, MOUNTS, POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    long(repository, "leasehold-sharing", options)
}

fn long(repository: &Repository, program: &str, options: &[String]) -> Tally {
    let package = ["--package", "leasehold-system-tests", "--bin", program, "--"];
    let mut words = vec!["cargo", "run", "--quiet"];
    words.extend(package);
    words.extend(options.iter().map(String::as_str));
    Tally::of(program::run(repository.root(), &words, LIMIT).succeeded)
}
