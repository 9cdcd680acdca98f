//! Several mounts with leases on the same files.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, Instant};

use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::posix::{CROSSED, QUICK, run, run_crossed};
use leasehold_system_tests::sharing::{self, Sharing};
use leasehold_system_tests::{Guest, Link, Scratch, Server, Version, built, output};

/// Longer than any operation takes on a loaded machine; afterwards mounts are aborted.
const LIMIT: Duration = Duration::from_mins(5);

#[test]
fn three_mounts_observe_one_order() {
    let sharing = Sharing { mounts: 3, operations: 300, seed: 1, ..Sharing::default() };
    sharing::run(sharing, LIMIT).expect("there is one");
}

#[test]
fn mounts_observe_one_order_while_the_server_is_killed() {
    let sharing = Sharing { mounts: 3, operations: 200, kills: 2, seed: 10, ..Sharing::default() };
    sharing::run(sharing, LIMIT).expect("there is one");
}

#[test]
fn mounts_and_the_kernels_client_observe_one_order() {
    let sharing = Sharing {
        mounts: 3,
        kernel: true,
        operations: 300,
        kills: 2,
        seed: 20,
        ..Sharing::default()
    };
    sharing::run(sharing, LIMIT).expect("there is one");
}

#[test]
fn mounts_observe_one_order_when_one_is_stopped_past_its_term() {
    let sharing = Sharing {
        mounts: 3,
        kernel: true,
        operations: 200,
        kills: 1,
        stops: 2,
        seed: 30,
        ..Sharing::default()
    };
    sharing::run(sharing, LIMIT).expect("there is one");
}

#[test]
fn mounts_of_different_metaservers_observe_one_order() {
    let sharing =
        Sharing { mounts: 3, metaservers: 3, operations: 100, seed: 40, ..Sharing::default() };
    sharing::run(sharing, LIMIT).expect("there is one");
}

/// The server recalls the mount's lease, because the kernel's client has no leases.
#[test]
fn the_kernels_client_reads_unflushed_data_of_a_mount() {
    let server = Server::start();
    let mounted = Mounted::new(&server, "cache=lease,writedelay=1000", LIMIT);
    let case = include_str!("../cases/dirty.sh");
    let link = Arc::new(Link::new());
    let guest = Guest::boot(&link, &server.mount(Version::V3), case, LIMIT);
    let ended = guest.wait(|request| {
        assert_eq!(request, "make it dirty");
        fs::write(mounted.path("file"), "written late").expect("there is room");
        let there = fs::metadata(server.folder().join("file")).expect("it is made");
        assert_eq!(there.len(), 0, "the mount has the data, and the server has none");
    });
    ended.expect_success();
    let read = |name: &str| fs::read_to_string(mounted.path(name)).expect("it is there");
    assert_eq!(read("file"), "by the kernel\n");
    show(&read("measured"));
}

/// Prints measurements.
#[allow(clippy::print_stdout, reason = "figures are for whoever looks at the test")]
fn show(text: &str) {
    print!("{text}");
}

/// Reads once, and again for each input line, through one descriptor.
const READER: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
while True:
    print(os.pread(fd, 3, 0).decode(), flush=True)
    if not sys.stdin.readline():
        break
";

#[test]
fn a_mount_stopped_past_its_term_shows_no_stale_data() {
    let server = Server::start();
    let mounts = [0, 1].map(|_| Mounted::new(&server, "cache=lease", LIMIT));
    fs::write(mounts[1].path("file"), "old").expect("there is room");
    let mut python = Command::new("python3");
    python.args(["-c", READER]).arg(mounts[0].path("file"));
    let mut reader =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
    let lines = BufReader::new(reader.stdout.take().expect("it is a pipe")).lines();
    let (sender, told) = channel();
    spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    assert_eq!(told.recv_timeout(LIMIT).as_deref(), Ok("old"));
    let pid = mounts[0].status()["pid"].to_string();
    output(Command::new("kill").args(["-STOP", &pid]));
    // Other mounts wait at most for the term of its lease.
    fs::write(mounts[1].path("file"), "new").expect("there is room");
    File::open(mounts[1].path("file")).and_then(|file| file.sync_all()).expect("there is room");
    let mut orders = reader.stdin.take().expect("it is a pipe");
    writeln!(orders).expect("it listens");
    let blocked = told.recv_timeout(Duration::from_secs(2));
    assert!(blocked.is_err() || blocked.as_deref() == Ok("new"), "{blocked:?}");
    output(Command::new("kill").args(["-CONT", &pid]));
    if blocked.is_err() {
        assert_eq!(told.recv_timeout(LIMIT).as_deref(), Ok("new"));
    }
    drop(orders);
    reader.wait().expect("it is our child");
}

/// Writes, and prints for each input line if the data is stable.
const WRITER: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(fd, b'late')
print('written', flush=True)
while sys.stdin.readline():
    try:
        os.fsync(fd)
        print('safe', flush=True)
    except OSError:
        print('refused', flush=True)
";

/// Runs our program, and returns its output.
fn said(words: &[&str], directory: (&str, &Path)) -> String {
    output(Command::new(built()).args(words).arg(directory.0).arg(directory.1))
}

