//! Figures: measured, printed as JSON lines, and on request stored in `docs/figures` with machine
//! and commit: the rows in `AREA.tsv`, a chart and chosen rows in `AREA.md`.

mod chart;
mod page;
mod rows;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::check::{Check, Tally};
use crate::program;
use crate::repository::Repository;
use crate::setup::{CLIENTS, COUNTER, GUEST, PEERS, Tool, WEB, ensure};
use crate::test::system;
use rows::Rows;

const FOLDER: &str = "docs/figures";

/// The area to measure, and the use of the results.
#[derive(Args)]
pub(crate) struct Options {
    /// The area to measure.
    area: Area,
    /// Write the figures to docs/figures.
    #[arg(long)]
    keep: bool,
    /// Read the lines of the figures from a file, if parts were measured separately.
    #[arg(long, value_name = "FILE", requires = "keep", conflicts_with = "options")]
    from: Option<PathBuf>,
    /// Only draw the page and its pictures in docs/figures from the rows there.
    #[arg(long, conflicts_with_all = ["keep", "from", "options"])]
    draw: bool,
    /// Options of the measurement, such as --pairs 9.
    #[arg(last = true)]
    options: Vec<String>,
}

/// The areas with figures.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Area {
    /// The client's mount against sshfs, the kernel's client and the local disk.
    Client,
    /// The number of the server's instructions for each call, in an optimized build.
    Instructions,
    /// The server against nfs-ganesha, under the kernel's client.
    Kernel,
    /// The client's mount with leases against the mount without, the local disk and memory.
    Leases,
    /// Several metaservers of one file system, in namespaces with narrow links.
    Metaservers,
    /// The laboratory's core: solvers, simulator, WebAssembly.
    Model,
    /// The measurements of the paper on version 3, by our server over disks of the same speed.
    Seed,
    /// The server against nfs-ganesha.
    Speed,
    /// Stripes against a plain directory.
    Stripes,
}

