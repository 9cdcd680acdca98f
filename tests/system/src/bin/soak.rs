//! Kills I/O daemons of metaservers under load, for any duration.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_system_tests::soak::{self, Report, Soak};

/// Runs programs that record each byte they write on mounts of a metaserver, while its I/O daemons
/// are killed at random, added and drained, and compares all remaining data. With several
/// metaservers each serves some of the mounts, and the metaservers are killed, too
#[derive(Parser)]
struct Arguments {
    /// The duration in minutes; the last round is completed
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The number of data copies: 1 or 2 [default: each for half of the time]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=2))]
    copies: Option<u16>,
    /// The number of metaservers of the file system; several metaservers use one copy of the data
    /// and a fixed set of I/O daemons
    #[arg(long, default_value_t = 1, conflicts_with = "copies",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=7))]
    peers: usize,
    /// Make several metaservers show no stale data, by leases; otherwise they are lazy
    #[arg(long, requires = "peers")]
    strict: bool,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of times that an I/O daemon is killed in a round
    #[arg(long, default_value_t = 8)]
    kills: u64,
    /// Include the kernel's client, which runs in a guest
    #[arg(long)]
    kernel: bool,
    /// Keep the set of I/O daemons: none is added or drained
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
