//! Runs several mounts and a client without leases on the same files for minutes, while the server
//! is killed and restarted, and checks that one order explains all observations; then runs foreign
//! programs on two mounts concurrently, and on two mounts as if they were one.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::fs;
use std::process::ExitCode;
use std::thread::spawn;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::posix::{CROSSED, QUICK, Trial, run, run_crossed};
use leasehold_system_tests::sharing::{self, Sharing};
use leasehold_system_tests::{Scratch, Server};

/// Longer than one round takes.
const LIMIT: Duration = Duration::from_mins(20);

/// Runs several mounts on the same files
#[derive(Parser)]
struct Arguments {
    /// The duration in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The first seed; each round uses the next one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of mounts
    #[arg(long, default_value_t = 3)]
    mounts: usize,
    /// The number of operations of each mount in a round
    #[arg(long, default_value_t = 2000)]
    operations: usize,
    /// The number of times that the server is killed in a round
    #[arg(long, default_value_t = 4)]
    kills: usize,
    /// The number of times that a mount is stopped in a round, for longer than the term of its
    /// leases
    #[arg(long, default_value_t = 0)]
    stops: usize,
    /// The number of strict metaservers, which the mounts use in turn; 0 for one server
    #[arg(long, default_value_t = 0)]
    metaservers: usize,
    /// Include the kernel's client, which runs in a guest
    #[arg(long)]
    kernel: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { minutes, seed, mounts, operations, kills, stops, metaservers, kernel } =
        arguments;
    let (start, limit) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    // Each mount has a seed of its own.
    for seed in (seed..).step_by(mounts.max(1)) {
        match sharing::run(
            Sharing { mounts, metaservers, kernel, operations, kills, stops, seed },
            LIMIT,
        ) {
            Ok(longest) => {
                println!("seed {seed}: one order explains it; the longest wait was {longest:.1?}");
            }
            Err(text) => {
                println!("seed {seed}: no order explains {text}");
                return ExitCode::FAILURE;
            }
        }
        if start.elapsed() > limit {
            break;
        }
    }
    let at_once = QUICK.iter().map(|trial| at_once(*trial));
    let passed: Vec<bool> = at_once.chain(CROSSED.iter().map(|trial| crossed(*trial))).collect();
    if passed.into_iter().all(|passed| passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a trial on two mounts concurrently, each in its own directory.
fn at_once(trial: Trial) -> bool {
    let server = Server::start_with(&["--durability", "memory"]);
    let trials = ["one", "other"].map(|name| {
        let (mounted, scratch) = (Mounted::new(&server, "", LIMIT), Scratch::new("scratch"));
        fs::create_dir(mounted.path(name)).expect("there is room");
        spawn(move || run(trial, &mounted.path(name), scratch.path(), LIMIT.as_secs()))
    });
    let mut passed_both = true;
    for trial in trials {
        let (passed, told) = trial.join().expect("it runs");
        if !passed {
            println!("{told}");
        }
        passed_both &= passed;
    }
    println!(
        "{} on two mounts at once: {}",
        trial.name,
        ["failed", "passed"][usize::from(passed_both)]
    );
    passed_both
}

/// Runs a trial in which each call uses one of two mounts.
fn crossed(trial: Trial) -> bool {
    let server = Server::start_with(&["--durability", "memory"]);
    let mounts = [0, 1].map(|_| Mounted::new(&server, "", LIMIT));
    let [one, other] = mounts.each_ref().map(Mounted::folder);
    let scratch = Scratch::new("scratch");
    let (passed, told) = run_crossed(trial, [one, other], scratch.path(), LIMIT.as_secs());
    if !passed {
        println!("{told}");
    }
    println!(
        "{}, each call on one of two mounts: {}",
        trial.name,
        ["failed", "passed"][usize::from(passed)]
    );
    passed
}
