//! Builds of our own programs for tests.
//!
//! Each build selects the whole workspace, also if it builds one program only: Cargo compiles a
//! crate again for each set of features, and the set depends on the selected packages.

use std::time::Duration;

use crate::program::{self, Outcome};
use crate::repository::Repository;

/// Long enough to build our programs and the system tests from scratch.
pub(crate) const LIMIT: Duration = Duration::from_mins(20);

/// Builds programs. Returns false if that fails.
pub(crate) fn programs(repository: &Repository, names: &[&str]) -> bool {
    let bins: Vec<String> = names.iter().map(|name| format!("--bin={name}")).collect();
    let mut words = vec!["cargo", "build", "--quiet", "--workspace"];
    words.extend(bins.iter().map(String::as_str));
    program::run(repository.root(), &words, LIMIT).succeeded
}

/// Returns the path of a built program.
pub(crate) fn path(repository: &Repository, name: &str) -> String {
    repository.target().join("debug").join(name).display().to_string()
}

/// Builds one program and runs it with options.
pub(crate) fn run(
    repository: &Repository,
    name: &str,
    options: &[impl AsRef<str>],
    limit: Duration,
) -> Outcome {
    if !programs(repository, &[name]) {
        return Outcome { succeeded: false, output: String::new() };
    }
    let path = path(repository, name);
    let options = options.iter().map(AsRef::as_ref);
    let words: Vec<&str> = [&*path].into_iter().chain(options).collect();
    program::run(repository.root(), &words, limit)
}
