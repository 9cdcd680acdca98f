//! The expectations that foreign programs have of a file system, on the local disk and on the
//! mount.

use std::time::Duration;

use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::posix::{QUICK, run};
use leasehold_system_tests::{Scratch, Server};

/// Longer than a trial takes on a loaded machine.
const LIMIT_S: u64 = 240;

fn trial(name: &str, options: &str) {
    let trial = QUICK.iter().find(|trial| trial.name == name).expect("there is such a trial");
    let (local, scratch) = (Scratch::new("local"), Scratch::new("scratch"));
    let (passed, told) = run(*trial, local.path(), scratch.path(), LIMIT_S);
    assert!(passed, "on the local disk: {told}");
    let server = Server::start_with(&["--durability", "memory"]);
    let mounted = Mounted::new(&server, options, Duration::from_secs(2 * LIMIT_S));
    let (passed, told) = run(*trial, mounted.folder(), scratch.path(), LIMIT_S);
    assert!(passed, "on the mount: {told}");
}

#[test]
fn pjdfstest_passes() {
    trial("pjdfstest", "");
}

#[test]
fn pjdfstest_passes_without_leases() {
    trial("pjdfstest", "cache=close-to-open");
}

#[test]
fn fsx_passes() {
    trial("fsx", "");
}

#[test]
fn fsx_passes_without_leases() {
    trial("fsx", "cache=close-to-open");
}

#[test]
fn fsx_passes_with_a_small_buffer() {
    trial("fsx", "buffer=128K,unsaved=64K,rsize=4096,wsize=4096");
}

#[test]
fn fsx_passes_without_a_cache() {
    trial("fsx", "cache=none");
}
