//! Power cuts: all data that the server acknowledged as stable is present after the next boot, and
//! the checks detect an omitted sync.

use leasehold_system_tests::crash::{self, Kind, Outage, Round};
use leasehold_system_tests::{FileSystem, Site};

/// Runs the first rounds of a seed on a machine.
fn survives(site: Site, seed: u64, rounds: usize) {
    if let Err(failure) = crash::run(seed, site, crash::plan(seed, site.file_system).take(rounds)) {
        panic!("{failure}");
    }
}

#[test]
fn acknowledged_changes_survive_on_ext4() {
    survives(Site::of(FileSystem::Ext4), 1, 8);
}

#[test]
fn acknowledged_changes_survive_on_ext4_without_a_journal() {
    survives(Site::of(FileSystem::Ext4WithoutJournal), 2, 4);
}

#[test]
fn acknowledged_changes_survive_on_xfs() {
    survives(Site::of(FileSystem::Xfs), 3, 5);
}

#[test]
fn acknowledged_changes_survive_on_btrfs() {
    survives(Site::of(FileSystem::Btrfs), 4, 4);
}

#[test]
fn acknowledged_changes_survive_with_an_ordinary_user() {
    survives(Site::of(FileSystem::Ext4).of_ordinary_user(), 5, 5);
}

#[test]
fn acknowledged_changes_survive_with_a_stable_log() {
    survives(Site::of(FileSystem::Ext4).with_stable_log(), 8, 5);
    survives(Site::of(FileSystem::Ext4WithoutJournal).with_stable_log(), 9, 3);
    survives(Site::of(FileSystem::Ext4).of_ordinary_user().with_stable_log(), 10, 3);
}

#[test]
fn acknowledged_changes_survive_in_stripes() {
    survives(Site::of(FileSystem::Ext4).with_stripes(), 11, 5);
}

/// I/O daemons lose their power during the load, which continues with the same metaserver, and
/// directly after a reply; and the whole machine does.
#[test]
fn acknowledged_changes_survive_at_iods() {
    let outages = [
        Outage::CutIods(vec![0]),
        Outage::CutIodsAfter(vec![1], vec![Kind::Commit]),
        Outage::CutIodsAfter(vec![0, 1, 2], vec![Kind::WriteUnstable, Kind::WriteFile]),
        Outage::CutIods(vec![1, 2]),
        Outage::Cut,
    ];
    let rounds = outages.map(|outage| Round { answers: 80, is_eager: false, outage });
    if let Err(failure) = crash::run(12, Site::of(FileSystem::Ext4).with_iods(1), rounds) {
        panic!("{failure}");
    }
}

#[test]
fn acknowledged_changes_survive_a_broken_disk() {
    for (seed, file_system) in [(6, FileSystem::Ext4), (7, FileSystem::Xfs)] {
        let round = |answers| Round { answers, is_eager: false, outage: Outage::Break };
        if let Err(failure) = crash::run(seed, Site::of(file_system), [150, 400].map(round)) {
            panic!("{failure}");
        }
    }
}

/// Runs a faulty server, cuts the power after the reply to an operation, and fails unless the
/// checks detect the fault.
fn is_noticed(site: Site, kind: Kind) {
    let round = Round { answers: 100, is_eager: false, outage: Outage::CutAfter(vec![kind]) };
    // Unsynced data may be stable nevertheless, because the file system writes in the background.
    let done = crash::run(7, site, vec![round; 3]);
    assert!(done.is_err(), "a sync is missing, and {kind:?} has survived: {site:?}");
}

/// Returns a machine on which one of the sync system calls has no effect for the server, but
/// returns success.
macro_rules! without {
    ($call:literal) => {
        Site {
            wrapper: concat!(
                "strace --follow-forks --quiet=all --output=/dev/null --seccomp-bpf --trace=",
                $call,
                " --inject=",
                $call,
                ":retval=0"
            ),
            ..Site::of(FileSystem::Ext4)
        }
    };
}

#[test]
fn a_server_that_syncs_nothing_is_noticed() {
    let site = Site { server_options: "--durability memory", ..Site::of(FileSystem::Ext4) };
    is_noticed(site, Kind::CreatePlain);
}

#[test]
fn a_missing_sync_of_names_is_noticed() {
    is_noticed(without!("fsync"), Kind::RenameWithin);
}

#[test]
fn a_missing_sync_of_data_is_noticed() {
    is_noticed(without!("fdatasync"), Kind::WriteData);
}

#[test]
fn a_missing_sync_of_symlinks_and_pipes_is_noticed() {
    is_noticed(without!("syncfs"), Kind::SetattrOther);
}

/// The metaserver's own syncs have no effect either, but it keeps running.
#[test]
fn a_missing_sync_at_iods_is_noticed() {
    let wrapper = without!("fsync,fdatasync,syncfs").wrapper;
    let site = Site { wrapper, ..Site::of(FileSystem::Ext4).with_iods(1) };
    let outage = Outage::CutIodsAfter(vec![0, 1, 2], vec![Kind::WriteData]);
    let round = Round { answers: 100, is_eager: false, outage };
    let done = crash::run(7, site, vec![round; 3]);
    assert!(done.is_err(), "a sync is missing at iods, and all has survived");
}

#[test]
fn a_missing_sync_of_the_log_is_noticed() {
    let log = Site::of(FileSystem::Ext4).with_stable_log();
    let site = Site { wrapper: without!("fdatasync").wrapper, ..log };
    is_noticed(site, Kind::CreatePlain);
}
