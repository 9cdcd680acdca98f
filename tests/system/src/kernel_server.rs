//! The kernel's own server, put to the tester in a guest.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::{FileSystem, Guest, Link};

/// Longer than all cases take.
const LIMIT: Duration = Duration::from_mins(8);

/// Room for the largest files of the cases.
const DISK_BYTES: u64 = 1 << 30;

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    /// Whether no case failed.
    pub succeeded: bool,
    /// What the tester printed.
    pub report: String,
    /// What the guest wrote.
    pub log: String,
}

/// Boots a guest that serves a folder of its disk with its kernel's server, and puts that to the
/// tester.
///
/// # Panics
/// If there can be no guest.
#[must_use]
pub fn run(tester: &str, options: &[String]) -> Run {
    let disk = Disk::new(FileSystem::Ext4, DISK_BYTES, &[]);
    let link = Arc::new(Link::new());
    let settings = format!("tester={tester}\ntester_options='{}'\n", options.join(" "));
    let case = include_str!("../guest/kernel-server.sh");
    let guest = Guest::boot_with_disks(&link, &settings, case, &[disk.path()], LIMIT);
    let report = guest.exchange().join("report");
    let mut text = String::new();
    let ended = guest.wait(|_| text = fs::read_to_string(&report).unwrap_or_default());
    Run { succeeded: ended.status == Some(0), report: text, log: ended.log }
}