impl Area {
    /// Returns its name.
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Returns the program that measures, the packages to build for it, and the required tools.
    const fn program(self) -> (&'static str, &'static [&'static str], &'static [Tool]) {
        match self {
            Self::Client => ("leasehold-bench", &["leasehold", "leasehold-bench"], CLIENTS),
            Self::Instructions => ("leasehold-bench", &["leasehold", "leasehold-bench"], COUNTER),
            Self::Kernel => ("leasehold-bench", &["leasehold", "leasehold-bench"], PEERS),
            Self::Leases => ("leasehold-bench", &["leasehold", "leasehold-bench"], CLIENTS),
            Self::Model => ("leasehold-lab-figures", &["leasehold-lab-figures"], WEB),
            Self::Seed => ("leasehold-bench", &["leasehold-bench"], &[]),
            Self::Metaservers => ("leasehold-bench", &["leasehold", "leasehold-bench"], GUEST),
            Self::Stripes => ("leasehold-bench", &["leasehold", "leasehold-bench"], &[]),
            Self::Speed => ("leasehold-bench", &["leasehold", "leasehold-bench"], PEERS),
        }
    }

    /// Returns true if the program that measures draws further pictures.
    const fn has_pictures(self) -> bool {
        matches!(self, Self::Metaservers | Self::Stripes)
    }
}

const LIMIT: Duration = Duration::from_hours(2);

/// Compares the server with nfs-ganesha for a short time, for use during development: too few pairs
/// for a quotable figure.
pub(crate) fn bench(repository: &Repository, only: &str) -> Tally {
    let options = ["--pairs", "2", "--seconds", "0.3", "--only", only];
    let options = options.map(str::to_owned).to_vec();
    run(repository, &Options { area: Area::Speed, keep: false, from: None, draw: false, options })
}

/// Measures the figures of an area, or draws them.
pub(crate) fn run(repository: &Repository, options: &Options) -> Tally {
    let done = if options.draw {
        draw(repository, options.area)
    } else {
        lines(repository, options).and_then(|lines| {
            if options.keep { keep(repository, options.area, &lines) } else { Ok(()) }
        })
    };
    if let Err(error) = &done {
        println!("no figures: {error}");
    }
    Tally::of(done.is_ok())
}

/// Returns the lines of an area's figures, from a file or from a new measurement.
fn lines(repository: &Repository, options: &Options) -> Result<String, String> {
    match &options.from {
        Some(path) => {
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => measure(repository, options),
    }
}

/// Builds the programs of an area, and returns the program that measures and draws.
fn build(repository: &Repository, area: Area) -> Result<String, String> {
    let (name, packages, _) = area.program();
    let mut words = vec!["cargo", "build", "--release", "--quiet"];
    words.extend(packages.iter().flat_map(|package| ["-p", package]));
    if !program::run(repository.root(), &words, LIMIT).succeeded {
        return Err("the build failed".to_owned());
    }
    Ok(repository.target().join("release").join(name).display().to_string())
}

/// Measures the figures of an area, and returns their lines.
fn measure(repository: &Repository, options: &Options) -> Result<String, String> {
    let (_, _, tools) = options.area.program();
    // Without WebAssembly the measurement of the laboratory reports this, and all other figures.
    if !ensure(tools) && !matches!(options.area, Area::Model) {
        return Err("a tool is missing".to_owned());
    }
    let program = build(repository, options.area)?;
    let area = options.area.name();
    let mut words = vec![program.as_str(), area.as_str()];
    words.extend(options.options.iter().map(String::as_str));
    let mut outcome = program::run(repository.root(), &words, LIMIT);
    if !outcome.succeeded {
        return Err("the measurement failed".to_owned());
    }
    let is_whole = !options.options.iter().any(|word| word.starts_with("--only"));
    if matches!(options.area, Area::Stripes) && is_whole {
        let line = killed_iods(repository);
        println!("{line}");
        outcome.output += &format!("{line}\n");
    }
    Ok(outcome.output)
}

/// Writes the rows of an area, and draws them.
fn keep(repository: &Repository, area: Area, lines: &str) -> Result<(), String> {
    let name = area.name();
    let rows = Rows::measured(origin(repository, &name)?, lines)?;
    put(repository, &format!("{name}.tsv"), &rows.text())?;
    draw(repository, area)
}

/// Draws an area's page, chart and pictures from its rows.
fn draw(repository: &Repository, area: Area) -> Result<(), String> {
    let name = area.name();
    for (file, text) in drawn(repository, &name)? {
        put(repository, &file, &text)?;
    }
    if !area.has_pictures() {
        return Ok(());
    }
    let program = build(repository, area)?;
    program::output(repository.root(), &[&program, "pictures", &name, FOLDER])?;
    Ok(())
}

fn put(repository: &Repository, file: &str, text: &str) -> Result<(), String> {
    let path = repository.root().join(FOLDER).join(file);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the names and texts of the files that are drawn from an area's rows.
fn drawn(repository: &Repository, name: &str) -> Result<Vec<(String, String)>, String> {
    let read = |file: &str| {
        let path = format!("{FOLDER}/{file}");
        repository.text(&path).ok_or_else(|| format!("{path} is missing"))
    };
    let rows = Rows::parse(&read(&format!("{name}.tsv"))?)
        .map_err(|error| format!("{FOLDER}/{name}.tsv: {error}"))?;
    let (page, chart) = page::render(name, &read(&format!("{name}.md"))?, &rows)?;
    let chart = chart.map(|chart| (format!("{name}.svg"), chart));
    Ok(std::iter::once((format!("{name}.md"), page)).chain(chart).collect())
}

/// Compares each page and its chart with the rows.
pub(crate) fn check(repository: &Repository) -> Check {
    let mut faults = Vec::new();
    for area in Area::value_variants() {
        let name = area.name();
        match drawn(repository, &name) {
            Ok(files) => {
                let kept = |file: &str| repository.text(&format!("{FOLDER}/{file}"));
                let old = files.iter().filter(|(file, text)| kept(file).as_ref() != Some(text));
                faults.extend(old.map(|(file, _)| {
                    format!("{FOLDER}/{file}: `cargo xtask figures {name} --draw` writes it")
                }));
            }
            Err(error) => faults.push(error),
        }
    }
    Check { rule: "pages of figures agree with their rows", faults }
}

/// Returns the command, the commit and the machine of a measurement.
fn origin(repository: &Repository, name: &str) -> Result<String, String> {
    let output = |words: &[&str]| program::output(repository.root(), words);
    let commit = output(&["git", "describe", "--always", "--dirty"])?;
    let (kernel, processor) = (output(&["uname", "-sr"])?, processor()?);
    let (commit, kernel) = (commit.trim(), kernel.trim());
    Ok(format!("`cargo xtask figures {name}` at commit {commit}, {kernel}, {processor}"))
}

/// Returns the figure of a test's count: it passes if no byte is lost.
fn killed_iods(repository: &Repository) -> Value {
    let tests = ["--test=kernel", "--", "--exact", "killed_iods_lose_nothing"];
    let Tally { passed, failed } = system(repository, 15, &[GUEST], &tests);
    let holds = passed > 0 && failed == 0;
    let ours = if holds { Value::from(0) } else { Value::Null };
    json!({ "figure": "killed-iods.lost-bytes", "ours": ours, "target": "0", "unit": "bytes",
            "tier": "disk", "holds": holds })
}

/// Returns the processor model of the machine, and the number of processors.
pub(crate) fn processor() -> Result<String, String> {
    let text = fs::read_to_string("/proc/cpuinfo").map_err(|error| error.to_string())?;
    let named = |line: &&str| line.starts_with("model name");
    let model = text.lines().find(named).and_then(|line| line.split_once(": "));
    let count = text.lines().filter(named).count();
    Ok(format!("{count} x {}", model.map_or("unknown processor", |(_, model)| model)))
}
