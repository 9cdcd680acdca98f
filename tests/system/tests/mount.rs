//! `leasehold mount`: the built client, through the kernel's FUSE, against the built server.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, UNIX_EPOCH};

use leasehold_fuse::Errno;
use leasehold_system_tests::mounted::{Mounted, is_mounted, mount, source, status};
use leasehold_system_tests::{Group, Scratch, Server, built, copy_built, output};

/// Longer than any operation takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// The time limit of a test of a mount; afterwards the mount is aborted, so that no process waits
/// for it.
const TEST_LIMIT: Duration = Duration::from_mins(5);

fn new_mount(server: &Server, options: &str) -> Mounted {
    Mounted::new(server, options, TEST_LIMIT)
}

/// Waits until a condition holds.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Returns bytes without short periods.
fn content(length: usize, seed: u32) -> Vec<u8> {
    let words = (seed..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes());
    words.take(length).collect()
}

#[test]
fn a_mount_shows_the_servers_files_and_names() {
    for options in ["", "cache=close-to-open"] {
        names_are_those_of_the_server(options);
    }
}

/// A whole cluster with a mount is one command, and ends as one.
#[test]
fn a_cluster_is_tried_with_a_mount() {
    let folder = Scratch::new("trial");
    let place = folder.path().join("mount");
    let mut command = Command::new(built());
    command.args(["cluster", "try", "--iods", "2", "--listen", "127.0.0.1:0"]);
    command.arg(folder.path().join("cluster")).arg("--mount").arg(&place);
    let mut trial = command.stdout(Stdio::null()).spawn().expect("it was built");
    until("the mount stands", || place.is_dir() && is_mounted(&place));
    let bytes = content(3_000_001, 5);
    fs::write(place.join("file"), &bytes).expect("there is room");
    File::open(place.join("file")).and_then(|file| file.sync_all()).expect("there is room");
    assert!(fs::read(place.join("file")).expect("it is there") == bytes);
    let head = fs::read(folder.path().join("cluster/names/file")).expect("it is there");
    assert!(head.len() == 512 && head.starts_with(b"leasehold stripes"), "its data is on iods");
    let process = rustix::process::Pid::from_child(&trial);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it is ours");
    let ended = trial.wait().expect("it is ours");
    assert!(ended.success(), "{ended}");
    assert!(!is_mounted(&place));
}

/// With `least-busy` the named metaserver selects the metaserver to use. Here it selects another,
/// because it waits for a third and does not serve yet.
#[test]
fn a_mount_uses_the_metaserver_that_least_busy_selects() {
    let mut group = Group::start(3, &[]);
    let folder = Scratch::new("mount");
    let mounts = |source: &str, options: &str| {
        until("it serves", || mount(source, folder.path(), options).status.success());
        let told = status(folder.path()).expect("it is mounted");
        let mut end = Command::new(built());
        output(end.arg("umount").arg(folder.path()));
        told["server"].clone()
    };
    let at = |group: &Group, number| format!("127.0.0.1:{}", group.port(number));
    // A metaserver serves only after it has contacted all others, which the test kills below.
    for number in 0..3 {
        assert_eq!(mounts(&group.source(number), ""), at(&group, number));
    }
    let all = [0, 1, 2].map(|number| at(&group, number));
    let server = mounts(&group.source(1), "least-busy");
    assert!(all.iter().any(|one| server == *one), "{server}");
    group.kill(2);
    group.kill(1);
    group.start_again(1);
    // If the metaserver selects none in time, the mount waits for the named one, with a timeout.
    assert_eq!(mounts(&group.source(1), "least-busy,soft=10"), at(&group, 0));
    // A server that selects no other is used itself.
    let server = Server::start();
    let mounted = new_mount(&server, "least-busy");
    assert_eq!(mounted.status()["server"], format!("127.0.0.1:{}", server.port()));
}

