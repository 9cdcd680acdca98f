//! Foreign programs that test a file system, and several mounts that share files, for any duration.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::check::Tally;
use crate::figures;
use crate::program::{self, Outcome};
use crate::repository::Repository;
use crate::setup::{GUEST, MORE_POSIX, MOUNTS, POSIX, ensure};

/// Longer than all of them take.
const LIMIT: Duration = Duration::from_hours(3);

/// The option that stores the results.
const KEEP: &str = "--keep";

/// The explanation of the results.
const HOW: &str = "\
Each program runs in a folder of the local disk, then in a folder of a mount with default options, \
whose server keeps data in memory. If the disk lacks a feature that a program needs, the mount \
need not have it either; if only the mount lacks it, the last column states the reason.";

/// Runs the programs with options of their own; `--keep` writes the results to docs/figures.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![MOUNTS, POSIX, MORE_POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    let own: Vec<String> = options.iter().filter(|word| *word != KEEP).cloned().collect();
    let outcome = long(repository, "leasehold-posix", &own);
    if own.len() < options.len() {
        let kept = document(repository, &outcome.output).and_then(|text| {
            let path = repository.root().join("docs/figures/posix.md");
            fs::write(path, text).map_err(|error| error.to_string())
        });
        if let Err(error) = kept {
            println!("the results were not written: {error}");
            return Tally::of(false);
        }
    }
    Tally::of(outcome.succeeded)
}

/// Returns the results as a document.
fn document(repository: &Repository, lines: &str) -> Result<String, String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let (commit, kernel) =
        (output(&["git", "describe", "--always", "--dirty"])?, output(&["uname", "-sr"])?);
    let date = output(&["date", "-u", "+%F"])?;
    let trials: Vec<Value> = lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let is = |trial: &Value, place: &str| trial[place] == Value::Bool(true);
    let on_disk = trials.iter().filter(|trial| is(trial, "local")).count();
    let on_both = trials.iter().filter(|trial| is(trial, "local") && is(trial, "mount")).count();
    let mut text = format!(
        "# Programs that test a file system\n\n\
         Run by `cargo xtask posix` on {} at commit {}, {}, {}. {HOW}\n\n\
         Of {} the local disk passes {on_disk}; of these the mount passes {on_both}.\n\n\
         | program | tests | local disk | mount | seconds on the mount | why not |\n\
         | --- | --- | --- | --- | --- | --- |\n",
        date.trim(),
        commit.trim(),
        kernel.trim(),
        figures::processor()?,
        trials.len(),
    );
    for trial in &trials {
        let word = |name: &str| trial[name].as_str().unwrap_or_default();
        let what = [word("what"), word("counted")].join(": ");
        let how = |place: &str| if is(trial, place) { "passes" } else { "fails" };
        let why = match (is(trial, "local"), is(trial, "mount")) {
            (_, true) => "",
            (true, false) => word("exception"),
            (false, false) => "as the disk",
        };
        let (name, what) = (word("trial"), what.trim_end_matches(": "));
        let seconds = trial["seconds"].as_f64().unwrap_or(f64::NAN);
        let (local, mount) = (how("local"), how("mount"));
        writeln!(text, "| {name} | {what} | {local} | {mount} | {seconds:.1} | {why} |")
            .map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// Runs several mounts on the same files, with options of their own.
pub(crate) fn share(repository: &Repository, options: &[String]) -> Tally {
    if ![GUEST, MOUNTS, POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    Tally::of(long(repository, "leasehold-sharing", options).succeeded)
}

fn long(repository: &Repository, program: &str, options: &[String]) -> Outcome {
    let package = ["--package", "leasehold-system-tests", "--bin", program, "--"];
    let mut words = vec!["cargo", "run", "--quiet"];
    words.extend(package);
    words.extend(options.iter().map(String::as_str));
    program::run(repository.root(), &words, LIMIT)
}
