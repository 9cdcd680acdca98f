//! Long runs: a server, or the iods of a metaserver, under load for any duration.

use std::time::Duration;

use clap::Args;

use crate::build;
use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{GUEST, MOUNTS, ensure};

/// Long enough to build the programs.
const BUILD_LIMIT: Duration = Duration::from_hours(2);

/// Longer than any run.
const LIMIT: Duration = Duration::from_hours(24 * 7);

/// The options of a long run.
#[derive(Args)]
pub(crate) struct Options {
    /// The duration in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Use a metaserver instead, whose iods are killed, added and drained under mounts; checks that
    /// no data is lost.
    #[arg(long)]
    stripes: bool,
    /// Options of the program, such as --kernel --copies 2; --help lists them.
    #[arg(last = true, requires = "stripes")]
    options: Vec<String>,
}

/// Runs the selected system for the given time.
pub(crate) fn run(repository: &Repository, options: &Options) -> Tally {
    let Options { minutes, stripes: of_stripes, options } = options;
    if *of_stripes { stripes(repository, *minutes, options) } else { server(repository, *minutes) }
}

/// Checks that the memory and the file descriptors of a server stay constant.
fn server(repository: &Repository, minutes: u64) -> Tally {
    let build =
        ["cargo", "build", "--release", "--quiet", "-p", "leasehold", "-p", "leasehold-bench"];
    let seconds = (minutes * 60).to_string();
    let bench = repository.target().join("release/leasehold-bench").display().to_string();
    let words = [&*bench, "soak", "--seconds", &seconds];
    let done = program::run(repository.root(), &build, BUILD_LIMIT).succeeded
        && program::run(repository.root(), &words, LIMIT).succeeded;
    Tally::of(done)
}

/// Checks that no data is lost while iods are killed.
fn stripes(repository: &Repository, minutes: u64, options: &[String]) -> Tally {
    if ![GUEST, MOUNTS].into_iter().all(ensure) {
        return Tally::of(false);
    }
    let minutes = minutes.to_string();
    let mut words = vec!["--minutes", &*minutes];
    words.extend(options.iter().map(String::as_str));
    Tally::of(build::run(repository, "leasehold-soak", &words, LIMIT).succeeded)
}