fn names_are_those_of_the_server(options: &str) {
    let server = Server::start();
    let mounted = new_mount(&server, options);
    let (here, there) = (mounted.path("directory/file"), server.folder().join("directory/file"));
    fs::create_dir(mounted.path("directory")).expect("it can be made");
    let bytes = content(5_000_011, 1);
    fs::write(&here, &bytes).expect("it can be written");
    if options.is_empty() {
        // Under a lease a close does not flush.
        File::open(&here).and_then(|file| file.sync_all()).expect("there is room");
    }
    assert!(fs::read(&there).expect("it is there") == bytes, "it was pushed");
    assert!(fs::read(&here).expect("it is there") == bytes);

    fs::set_permissions(&here, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let time = UNIX_EPOCH + Duration::new(1_234_567_890, 987_654_321);
    let file = File::options().write(true).open(&here).expect("it is there");
    file.set_modified(time).expect("it is ours");
    drop(file);
    let (ours, theirs) = (fs::metadata(&here), fs::metadata(&there));
    let (ours, theirs) = (ours.expect("it is there"), theirs.expect("it is there"));
    assert_eq!(ours.modified().expect("it has one"), time);
    assert_eq!(
        (ours.mode(), ours.ino(), ours.size()),
        (theirs.mode(), theirs.ino(), theirs.size())
    );

    std::os::unix::fs::symlink("file", mounted.path("directory/link")).expect("there is room");
    fs::hard_link(&here, mounted.path("directory/second")).expect("there is room");
    assert_eq!(fs::metadata(&here).expect("it is there").nlink(), 2);
    fs::hard_link(&here, mounted.path("directory/third")).expect("there is room");
    fs::remove_file(mounted.path("directory/third")).expect("it is there");
    // A child of another test's thread may hold a descriptor for a moment: the silly name stays
    // meanwhile.
    until("its data has two names", || fs::metadata(&here).expect("it is there").nlink() == 2);
    output(Command::new("mkfifo").arg(mounted.path("directory/pipe")));
    let kind = fs::symlink_metadata(mounted.path("directory/pipe")).expect("it is there");
    assert!(kind.file_type().is_fifo());
    fs::rename(&here, mounted.path("moved")).expect("it is there");
    let link = fs::read_link(mounted.path("directory/link")).expect("it is there");
    assert_eq!(link, Path::new("file"));
    for number in 0..1500 {
        File::create(mounted.path(&format!("directory/{number}"))).expect("there is room");
    }
    let names = fs::read_dir(mounted.path("directory")).expect("it is there").count();
    assert_eq!(names, 1503);
    fs::remove_dir(mounted.path("directory")).expect_err("it is not empty");
    until("it is removed", || {
        let _ = fs::remove_dir_all(mounted.path("directory"));
        !fs::exists(mounted.path("directory")).expect("its server is there")
    });
    assert_eq!(fs::read_dir(server.folder()).expect("it is there").count(), 1);
}

#[test]
fn a_file_meets_the_expectations_of_programs() {
    let server = Server::start();
    let mounted = new_mount(&server, "");
    let path = mounted.path("file");
    let exclusive = || OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = exclusive().expect("it is new");
    assert_eq!(exclusive().expect_err("it is there").kind(), ErrorKind::AlreadyExists);

    // A hole.
    file.seek(SeekFrom::Start(1_000_000)).expect("any place will do");
    file.write_all(b"end").expect("there is room");
    file.sync_all().expect("the server has a disk");
    let bytes = fs::read(&path).expect("it is there");
    assert!(bytes.len() == 1_000_003 && bytes[..1_000_000].iter().all(|byte| *byte == 0));
    file.set_len(10).expect("it is ours");
    drop(file);

    let mut end = OpenOptions::new().append(true).open(&path).expect("it is there");
    end.write_all(b"more").expect("there is room");
    drop(end);
    assert_eq!(fs::read(&path).expect("it is there"), b"\0\0\0\0\0\0\0\0\0\0more");

    // Removed while open, and replaced by a rename while open.
    let kept = OpenOptions::new().read(true).write(true).open(&path).expect("it is there");
    fs::remove_file(&path).expect("it is there");
    kept.write_at(b"still", 0).expect("it is open");
    let mut word = [0; 5];
    kept.read_exact_at(&mut word, 0).expect("it is open");
    assert_eq!(&word, b"still");
    drop(kept);
    fs::write(mounted.path("old"), "old").expect("there is room");
    fs::write(mounted.path("new"), "new").expect("there is room");
    let mut old = File::open(mounted.path("old")).expect("it is there");
    fs::rename(mounted.path("new"), mounted.path("old")).expect("it is there");
    let mut text = String::new();
    old.read_to_string(&mut text).expect("it is open");
    assert_eq!(text, "old");
    assert_eq!(fs::read_to_string(mounted.path("old")).expect("it is there"), "new");
    drop(old);
    let left = || fs::read_dir(server.folder()).expect("it is there").count() == 1;
    until("what was removed while open goes with its last user", left);
}

/// A bug: an open directory was renamed to a silly name like a file, even if it was not empty.
#[test]
fn a_directory_that_is_open_and_not_empty_is_not_replaced() {
    for options in ["", "cache=close-to-open"] {
        // The leases of an aborted mount persist for a while.
        let server = Server::start();
        let mounted = new_mount(&server, options);
        let (empty, full) = (mounted.path("empty"), mounted.path("full"));
        for directory in [&empty, &full] {
            fs::create_dir(directory).expect("there is room");
        }
        fs::write(full.join("file"), "content").expect("there is room");
        let open = File::open(&full).expect("it is there");
        let error = fs::rename(&empty, &full).expect_err("it is not empty");
        assert_eq!(error.raw_os_error(), Some(Errno::NOTEMPTY.raw_os_error()));
        assert_eq!(fs::read_to_string(full.join("file")).expect("it is there"), "content");
        drop(open);
        fs::remove_dir_all(&full).and_then(|()| fs::remove_dir(&empty)).expect("they are ours");
        assert_eq!(fs::read_dir(server.folder()).expect("it is there").count(), 0);
    }
}

/// A bug: the file was renamed to a silly name once for each name, and data written after the first
/// was dropped.
#[test]
fn an_open_file_that_loses_two_names_keeps_its_data_and_leaves_nothing() {
    for options in ["", "cache=close-to-open"] {
        // The leases of an aborted mount persist for a while.
        let server = Server::start();
        let mounted = new_mount(&server, options);
        let (one, two) = (mounted.path("one"), mounted.path("two"));
        let mut open = File::options();
        let open = open.read(true).write(true).create(true).truncate(true).open(&one);
        let open = open.expect("there is room");
        fs::hard_link(&one, &two).expect("there is room");
        assert_eq!(fs::metadata(&two).expect("it is there").nlink(), 2);
        fs::remove_file(&one).expect("it is there");
        open.write_all_at(&[7; 100], 0).expect("it is open");
        fs::remove_file(&two).expect("it is there");
        open.sync_all().expect("it is open");
        let mut bytes = [0; 100];
        open.read_exact_at(&mut bytes, 0).expect("it is open");
        assert_eq!(bytes, [7; 100]);
        drop(open);
        until("nothing is left", || {
            fs::read_dir(server.folder()).expect("it is there").count() == 0
        });
    }
}

/// Maps a file, stores through the mapping, and reads back through the file and the other way
/// round.
const MAPPING: &str = "
import mmap, os, sys
path = sys.argv[1]
fd = os.open(path, os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 100000)
m = mmap.mmap(fd, 100000)
m[50000:50005] = b'store'
m.flush()
assert os.pread(fd, 5, 50000) == b'store'
os.pwrite(fd, b'write', 70000)
assert m[70000:70005] == b'write'
m[99995:100000] = b'close'
m.close()
os.close(fd)
direct = os.open(path, os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 4096 * 25)
assert os.preadv(direct, [buffer], 0) == 100000
assert buffer[99995:100000] == b'close'
try:
    os.setxattr(path, 'user.a', b'b')
except OSError as error:
    assert error.errno == 95, error
else:
    raise SystemExit('it has attributes')
import fcntl
fcntl.lockf(direct, fcntl.LOCK_SH)
";

#[test]
fn mappings_and_direct_reads_agree() {
    for options in ["", "cache=close-to-open", "cache=none"] {
        let server = Server::start();
        let mounted = new_mount(&server, options);
        let path = mounted.path("mapped");
        output(Command::new("python3").args(["-c", MAPPING]).arg(&path));
        let bytes = fs::read(server.folder().join("mapped")).expect("it is there");
        assert_eq!((&bytes[50_000..50_005], &bytes[99_995..]), (&b"store"[..], &b"close"[..]));
    }
}

#[test]
fn an_open_sees_data_that_another_client_has_closed() {
    let server = Server::start();
    let (first, second) = (new_mount(&server, ""), new_mount(&server, ""));
    for (round, length) in [10_000, 20_000, 300, 300, 1_000_000].into_iter().enumerate() {
        let bytes = content(length, u32::try_from(round).expect("is small"));
        fs::write(first.path("file"), &bytes).expect("there is room");
        assert!(fs::read(second.path("file")).expect("it is there") == bytes, "round {round}");
    }
}

/// A bug: after the removal of a directory, the client told the kernel to forget all names, and
/// with them the pages of all files that were not open.
#[test]
fn a_removal_evicts_no_pages_of_other_files() {
    let server = Server::start();
    let mounted = new_mount(&server, "");
    let path = mounted.path("kept");
    fs::write(&path, content(1 << 20, 3)).expect("there is room");
    File::open(&path).and_then(|file| file.sync_all()).expect("there is room");
    fs::read(&path).expect("it is there");
    fs::create_dir(mounted.path("directory")).expect("there is room");
    fs::write(mounted.path("directory/file"), "content").expect("there is room");
    fs::remove_dir_all(mounted.path("directory")).expect("it was made");
    // An invalidation would directly follow the reply. The kernel may cache the removed name for
    // any time.
    sleep(Duration::from_secs(1));
    let mut pages = Command::new("fincore");
    let pages = output(pages.args(["--noheadings", "--output", "PAGES"]).arg(&path));
    // The machine may evict some pages itself; the bug evicted all at once.
    let pages: u32 = pages.trim().parse().expect("a number");
    assert!(pages > 200, "{pages} of 256 pages are left");
}

#[test]
fn appends_go_to_the_end_that_other_clients_have_moved() {
    let server = Server::start();
    let (first, second) = (new_mount(&server, ""), new_mount(&server, ""));
    fs::write(first.path("log"), "").expect("there is room");
    for round in 0..5 {
        for (mounted, word) in [(&first, "first "), (&second, "second ")] {
            let mut log = File::options();
            let mut log = log.append(true).open(mounted.path("log")).expect("it is there");
            write!(log, "{word}{round}").and_then(|()| writeln!(log)).expect("there is room");
        }
    }
    let lines = |round| format!("first {round}\nsecond {round}\n");
    let expected: String = (0..5).map(lines).collect();
    for path in [first.path("log"), second.path("log"), server.folder().join("log")] {
        assert_eq!(fs::read_to_string(path).expect("it is there"), expected);
    }
}

/// A bug: the kernel looks up the path again after a stale handle; the client answered from its
/// cached directories, so that only the next open found the new file.
#[test]
fn a_replaced_tree_is_looked_up_again() {
    let server = Server::start();
    let mounted = new_mount(&server, "cache=close-to-open");
    let (here, there) = (mounted.path("a/b/file"), server.folder().join("a"));
    for content in ["first", "second", "third"] {
        fs::create_dir_all(there.join("b")).expect("there is room");
        fs::write(there.join("b/file"), content).expect("there is room");
        assert_eq!(fs::read_to_string(&here).expect("it is there"), content);
        fs::remove_dir_all(&there).expect("it was made");
    }
}

/// A bug: a RENAME that succeeded before its server was killed is retransmitted, and finds the old
/// name missing. The kernel kept a negative entry for the new name.
#[test]
fn a_file_is_found_by_its_new_name_after_a_repeated_rename() {
    let server = Server::start();
    let mounted = new_mount(&server, "cache=close-to-open,acdirmin=60");
    let [old, new] = ["old", "new"].map(|name| mounted.path(name));
    fs::write(&old, "content").expect("there is room");
    assert!(fs::metadata(&old).is_ok() && fs::metadata(&new).is_err());
    let [from, to] = ["old", "new"].map(|name| server.folder().join(name));
    fs::rename(from, to).expect("it is there");
    let error = fs::rename(&old, &new).expect_err("it has been done");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_to_string(&new).expect("it is there"), "content");
}