#[test]
fn late_data_is_kept_and_can_be_written_later() {
    let (server, kept) = (Server::start(), Scratch::new("rescue"));
    let options = format!("cache=lease,writedelay=1000,rescue={}", kept.path().display());
    let late = Mounted::new(&server, &options, LIMIT);
    let other = Mounted::new(&server, "cache=lease", LIMIT);
    let mut python = Command::new("python3");
    python.args(["-c", WRITER]).arg(late.path("file"));
    let mut writer =
        python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is there");
    let mut lines = BufReader::new(writer.stdout.take().expect("it is a pipe")).lines();
    let mut told = || lines.next().expect("it goes on").expect("it is text");
    assert_eq!(told(), "written");
    let pid = late.status()["pid"].to_string();
    output(Command::new("kill").args(["-STOP", &pid]));
    let path = other.path("file");
    let newer = spawn(move || fs::write(path, "newer"));
    let state = ("--state", server.state());
    let leases = || -> serde_json::Value {
        serde_json::from_str(&said(&["leases", "--json"], state)).expect("it is JSON")
    };
    let start = Instant::now();
    let silent = loop {
        assert!(start.elapsed() < LIMIT && !newer.is_finished(), "nobody waits for it");
        let told = leases();
        let waited = |lease: &&serde_json::Value| lease["waiting"].as_u64() > Some(0);
        if let Some(lease) = told["leases"].as_array().expect("there are").iter().find(waited) {
            break lease["client"].as_str().expect("it has an id").to_owned();
        }
    };
    said(&["forget", &silent], state);
    newer.join().expect("it writes").expect("there is room");
    output(Command::new("kill").args(["-CONT", &pid]));
    let mut orders = writer.stdin.take().expect("it is a pipe");
    writeln!(orders).expect("it listens");
    assert_eq!(told(), "refused");
    assert_eq!(fs::read(other.path("file")).expect("it is there"), b"newer");

    let directory = ("--directory", kept.path());
    let list = said(&["rescue", "list"], directory);
    let (id, is) = list.trim().split_once("  ").expect("there is one");
    assert_eq!(is, format!("4 bytes of {}", late.path("file").display()));
    let page = said(&["rescue", "show", id], directory);
    assert!(page.contains("4 bytes at 0: different"), "{page}");
    said(&["rescue", "apply", id], directory);
    assert_eq!(fs::read(other.path("file")).expect("it is there"), b"later");
    assert_eq!(said(&["rescue", "list"], directory), "");
    drop(orders);
    writer.wait().expect("it is our child");
}

#[test]
fn fsx_passes_on_two_mounts_at_once() {
    let trial = *QUICK.iter().find(|trial| trial.name == "fsx").expect("there is such a trial");
    let server = Server::start_with(&["--durability", "memory"]);
    let trials: Vec<_> = ["one", "other"]
        .map(|name| {
            let mounted = Mounted::new(&server, "cache=lease", LIMIT);
            let scratch = Scratch::new("scratch");
            fs::create_dir(mounted.path(name)).expect("there is room");
            spawn(move || run(trial, &mounted.path(name), scratch.path(), LIMIT.as_secs()))
        })
        .into();
    for trial in trials {
        let (passed, told) = trial.join().expect("it runs");
        assert!(passed, "{told}");
    }
}

/// Each call uses one of two mounts: the effect of a call on one is visible on both.
#[test]
fn pjdfstest_passes_where_each_call_goes_to_one_of_two_mounts() {
    let trial = CROSSED.iter().find(|trial| trial.name == "pjdfstest");
    let server = Server::start_with(&["--durability", "memory"]);
    let mounts = [0, 1].map(|_| Mounted::new(&server, "cache=lease", LIMIT));
    let [one, other] = mounts.each_ref().map(Mounted::folder);
    let (trial, scratch) = (*trial.expect("there is such a trial"), Scratch::new("scratch"));
    let (passed, told) = run_crossed(trial, [one, other], scratch.path(), LIMIT.as_secs());
    assert!(passed, "{told}");
}

/// A bug: the client told the kernel to drop pages during a GETATTR, each time that the pages were
/// found outdated. The kernel then ignores the attributes, so a reader with an open file stopped at
/// its old end.
#[test]
fn an_open_reader_reads_to_the_new_end() {
    const ROUNDS: u64 = 40;
    let server = Server::start();
    let [reads, writes] = [0, 1].map(|_| Mounted::new(&server, "cache=lease", LIMIT));
    fs::write(writes.path("file"), [0; 1000]).expect("there is room");
    let file = File::open(reads.path("file")).expect("it is there");
    let (mut room, mut wrong) = ([0; 5000], Vec::new());
    let read = |at: u64, room: &mut [u8]| file.read_at(room, at).expect("it is open");
    assert_eq!(read(0, &mut room), 1000);
    let mut size = 1000;
    for round in 0..ROUNDS {
        let new = if round % 2 == 0 { size + 3000 } else { size - 500 };
        let writer = File::options().write(true).open(writes.path("file"));
        writer.and_then(|file| file.set_len(new)).expect("there is room");
        let from = new.min(size) - 100;
        let found = read(from, &mut room);
        if u64::try_from(found).ok() != Some(new - from) {
            wrong.push((round, found));
        }
        size = new;
    }
    // A busy machine may deliver the invalidation late.
    assert!(wrong.len() < 10, "{wrong:?}");
}
