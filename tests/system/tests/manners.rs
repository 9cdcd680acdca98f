//! The built client with minimal servers, over bad links and several connections; and the examples.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_fuse::Errno;
use leasehold_system_tests::mounted::{Mounted, is_mounted};
use leasehold_system_tests::{Rig, Scratch, Server, built, built_examples, output};

/// Longer than any operation takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// The time limit of a test of a mount.
const TEST_LIMIT: Duration = Duration::from_mins(5);

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

/// Performs file operations of programs; `other` is another mount of the same server, without a
/// cache.
fn use_files(mounted: &Mounted, other: &Mounted, length: usize) {
    let (path, bytes) = (mounted.path("file"), content(length, 1));
    let new = || OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = new().expect("it is new");
    assert_eq!(new().expect_err("it is there").kind(), ErrorKind::AlreadyExists);
    file.write_all(&bytes).and_then(|()| file.sync_all()).expect("there is room");
    drop(file);
    assert!(fs::read(&path).expect("it is there") == bytes, "what was written is read");
    assert!(fs::read(other.path("file")).expect("it is there") == bytes, "the server has it");
    fs::create_dir(mounted.path("directory")).expect("there is room");
    fs::rename(&path, mounted.path("directory/moved")).expect("it is there");
    assert_eq!(fs::metadata(&path).expect_err("it was moved").kind(), ErrorKind::NotFound);
    let names = |folder: &Path| -> Vec<_> {
        let entries = fs::read_dir(folder).expect("it is there");
        entries.map(|entry| entry.expect("it can be read").file_name()).collect()
    };
    assert_eq!(names(mounted.folder()), ["directory"]);
    assert_eq!(names(&mounted.path("directory")), ["moved"]);
    let open = File::open(mounted.path("directory/moved")).expect("it is there");
    fs::remove_file(mounted.path("directory/moved")).expect("it is there");
    let mut there = vec![0; bytes.len()];
    open.read_exact_at(&mut there, 0).expect("it is open");
    assert!(there == bytes, "what is open is still there");
    drop(open);
    until("what was removed is gone", || fs::remove_dir(mounted.path("directory")).is_ok());
    assert!(names(other.folder()).is_empty());
}

#[test]
fn a_mount_works_with_each_minimal_server() {
    // One byte for each WRITE.
    let stingy = Rig::serve(&["--stingy"]);
    for options in ["", "cache=close-to-open", "cache=none"] {
        let mounted = Mounted::of(&stingy.source(), options, TEST_LIMIT);
        let other = Mounted::of(&stingy.source(), "cache=none", TEST_LIMIT);
        use_files(&mounted, &other, 3000);
    }
    let old = Rig::serve(&["--version-2-only"]);
    for options in ["", "cache=none", "proto=udp"] {
        let mounted = Mounted::of(&old.source(), options, TEST_LIMIT);
        let other = Mounted::of(&old.source(), "cache=none", TEST_LIMIT);
        use_files(&mounted, &other, 300_000);
        assert_eq!(mounted.status()["version"], 2);
    }
    let full = Rig::serve(&[]);
    let several = Mounted::of(&full.source(), "nconnect=3", TEST_LIMIT);
    let other = Mounted::of(&full.source(), "cache=none", TEST_LIMIT);
    use_files(&several, &other, 5_000_000);
    // The client opens another connection when all others are busy.
    let bytes = content(20_000_000, 2);
    until("each connection is used", || {
        let file = File::create(several.path("much")).expect("there is room");
        file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).expect("there is room");
        several.status()["connections"] == 3
    });
    assert!(fs::read(other.path("much")).expect("it is there") == bytes);
    assert_eq!(several.status()["version"], 3);
}

#[test]
fn a_mount_tolerates_lost_and_duplicate_datagrams() {
    let server = Rig::serve(&[]);
    let cable = Rig::cable(server.address(), &["--lost", "20", "--doubled", "100"]);
    let other = Mounted::of(&server.source(), "cache=none", TEST_LIMIT);
    for options in ["proto=udp", "proto=udp,cache=none"] {
        let mounted = Mounted::of(&cable.source(), options, TEST_LIMIT);
        use_files(&mounted, &other, 1_000_000);
        let sent_again = || mounted.status()["calls"]["sent_again"].as_u64();
        until("something was lost", || {
            fs::write(mounted.path("one"), "more").expect("it comes in the end");
            sent_again() > Some(0)
        });
        fs::remove_file(mounted.path("one")).expect("it is there");
    }
}

#[test]
fn a_soft_mount_gives_up() {
    // A sync of a disk under other load may take longer than the timeouts.
    let mut server = Server::start_with(&["--durability", "memory"]);
    // Longer than most replies take on a loaded machine.
    for options in ["cache=none,soft=3", "cache=none,soft,timeo=10,retrans=2"] {
        let mounted = Mounted::new(&server, options, TEST_LIMIT);
        until("it is written", || fs::write(mounted.path("file"), "content").is_ok());
        server.pause();
        let error = fs::metadata(mounted.path("file")).expect_err("nobody answers");
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{options}");
        server.restart();
        until("the server is back", || {
            fs::read(mounted.path("file")).is_ok_and(|read| read == b"content")
        });
    }
}