#[test]
fn an_open_file_shows_changes_of_others_in_time() {
    let server = Server::start();
    let first = new_mount(&server, "");
    let second = new_mount(&server, "acregmin=1,acregmax=1");
    fs::write(first.path("file"), "old content").expect("there is room");
    let open = File::open(second.path("file")).expect("it is there");
    let read = || {
        let mut bytes = [0; 11];
        open.read_exact_at(&mut bytes, 0).expect("it is open");
        bytes
    };
    assert_eq!(&read(), b"old content");
    // Of equal length, so that only the data differs.
    fs::write(first.path("file"), "new content").expect("there is room");
    until("it is seen", || &read() == b"new content");
}

/// Writes more than fits, in the given way, and exits with the error number.
const OVERFLOW: &str = "
import mmap, os, sys
path, way = sys.argv[1:]
size = 16 << 20
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
try:
    if way == 'map':
        os.truncate(fd, size)
        m = mmap.mmap(fd, size)
        m[:] = b'x' * size
        m.flush()
    else:
        left = size
        while left:
            left -= os.write(fd, b'x' * left)
    if way == 'sync':
        os.fsync(fd)
    elif way == 'close':
        os.close(fd)
except OSError as error:
    sys.exit(error.errno)
";

#[test]
fn fsync_and_close_report_data_that_has_no_room() {
    let full = Errno::NOSPC.raw_os_error();
    // For a mapping the kernel may report only a general failure; a close without a flush need not
    // report it.
    let broken = [full, Errno::IO.raw_os_error()];
    for (options, way, expected) in [
        ("", "sync", &[full][..]),
        ("", "close", &[full]),
        ("", "map", &broken),
        ("cache=close-to-open", "sync", &[full]),
        ("cache=close-to-open", "close", &[full]),
        ("cache=close-to-open", "map", &broken),
        ("cache=buffer", "sync", &[full]),
        ("cache=buffer", "close", &[full, 0]),
        ("cache=none", "write", &[full]),
        ("cache=none", "map", &broken),
    ] {
        // The leases of an aborted mount persist for a while.
        let server = Server::start_with_room(8 << 20);
        let mounted = new_mount(&server, options);
        let mut python = Command::new("timeout");
        python.args(["120", "python3", "-c", OVERFLOW]).arg(mounted.path("file")).arg(way);
        let status = python.status().expect("python is there");
        let told = expected.iter().any(|code| status.code() == Some(*code));
        assert!(told, "{options} {way}: {status}");
        let write = || fs::write(mounted.path("file"), "small");
        match write() {
            // Several flushes may have failed. A close reports a failure after the last close.
            Err(error) if options == "cache=buffer" && error.raw_os_error() == Some(full) => {
                write()
            }
            written => written,
        }
        .expect("there is room again");
        assert_eq!(fs::read(mounted.path("file")).expect("it is there"), b"small");
    }
}

