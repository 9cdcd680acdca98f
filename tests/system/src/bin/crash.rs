//! Cuts the power of serving machines, for any number of rounds.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;

use clap::Parser;
use leasehold_system_tests::crash::{self, Report, Round};
use leasehold_system_tests::{FileSystem, Site};

/// After this number of cuts a machine receives a new disk with the next file system.
const CUTS_A_DISK: u64 = 50;

/// Cuts the power of a server under load repeatedly, and checks after each boot that all
/// acknowledged changes are present
#[derive(Parser)]
struct Arguments {
    /// The number of cuts, on all file systems together
    #[arg(long, default_value_t = 100)]
    cuts: u64,
    /// The seed of the first machine; the next machine has the next seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The file systems, in turn [default: all]
    #[arg(long = "file-system")]
    file_systems: Vec<FileSystem>,
    /// Run the server as an ordinary user, so that the server finds handles by name
    #[arg(long)]
    ordinary_user: bool,
    /// Use a write-ahead log
    #[arg(long, conflicts_with = "stripes")]
    stable_log: bool,
    /// Spread data over three directories
    #[arg(long)]
    stripes: bool,
    /// Spread data over three I/O daemons, each with a disk of its own, and also cut their power
    #[arg(long, conflicts_with_all = ["stable_log", "stripes"])]
    iods: bool,
    /// The number of data copies on I/O daemons: 1 or 2
    #[arg(
        long,
        requires = "iods",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=2)
    )]
    copies: u16,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { cuts, seed, iods, .. } = arguments;
    let mut file_systems = arguments.file_systems.clone();
    if file_systems.is_empty() {
        file_systems = FileSystem::ALL.to_vec();
    }
    let mut total = Report::default();
    for (seed, file_system) in (seed..).zip(file_systems.into_iter().cycle()) {
        if total.cuts >= cuts {
            break;
        }
        let rounds: Box<dyn Iterator<Item = Round>> = match iods {
            true => Box::new(crash::plan_of_iods(seed, file_system)),
            false => Box::new(crash::plan(seed, file_system)),
        };
        let rounds = until(rounds, CUTS_A_DISK.min(cuts - total.cuts));
        match crash::run(seed, arguments.site(file_system), rounds) {
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

impl Arguments {
    /// Returns the site of a machine with this file system.
    const fn site(&self, file_system: FileSystem) -> Site {
        let site = Site::of(file_system);
        let site = if self.ordinary_user { site.of_ordinary_user() } else { site };
        let site = if self.stable_log { site.with_stable_log() } else { site };
        let site = if self.stripes { site.with_stripes() } else { site };
        if self.iods { site.with_iods(self.copies) } else { site }
    }
}

/// Returns the rounds up to the one with the last of `cuts` cuts.
fn until(rounds: impl Iterator<Item = Round>, mut cuts: u64) -> impl Iterator<Item = Round> {
    rounds.take_while(move |round| {
        let goes_on = cuts > 0;
        cuts -= u64::from(goes_on && round.outage.is_cut());
        goes_on
    })
}
