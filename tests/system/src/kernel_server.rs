//! Runs the tester against the kernel's own server in a guest.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::disk::Disk;
use crate::{FileSystem, Guest, Link};

/// Longer than all cases take.
const LIMIT: Duration = Duration::from_mins(8);

/// Enough space for the largest files of the cases.
const DISK_BYTES: u64 = 1 << 30;

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// True if no case failed.
    pub succeeded: bool,
    /// The output of the tester.
    pub report: String,
    /// The output of the guest.
    pub log: String,
}

/// Boots a guest that serves a folder of its disk with its kernel's server, and runs the tester
/// against it.
///
/// # Panics
/// Panics if the guest cannot be started.
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
