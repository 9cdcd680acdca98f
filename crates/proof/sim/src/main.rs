//! Runs worlds: the world of one seed, to examine it, or as many worlds as fit in a time.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};
use leasehold_sim::{
    Broken, CoverMutant, CoverOptions, LeaseMutant, LeaseOptions, Mutant, Options, ReplicaMutant,
    ReplicaOptions, Report, found, found_covers, found_leases, found_replica, run, run_covers,
    run_leases, run_replica,
};

/// The interval between progress lines in a long run.
const PROGRESS: Duration = Duration::from_secs(10);

/// Simulates worlds with lost messages, wrong clocks, crashes and kills, and checks every promise.
#[derive(Parser)]
struct Arguments {
    /// Simulates only the world of this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Simulates first the worlds that found faults before, then new worlds, for this number of
    /// minutes
    #[arg(long, default_value_t = 1.0, conflicts_with = "seed")]
    minutes: f64,
    /// Simulates only new worlds, from this seed on [default: the time in ms]
    #[arg(long, value_name = "SEED", conflicts_with = "seed")]
    first: Option<u64>,
    /// Plants this fault in the server
    #[arg(long)]
    mutant: Option<Mutant>,
    /// Simulates worlds of leases, in which clients cache under leases
    #[arg(long)]
    leases: bool,
    /// Plants this fault in a world of leases
    #[arg(long, requires = "leases", conflicts_with = "mutant")]
    lease_mutant: Option<LeaseMutant>,
    /// Simulates worlds of several metaservers of one file system
    #[arg(long, conflicts_with_all = ["leases", "mutant"])]
    replica: bool,
    /// Simulates metaservers that cache under leases, and so show no old data
    #[arg(long, requires = "replica")]
    strict: bool,
    /// Plants this fault in all metaservers of a world
    #[arg(long, requires = "replica")]
    replica_mutant: Option<ReplicaMutant>,
    /// Simulates metaservers whose clients hold leases
    #[arg(long, conflicts_with_all = ["leases", "mutant", "replica"])]
    covers: bool,
    /// Plants this fault in all metaservers of a world whose clients hold leases
    #[arg(long, requires = "covers")]
    cover_mutant: Option<CoverMutant>,
    /// Prints all events of the world
    #[arg(long, requires = "seed")]
    trace: bool,
}

/// The kind of the simulated worlds, and the fault to plant in each.
#[derive(Clone, Copy)]
enum Kind {
    Files(Option<Mutant>),
    Leases(Option<LeaseMutant>),
    Replica(Option<ReplicaMutant>, bool),
    Covers(Option<CoverMutant>),
}

impl Kind {
    fn run(self, seed: u64, trace: bool) -> (Report, Vec<Broken>) {
        match self {
            Self::Files(mutant) => run(Options { seed, mutant, trace }),
            Self::Leases(mutant) => run_leases(LeaseOptions { seed, mutant, trace }),
            Self::Replica(mutant, strict) => {
                run_replica(ReplicaOptions { seed, mutant, strict, trace })
            }
            Self::Covers(mutant) => run_covers(CoverOptions { seed, mutant, trace }),
        }
    }

    /// Returns the seeds whose worlds of this kind found faults before.
    fn found(self) -> Vec<u64> {
        match self {
            Self::Files(_) => found().iter().map(|world| world.seed).collect(),
            Self::Leases(_) => found_leases().iter().map(|world| world.seed).collect(),
            Self::Replica(..) => found_replica().iter().map(|world| world.seed).collect(),
            Self::Covers(_) => found_covers().iter().map(|world| world.seed).collect(),
        }
    }

    /// Returns the command-line options that select this kind.
    fn words(self) -> String {
        match self {
            Self::Files(mutant) => named(" --mutant", mutant),
            Self::Leases(mutant) => format!(" --leases{}", named(" --lease-mutant", mutant)),
            Self::Replica(mutant, strict) => {
                let strict = if strict { " --strict" } else { "" };
                format!(" --replica{strict}{}", named(" --replica-mutant", mutant))
            }
            Self::Covers(mutant) => format!(" --covers{}", named(" --cover-mutant", mutant)),
        }
    }
}

fn named<M: ValueEnum>(option: &str, mutant: Option<M>) -> String {
    let value = mutant.and_then(|mutant| mutant.to_possible_value());
    value.map(|value| format!("{option} {}", value.get_name())).unwrap_or_default()
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { seed, minutes, mutant, lease_mutant, replica_mutant, trace, .. } = arguments;
    let kind = match (arguments.leases, arguments.replica) {
        (true, _) => Kind::Leases(lease_mutant),
        (false, false) if arguments.covers => Kind::Covers(arguments.cover_mutant),
        (false, true) => Kind::Replica(replica_mutant, arguments.strict),
        (false, false) => Kind::Files(mutant),
    };
    let kept = match seed {
        Some(seed) => show(kind, seed, trace),
        None => many(kind, arguments.first, Duration::from_secs_f64(minutes * 60.0)),
    };
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one world and prints its result; returns true if the world kept every promise.
fn show(kind: Kind, seed: u64, trace: bool) -> bool {
    let (report, broken) = kind.run(seed, trace);
    report.trace.iter().for_each(|line| println!("{line}"));
    let Report { operations, crashes, kills, backups, digest, .. } = report;
    println!(
        "seed {seed}: {operations} operations, {crashes} crashes, {kills} kills, \
         {backups} backups, digest {digest:016x}"
    );
    for broken in &broken {
        println!("BROKEN {}: {}", broken.promise, broken.how);
    }
    if !broken.is_empty() {
        println!("to repeat it: cargo xtask sim --seed {seed}{}", kind.words());
    }
    broken.is_empty()
}

/// Runs worlds until one breaks a promise or the time is over. If `asked` is given, runs the worlds
/// from this seed on; otherwise runs the worlds that found faults before, and then new worlds.
fn many(kind: Kind, asked: Option<u64>, time: Duration) -> bool {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = asked.unwrap_or_else(|| u64::try_from(since.as_millis()).unwrap_or(0));
    let found = if asked.is_some() { Vec::new() } else { kind.found() };
    let (started, mut told) = (Instant::now(), Instant::now());
    let (mut worlds, mut operations, mut crashes, mut kills, mut backups) = (0, 0, 0, 0, 0);
    for seed in found.into_iter().chain(first..) {
        if started.elapsed() >= time {
            break;
        }
        let (report, broken) = kind.run(seed, false);
        if !broken.is_empty() {
            return show(kind, seed, false);
        }
        worlds += 1;
        operations += report.operations;
        crashes += report.crashes;
        kills += report.kills;
        backups += report.backups;
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            eprintln!("{} s: {worlds} worlds", started.elapsed().as_secs());
        }
    }
    println!(
        "{worlds} worlds, the new from seed {first} on: {operations} operations, {crashes} crashes, \
         {kills} kills, {backups} backups"
    );
    true
}
