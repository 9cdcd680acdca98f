//! The paper's figures and tables, ours beside theirs.

use std::error::Error;

use super::{Disk, V2, V2_GATHERED, V2_LOG, V3, V3_LOG, Way, walks, written};
use crate::Options;
use crate::figure::Figure;

/// Figure 2: 10 MB to one disk. What they had no number of in the text is not there.
const ONE_DISK: [(Way, Option<f64>); 5] = [
    (V2, Some(320.0)),
    (V2_GATHERED, None),
    (V2_LOG, Some(2346.0)),
    (V3, Some(2323.0)),
    (V3_LOG, None),
];

/// Figure 3: 40 MB to four disks. Their network was the limit, ours is the disks.
const FOUR_DISKS: [(Way, Option<f64>); 3] =
    [(V2_LOG, Some(5022.0)), (V3, Some(6105.0)), (V3_LOG, Some(6425.0))];

/// Table 2: calls of find(1) over 9,612 files in 155 directories, by version 2, by version 3 and by
/// version 3 without READDIRPLUS.
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

/// Measures what the paper did, and prints ours beside theirs.
pub(crate) fn measure(options: &Options) -> Result<(), Box<dyn Error>> {
    if options.wants("figure 2") {
        figure("figure 2", Disk::ONE, 10_000_000, &ONE_DISK)?;
    }
    if options.wants("figure 3") {
        figure("figure 3", Disk::FOUR, 40_000_000, &FOUR_DISKS)?;
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