#[test]
fn a_buffer_cache_pushes_at_fsync_and_at_the_end_alone() {
    let server = Server::start();
    let mounted = new_mount(&server, "cache=buffer,writedelay=1000");
    let there = |name: &str| fs::read(server.folder().join(name)).expect("it is there");
    fs::write(mounted.path("closed"), "content").expect("there is room");
    assert_eq!(there("closed"), b"");
    assert_eq!(fs::read(mounted.path("closed")).expect("it is there"), b"content");
    assert_eq!(fs::metadata(mounted.path("closed")).expect("it is there").size(), 7);
    let mut file = File::create(mounted.path("synced")).expect("there is room");
    file.write_all(b"content").expect("there is room");
    file.sync_all().expect("there is room");
    assert_eq!(there("synced"), b"content");
    drop(file);
    let pid = mounted.status()["pid"].to_string();
    until("it is idle", || mounted.umount().success());
    until("its process ends", || !Path::new("/proc").join(&pid).exists());
    assert_eq!(there("closed"), b"content");
}

/// Writes pieces to a file until another file exists, syncs, and prints their number.
const WRITER: &str = "
import os, sys
path, end, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
written = 0
with open(path, 'wb') as file:
    while not os.path.exists(end) and written < 2000:
        file.write(bytes([(seed + written) % 251]) * 100000)
        file.flush()
        written += 1
    os.fsync(file.fileno())
