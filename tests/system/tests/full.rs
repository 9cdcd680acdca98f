//! Full disks under the built server, seen through the built mount: each byte that a program wrote
//! is on the server, or the program's own write, fsync or close failed, or the mount keeps the
//! data.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::{FileSystem, Scratch, Server, built, output};

/// Longer than any operation takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// The time limit of a test of a mount; afterwards the mount is aborted, so that no process hangs.
const TEST_LIMIT: Duration = Duration::from_mins(5);

/// Fills a disk except for `but` bytes, as a program of the server's machine does.
fn fill(folder: &Path, but: usize) {
    fs::write(folder.join("spare"), vec![1; but]).expect("there is room");
    let mut filler = File::create(folder.join("filler")).expect("there is room");
    // The small writes use the last blocks.
    for bytes in [256 << 10, 4 << 10] {
        let piece = vec![1; bytes];
        let error = loop {
            if let Err(error) = filler.write_all(&piece) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }
    filler.sync_all().expect("what was taken has room");
    drop(filler);
    fs::remove_file(folder.join("spare")).expect("it is there");
    output(Command::new("sync").arg("--file-system").arg(folder));
}

/// Writes files on a mount, and prints the names of the files for which a write or close failed.
const WRITES: &str = r#"cd "$1"
for number in $(seq 36); do
    head -c 500000 /dev/urandom 2>/dev/null >"$2-$number" || echo "$2-$number"
done 2>/dev/null"#;

/// The size of each of the small files, in bytes.
const FILE_BYTES: u64 = 500_000;

fn each_write_is_whole_or_fails(server: &Server, what: &str, but: usize) {
    let writable = fs::Permissions::from_mode(0o777);
    fs::set_permissions(server.folder(), writable).expect("it is ours");
    fill(server.folder(), but);
    for user in ["0", "1000"] {
        let mounted = Mounted::new(server, "", TEST_LIMIT);
        let mut writer = Command::new("setpriv");
        writer.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        writer.args(["bash", "-c", WRITES, "bash"]).arg(mounted.folder()).arg(user);
        let failed = output(&mut writer);
        let failed: BTreeSet<&str> = failed.lines().collect();
        assert!(mounted.umount().success(), "{what}, {user}: no write-back failed");
        let names: Vec<String> = (1..=36).map(|number| format!("{user}-{number}")).collect();
        let is_short = |name: &&str| {
            let known = fs::metadata(server.folder().join(name));
            known.map_or(true, |known| known.len() != FILE_BYTES)
        };
        let short: BTreeSet<&str> = names.iter().map(String::as_str).filter(is_short).collect();
        assert_eq!(failed, short, "{what}, {user}");
        assert!(!failed.is_empty(), "{what}, {user}: the disk is full");
        for name in &names {
            let _ = fs::remove_file(server.folder().join(name));
        }
        output(Command::new("sync").arg("--file-system").arg(server.folder()));
    }
}

/// A bug: ext4 reports free blocks that data cannot use, and a mount of root accepted data for
/// them.
#[test]
fn a_full_ext4_is_reported_by_the_write() {
    for but in [0, 3 << 20] {
        let server = Server::start_on_disk(FileSystem::Ext4, 96 << 20);
        each_write_is_whole_or_fails(&server, &format!("ext4 but {but}"), but);
    }
}

#[test]
fn a_full_xfs_is_reported_by_the_write() {
    let server = Server::start_on_disk(FileSystem::Xfs, 320 << 20);
    each_write_is_whole_or_fails(&server, "xfs", 3 << 20);
}

#[test]
fn a_full_btrfs_is_reported_by_the_write() {
    for but in [3 << 20, 16 << 20] {
        let server = Server::start_on_disk(FileSystem::Btrfs, 128 << 20);
        each_write_is_whole_or_fails(&server, &format!("btrfs but {but}"), but);
    }
}

#[test]
fn a_full_tmpfs_is_reported_by_the_write() {
    let server = Server::start_with_room(16 << 20);
    each_write_is_whole_or_fails(&server, "tmpfs", 3 << 20);
}

/// A program of the server's machine uses the space that a mount had reserved, so that no write can
/// report the lack of space any more.
#[test]
fn data_that_a_disk_refuses_later_is_kept_and_reported() {
    let server = Server::start_with_room(8 << 20);
    let rescue = Scratch::new("rescue");
    let options = format!("rescue={}", rescue.path().display());
    let mounted = Mounted::new(&server, &options, TEST_LIMIT);
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(mounted.path("file"), &content).expect("there is room, and the lease reserves it");
    fill(server.folder(), 0);
    let start = Instant::now();
    let listed = || {
        let mut list = Command::new(built());
        output(list.args(["rescue", "list", "--directory"]).arg(rescue.path()))
    };
    let all_bytes = format!("{} bytes of {}", content.len(), mounted.path("file").display());
    while !listed().contains(&all_bytes) {
        assert!(start.elapsed() < LIMIT, "kept while the mount goes on: {}", listed());
        sleep(Duration::from_millis(50));
    }
    let listed = listed();
    let id = listed.split_whitespace().next().expect("it has a name");
    let kept = fs::read(rescue.path().join(id).join("data")).expect("it is kept");
    assert!(kept == content, "all of it");
    let mut show = Command::new(built());
    let shown = output(show.args(["rescue", "show", id, "--directory"]).arg(rescue.path()));
    assert!(shown.contains("rejected: "), "{shown}");
    let refused = fs::write(mounted.path("second"), &content).map_err(|error| error.kind());
    assert_eq!(refused, Err(ErrorKind::StorageFull), "the next write knows at once");
    fs::remove_file(server.folder().join("filler")).expect("it is there");
    let mut apply = Command::new(built());
    output(apply.args(["rescue", "apply", id, "--directory"]).arg(rescue.path()));
    assert!(fs::read(server.folder().join("file")).expect("it is there") == content);
    assert!(!mounted.umount().success(), "no program was told of the first failure");
}
