//! Runs file system test programs for minutes, on the local disk and on a mount, and prints the
//! result of each, one JSON object per line; runs some through the kernel's client at one of
//! several metaservers.
#![allow(clippy::print_stdout, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::posix::{
    EXCEPTIONS, LONG, OF_SEVERAL, OF_THE_KERNEL, QUICK, STRESSORS, failing_by_the_kernel, run,
};
use leasehold_system_tests::{Group, Scratch, Server, Version};
use serde_json::json;

/// Tests a file system with foreign programs, on the local disk and on a mount
#[derive(Parser)]
struct Arguments {
    /// The options of the mount, in the format of -o
    #[arg(short, long, default_value = "")]
    options: String,
    /// Run only programs whose names begin with this text
    #[arg(long, default_value = "")]
    only: String,
    /// The time limit of one program, in seconds
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
        // A trial that fails on the disk need not pass on a mount.
        let (expected, _) = run(*trial, local.path(), scratch.path(), arguments.seconds);
        let server = Server::start_with(&["--durability", "memory"]);
        let limit = Duration::from_secs(arguments.seconds + 60);
        let mounted = Mounted::new(&server, &arguments.options, limit);
        let start = Instant::now();
        let (passed, told) = run(*trial, mounted.folder(), scratch.path(), arguments.seconds);
        let seconds = start.elapsed().as_secs_f64();
        let excused = EXCEPTIONS.iter().find(|(name, _)| *name == trial.name);
        // The count that a program prints.
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
    passed_all &= metaservers(&arguments);
    if passed_all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns true if the kernel's client passes, except for the known failures, at one of several
/// metaservers whose root has its home at another.
fn metaservers(arguments: &Arguments) -> bool {
    let kinds: [(&str, &[&str]); 2] =
        [("metaservers, lazy", &[]), ("metaservers, strict", &["--strict"])];
    let mut passed_all = true;
    for (name, options) in kinds.iter().filter(|(name, _)| name.starts_with(&arguments.only)) {
        let group = Group::start(2, &[&["--stripe-unit", "4"], *options].concat());
        let (start, limit) = (Instant::now(), Duration::from_secs(arguments.seconds));
        let (mut fails, log) = failing_by_the_kernel(&group.mount(1, Version::V3), limit);
        fails.sort();
        let passed = fails == [OF_SEVERAL, OF_THE_KERNEL];
        let seconds = start.elapsed().as_secs_f64();
        println!("{name}: the kernel's client fails {} ({seconds:.1} s)", fails.join(", "));
        if !passed {
            println!("{log}");
        }
        passed_all &= passed;
    }
    passed_all
}
