//! Fuzzing with libFuzzer, which tracks the code that an input reaches.
//!
//! The instrumentation is an option of the stable compiler, so no other tool chain is necessary. A
//! sanitizer would need one, but would only help unsafe code, and the code below the stores has
//! none.

use std::fs;
use std::time::Duration;

use crate::build;
use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{FUZZER, ensure};

/// The targets, with their names in `fuzz/Cargo.toml`.
const TARGETS: [&str; 4] = ["bytes", "calls", "portmap", "replica"];

/// Counts the executed edges of the code, and reports the operands of comparisons to the fuzzer.
const FLAGS: &str = "RUSTFLAGS=-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs each target for a share of the time. The fuzzer stores new inputs in `fuzz/corpus` and
/// reads them in later runs.
pub(crate) fn run(repository: &Repository, seconds: u64) -> Tally {
    let root = repository.root();
    let Some(host) = ensure(FUZZER).then(|| host(repository)).flatten() else {
        return Tally::of(false);
    };
    let starters = build::run(repository, "starters", &["fuzz/corpus"], build::LIMIT);
    let target = format!("--target={host}");
    let package = ["--package=leasehold-fuzz", "--features=libfuzzer", "--profile=fuzz"];
    let bins = TARGETS.map(|name| ["--bin", name]);
    let options = [&package[..], bins.as_flattened()].concat();
    // With an explicit target, cargo does not apply the flags to build scripts.
    let words = ["env", FLAGS, "cargo", "build", "--quiet", "--target-dir=target/fuzz", &target];
    let build = program::run(root, &[&words[..], &options].concat(), build::LIMIT);
    if !starters.succeeded || !build.succeeded {
        return Tally::of(false);
    }
    let share = seconds / TARGETS.len() as u64;
    TARGETS.iter().map(|name| fuzz(repository, &host, name, share)).sum()
}

fn fuzz(repository: &Repository, host: &str, name: &str, seconds: u64) -> Tally {
    let found = format!("fuzz/seeds/{name}/");
    fs::create_dir_all(repository.root().join(&found)).expect("the tree can be written to");
    let binary = format!("target/fuzz/{host}/fuzz/{name}");
    let total = format!("-max_total_time={seconds}");
    let artifacts = format!("-artifact_prefix={found}");
    let options = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-verbosity=0"];
    let folders = [&*format!("fuzz/corpus/{name}"), &found];
    let own = [&*binary, &total, &artifacts, "-print_final_stats=1"];
    let words = [&own[..], &options, &folders].concat();
    // The fuzzer reads the whole corpus before it checks the time.
    let outcome = program::run(repository.root(), &words, Duration::from_secs(seconds + 300));
    if !outcome.succeeded {
        println!("the input is in {found}; cargo test -p leasehold-fuzz runs it again");
    }
    Tally::of(outcome.succeeded)
}

/// Returns the compiler's name of this machine.
fn host(repository: &Repository) -> Option<String> {
    let version = program::output(repository.root(), &["rustc", "--version", "--verbose"]).ok()?;
    Some(version.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned())
}