print(written)
";

/// Writers are separate processes: the child that becomes the server would close the descriptors of
/// this process, and so wait for itself.
#[test]
fn a_restart_of_the_server_loses_nothing() {
    for options in ["", "cache=close-to-open"] {
        a_restart_loses_nothing(options);
    }
}

fn a_restart_loses_nothing(options: &str) {
    let mut server = Server::start();
    let (mounted, here) = (new_mount(&server, options), Scratch::new("end"));
    let end = here.path().join("end");
    let writers: Vec<_> = (0..3_u8)
        .map(|seed| {
            let mut python = Command::new("python3");
            python.args(["-c", WRITER]).arg(mounted.path(&seed.to_string())).arg(&end);
            python.arg(seed.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
            python.spawn().expect("it is there")
        })
        .collect();
    // Until a restart has lost uncommitted data at the server.
    let (start, mut restarts) = (Instant::now(), 0);
    while restarts < 3 || mounted.status()["rewritten_bytes"] == 0 {
        let told = || mounted.status()["calls"]["replies"].as_u64();
        let before = told();
        until("more is written", || told() > before);
        server.restart();
        restarts += 1;
        assert!(start.elapsed() < LIMIT, "nothing was written again in {restarts} restarts");
    }
    fs::write(&end, "").expect("our own folder can be written to");
    for (seed, writer) in (0_u8..).zip(writers) {
        let done = writer.wait_with_output().expect("it is our child");
        let complaint = String::from_utf8_lossy(&done.stderr);
        let written = String::from_utf8_lossy(&done.stdout).trim().parse::<u32>();
        let written = written.unwrap_or_else(|_| panic!("writer {seed} ended: {complaint}"));
        let pieces = (0..written).map(|piece| {
            let byte = (u32::from(seed) + piece) % 251;
            vec![u8::try_from(byte).expect("it is below 251"); 100_000]
        });
        let expected: Vec<u8> = pieces.flatten().collect();
        let there = fs::read(server.folder().join(seed.to_string())).expect("it is there");
        assert!(there == expected, "{seed} on the server");
        let here = fs::read(mounted.path(&seed.to_string())).expect("it is there");
        assert!(here == expected, "{seed} on the mount");
    }
}

#[test]
fn a_mount_can_be_watched() {
    let server = Server::start();
    let mounted = new_mount(&server, "");
    let mut file = File::create(mounted.path("file")).expect("there is room");
    file.write_all(b"content").and_then(|()| file.sync_all()).expect("there is room");
    let mut top = Command::new(built());
    top.args(["top", "--json", "--count", "2", "--interval", "0.1", "--mount"]);
    let lines = output(top.arg(mounted.folder()));
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|told| told["calls_per_s"].is_number()), "{lines:?}");
    assert!(lines.iter().all(|told| told["unsaved_bytes"] == 0 && told["cached_bytes"] == 7));
    let mut status = Command::new(built());
    let page = output(status.args(["status", "--mount"]).arg(mounted.folder()));
    assert!(page.contains("7 bytes cached, 0 of them not yet stable"), "{page}");
}

