//! The test: its steps, each with a time limit, and the counts of passed and failed tests.
//!
//! The limits detect hangs: on a slow and busy machine a step takes at most half of its limit.

use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::check::{Check, Tally, report};
use crate::repository::Repository;
use crate::setup::{
    BASE, COUNTER, DISKS, FOREIGN, GUEST, LINTERS, MOUNTS, PACKAGERS, POSIX, SERVERS, TAKERS, TREE,
    Tool, ensure,
};
use crate::{
    book, build, documents, fuzz, layers, licences, page, program, promises, recap, sim, tidy,
};

/// The package of tests with real clients; they have steps of their own.
const SYSTEM: &str = "leasehold-system-tests";

/// Selects the workspace, so that the tests share all builds, without the package that has a test of
/// the same name as one of [`SYSTEM`].
const OF_SYSTEM: [&str; 3] = ["--workspace", "--exclude", "leasehold-conform"];

/// Tests with real clients.
#[derive(Clone, Copy)]
struct Clients {
    /// The time limit without the build, in minutes.
    limit_min: u64,
    tools: &'static [&'static [Tool]],
    tests: &'static [&'static str],
}

const KERNEL: Clients = Clients {
    limit_min: 20,
    tools: &[GUEST, DISKS, POSIX],
    tests: &["--test=kernel", "--test=exports", "--test=below", "--test=crash", "--test=failures"],
};

const MOUNT: Clients = Clients {
    limit_min: 15,
    tools: &[GUEST, MOUNTS, DISKS, POSIX],
    tests: &[
        "--test=expected",
        "--test=full",
        "--test=fuse",
        "--test=manners",
        "--test=mount",
        "--test=posix",
        "--test=sharing",
        "--test=soak",
    ],
};

/// Steps that run side by side: each uses half of two processors at most, because guests and
/// timeouts determine its time.
const BESIDE: (Step, Step) = (Step::Kernel, Step::Mount);

/// A step of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The source has the format of `cargo fmt`.
    Fmt,
    /// The compiler and its linter report no warning.
    Clippy,
    /// Each crate uses lower layers only.
    Layers,
    /// Files and functions follow the rules of the project.
    Tidy,
    /// Outside crates follow the policy of `deny.toml`.
    Licences,
    /// The book can be written, lists each page, and has no link that leads nowhere.
    Book,
    /// The documentation builds and names only existing items.
    Docs,
    /// The tests next to the code.
    Unit,
    /// The server's instructions for each call agree with `bench/instructions.json`.
    Instructions,
    /// New worlds of the simulator keep every promise.
    Sim,
    /// Decoders and the whole server, fuzzed for a minute.
    Fuzz,
    /// Raw clients against the built server, iods and metaservers, and malicious servers against
    /// the built client.
    Attack,
    /// The built server under the Linux kernel's client, and with power cuts and disk failures.
    Kernel,
    /// The built client: its mount of the built server, by the kernel's FUSE.
    Mount,
    /// The package, installed on a copy of this machine's root, and the lines of the guide to
    /// mounting.
    Package,
    /// The pages in a real browser, and the comparison of the stored pages with a new build.
    Page,
    /// The built server under other clients, the traffic as tshark decodes it, and the tester
    /// against our server and foreign ones.
    Foreign,
}

/// Runs the named steps, or all if none is named, and continues after a failed one.
///
/// It prints the failures again at the end; its last line is the count of tests and checks.
pub(crate) fn run(repository: &Repository, steps: &[Step]) -> Tally {
    let steps = if steps.is_empty() { Step::value_variants() } else { steps };
    let mut lines = Vec::new();
    let mut total = Vec::new();
    for group in steps.chunk_by(|step, next| (*step, *next) == BESIDE) {
        let names: Vec<_> = group.iter().map(|step| format!("{step:?}").to_lowercase()).collect();
        let name = names.join("+");
        println!("\n== {name}");
        let (start, before) = (Instant::now(), program::processor_s());
        let tally = match group {
            [step] => step.run(repository),
            _ => beside(repository, [KERNEL, MOUNT]),
        };
        let seconds = start.elapsed().as_secs_f64();
        let processor_s = program::processor_s() - before;
        let Tally { passed, failed } = tally;
        lines.push(format!(
            "{name:<14} {passed:>6} passed {failed:>4} failed {seconds:>7.1} s, \
             {processor_s:>7.1} s of processors"
        ));
        println!("== {}", lines[lines.len() - 1]);
        total.push(tally);
    }
    let total: Tally = total.into_iter().sum();
    recap::print();
    println!("\n{}\n\n{} passed, {} failed", lines.join("\n"), total.passed, total.failed);
    total
}

