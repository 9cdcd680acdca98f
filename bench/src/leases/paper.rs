//! The measurements of "Not Quite NFS" (Macklem 1994) with the Modified Andrew Benchmark, repeated
//! with a similar workload and our mounts, each next to the paper's number. There are no targets:
//! the seconds of the paper are from machines of 10 to 27 MIPS.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::andrew::{PHASES, TREE, prepare, timed_phases};
use super::{Result, few};
use crate::Options;
use crate::client::{CLOSE_TO_OPEN, Delay, Mount, RoundTrip, delayed_datagrams};
use crate::figure::Figure;
use crate::servers::Server;

/// A caching variant, and its name in the paper; our variants differ in the objects with leases.
struct Variant {
    name: &'static str,
    options: &'static str,
    /// Seconds of table 2, by phase.
    table_2: Option<[f64; 5]>,
    /// Seconds of the compilation in figure 1, by size of the buffer cache.
    figure_1: Option<[f64; 11]>,
    /// Seconds in figures 2 to 5, by number of clients.
    figures_2_to_5: Option<[[f64; 6]; 4]>,
}

const VARIANTS: [Variant; 6] = [
    Variant {
        name: "no caching",
        options: "cache=none",
        table_2: Some([6.0, 35.0, 41.0, 40.0, 258.0]),
        figure_1: None,
        figures_2_to_5: None,
    },
    Variant {
        name: "close-to-open",
        options: CLOSE_TO_OPEN,
        table_2: Some([5.0, 24.0, 15.0, 20.0, 133.0]),
        figure_1: Some([
            148.21, 129.59, 130.47, 131.35, 138.09, 131.35, 130.47, 125.41, 122.92, 132.16, 133.84,
        ]),
        figures_2_to_5: Some([
            [25.86, 36.16, 55.29, 75.89, 101.66, 125.14],
            [18.29, 18.09, 18.51, 19.33, 19.75, 20.4],
            [25.66, 25.87, 26.51, 28.82, 33.46, 36.83],
            [172.97, 194.15, 232.17, 293.63, 352.64, 416.57],
        ]),
    },
    Variant {
        name: "buffer cache alone",
        options: "cache=buffer",
        table_2: Some([5.0, 20.0, 24.0, 23.0, 116.0]),
        figure_1: None,
        figures_2_to_5: None,
    },
    Variant {
        name: "leases",
        options: "cache=lease,leases=used",
        table_2: Some([5.0, 19.0, 21.0, 21.0, 99.0]),
        figure_1: Some([
            136.34, 134.65, 122.92, 112.74, 112.74, 112.74, 120.36, 99.32, 100.13, 100.93, 105.18,
        ]),
        figures_2_to_5: Some([
            [22.92, 30.98, 39.81, 70.77, 87.66, 124.44],
            [23.97, 23.55, 30.09, 23.13, 31.15, 27.34],
            [26.3, 26.09, 26.09, 27.56, 27.98, 29.87],
            [142.14, 154.06, 156.52, 168.24, 189.43, 217.79],
        ]),
    },
    Variant {
        name: "leases, rdirlookup",
        options: "cache=lease,leases=listed",
        table_2: Some([5.0, 20.0, 21.0, 20.0, 105.0]),
        figure_1: Some([
            142.27, 127.91, 118.67, 111.05, 116.17, 128.78, 107.75, 100.13, 99.32, 96.75, 104.37,
        ]),
        figures_2_to_5: Some([
            [21.45, 32.51, 44.22, 70.77, 96.48, 128.85],
            [25.45, 23.55, 28.4, 23.77, 29.04, 27.34],
            [26.09, 25.66, 26.3, 27.14, 29.04, 30.09],
            [149.33, 151.79, 156.52, 177.7, 189.43, 222.52],
        ]),
    },
    Variant {
        name: "leases, attribute leases, rdirlookup",
        options: "cache=lease,leases=named",
        table_2: None,
        figure_1: Some([
            139.78, 125.41, 119.48, 116.17, 116.17, 122.04, 104.37, 106.06, 95.88, 100.93, 103.5,
        ]),
        figures_2_to_5: Some([
            [22.15, 31.75, 42.81, 73.65, 95.72, 123.73],
            [25.45, 25.66, 30.51, 27.76, 34.52, 32.4],
            [25.23, 28.82, 29.25, 31.15, 33.04, 32.2],
            [154.06, 151.79, 165.78, 175.24, 196.61, 215.52],
        ]),
    },
];

/// The buffer sizes of figure 1.
const BUFFERS: [&str; 11] =
    ["64K", "102K", "256K", "512K", "768K", "1M", "2M", "4M", "6M", "8M", "10M"];
/// The numbers of clients in figures 2 to 5.
const CLIENTS: [usize; 6] = [1, 2, 4, 6, 8, 10];
/// The round trips of table 4 and figure 6, in ms.
const DELAYS: [u64; 6] = [5, 40, 80, 120, 160, 200];
/// A transport for calls: a line of table 4, with its seconds and their deviations.
struct Carrier {
    name: &'static str,
    options: &'static str,
    paper: [(f64, f64); 6],
}

