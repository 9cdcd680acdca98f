//! Runs programs that try a file system, for minutes, on the local disk and on a mount, and says
//! how each ended, one JSON object a line.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::posix::{EXCEPTIONS, LONG, QUICK, STRESSORS, run};
use leasehold_system_tests::{Scratch, Server};
use serde_json::json;

/// Tries a file system with programs of others, on the local disk and on a mount.
#[derive(Parser)]
struct Arguments {
    /// The options of the mount, as -o takes them.
    #[arg(short, long, default_value = "")]
    options: String,
    /// Only those whose names begin so.
    #[arg(long, default_value = "")]
    only: String,
    /// How long one of them may take, in seconds.
    #[arg(long, default_value_t = 900)]
    seconds: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let scratch = Scratch::new("scratch");
    let mut passed_all = true;
    let trials = QUICK.iter().chain(LONG).chain(STRESSORS);
    for trial in trials.filter(|trial| trial.name.starts_with(&arguments.only)) {
        let local = Scratch::new("local");
        // What the disk fails, a mount need not pass.
        let (expected, _) = run(*trial, local.path(), scratch.path(), arguments.seconds);
        let server = Server::start_with(&["--durability", "memory"]);
        let limit = Duration::from_secs(arguments.seconds + 60);
        let mounted = Mounted::new(&server, &arguments.options, limit);
        let start = Instant::now();
        let (passed, told) = run(*trial, mounted.folder(), scratch.path(), arguments.seconds);
        let seconds = start.elapsed().as_secs_f64();
        let excused = EXCEPTIONS.iter().find(|(name, _)| *name == trial.name);
        // What a program counts itself.
        let counted = told.lines().rev().find_map(|line| line.strip_prefix("Summary: "));
        let line = json!({
            "trial": trial.name, "what": trial.what, "counted": counted, "local": expected,
            "mount": passed, "seconds": seconds, "exception": excused.map(|(_, why)| why),
        });
        println!("{line}");
        let fails = !passed && expected && excused.is_none();
        if fails {
            println!("{told}");
        }
        passed_all &= !fails;
    }
    if passed_all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
