//! Stripes compared with a plain directory: over disks of this machine in one process, and over
//! iods, where the target applies to the metaserver's own processor time and the total is printed.

use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leasehold_load::{Operation, Sample};
use tempfile::TempDir;

use crate::Options;
use crate::disk::Disk;
use crate::figure::{Figure, Target};
use crate::servers::{Server, ours};
use crate::speed::{Bench, cpu, load, pairs};

const MIB: u32 = 1 << 20;

/// The number of iods behind a metaserver.
const IODS: usize = 2;

struct Case {
    name: &'static str,
    operation: Operation,
    most: f64,
}

const READ_1M: Operation = Operation::Read(MIB);
const WRITE_1M: Operation = Operation::Write { bytes: MIB, stable: false };

const ONE_PROCESS: &[Case] = &[
    Case { name: "one-process.serve", operation: READ_1M, most: 1.2 },
    Case { name: "one-process.serve.write", operation: WRITE_1M, most: 1.2 },
];

const RELAY: &[Case] = &[
    Case { name: "relay.1m.cpu", operation: READ_1M, most: 1.3 },
    Case { name: "relay.1m.write.cpu", operation: WRITE_1M, most: 1.3 },
    Case { name: "relay.4k.cpu", operation: Operation::Read(4096), most: 2.2 },
];

/// Measures all figures, and prints them as they complete.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    let disk = Disk::make()?;
    for case in ONE_PROCESS.iter().filter(|case| options.wants(case.name)) {
        one_process(options, case, disk.path())?;
    }
    for case in RELAY.iter().filter(|case| options.wants(case.name)) {
        relay(options, case, disk.path())?;
    }
    if options.wants("read.links") || options.wants("write.links") {
        links(&AT_100)?;
    }
    if options.wants("read.slow-links") || options.wants("write.slow-links") {
        links(&AT_20)?;
    }
    Ok(())
}

/// The limit of a link of 100 Mbit/s for file data, in MB/s: a frame of 1,514 bytes carries 1,448.
pub(crate) const LINK_MB_S: f64 = 12.5 * 1448.0 / 1514.0;

/// The target shares of the links' limit up to the knee, and beyond.
const TO_THE_KNEE: f64 = 0.95;
const BEYOND: f64 = 0.9;

/// The width of the links, and the measurements over them.
struct Width {
    mbit: &'static str,
    figure: &'static str,
    /// The numbers of entry points, in turn.
    entries: &'static str,
    /// The data of each client in MiB: whole rows of stripes.
    mib: &'static str,
    clients: &'static [&'static str],
}

const AT_100: Width = Width {
    mbit: "100",
    figure: "links",
    entries: "1 7 alone",
    mib: "144",
    clients: &["1", "7", "21"],
};

/// A fifth of the rate and a quarter of the data: this width reveals limits that are due to the
/// machine that simulates all hosts.
const AT_20: Width =
    Width { mbit: "20", figure: "slow-links", entries: "7", mib: "36", clients: &["7"] };

/// The word in the output of `links.sh` for one server alone, in place of the number of entry
/// points.
const ALONE: &str = "alone";

/// A measurement of clusters with narrow links.
struct Point<'a> {
    what: &'a str,
    /// The number of entry points; `None` for one server alone.
    entries: Option<u32>,
    clients: u32,
    rate: f64,
    /// The idle share of the machine's processors.
    idle: f64,
}

impl Point<'_> {
    fn parse(line: &str) -> Option<Point<'_>> {
        let [what, server, clients, rate, idle, _] = *line.split(' ').collect::<Vec<_>>() else {
            return None;
        };
        let entries = if server == ALONE { None } else { Some(server.parse().ok()?) };
        let (clients, rate, idle) = (clients.parse().ok()?, rate.parse().ok()?, idle.parse().ok()?);
        Some(Point { what, entries, clients, rate, idle })
    }

    /// Returns the share of the links' limit, relative to its target: all data goes through the
    /// link of an entry point, so the knee is at as many clients as entry points.
    fn share(&self, entries: u32, link_mb_s: f64) -> f64 {
        let narrowest = link_mb_s * f64::from(entries.min(self.clients));
        let asked = if self.clients > entries { BEYOND } else { TO_THE_KNEE };
        self.rate / narrowest / asked
    }
}