/// The transports of table 4, with their seconds and deviations.
const CARRIERS: [Carrier; 4] = [
    Carrier {
        name: "close-to-open, UDP",
        options: "cache=close-to-open,proto=udp",
        paper: [
            (139.0, 2.9),
            (175.0, 5.1),
            (207.0, 3.9),
            (276.0, 29.3),
            (304.0, 7.2),
            (372.0, 35.0),
        ],
    },
    Carrier {
        name: "close-to-open, TCP",
        options: CLOSE_TO_OPEN,
        paper: [
            (139.0, 2.4),
            (208.0, 44.5),
            (213.0, 4.7),
            (273.0, 17.1),
            (328.0, 77.1),
            (506.0, 235.1),
        ],
    },
    Carrier {
        name: "leases, UDP",
        options: "cache=lease,proto=udp",
        paper: [
            (112.0, 7.0),
            (150.0, 23.8),
            (180.0, 7.7),
            (221.0, 7.7),
            (275.0, 21.5),
            (338.0, 25.2),
        ],
    },
    Carrier {
        name: "leases, TCP",
        options: "cache=lease",
        paper: [
            (108.0, 6.0),
            (139.0, 4.3),
            (210.0, 52.9),
            (238.0, 5.8),
            (274.0, 10.1),
            (379.0, 69.2),
        ],
    },
];
/// The round trip for each concurrent run that leaves the processors idle for most of the time.
const SHARED_MS: u64 = 2;
/// Lease terms, in seconds: the paper found 30 s best, and its mount permits up to 60.
const TERMS: [u32; 7] = [1, 2, 5, 10, 20, 30, 60];
/// The phase of figures 1 and 6 and table 4.
const COMPILE: usize = 4;

/// The seconds of one run, by phase.
type Phases = [f64; 5];

/// A server, with the workload in its export.
struct Place<'a> {
    server: &'a Server,
    export: &'a Path,
}

/// A function that measures a part.
type Part = fn(&Options, &Place<'_>) -> Result<()>;

/// Measures all selected parts.
pub(super) fn measure(options: &Options, disk: &Path) -> Result<()> {
    let parts: [(&str, Part); 5] = [
        ("nqnfs.table-2", table_2),
        ("nqnfs.figure-1", figure_1),
        ("nqnfs.figures-2-to-5", figures_2_to_5),
        ("nqnfs.table-4", table_4),
        ("nqnfs.terms", terms),
    ];
    if !parts.iter().any(|(name, _)| options.wants(name)) {
        return Ok(());
    }
    let export = disk.join("nqnfs-export");
    prepare(&export)?;
    let server = Server::ours(&export, "disk")?;
    let place = Place { server: &server, export: &export };
    parts
        .iter()
        .filter(|(name, _)| options.wants(name))
        .try_for_each(|(_, part)| part(options, &place))
}

impl Place<'_> {
    /// Runs some phases on each of these mounts concurrently, with programs there or in another
    /// folder.
    fn phases(mounts: &[Mount], programs: Option<&Path>, phases: &[&str]) -> Result<Vec<Phases>> {
        let runs: Vec<_> = thread::scope(|scope| {
            let run = |(number, mount): (usize, &Mount)| {
                let (path, target) = (mount.path().to_owned(), target(number));
                scope.spawn(move || {
                    let told = timed_phases(&path, &target, programs.unwrap_or(&path), phases);
                    let told = told.map_err(|error| error.to_string())?;
                    Ok(PHASES.map(|phase| told[phase].as_f64().unwrap_or(f64::NAN)))
                })
            };
            let running: Vec<_> = mounts.iter().enumerate().map(run).collect();
            running.into_iter().map(|run| run.join().expect("a run does not panic")).collect()
        });
        Ok(runs.into_iter().collect::<std::result::Result<_, String>>()?)
    }

    /// Ends mounts, and removes the files of their runs.
    fn end(&self, mounts: Vec<Mount>) -> Result<()> {
        let count = mounts.len();
        mounts.into_iter().try_for_each(Mount::end)?;
        let tree = self.export.join(TREE);
        Ok((0..count).try_for_each(|number| fs::remove_dir_all(tree.join(target(number))))?)
    }

    /// Runs the workload on each of these mounts concurrently.
    fn run(&self, mounts: Vec<Mount>) -> Result<Vec<Phases>> {
        let runs = Self::phases(&mounts, None, &PHASES)?;
        self.end(mounts)?;
        Ok(runs)
    }

    /// Runs the workload on a new mount.
    fn run_here(&self, options: &str) -> Result<Phases> {
        Ok(self.run(vec![Mount::ours(self.server.nfs, options)?])?[0])
    }

    /// Returns the duration of concurrent compilations on several mounts, each over its own link
    /// that is long only for the compilation. The programs are on the disk.
    fn compile_far(&self, carriers: &[&Carrier], length: Duration) -> Result<Vec<f64>> {
        let (mut mounts, mut wires) = (Vec::new(), Vec::new());
        for Carrier { options, .. } in carriers {
            let (address, wire) = if options.contains("udp") {
                let wire = RoundTrip::new(Duration::ZERO);
                (delayed_datagrams(self.server.nfs, &wire)?, wire)
            } else {
                let delay = Delay::start(self.server.nfs, Duration::ZERO)?;
                (delay.address, delay.round_trip)
            };
            mounts.push(Mount::ours(address, options)?);
            wires.push(wire);
        }
        let local = Some(self.export);
        Self::phases(&mounts, local, &PHASES[..COMPILE])?;
        wires.iter().for_each(|wire| wire.set(length));
        let runs = Self::phases(&mounts, local, &PHASES[COMPILE..])?;
        wires.iter().for_each(|wire| wire.set(Duration::ZERO));
        self.end(mounts)?;
        Ok(runs.iter().map(|run| run[COMPILE]).collect())
    }
}

