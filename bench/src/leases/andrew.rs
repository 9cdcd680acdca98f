//! The workload of `andrew.py`: its number of calls with leases and close-to-open, counted at the
//! server until the mount has ended, and its duration, compared with the local disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Guest, Link, Mount as GuestMount, Version};
use serde_json::Value;

use super::Result;
use crate::Options;
use crate::client::{CLOSE_TO_OPEN, LEASE, Mount, told};
use crate::disk::run;
use crate::figure::{Figure, Target};
use crate::servers::Server;

/// The workload, and the generator of its tree.
const ANDREW: &str = include_str!("andrew.py");
/// Its phases, with their names in the script.
pub(super) const PHASES: [&str; 5] = ["make-directories", "copy", "stat", "read", "compile"];
/// Its folder in an export and on the disk.
pub(super) const TREE: &str = "andrew";
/// The time limit of a guest.
const GUEST_LIMIT: Duration = Duration::from_mins(8);

/// Calls by procedure.
type Calls = BTreeMap<String, u64>;

/// One run on a mount: its times and its calls.
struct Run {
    told: Value,
    calls: Calls,
}

impl Run {
    fn seconds(&self, phase: &str) -> f64 {
        self.told[phase].as_f64().unwrap_or(f64::NAN)
    }

    fn count(&self) -> f64 {
        self.calls.values().sum::<u64>() as f64
    }
}

/// Measures all: calls, elapsed times, and the kernel's client.
pub(super) fn measure(options: &Options, disk: &Path) -> Result<()> {
    let (export, local) = (disk.join("andrew-export"), disk.join("andrew-local"));
    prepare(&export)?;
    prepare(&local)?;
    let server = Server::ours(&export, "disk")?;
    let (mut runs, mut alone) = (Vec::new(), Vec::new());
    // The first of each warms up.
    for _ in 0..=options.pairs {
        let leased = on_a_mount(&server, &export, LEASE)?;
        alone.push(on_the_disk(&local)?);
        runs.push((leased, on_a_mount(&server, &export, CLOSE_TO_OPEN)?));
    }
    let (runs, alone) = (&runs[1..], &alone[1..]);
    let counts: Vec<_> = runs.iter().map(|(one, two)| (one.count(), two.count())).collect();
    let units = ("ratio to close-to-open", "calls");
    Figure::of("mab.rpcs".to_owned(), &counts, Target::AtMost(0.45), units, "disk").print();
    let times: Vec<_> = runs.iter().zip(alone).map(|((one, _), two)| (of(one), *two)).collect();
    let units = ("ratio to the local disk", "s");
    Figure::of("mab.local".to_owned(), &times, Target::AtMost(1.15), units, "disk").print();
    let stats = runs.iter().map(|(one, two)| (one.seconds("stat"), two.seconds("stat")));
    let (stats, units) = (stats.collect::<Vec<_>>(), ("ratio to close-to-open", "s"));
    Figure::of("mab.stat-phase".to_owned(), &stats, Target::Below(1.0), units, "disk").print();
    by_procedure(runs);
    by_phase(runs);
    if options.wants("mab.rpcs.kernel") {
        kernel(&server, &export, runs)?;
    }
    Ok(())
}

fn of(run: &Run) -> f64 {
    run.seconds("seconds")
}

/// Prints table 1 of the paper: calls of each procedure, of the last run.
fn by_procedure(runs: &[(Run, Run)]) {
    let Some((leased, other)) = runs.last() else { return };
    let names: BTreeSet<&String> = leased.calls.keys().chain(other.calls.keys()).collect();
    for name in names {
        let of = |calls: &Calls| calls.get(name).copied().unwrap_or_default() as f64;
        let (ours, other) = (of(&leased.calls), of(&other.calls));
        if ours + other > 0.0 {
            let unit = "calls; close-to-open";
            Figure::beside(format!("mab.rpcs.{name}"), ours, Some(other), unit).print();
        }
    }
}

