//! Fuzzing with libFuzzer, which sees what code an input reaches.
//!
//! The instrumentation is an option of the stable compiler, so no other tool chain is needed; a
//! sanitizer would be, but only for unsafe code, of which there is none below the stores.

use std::fs;
use std::time::Duration;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{FUZZER, ensure};
use crate::test::BUILD_LIMIT;

/// The targets, as `fuzz/Cargo.toml` names them.
const TARGETS: [&str; 4] = ["bytes", "calls", "portmap", "replica"];

/// Counts which edges of the code are passed, and shows the fuzzer what numbers are compared with.
const FLAGS: &str = "RUSTFLAGS=-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs each target for a share of the time. What they find is kept in `fuzz/corpus` and read again.
pub(crate) fn run(repository: &Repository, seconds: u64) -> Tally {
    let root = repository.root();
    let Some(host) = ensure(FUZZER).then(|| host(repository)).flatten() else {
        return Tally::of(false);
    };
    let starters = ["cargo", "run", "--quiet", "--package=leasehold-fuzz", "--bin=starters"];
    let starters = program::run(root, &[&starters[..], &["fuzz/corpus"]].concat(), BUILD_LIMIT);
    let target = format!("--target={host}");
    let package = ["--package=leasehold-fuzz", "--features=libfuzzer", "--profile=fuzz"];
    let bins = TARGETS.map(|name| ["--bin", name]);
    let options = [&package[..], bins.as_flattened()].concat();
    // Named as a target, the host has the flags kept away from what runs while building.
    let words = ["env", FLAGS, "cargo", "build", "--quiet", "--target-dir=target/fuzz", &target];
    let build = program::run(root, &[&words[..], &options].concat(), BUILD_LIMIT);
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
    // It reads all that is kept before it looks at the clock.
    let outcome = program::run(repository.root(), &words, Duration::from_secs(seconds + 300));
    if !outcome.succeeded {
        println!("the input is in {found}; cargo test -p leasehold-fuzz runs it again");
    }
    Tally::of(outcome.succeeded)
}

/// What the compiler calls this machine.
fn host(repository: &Repository) -> Option<String> {
    let version = program::output(repository.root(), &["rustc", "--version", "--verbose"]).ok()?;
    Some(version.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned())
}