#[test]
fn a_process_that_waits_for_a_dead_server_can_be_killed() {
    let mut server = Server::start();
    let mounted = new_mount(&server, "cache=close-to-open,actimeo=0");
    fs::write(mounted.path("file"), "content").expect("there is room");
    server.pause();
    let mut waiting = Command::new("stat").arg(mounted.path("file")).spawn().expect("it is there");
    let waits = || mounted.status()["waiting"].as_array().is_some_and(|list| !list.is_empty());
    until("it waits", waits);
    waiting.kill().expect("it is our child");
    let start = Instant::now();
    while waiting.try_wait().expect("it is our child").is_none() {
        assert!(start.elapsed() < LIMIT, "it cannot be killed");
        sleep(Duration::from_millis(5));
    }
    server.restart();
    assert_eq!(fs::read(mounted.path("file")).expect("the server is back"), b"content");
}

#[test]
fn the_next_mount_removes_silly_names_of_a_killed_mount() {
    let server = Server::start();
    let mounted = new_mount(&server, "");
    let mut open = File::create(mounted.path("file")).expect("there is room");
    open.write_all(b"content").expect("there is room");
    fs::remove_file(mounted.path("file")).expect("it is there");
    let names = || fs::read_dir(server.folder()).expect("it is there").count();
    assert_eq!(names(), 1, "the data of an open file has a name");
    let other = new_mount(&server, "");
    assert_eq!(names(), 1, "who has it lives");
    drop(other);
    let pid = mounted.status()["pid"].to_string();
    output(Command::new("kill").args(["-KILL", &pid]));
    drop(mounted);
    until("its process ends", || !Path::new("/proc").join(&pid).exists());
    assert_eq!(names(), 1, "nobody removed it");
    let _next = new_mount(&server, "");
    assert_eq!(names(), 0);
    drop(open);
}