/// Returns the folder for the output of a run.
fn target(number: usize) -> String {
    format!("target{number}")
}

fn printed(name: String, ours: f64, paper: Option<f64>) {
    Figure::beside(name, ours, paper, "s; the paper").print();
}

fn table_2(options: &Options, place: &Place<'_>) -> Result<()> {
    let mut runs: BTreeMap<&str, Vec<Phases>> = BTreeMap::new();
    // The first of each warms up.
    for number in 0..=few(options).pairs {
        for variant in &VARIANTS {
            let run = place.run_here(variant.options)?;
            if number > 0 {
                runs.entry(variant.name).or_default().push(run);
            }
        }
    }
    for variant in &VARIANTS {
        for (at, phase) in PHASES.iter().enumerate() {
            let (mean, _) = mean_and_deviation(runs[variant.name].iter().map(|run| run[at]));
            let name = format!("nqnfs.table-2: {}, {phase}", variant.name);
            printed(name, mean, variant.table_2.map(|table| table[at]));
        }
    }
    Ok(())
}

fn figure_1(_: &Options, place: &Place<'_>) -> Result<()> {
    for (at, buffer) in BUFFERS.iter().enumerate() {
        for variant in VARIANTS.iter().filter(|variant| variant.figure_1.is_some()) {
            let run = place.run_here(&format!("{},buffer={buffer}", variant.options))?;
            let name = format!("nqnfs.figure-1: {}, {buffer}", variant.name);
            printed(name, run[COMPILE], variant.figure_1.map(|figure| figure[at]));
        }
    }
    Ok(())
}

fn figures_2_to_5(_: &Options, place: &Place<'_>) -> Result<()> {
    for (at, clients) in CLIENTS.into_iter().enumerate() {
        for variant in VARIANTS.iter().filter(|variant| variant.figures_2_to_5.is_some()) {
            let mount = |_| Ok(Mount::ours(place.server.nfs, variant.options)?);
            let runs = place.run((0..clients).map(mount).collect::<Result<_>>()?)?;
            for (phase, figure) in (1..PHASES.len()).zip(2..) {
                let (mean, _) = mean_and_deviation(runs.iter().map(|run| run[phase]));
                let (what, name) = (PHASES[phase], variant.name);
                let name =
                    format!("nqnfs.figures-2-to-5: figure {figure}, {what}, {name}, {clients}");
                let paper = variant.figures_2_to_5.map(|figures| figures[phase - 1][at]);
                printed(name, mean, paper);
            }
        }
    }
    Ok(())
}

/// Figure 6 has the same numbers. The number of concurrent runs grows with the length of the link:
/// they wait for it, and leave the processors to each other.
fn table_4(options: &Options, place: &Place<'_>) -> Result<()> {
    // As often as in the paper: eight times by default.
    let all: Vec<&Carrier> = (0..=options.pairs).flat_map(|_| &CARRIERS).collect();
    for (at, delay) in DELAYS.into_iter().enumerate() {
        let mut runs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        let at_once = usize::try_from(delay / SHARED_MS)?.clamp(1, all.len());
        for some in all.chunks(at_once) {
            let seconds = place.compile_far(some, Duration::from_millis(delay))?;
            for (carrier, seconds) in some.iter().zip(seconds) {
                runs.entry(carrier.name).or_default().push(seconds);
            }
        }
        for Carrier { name, paper, .. } in &CARRIERS {
            let (mean, deviation) = mean_and_deviation(runs[name].iter().copied());
            let (seconds, scatter) = paper[at];
            printed(format!("nqnfs.table-4: {name}, {delay} ms"), mean, Some(seconds));
            let name = format!("nqnfs.table-4: {name}, {delay} ms, deviation");
            printed(name, deviation, Some(scatter));
        }
    }
    Ok(())
}

/// Measures the cost of a term: calls, and seconds of a whole run.
fn terms(_: &Options, place: &Place<'_>) -> Result<()> {
    for term in TERMS {
        let before: u64 = place.server.calls()?.values().sum();
        let run = place.run_here(&format!("cache=lease,term={term}"))?;
        let calls = place.server.calls()?.values().sum::<u64>() - before;
        printed(format!("nqnfs.terms: {term} s"), run.iter().sum(), None);
        let name = format!("nqnfs.terms: {term} s, calls");
        Figure::beside(name, calls as f64, None, "calls").print();
    }
    Ok(())
}

fn mean_and_deviation(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}
