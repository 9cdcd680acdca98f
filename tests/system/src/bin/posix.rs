//! Runs programs that try a file system, for minutes, on the local disk and on a mount, and says
//! how each ended, one JSON object a line; and some by the kernel's client at one of several metaservers.
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
    passed_all &= metaservers(&arguments);
    if passed_all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether the kernel's client passes at one of several metaservers, whose root has its home at another,
/// but for what is known.
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