/// Prints table 2 of the paper: the seconds of each phase, of the median run.
fn by_phase(runs: &[(Run, Run)]) {
    for phase in PHASES {
        let median = |seconds: Vec<f64>| {
            let mut seconds = seconds;
            seconds.sort_by(f64::total_cmp);
            seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN)
        };
        let ours = median(runs.iter().map(|(one, _)| one.seconds(phase)).collect());
        let other = median(runs.iter().map(|(_, two)| two.seconds(phase)).collect());
        let unit = "s; close-to-open";
        Figure::beside(format!("mab.seconds.{phase}"), ours, Some(other), unit).print();
    }
}

fn python(what: &str) -> Command {
    let mut python = Command::new("timeout");
    python.args(["900", "python3", "-c", ANDREW, what]);
    python
}

/// Creates the tree in a folder.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    let tree = folder.join(TREE);
    fs::create_dir_all(&tree)?;
    run(python("make").arg(&tree))?;
    Ok(())
}

/// Runs the workload in a folder with the tree; its output is in the target `target` there.
fn timed(folder: &Path, target: &str) -> Result<Value> {
    timed_phases(folder, target, folder, &PHASES)
}

/// Runs some phases, with the programs of the tree in another folder.
pub(super) fn timed_phases(
    folder: &Path,
    target: &str,
    programs: &Path,
    phases: &[&str],
) -> Result<Value> {
    let tree = folder.join(TREE);
    let mut work = python("work");
    work.arg(&tree).arg(tree.join(target)).arg(programs.join(TREE).join("bin")).args(phases);
    let work = work.stderr(Stdio::inherit()).output()?;
    told(&String::from_utf8_lossy(&work.stdout), "andrew")
}

fn on_the_disk(folder: &Path) -> Result<f64> {
    let told = timed(folder, "target")?;
    fs::remove_dir_all(folder.join(TREE).join("target"))?;
    Ok(told["seconds"].as_f64().unwrap_or(f64::NAN))
}

/// Runs the workload on a mount that has served one run before.
fn on_a_mount(server: &Server, export: &Path, caching: &str) -> Result<Run> {
    let mount = Mount::ours(server.nfs, caching)?;
    timed(mount.path(), "target")?;
    fs::remove_dir_all(mount.path().join(TREE).join("target"))?;
    let before = server.calls()?;
    let told = timed(mount.path(), "target")?;
    mount.end()?;
    let calls = since(&before, &server.calls()?);
    fs::remove_dir_all(export.join(TREE).join("target"))?;
    Ok(Run { told, calls })
}

fn since(before: &Calls, after: &Calls) -> Calls {
    let before = |name| before.get(name).copied().unwrap_or_default();
    after.iter().map(|(name, count)| (name.clone(), count - before(name))).collect()
}

/// Counts the calls of the kernel's client, with the same workload in a guest.
fn kernel(server: &Server, export: &Path, runs: &[(Run, Run)]) -> Result<()> {
    let link = Arc::new(Link::new());
    let port = Some(server.nfs.port());
    let mount = GuestMount { port, export: "/".to_owned(), version: Version::V3 };
    let work = format!(
        "python3 /tmp/andrew.py work \"$PWD/{TREE}\" \"$PWD/{TREE}/target\" \"$PWD/{TREE}/bin\""
    );
    let case = format!(
        "cat >/tmp/andrew.py <<'END'\n{ANDREW}\nEND\n\
         {work}\nrm -r {TREE}/target\nask warm\n\
         while is_asking; do sleep 0.005; done\n{work}\nsync\n"
    );
    let mut before = None;
    let ended = Guest::boot(&link, &mount, &case, GUEST_LIMIT).wait(|_| {
        before = Some(server.calls());
    });
    let after = server.calls()?;
    let Some(before) = before.filter(|_| ended.status == Some(0)) else {
        return Err(ended.log.into());
    };
    let kernel = since(&before?, &after).values().sum::<u64>() as f64;
    let ours = runs.last().map_or(f64::NAN, |(leased, _)| leased.count());
    let unit = "calls; the kernel's client";
    Figure::beside("mab.rpcs.kernel".to_owned(), ours, Some(kernel), unit).print();
    fs::remove_dir_all(export.join(TREE).join("target"))?;
    Ok(())
}
