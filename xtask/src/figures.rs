//! Figures: measured anew, printed as JSON lines, and kept in `docs/figures` with machine and
//! commit when that is wanted.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{PEERS, ensure};

/// What is measured, and what becomes of it.
#[derive(Args)]
pub(crate) struct Options {
    /// The area that is measured.
    area: Area,
    /// Write the figures to docs/figures.
    #[arg(long)]
    keep: bool,
    /// Options of the measurement, such as --pairs 9.
    #[arg(last = true)]
    options: Vec<String>,
}

/// The areas that have figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Area {
    /// The server against nfs-ganesha.
    Speed,
}

const LIMIT: Duration = Duration::from_hours(2);

/// Measures the figures of an area.
pub(crate) fn run(repository: &Repository, options: &Options) -> Tally {
    let area = format!("{:?}", options.area).to_lowercase();
    let build =
        ["cargo", "build", "--release", "--quiet", "-p", "leasehold", "-p", "leasehold-bench"];
    if !ensure(PEERS) || !program::run(repository.root(), &build, LIMIT).succeeded {
        return Tally::of(false);
    }
    let mut words = vec!["target/release/leasehold-bench", area.as_str()];
    words.extend(options.options.iter().map(String::as_str));
    let outcome = program::run(repository.root(), &words, LIMIT);
    if options.keep && outcome.succeeded {
        let path = repository.root().join("docs/figures").join(format!("{area}.md"));
        let kept = document(repository, &area, &outcome.output)
            .and_then(|text| fs::write(path, text).map_err(|error| error.to_string()));
        if let Err(error) = kept {
            println!("the figures were not kept: {error}");
            return Tally::of(false);
        }
    }
    Tally::of(outcome.succeeded)
}

/// The figures as a document.
fn document(repository: &Repository, area: &str, lines: &str) -> Result<String, String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let commit = output(&["git", "describe", "--always", "--dirty"])?;
    let kernel = output(&["uname", "-sr"])?;
    let processor = processor()?;
    let mut text = format!(
        "# Figures: {area}\n\n\
         Measured by `cargo xtask figures {area}` at commit {}, {}, {processor}. \
         Ours and the other server in turn in one run; a figure is the worse end of the 90% \
         interval of their ratio. Medians hold for this run only.\n\n\
         | figure | ours | target | holds | tier | unit | median of ours | of the other | in |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        commit.trim(),
        kernel.trim(),
    );
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let figure: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let word = |name: &str| figure[name].as_str().unwrap_or("").to_owned();
        let median = |of: &str| figure["medians"][of].as_f64().unwrap_or(f64::NAN);
        let holds = if figure["holds"] == Value::Bool(true) { "yes" } else { "**no**" };
        writeln!(
            text,
            "| {} | {:.3} | {} | {holds} | {} | {} | {:.4} | {:.4} | {} |",
            word("figure"),
            figure["ours"].as_f64().unwrap_or(f64::NAN),
            word("target"),
            word("tier"),
            word("unit"),
            median("ours"),
            median("other"),
            figure["medians"]["unit"].as_str().unwrap_or(""),
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(text)
}

/// What the machine is: its processor and how many of them.
fn processor() -> Result<String, String> {
    let text = fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let named = |line: &&str| line.starts_with("model name");
    let model = text.lines().find(named).and_then(|line| line.split_once(": "));
    let count = text.lines().filter(named).count();
    Ok(format!("{count} x {}", model.map_or("unknown processor", |(_, model)| model)))
}