#[test]
fn a_mount_ends_in_each_way() {
    let server = Server::start();
    let mounted = new_mount(&server, "");
    let mut busy = File::create(mounted.path("file")).expect("there is room");
    busy.write_all(b"pushed by the end alone").expect("there is room");
    assert!(!mounted.umount().success(), "it is busy");
    drop(busy);
    fs::write(mounted.path("last"), "so is this").expect("there is room");
    let serves = |pid: &str| Path::new("/proc").join(pid).exists();
    let pid = mounted.status()["pid"].to_string();
    until("it is idle", || mounted.umount().success());
    let there = |name: &str| fs::read(server.folder().join(name)).expect("it is there");
    assert_eq!(there("file"), b"pushed by the end alone");
    assert_eq!(there("last"), b"so is this");
    assert!(!is_mounted(mounted.folder()));
    until("its process ends", || !serves(&pid));

    let mounted = new_mount(&server, "");
    let pid = mounted.status()["pid"].to_string();
    output(Command::new("umount").arg(mounted.folder()));
    until("its process ends", || !serves(&pid));

    let mounted = new_mount(&server, "");
    let pid = mounted.status()["pid"].to_string();
    let mut busy = File::create(mounted.path("file")).expect("there is room");
    busy.write_all(b"written before the end").expect("there is room");
    output(Command::new("kill").arg(&pid));
    until("its process ends", || !serves(&pid));
    assert!(!is_mounted(mounted.folder()));
    assert_eq!(there("file"), b"written before the end");
}

/// A bug: a failure after a close, and before any other report, was never reported.
#[test]
fn the_end_of_a_mount_reports_earlier_failures() {
    let server = Server::start_with_room(1 << 20);
    fs::write(server.folder().join("filler"), vec![7; 2 << 20]).expect_err("there is no room");
    // If the machine is stopped before the close, the close reports the failure.
    until("the end tells it", || {
        let mounted = new_mount(&server, "cache=buffer,writedelay=1");
        let mut file = File::create(mounted.path("file")).expect("a name needs no room");
        file.write_all(&[7; 4096]).expect("nobody has asked the server");
        drop(file);
        until("it is refused", || {
            let told = mounted.status();
            told["unsaved_bytes"] == 0 && told["refused_bytes"] == 4096
        });
        let said = what_umount_says(&mounted);
        assert!(said.is_empty() || said.contains("the server rejected written data"), "{said}");
        !said.is_empty()
    });

    // A failure that a program has received is not reported again.
    let mounted = new_mount(&server, "cache=buffer,writedelay=1000");
    let mut file = File::create(mounted.path("file")).expect("a name needs no room");
    file.write_all(&[7; 4096]).expect("nobody has asked the server");
    let error = file.sync_all().expect_err("there is no room");
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    drop(file);
    assert_eq!(what_umount_says(&mounted), "");
}

/// Ends a mount when it is idle, and returns the error output.
fn what_umount_says(mounted: &Mounted) -> String {
    let start = Instant::now();
    loop {
        let mut umount = Command::new(built());
        let done = umount.arg("umount").arg(mounted.folder()).output().expect("it was built");
        if !is_mounted(mounted.folder()) {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.success(), said.is_empty(), "{said}");
            return said;
        }
        assert!(start.elapsed() < LIMIT, "it is busy for ever");
    }
}

/// A bug: the mount never ended, because it waited to notify the server.
#[test]
fn a_mount_ends_while_its_server_is_down() {
    let mut server = Server::start();
    let mounted = new_mount(&server, "");
    fs::read_dir(mounted.folder()).expect("it is there").count();
    server.pause();
    until("it is idle", || mounted.umount().success());
    assert_eq!(status(mounted.folder()), None, "its process has ended");
    server.restart();
}