impl Step {
    fn run(self, repository: &Repository) -> Tally {
        match self {
            Self::Fmt => tool(repository, 1, LINTERS, &["cargo", "fmt", "--all", "--check"]),
            Self::Clippy => tool(
                repository,
                20,
                LINTERS,
                &["cargo", "clippy", "--workspace", "--all-targets", "--", "--deny=warnings"],
            ),
            Self::Layers => checked(repository, layers::checks),
            Self::Tidy => checked(repository, tidy::checks),
            Self::Licences => licences::run(repository),
            Self::Book => book::run(repository),
            Self::Docs => {
                let words = ["env", "RUSTDOCFLAGS=--deny=warnings", "cargo", "doc"];
                let options = ["--workspace", "--no-deps", "--document-private-items"];
                let built = tool(repository, 20, &[], &[&words[..], &options].concat());
                let written = checked(repository, documents::checks);
                let promised = checked(repository, promises::checks);
                [built, written, promised].into_iter().sum()
            }
            Self::Unit => {
                let options = ["--workspace", "--exclude", SYSTEM, "--no-fail-fast"];
                tool(repository, 35, BASE, &[&["cargo", "test"][..], &options].concat())
            }
            Self::Instructions => instructions(repository),
            Self::Sim => worlds(repository),
            Self::Fuzz => fuzz::run(repository, 60),
            // The time limit has no slack on purpose: the attacks are bounded to four minutes.
            Self::Attack => system(repository, 4, &[MOUNTS], &["--test=attack"]),
            Self::Kernel => KERNEL.run(repository),
            Self::Mount => MOUNT.run(repository),
            Self::Package => system(
                repository,
                10,
                &[GUEST, PACKAGERS, TAKERS],
                &["--test=package", "--test=mounting", "--test=discovery"],
            ),
            Self::Page => page::test(repository),
            Self::Foreign => system(
                repository,
                20,
                &[GUEST, MOUNTS, FOREIGN, SERVERS],
                &[
                    "--test=libnfs",
                    "--test=decode",
                    "--test=portmap",
                    "--test=conform",
                    "--test=files",
                ],
            ),
        }
    }
}

/// Runs new worlds of each kind for a limited time. A world uses one processor, so two kinds run side
/// by side.
fn worlds(repository: &Repository) -> Tally {
    let lanes: [&[&[&str]]; 2] = [
        &[&["--leases", "--minutes", "1"], &["--covers", "--minutes", "0.2"]],
        &[
            &["--minutes", "0.5"],
            &["--replica", "--minutes", "0.3"],
            &["--replica", "--strict", "--minutes", "0.2"],
        ],
    ];
    if !build::programs(repository, &["leasehold-sim"]) {
        return Tally::of(false);
    }
    let run = |options: &&[&str]| {
        let options: Vec<String> = options.iter().map(|word| (*word).to_owned()).collect();
        sim::run(repository, &options)
    };
    let lane = |kinds: &[&[&str]]| kinds.iter().map(run).sum::<Tally>();
    thread::scope(|scope| {
        let other = scope.spawn(|| lane(lanes[1]));
        let first = lane(lanes[0]);
        [first, other.join().unwrap_or(Tally::of(false))].into_iter().sum()
    })
}

/// Counts instructions of programs that are built without incremental compilation: with it the
/// compiler inlines less, depending on earlier builds.
fn instructions(repository: &Repository) -> Tally {
    let build = ["env", "CARGO_INCREMENTAL=0", "cargo", "build", "--quiet"];
    let bins = ["--workspace", "--exclude", SYSTEM, "--bin=leasehold", "--bin=leasehold-bench"];
    let words = [&build[..], &bins].concat();
    if !program::run(repository.root(), &words, Duration::from_mins(15)).succeeded {
        return Tally::of(false);
    }
    let bench = build::path(repository, "leasehold-bench");
    tool(repository, 10, COUNTER, &[&bench, "instructions"])
}

impl Clients {
    fn run(self, repository: &Repository) -> Tally {
        system(repository, self.limit_min, self.tools, self.tests)
    }
}

/// Runs two groups of system tests side by side. The installation of tools and the builds precede
/// both.
fn beside(repository: &Repository, lanes: [Clients; 2]) -> Tally {
    if !lanes.iter().all(|lane| is_ready(repository, lane.tools, lane.tests)) {
        return Tally::of(false);
    }
    let [one, other] = lanes;
    thread::scope(|scope| {
        let other = scope.spawn(move || other.run(repository));
        let one = one.run(repository);
        [one, other.join().unwrap_or(Tally::of(false))].into_iter().sum()
    })
}

/// Runs system tests; the time limit does not include the build.
pub(crate) fn system(
    repository: &Repository,
    limit_min: u64,
    tools: &[&[Tool]],
    tests: &[&str],
) -> Tally {
    if !is_ready(repository, tools, tests) {
        return Tally::of(false);
    }
    let words = [&["cargo", "test", "--no-fail-fast"], &OF_SYSTEM[..], tests].concat();
    tool(repository, limit_min, &[], &words)
}

/// Installs the tools and builds the programs of system tests. Returns false if that fails.
fn is_ready(repository: &Repository, tools: &[&[Tool]], tests: &[&str]) -> bool {
    if ![BASE].iter().chain(tools).all(|tools| ensure(tools)) {
        return false;
    }
    let targets: Vec<_> = tests.iter().copied().take_while(|word| *word != "--").collect();
    let words = [&["cargo", "test", "--quiet", "--no-run"], &OF_SYSTEM[..], &targets].concat();
    build::programs(repository, &["leasehold", "leasehold-rig"])
        && program::run(repository.root(), &words, build::LIMIT).succeeded
}

fn checked(repository: &Repository, checks: fn(&Repository) -> Vec<Check>) -> Tally {
    if ensure(TREE) { report(&checks(repository)) } else { Tally::of(false) }
}

/// Runs a program that needs `tools`, and counts the tests in its output, or the program itself
/// without such output. A failed program without a failed test counts as a failure too.
pub(crate) fn tool(
    repository: &Repository,
    limit_min: u64,
    tools: &[Tool],
    words: &[&str],
) -> Tally {
    if !ensure(tools) {
        return Tally::of(false);
    }
    let outcome = program::run(repository.root(), words, Duration::from_mins(limit_min));
    let tally = Tally::of_output(&outcome.output);
    if tally == Tally::default() || (!outcome.succeeded && tally.failed == 0) {
        return [tally, Tally::of(outcome.succeeded)].into_iter().sum();
    }
    tally
}
