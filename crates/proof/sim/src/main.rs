//! Runs worlds: one seed to look at, or as many as fit a time.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum as _};
use leasehold_sim::{Mutant, Options, Report, found, run};

/// How often a long run says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// Simulates worlds with lost messages, wrong clocks, crashes and kills, and checks every promise.
#[derive(Parser)]
struct Arguments {
    /// Simulates the world of this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Simulates worlds that found something, then new ones, for so many minutes.
    #[arg(long, default_value_t = 1.0, conflicts_with = "seed")]
    minutes: f64,
    /// Plants this fault in the server.
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Tells all that happens in the world.
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn main() -> ExitCode {
    let Arguments { seed, minutes, mutant, trace } = Arguments::parse();
    let kept = match seed {
        Some(seed) => show(Options { seed, mutant, trace }),
        None => many(mutant, Duration::from_secs_f64(minutes * 60.0)),
    };
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one world and tells what came of it; true when every promise was kept.
fn show(options: Options) -> bool {
    let (report, broken) = run(options);
    report.trace.iter().for_each(|line| println!("{line}"));
    let (seed, Report { operations, crashes, kills, digest, .. }) = (options.seed, report);
    println!(
        "seed {seed}: {operations} operations, {crashes} crashes, {kills} kills, \
         digest {digest:016x}"
    );
    for broken in &broken {
        println!("BROKEN {}: {}", broken.promise, broken.how);
    }
    if !broken.is_empty() {
        println!("to see it again: cargo xtask sim --seed {seed}{}", planted(options.mutant));
    }
    broken.is_empty()
}

fn planted(mutant: Option<Mutant>) -> String {
    let value = mutant.and_then(|mutant| mutant.to_possible_value());
    value.map(|value| format!(" --mutant {}", value.get_name())).unwrap_or_default()
}

/// Runs worlds until one breaks a promise or the time is over.
fn many(mutant: Option<Mutant>, time: Duration) -> bool {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = u64::try_from(since.as_millis()).unwrap_or(0);
    let (started, mut told) = (Instant::now(), Instant::now());
    let (mut worlds, mut operations, mut crashes, mut kills) = (0, 0, 0, 0);
    for seed in found().iter().map(|world| world.seed).chain(first..) {
        if started.elapsed() >= time {
            break;
        }
        let (report, broken) = run(Options { seed, mutant, trace: false });
        if !broken.is_empty() {
            return show(Options { seed, mutant, trace: false });
        }
        worlds += 1;
        operations += report.operations;
        crashes += report.crashes;
        kills += report.kills;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            eprintln!("{} s: {worlds} worlds", started.elapsed().as_secs());
        }
    }
    println!(
        "{worlds} worlds, the new from seed {first} on: {operations} operations, {crashes} crashes, \
         {kills} kills"
    );
    true
}
