//! Mounts lose no data while I/O daemons are killed; and the comparison, which `cargo xtask soak
//! --stripes` repeats for longer, detects lost data.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use leasehold_system_tests::soak::{self, Report, Soak};

/// A damage to a folder.
type Damage = fn(&Path);

/// Returns the largest file of a folder.
fn largest(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it is"));
    let size = |path: &PathBuf| fs::metadata(path).expect("it is there").len();
    entries.map(|entry| entry.path()).max_by_key(size).expect("the program made some")
}

fn change(file: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(file).expect("it is ours")
}

#[test]
fn lost_data_is_noticed() {
    assert!(!soak::is_noticed(|_| {}), "nothing is lost");
    let lost: [(&str, Damage); 4] = [
        ("a file", |folder| fs::remove_file(largest(folder)).expect("it is ours")),
        ("a name", |folder| {
            fs::rename(largest(folder), folder.join("other")).expect("it is ours");
        }),
        ("the end", |folder| {
            let file = change(&largest(folder));
            let size = file.metadata().expect("it is there").len();
            file.set_len(size - 1).expect("it is ours");
        }),
        ("a byte", |folder| {
            let (file, mut byte) = (change(&largest(folder)), [0]);
            file.read_exact_at(&mut byte, 4100).expect("it is large");
            byte[0] ^= 1;
            file.write_all_at(&byte, 4100).expect("it is ours");
        }),
    ];
    for (what, damage) in lost {
        assert!(soak::is_noticed(damage), "{what} is lost, and nobody notices");
    }
}

/// In a first round until all data has been written, in a second one until the mounts are killed,
/// too: synced data must then be present.
#[test]
fn mounts_lose_nothing_when_iods_are_killed() {
    two_rounds(Soak { peers: 1, ..SEVERAL });
}

/// The same with mounts of two metaservers of one file system, which are killed as often.
#[test]
fn mounts_lose_nothing_when_lazy_metaservers_are_killed() {
    two_rounds(SEVERAL);
}

const SEVERAL: Soak =
    Soak { copies: 1, peers: 2, strict: false, kernel: false, changes: false, kills: 5, seed: 1 };

fn two_rounds(soak: Soak) {
    match soak::run(soak, |report| report.rounds < 2) {
        Ok(Report { kills, files, .. }) => assert!(kills == 2 * soak.kills && files > 0),
        Err(fault) => panic!("{fault}"),
    }
}
