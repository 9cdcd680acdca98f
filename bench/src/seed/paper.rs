//! The paper's figures and tables, with our values next to them.

use std::error::Error;

use leasehold_load::Version;

use super::server::Log;
use super::{Disk, V2, V2_GATHERED, V2_LOG, V3, V3_LOG, Way, basics, walks, written};
use crate::Options;
use crate::figure::Figure;

/// Figure 2: 10 MB to one disk. The table omits values without a number in the text.
const ONE_DISK: [(Way, Option<f64>); 5] = [
    (V2, Some(320.0)),
    (V2_GATHERED, None),
    (V2_LOG, Some(2346.0)),
    (V3, Some(2323.0)),
    (V3_LOG, None),
];

/// Figure 3: 40 MB to four disks. Their limit was the network, our limit is the disks.
const FOUR_DISKS: [(Way, Option<f64>); 3] =
    [(V2_LOG, Some(5022.0)), (V3, Some(6105.0)), (V3_LOG, Some(6425.0))];

/// Table 1: seconds of the basic tests, with versions 2 and 3 without and then with Prestoserve.
const TESTS: [[f64; 4]; 10] = [
    [8.39, 8.21, 0.87, 0.77],
    [3.71, 3.66, 1.60, 1.20],
    [0.81, 0.81, 0.74, 0.71],
    [11.18, 11.18, 0.94, 1.00],
    [12.00, 5.35, 4.68, 4.69],
    [1.48, 1.48, 1.49, 1.47],
    [2.87, 2.79, 1.40, 0.96],
    [6.71, 6.71, 1.22, 1.10],
    [6.73, 6.70, 1.25, 0.98],
    [0.92, 1.50, 0.92, 1.40],
];
const TEST_COLUMNS: [(&str, Version, Log); 4] = [
    ("v2", Version::Two, Log::Without),
    ("v3", Version::Three, Log::Without),
    ("v2, stable log", Version::Two, Log::InMemory),
    ("v3, stable log", Version::Three, Log::InMemory),
];
/// All calls of these tests.
const TEST_CALLS: [u32; 2] = [13_166, 11_032];

/// Figure 4: calls of all three parts of the suite, one of which is the basic tests, with versions
/// 2 and 3.
const SUITE_CALLS: [(&str, [u32; 2]); 18] = [
    ("GETATTR", [4058, 1282]),
    ("SETATTR", [1168, 1168]),
    ("LOOKUP", [6954, 5499]),
    ("ACCESS", [0, 309]),
    ("READLINK", [250, 250]),
    ("READ", [1779, 1731]),
    ("WRITE", [1881, 1881]),
    ("CREATE", [675, 675]),
    ("MKDIR", [173, 173]),
    ("SYMLINK", [250, 250]),
    ("REMOVE", [1175, 1175]),
    ("RMDIR", [173, 173]),
    ("RENAME", [352, 352]),
    ("LINK", [250, 250]),
    ("READDIR", [972, 758]),
    ("STATFS", [1755, 0]),
    ("FSSTAT", [0, 1755]),
    ("COMMIT", [0, 65]),
];

/// Table 2: calls of find(1) over 9,612 files in 155 directories, with version 2, with version 3
/// and with version 3 without READDIRPLUS.
const CALLS: [(&str, [Option<u32>; 3]); 7] = [
    ("GETATTR", [Some(155), Some(155), Some(155)]),
    ("LOOKUP", [Some(10_076), Some(155), Some(10_076)]),
    ("ACCESS", [None, Some(310), Some(310)]),
    ("READDIR", [Some(173), Some(0), Some(181)]),
    ("READDIRPLUS", [Some(0), Some(358), Some(0)]),
    ("STATFS", [Some(155), None, None]),
    ("FSSTAT", [None, Some(155), Some(155)]),
];
const TOTALS: [u32; 3] = [10_559, 1133, 10_877];
const BYTES: [u32; 3] = [4_082_475, 2_313_493, 5_485_399];
const SECONDS: [f64; 3] = [9.9, 6.3, 12.3];
const COLUMNS: [&str; 3] = ["v2", "v3", "v3 without READDIRPLUS"];

/// Repeats the measurements of the paper, and prints our values next to the paper's.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.wants("figure 2") {
        figure("figure 2", Disk::ONE, 10_000_000, &ONE_DISK)?;
    }
    if options.wants("figure 3") {
        figure("figure 3", Disk::FOUR, 40_000_000, &FOUR_DISKS)?;
    }
    if options.wants("table 1") || options.wants("figure 4") {
        table_1()?;
    }
    if options.wants("table 2") {
        table_2()?;
    }
    Ok(())
}

fn figure(
    name: &str,
    disk: Disk,
    bytes: u32,
    ways: &[(Way, Option<f64>)],
) -> Result<(), Box<dyn Error>> {
    for (way, theirs) in ways {
        let ours = written(*way, disk, bytes)?;
        Figure::beside(format!("{name}: {}", way.name), ours, *theirs, "KB/s").print();
    }
    Ok(())
}

/// Runs the basic tests, and counts the calls of each procedure.
fn table_1() -> Result<(), Box<dyn Error>> {
    for (at, (column, version, log)) in TEST_COLUMNS.iter().enumerate() {
        let tests = basics(*version, *log)?;
        for (test, theirs) in tests.iter().zip(TESTS) {
            let name = format!("table 1: test {}, {column}", test.name);
            Figure::beside(name, test.time.as_secs_f64(), Some(theirs[at]), "s").print();
        }
        // The log does not change the number of calls.
        if *log == Log::InMemory {
            continue;
        }
        let calls =
            |procedure| -> u64 { tests.iter().filter_map(|test| test.calls.get(procedure)).sum() };
        let all: u64 = tests.iter().flat_map(|test| test.calls.values()).sum();
        let theirs = Some(TEST_CALLS[at].into());
        Figure::beside(format!("table 1: calls, {column}"), all as f64, theirs, "calls").print();
        for (procedure, theirs) in SUITE_CALLS {
            let name = format!("figure 4: {procedure}, {column}");
            let theirs = Some(f64::from(theirs[at]));
            Figure::beside(name, calls(procedure) as f64, theirs, "calls").print();
        }
    }
    Ok(())
}

fn table_2() -> Result<(), Box<dyn Error>> {
    for (at, (walk, column)) in walks()?.iter().zip(COLUMNS).enumerate() {
        let print = |row: &str, ours: f64, theirs: Option<f64>, unit| {
            Figure::beside(format!("table 2: {row}, {column}"), ours, theirs, unit).print();
        };
        for (procedure, theirs) in CALLS {
            if let Some(theirs) = theirs[at] {
                let ours = walk.calls.get(procedure).copied().unwrap_or(0);
                print(procedure, ours as f64, Some(theirs.into()), "calls");
            }
        }
        print("all", walk.total() as f64, Some(TOTALS[at].into()), "calls");
        let bytes = walk.sent_bytes + walk.received_bytes;
        print("sent and received", bytes as f64, Some(BYTES[at].into()), "bytes");
        print("time", walk.time.as_secs_f64(), Some(SECONDS[at]), "s");
    }
    Ok(())
}