/// A line of fstab for the kernel's client with only the type changed.
#[test]
fn a_mount_accepts_the_options_of_the_kernels_client() {
    let server = Server::start();
    let (folder, port) = (Scratch::new("mount"), server.port());
    let line = format!(
        "vers=3,proto=tcp,port={port},mountport={port},mountproto=tcp,nolock,hard,timeo=600,\
         retrans=2,sec=sys,sync"
    );
    let source = format!("127.0.0.1:{}", server.export());
    let mut command = Command::new(built());
    let done = command.arg("mount").arg(source).arg(folder.path()).args(["-o", &line]).output();
    let done = done.expect("it was built");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && said.contains("the option mountproto=tcp has no effect"),
        "{said}"
    );
    assert!(is_mounted(folder.path()));
    // With `sync`, written data is stable when the write returns.
    let mut file = File::create(folder.path().join("file")).expect("there is room");
    file.write_all(b"content").expect("there is room");
    assert_eq!(fs::read(server.folder().join("file")).expect("it is there"), b"content");
    drop(file);
    output(Command::new(built()).arg("umount").arg(folder.path()));
}

/// The kernel requests attributes together with the beginning of each listing.
#[test]
fn a_listing_returns_the_requested_attributes() {
    const STAT: &str =
        "import os, sys; print(sum(e.stat().st_size for e in os.scandir(sys.argv[1])))";
    let server = Server::start();
    fs::create_dir(server.folder().join("files")).expect("there is room");
    for number in 0..300 {
        let path = server.folder().join(format!("files/{number}"));
        fs::write(path, "content").expect("there is room");
    }
    for options in ["", "cache=close-to-open"] {
        let mounted = Mounted::new(&server, options, TEST_LIMIT);
        let calls = || mounted.status()["calls"]["begun"].as_u64().expect("a number");
        let before = calls();
        let sum = output(Command::new("python3").args(["-c", STAT]).arg(mounted.path("files")));
        assert_eq!(sum.trim(), "2100");
        let asked = calls() - before;
        assert!(asked < 30, "{options}: {asked} calls for 300 files");
    }
}

/// FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn the_examples_work() {
    let server = Server::start();
    let (port, export) = (server.port().to_string(), server.export());
    let example = |name: &str| {
        let mut command = Command::new(built_examples().join(name));
        command.args(["127.0.0.1", &port, export]);
        command
    };
    fs::create_dir(server.folder().join("files")).expect("there is room");
    let contents = [("files/large", content(3_000_001, 1)), ("files/empty", Vec::new())];
    for (name, bytes) in &contents {
        let mut save = example("save");
        save.arg(name).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut save = save.spawn().expect("it was built");
        save.stdin.take().expect("it is a pipe").write_all(bytes).expect("it reads all");
        let done = save.wait_with_output().expect("it is our child");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{said}");
        assert!(said.starts_with(&format!("{} bytes are saved", bytes.len())), "{said}");
        assert!(fs::read(server.folder().join(name)).expect("it is there") == *bytes);
    }
    let sums = output(example("sums").arg("files"));
    let tree = output(&mut example("tree"));
    for (name, bytes) in &contents {
        let line = format!("{:016x} {name}", sum(bytes));
        let twice = sums.lines().filter(|said| said.replacen(" /", " ", 1).ends_with(&line));
        assert_eq!(twice.count(), 2, "{line}: {sums}");
        let line = format!("{:>12} ", bytes.len());
        let is_listed = |said: &str| said.starts_with(&line) && said.ends_with(name);
        assert!(tree.lines().any(is_listed), "{name}: {tree}");
    }
    assert_eq!(tree.lines().count(), 3, "two files and their directory: {tree}");
}

#[test]
fn a_copy_shows_its_progress_only_on_a_terminal() {
    let server = Rig::serve(&[]);
    let cable = Rig::cable(server.address(), &["--round-trip", "400"]);
    let folder = Scratch::new("copy");
    let from = folder.path().join("from");
    fs::write(&from, content(64_000_000, 1)).expect("there is room");
    let copy = |quiet: &str, to: &str| {
        let (program, from) = (built(), from.display());
        let to = format!("nfs://{}/data/{to}", cable.address());
        let copy = format!("{} cp {quiet} {from} {to}", program.display());
        let mut script = Command::new("timeout");
        script.args(["120", "script", "-qec", &copy, "/dev/null"]).stdin(Stdio::null());
        output(&mut script)
    };
    let shown = copy("", "shown");
    let amounts = shown.split("files, ").skip(1).filter_map(|rest| {
        rest.split(" MiB,").next().and_then(|amount| amount.parse::<f64>().ok())
    });
    let amounts: Vec<f64> = amounts.collect();
    assert!(amounts.len() >= 2, "{shown:?}");
    assert!(amounts.is_sorted() && amounts[0] < amounts[amounts.len() - 1], "{amounts:?}");
    assert_eq!(copy("--quiet", "quiet").trim(), "");
}
