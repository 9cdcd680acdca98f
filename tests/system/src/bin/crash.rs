//! Cuts the power of machines that serve, for as long as one likes.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;

use clap::Parser;
use leasehold_system_tests::crash::{self, Report, Round};
use leasehold_system_tests::{FileSystem, Site};

/// After so many cuts a machine gets a new disk, and the next file system.
const CUTS_A_DISK: u64 = 50;

/// Cuts the power of a server under load, again and again, and checks after each boot that all
/// that was acknowledged is there.
#[derive(Parser)]
struct Arguments {
    /// How often, on all file systems together.
    #[arg(long, default_value_t = 100)]
    cuts: u64,
    /// What the first machine does; the next one has the seed behind it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file systems, in turn [default: all].
    #[arg(long = "file-system")]
    file_systems: Vec<FileSystem>,
    /// Has an ordinary user serve, so that handles are found by name.
    #[arg(long)]
    ordinary_user: bool,
    /// Has a log answer for what is stable.
    #[arg(long, conflicts_with = "stripes")]
    stable_log: bool,
    /// Spreads data over three directories.
    #[arg(long)]
    stripes: bool,
}

fn main() -> ExitCode {
    let Arguments { cuts, seed, mut file_systems, ordinary_user, stable_log, stripes } =
        Arguments::parse();
    if file_systems.is_empty() {
        file_systems = FileSystem::ALL.to_vec();
    }
    let mut total = Report::default();
    for (seed, file_system) in (seed..).zip(file_systems.into_iter().cycle()) {
        if total.cuts >= cuts {
            break;
        }
        let rounds = until(crash::plan(seed, file_system), CUTS_A_DISK.min(cuts - total.cuts));
        let site = Site::of(file_system);
        let site = if ordinary_user { site.of_ordinary_user() } else { site };
        let site = if stable_log { site.with_stable_log() } else { site };
        let site = if stripes { site.with_stripes() } else { site };
        match crash::run(seed, site, rounds) {
            Ok(Report { answers, cuts }) => {
                println!("seed {seed} on {file_system:?}: {answers} answers, {cuts} cuts");
                total.answers += answers;
                total.cuts += cuts;
            }
            Err(failure) => {
                println!("BROKEN {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{} answers, {} cuts: nothing is lost", total.answers, total.cuts);
    ExitCode::SUCCESS
}

/// Rounds up to that with the last of so many cuts.
fn until(rounds: impl Iterator<Item = Round>, mut cuts: u64) -> impl Iterator<Item = Round> {
    rounds.take_while(move |round| {
        let goes_on = cuts > 0;
        cuts -= u64::from(goes_on && round.outage.is_cut());
        goes_on
    })
}
