//! Foreign programs that test a file system, and several mounts that share files, for any duration.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::build;
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
const METHOD: &str = "\
## Method

- Each program runs in a folder of the local disk, then in a folder of a mount with default options,
  whose server keeps data in memory.
- If the disk lacks a feature that a program needs, the mount need not have it either.
- If only the mount lacks it, the table of failures states the reason.
";

/// Runs the programs with options of their own; `--keep` writes the results to docs/figures.
pub(crate) fn run(repository: &Repository, options: &[String]) -> Tally {
    if ![MOUNTS, POSIX, MORE_POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    let own: Vec<String> = options.iter().filter(|word| *word != KEEP).cloned().collect();
    let outcome = long(repository, "leasehold-posix", &own);
    if own.len() < options.len() {
        let kept = keep(repository, &outcome.output);
        if let Err(error) = kept {
            println!("the results were not written: {error}");
            return Tally::of(false);
        }
    }
    Tally::of(outcome.succeeded)
}

/// Writes the results as rows, and as a page.
fn keep(repository: &Repository, lines: &str) -> Result<(), String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let (commit, kernel) =
        (output(&["git", "describe", "--always", "--dirty"])?, output(&["uname", "-sr"])?);
    let (date, processor) = (output(&["date", "-u", "+%F"])?, figures::processor()?);
    let (date, commit, kernel) = (date.trim(), commit.trim(), kernel.trim());
    let origin = format!("`cargo xtask posix` on {date} at commit {commit}, {kernel}, {processor}");
    let trials: Vec<Value> = lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let trials: Vec<Trial> = trials.iter().map(Trial::new).collect();
    for (file, text) in
        [("posix.tsv", rows(&origin, &trials)), ("posix.md", page(&origin, &trials))]
    {
        let path = repository.root().join("docs/figures").join(file);
        fs::write(path, text).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

/// A run of a program on the disk and on the mount.
struct Trial {
    name: String,
    tests: String,
    local: bool,
    mount: bool,
    seconds: f64,
    why: String,
}

impl Trial {
    fn new(trial: &Value) -> Self {
        let word = |name: &str| trial[name].as_str().unwrap_or_default();
        let passes = |place: &str| trial[place] == Value::Bool(true);
        let (local, mount) = (passes("local"), passes("mount"));
        let why = match (local, mount) {
            (_, true) => "",
            (true, false) => word("exception"),
            (false, false) => "as the disk",
        };
        let tests = [word("what"), word("counted")].join(": ");
        Self {
            name: word("trial").to_owned(),
            tests: tests.trim_end_matches(": ").to_owned(),
            local,
            mount,
            seconds: trial["seconds"].as_f64().unwrap_or(f64::NAN),
            why: why.to_owned(),
        }
    }

    /// Returns the program without its test.
    fn program(&self) -> &str {
        self.name.split([' ', ',']).next().unwrap_or_default()
    }
}

fn rows(origin: &str, trials: &[Trial]) -> String {
    let head =
        format!("# {origin}\nprogram\ttests\tlocal disk\tmount\tseconds on the mount\twhy not\n");
    let row = |Trial { name, tests, local, mount, seconds, why }: &Trial| {
        let [local, mount] = [local, mount].map(|passes| if *passes { "passes" } else { "fails" });
        format!("{name}\t{tests}\t{local}\t{mount}\t{seconds:.1}\t{why}\n")
    };
    head + &trials.iter().map(row).collect::<String>()
}

fn page(origin: &str, trials: &[Trial]) -> String {
    let count = |is: fn(&Trial) -> bool| trials.iter().filter(|trial| is(trial)).count();
    let (on_disk, on_both) =
        (count(|trial| trial.local), count(|trial| trial.local && trial.mount));
    let mut text = format!(
        "# Programs that test a file system\n\nRun by {origin}.\n\n\
         Of {} runs the local disk passes {on_disk}; of these the mount passes {on_both}. \
         All rows: [posix.tsv](posix.tsv).\n\n\
         | program | runs | the disk passes | the mount passes | seconds on the mount |\n\
         | --- | --- | --- | --- | --- |\n",
        trials.len(),
    );
    for runs in trials.chunk_by(|one, other| one.program() == other.program()) {
        let seconds: f64 = runs.iter().map(|trial| trial.seconds).sum();
        let passes = |is: fn(&Trial) -> bool| runs.iter().filter(|trial| is(trial)).count();
        let (local, mount) = (passes(|trial| trial.local), passes(|trial| trial.mount));
        let (program, count) = (runs[0].program(), runs.len());
        text += &format!("| {program} | {count} | {local} | {mount} | {seconds:.1} |\n");
    }
    text += "\n| failure on the mount | why |\n| --- | --- |\n";
    for Trial { name, why, .. } in trials.iter().filter(|trial| !trial.mount) {
        text += &format!("| {name} | {why} |\n");
    }
    text + "\n" + METHOD
}

/// Runs several mounts on the same files, with options of their own.
pub(crate) fn share(repository: &Repository, options: &[String]) -> Tally {
    if ![GUEST, MOUNTS, POSIX].into_iter().all(ensure) {
        return Tally::of(false);
    }
    Tally::of(long(repository, "leasehold-sharing", options).succeeded)
}

fn long(repository: &Repository, program: &str, options: &[String]) -> Outcome {
    build::run(repository, program, options, LIMIT)
}