/// Measures clusters with narrow links, in separate namespaces: the worst share of the links'
/// limit, and each point next to one server alone.
fn links(width: &Width) -> Result<(), Box<dyn Error>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/links.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg(ours()?).arg(width.mib).args(width.clients);
    let done = command.env("RATE", width.mbit).env("ENTRIES", width.entries).output()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("links.sh: {}: {said}", done.status).into());
    }
    let text = String::from_utf8(done.stdout)?;
    let points: Vec<Point<'_>> = text
        .lines()
        .map(|line| Point::parse(line).ok_or_else(|| format!("links.sh wrote {line:?}")))
        .collect::<Result<_, _>>()?;
    let link_mb_s = LINK_MB_S * width.mbit.parse::<f64>()? / 100.0;
    for what in ["read", "write"] {
        let of = points.iter().filter(|point| point.what == what);
        let (alone, meta): (Vec<_>, Vec<_>) = of.partition(|point| point.entries.is_none());
        let shares = meta.iter().filter_map(|point| Some(point.share(point.entries?, link_mb_s)));
        let worst = shares.fold(f64::INFINITY, f64::min) * TO_THE_KNEE;
        let figure = format!("{what}.{}", width.figure);
        Figure::share(figure.clone(), worst, TO_THE_KNEE).print();
        for Point { entries, clients, rate, idle, .. } in meta {
            let alone = alone.iter().find(|point| point.clients == *clients);
            let name = format!("{figure}.{}.{clients}", entries.unwrap_or_default());
            let unit = "MB/s of all clients; of one server alone";
            Figure::beside(name.clone(), *rate, alone.map(|point| point.rate), unit).print();
            let unit = "share of the processors that was idle";
            Figure::beside(format!("{name}.idle"), *idle, None, unit).print();
        }
    }
    Ok(())
}

fn one_process(options: &Options, case: &Case, disk: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(disk)?;
    let [names, one, two] = folders(&folder, ["names", "one", "two"])?;
    let state = tempfile::tempdir()?;
    let mut command = Command::new(ours()?);
    command.arg("serve").arg(&names);
    command.arg("--stripe").arg(&one).arg("--stripe").arg(&two);
    let striped = Bench::start(Server::started(command, "disk", state.path())?)?;
    let plain = Bench::start(Server::ours(disk, "disk")?)?;
    let load = load(options, case.operation);
    let samples = pairs(options, || Ok((striped.run(&load)?, plain.run(&load)?)))?;
    plain.setting.clear()?;
    let time = |sample: &Sample| 1e6 / sample.rate();
    let times: Vec<_> = samples.iter().map(|(ours, other)| (time(ours), time(other))).collect();
    let units = ("ratio of stripes in one process to a plain directory", "us a call");
    Figure::of(case.name.to_owned(), &times, Target::AtMost(case.most), units, "disk").print();
    Ok(())
}

fn relay(options: &Options, case: &Case, disk: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(disk)?;
    let [names] = folders(&folder, ["names"])?;
    let state = tempfile::tempdir()?;
    let key = state.path().join("key");
    let mut iods = Vec::new();
    let mut meta = Command::new(ours()?);
    meta.arg("meta").arg(&names).arg("--cluster-key").arg(&key);
    for number in 0..IODS {
        let [place] = folders(&folder, [&format!("iod{number}")])?;
        let mut command = Command::new(ours()?);
        command.arg("iod").arg(place).arg("--cluster-key").arg(&key);
        let iod = Server::started(command, "disk", &state.path().join(number.to_string()))?;
        meta.arg("--iod").arg(iod.nfs.to_string());
        iods.push(iod);
    }
    let relay = Bench::start(Server::started(meta, "disk", &state.path().join("meta"))?)?;
    let plain = Bench::start(Server::ours(disk, "disk")?)?;
    let load = load(options, case.operation);
    let used = |iods: &[Server]| -> io::Result<Duration> {
        iods.iter()
            .map(|iod| leasehold_load::processor_time(iod.process()).map_err(io::Error::other))
            .sum()
    };
    let mut whole = Vec::new();
    let samples = pairs(options, || {
        let before = used(&iods)?;
        let relayed = relay.run(&load)?;
        let of_iods = (used(&iods)? - before).as_secs_f64() * 1e6 / relayed.calls as f64;
        whole.push(of_iods + cpu(&relayed));
        Ok((relayed, plain.run(&load)?))
    })?;
    plain.setting.clear()?;
    let cpus: Vec<_> = samples.iter().map(|(ours, other)| (cpu(ours), cpu(other))).collect();
    let units = ("ratio of the metaserver to serving locally", "us of processor a call");
    Figure::of(case.name.to_owned(), &cpus, Target::AtMost(case.most), units, "disk").print();
    whole.sort_by(f64::total_cmp);
    let name = format!("{}.cluster", case.name);
    let unit = "us of processor a call, metaserver and iods";
    Figure::beside(name, whole[whole.len() / 2], None, unit).print();
    Ok(())
}

/// Returns folders for the data and the state.
fn folders<const N: usize>(
    within: &TempDir,
    names: [&str; N],
) -> io::Result<[std::path::PathBuf; N]> {
    let paths = names.map(|name| within.path().join(name));
    paths.iter().try_for_each(fs::create_dir)?;
    Ok(paths)
}
