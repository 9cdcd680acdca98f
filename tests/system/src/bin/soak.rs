//! Kills iods of metaservers under load, for as long as one likes.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_system_tests::soak::{self, Report, Soak};

/// Has programs that know each byte they wrote work on mounts of a metaserver, while its iods are
/// killed at random, come and go, and compares all that they left. Of several metaservers each has
/// some of the mounts, and is killed, too.
#[derive(Parser)]
struct Arguments {
    /// For how long, in minutes; a round that is begun is ended.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many copies of the data there are: 1 or 2 [default: each for half of the time].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=2))]
    copies: Option<u16>,
    /// How many metaservers serve the file system; several have one copy of the data, and the iods
    /// that they began with.
    #[arg(long, default_value_t = 1, conflicts_with = "copies",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=7))]
    peers: usize,
    /// Have several metaservers show nothing old, by leases; else they are lazy.
    #[arg(long, requires = "peers")]
    strict: bool,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often an iod is killed in a round.
    #[arg(long, default_value_t = 8)]
    kills: u64,
    /// Let the kernel's client take part: it runs in a guest.
    #[arg(long)]
    kernel: bool,
    /// Leave the iods as they are: none is added, and none is left.
    #[arg(long)]
    same_iods: bool,
}

fn main() -> ExitCode {
    let Arguments { minutes, copies, peers, strict, seed, kills, kernel, same_iods } =
        Arguments::parse();
    let both = if peers > 1 { vec![1] } else { vec![1, 2] };
    let copies = copies.map_or(both, |copies| vec![copies]);
    let seconds = minutes * 60.0 / if copies.len() == 2 { 2.0 } else { 1.0 };
    let limit = Duration::from_secs_f64(seconds);
    for copies in copies {
        let soak = Soak { copies, peers, strict, kernel, changes: !same_iods, kills, seed };
        let start = Instant::now();
        let done = soak::run(soak, |report| {
            println!("copies {copies}: {}", summary(report));
            start.elapsed() < limit
        });
        match done {
            Ok(report) => println!("copies {copies}: {}: nothing is lost", summary(&report)),
            Err(fault) => {
                println!("BROKEN copies {copies}, seed {seed}: {fault}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn summary(report: &Report) -> String {
    let Report { rounds, kills, changes, steps, files, bytes, rewritten_bytes } = report;
    format!(
        "{rounds} rounds, {kills} kills, {changes} iods replaced, {steps} steps, {files} files with \
         {bytes} bytes compared, {rewritten_bytes} bytes written again"
    )
}