#[test]
fn a_mount_is_watched_over_an_earlier_mount_in_use() {
    let server = Server::start();
    let before = new_mount(&server, "");
    let pid = before.status()["pid"].clone();
    let mut used = File::create(before.path("file")).expect("there is room");
    output(Command::new(built()).args(["umount", "--lazy"]).arg(before.folder()));
    let again = mount(&source(&server), before.folder(), "");
    assert!(again.status.success());
    let new = before.status()["pid"].clone();
    assert_ne!(new, pid, "the mount that is there is asked");
    used.write_all(b"content").expect("the one that was there is still good");
    drop(used);
    let process = Path::new("/proc").join(pid.to_string());
    until("its process ends", || !process.exists());
    assert_eq!(before.status()["pid"], new, "it does not end the other's");
}

#[test]
fn mount_failures_are_reported() {
    let server = Server::start();
    let folder = Scratch::new("mount");
    let export = source(&server);
    let no_export = format!("127.0.0.1:{}:/none", server.port());
    std::os::unix::fs::symlink("elsewhere", server.folder().join("link")).expect("there is room");
    let (link, below) = (format!("{export}/link"), format!("{export}/link/below"));
    let on_itself = format!("rescue={}/kept", folder.path().display());
    for (source, folder, options, text) in [
        (&export, folder.path(), "vers=4", "vers is 3 or 2"),
        (&export, &folder.path().join("none"), "", "No such file or directory"),
        (&no_export, folder.path(), "", "/none"),
        (&link, folder.path(), "", "link is a symbolic link that leads to elsewhere"),
        (&below, folder.path(), "", "link is a symbolic link that leads to elsewhere"),
        (&export, folder.path(), on_itself.as_str(), "lies on the mount itself"),
        (&"127.0.0.1:1:/a".to_owned(), folder.path(), "", "127.0.0.1:1"),
        (&"a".to_owned(), folder.path(), "", "cannot resolve the server's name"),
    ] {
        let done = mount(source, folder, options);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(text), "{said}");
        assert!(!is_mounted(folder));
    }
}

#[test]
fn mount_accepts_the_type() {
    let (server, folder, sbin) = (Server::start(), Scratch::new("mount"), Scratch::new("sbin"));
    std::os::unix::fs::symlink(built(), sbin.path().join("mount.leasehold"))
        .expect("there is room");
    let (sbin, folder) = (sbin.path().display(), folder.path().display());
    let case = format!(
        "mount -t overlay overlay -o lowerdir={sbin}:/usr/sbin /usr/sbin
         mount -t leasehold -o ro,_netdev {} {folder}
         grep ' fuse.leasehold ro' /proc/self/mounts
         ! touch {folder}/file
         umount {folder}",
        source(&server)
    );
    output(Command::new("unshare").args(["--mount", "sh", "-e", "-c", &case]));
}

#[test]
fn an_ordinary_user_mounts() {
    let server = Server::start_by_ordinary_user();
    let folder = Scratch::new("mount");
    std::os::unix::fs::chown(folder.path(), Some(1000), Some(1000)).expect("root may");
    let program = Scratch::new("program");
    copy_built(program.path());
    let (program, folder) = (program.path().display(), folder.path().display());
    let case = format!(
        "{program}/leasehold mount {} {folder}
         grep ' {folder} fuse.leasehold .*user_id=1000' /proc/self/mounts
         echo content > {folder}/file
         test \"$(cat {folder}/file)\" = content
         until {program}/leasehold umount {folder}; do :; done",
        source(&server)
    );
    let script = Scratch::new("script");
    let script = script.path().join("case");
    fs::write(&script, case).expect("our own folder can be written to");
    let user = "setpriv --reuid=1000 --regid=1000 --clear-groups --reset-env";
    // All users may use the device, as on every system with FUSE; this namespace restricts it. And
    // the user needs a name for fusermount3, which some machines lack.
    let case = format!(
        "mount -t tmpfs none /mnt
         mknod -m 666 /mnt/fuse c 10 229
         mount --bind /mnt/fuse /dev/fuse
         echo user:x:1000:1000::/:/bin/sh > /mnt/passwd
         mount --bind /mnt/passwd /etc/passwd
         {user} sh -e {}",
        script.display()
    );
    output(Command::new("timeout").arg("60").args(["unshare", "--mount", "sh", "-e", "-c", &case]));
    assert_eq!(fs::read(server.folder().join("file")).expect("it is there"), b"content\n");
}
