//! Calls that clients retransmit after a restart of the server.

use std::fs::{self, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_fs::{Export, ExportId, Verifier};
use leasehold_serve::{Deaf, HandleKey, Service};
use leasehold_shell::{Changes, Options, Policy, Pool, ReplyJournal, Running, Server};
use leasehold_store_dir::{DirStore, Durability, Extent, HandleSource, Syncer};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::support::{
    Home, Serving, TIMEOUT, address, answered_to, call_of_user, opaque, over, over_stream,
    read_reply, root, send, success,
};

const MKDIR: u32 = 9;
const REMOVE: u32 = 12;
const RMDIR: u32 = 13;

/// The file with the recorded replies.
const REPLIES: &str = "state/replies";

/// Returns a call of this user about a name in the directory of a handle.
fn call(xid: u32, procedure: u32, directory: &[u8], name: &str) -> Vec<u8> {
    let mut arguments = [opaque(directory), opaque(name.as_bytes())].concat();
    if procedure == MKDIR {
        // No attributes are set.
        arguments.extend([0; 4 * 6]);
    }
    call_of_user(xid, procedure, &arguments)
}

/// Returns true if a reply reports success, and false if the call found its own earlier effect.
fn done(reply: &[u8]) -> bool {
    assert!(reply[4..].starts_with(&success()[4..]), "{reply:?}");
    match u32::from_be_bytes(reply[24..28].try_into().unwrap()) {
        0 => true,
        2 | 17 => false,
        other => panic!("status {other}"),
    }
}

fn start(home: &Home) -> (Serving, SocketAddr) {
    let (serving, ready) = Serving::with_json(home, &[]);
    let address = address(&ready);
    (serving, address)
}

#[test]
fn completed_call_receives_its_reply_after_a_restart() {
    let home = Home::new();
    for (signal, durability) in
        [(Signal::KILL, "disk"), (Signal::TERM, "disk"), (Signal::KILL, "memory")]
    {
        let serve = || {
            let (serving, ready) = Serving::with_json(&home, &["--durability", durability]);
            let address = address(&ready);
            (serving, address)
        };
        let (mut serving, address) = serve();
        let root = root(address);
        let calls = [(1, MKDIR, "folder"), (2, RMDIR, "folder"), (3, REMOVE, "none")];
        let calls = calls.map(|(xid, procedure, name)| call(xid, procedure, &root, name));
        let first = calls.each_ref().map(|call| over_stream(address, call));
        assert_eq!(first.each_ref().map(|reply| done(reply)), [true, true, false]);
        // The server is killed twice: replies that were loaded are loaded again.
        for _ in 0..2 {
            serving.end(signal);
            let address;
            (serving, address) = serve();
            let again = calls.each_ref().map(|call| over_stream(address, call));
            assert_eq!(again, first, "{signal:?} {durability}");
            // Another call is not a retransmission.
            assert!(!done(&over_stream(address, &call(9, RMDIR, &root, "folder"))));
        }
        serving.end(Signal::KILL);
        fs::remove_file(home.path(REPLIES)).unwrap();
    }
}

#[test]
fn completed_datagram_call_receives_its_reply_after_a_restart() {
    let home = Home::new();
    // A server that runs as root maps a datagram from an unprivileged port to the anonymous user.
    fs::set_permissions(home.path("data"), Permissions::from_mode(0o777)).unwrap();
    let (mut serving, address) = start(&home);
    let mkdir = call(1, MKDIR, &root(address), "folder");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let first = answered_to(&socket, address, &mkdir);
    assert!(done(&first));
    serving.end(Signal::KILL);
    let (_serving, address) = start(&home);
    assert_eq!(answered_to(&socket, address, &mkdir), first);
}

#[test]
fn damaged_file_loses_only_its_contents() {
    let home = Home::new();
    let (mut serving, mut address) = start(&home);
    let root = root(address);
    let cut = |length: u64| {
        let file = OpenOptions::new().write(true).open(home.path(REPLIES)).unwrap();
        let whole = file.metadata().unwrap().len();
        file.set_len(length.min(whole)).unwrap();
        file.set_len(whole).unwrap();
    };
    let damages: [&dyn Fn(); 5] = [
        &|| fs::remove_file(home.path(REPLIES)).unwrap(),
        &|| fs::write(home.path(REPLIES), "").unwrap(),
        &|| fs::write(home.path(REPLIES), [0xa5; 100_000]).unwrap(),
        &|| cut(0),
        // In the middle of the only record, wherever it lies.
        &|| {
            let bytes = fs::read(home.path(REPLIES)).unwrap();
            let at = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            cut(u64::try_from(at - 100).unwrap());
        },
    ];
    for (xid, damage) in (1..).zip(damages) {
        let mkdir = call(xid, MKDIR, &root, &format!("folder{xid}"));
        assert!(done(&over_stream(address, &mkdir)));
        serving.end(Signal::KILL);
        damage();
        (serving, address) = start(&home);
        assert!(!done(&over_stream(address, &mkdir)), "damage {xid}: it runs again");
        // From now on the server records replies.
        serving.end(Signal::KILL);
        (serving, address) = start(&home);
        let remove = call(100 + xid, RMDIR, &root, &format!("folder{xid}"));
        let first = over_stream(address, &remove);
        serving.end(Signal::KILL);
        (serving, address) = start(&home);
        assert_eq!(over_stream(address, &remove), first);
        assert!(done(&first));
        serving.end(Signal::KILL);
        fs::remove_file(home.path(REPLIES)).unwrap();
        (serving, address) = start(&home);
    }
}

#[test]
fn damaged_file_is_reported() {
    let home = Home::new();
    let log_of_start = || {
        let log = fs::File::create(home.path("log")).unwrap();
        let mut serving = Serving::logging(home.command(&["--json"]), log.into());
        serving.line();
        serving.end(Signal::TERM);
        fs::read_to_string(home.path("log")).unwrap()
    };
    let says = "some notes of replies in ";
    assert!(!log_of_start().contains(says), "a new file is none");
    fs::write(home.path(REPLIES), [0xa5; 2000]).unwrap();
    let log = log_of_start();
    let line = log.lines().find(|line| line.contains(says)).unwrap();
    assert!(line.contains("WARN") && line.contains(&home.path(REPLIES)), "{line}");
    assert!(line.ends_with("damaged=4"), "{line}");
    // A directory in place of the file is reported too, and the server serves.
    fs::remove_file(home.path(REPLIES)).unwrap();
    fs::create_dir(home.path(REPLIES)).unwrap();
    assert!(log_of_start().contains("cannot open the notes of replies"));
}

#[test]
fn call_succeeds_when_its_reply_cannot_be_recorded() {
    let home = Home::new();
    start(&home).0.end(Signal::TERM);
    // No file may grow, as on a full disk.
    let usual = home.command(&["--json"]);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""]);
    command.arg(usual.get_program()).args(usual.get_args());
    let mut serving = Serving::start(command);
    let address = address(&serde_json::from_str(&serving.line()).unwrap());
    let mkdir = call(1, MKDIR, &root(address), "folder");
    assert!(done(&over_stream(address, &mkdir)));
    serving.end(Signal::KILL);
    let (_serving, address) = start(&home);
    assert!(!done(&over_stream(address, &mkdir)));
}

/// A disk whose syncs block until the other end of the channel is dropped, and then fail or
/// succeed.
struct Held {
    until: Mutex<mpsc::Receiver<()>>,
    fails: bool,
}

impl Syncer for Held {
    fn sync(&self, _: BorrowedFd<'_>, _: Extent) -> Result<(), Errno> {
        let until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = until.recv();
        if self.fails { Err(Errno::IO) } else { Ok(()) }
    }

    fn begin(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
        Ok(())
    }
}

/// Starts a server in this process with the recorded replies of a directory.
fn in_process(home: &Home, state: &str, disk: Held) -> (Running, SocketAddr, usize) {
    let options = leasehold_store_dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier: Verifier([1; 8]),
        durability: Durability::Disk,
        descriptors_max: 1024,
        handles: HandleSource::Probe,
    };
    let path = home.path("data");
    let store = DirStore::with_syncer(path.as_ref(), options, Box::new(disk)).unwrap();
    store.hand_over_waits();
    let (name, store) = ("/".to_owned(), Arc::new(store));
    let syncs = Arc::clone(&store);
    let export = Export { id: ExportId(1), name, path, read_only: false, store };
    let now = leasehold_shell::clock::now();
    let sync = || syncs.sync_earlier_changes().is_ok();
    let opened = ReplyJournal::open(home.path(state).as_ref(), Changes::Stable, now, sync);
    let (reply_journal, noted) = opened.unwrap();
    let reply_journal: Arc<dyn leasehold_serve::ReplyJournal> = Arc::new(reply_journal);
    let service = Service::new(vec![export], HandleKey([7; 16]), Box::new(Deaf));
    let service = Arc::new(service.with_reply_journal(&reply_journal, &noted, now));
    let policy = Policy {
        privileged: leasehold_shell::process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: leasehold_shell::reserved_ports_end(),
    };
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let server = Server::bind(Options::new(listen, policy)).unwrap();
    let address = server.addresses()[0];
    (server.start(Arc::new(service)).unwrap(), address, noted.len())
}

/// REMOVE, RENAME and MKDIR ran twice after a kill during their syncs, which is the state of most
/// calls in flight.
#[test]
fn call_killed_before_its_sync_does_not_run_twice() {
    let home = Home::new();
    for place in ["state", "after", "broken"] {
        fs::create_dir(home.path(place)).unwrap();
        fs::set_permissions(home.path(place), Permissions::from_mode(0o700)).unwrap();
    }
    let held = |fails| {
        let (release, until) = mpsc::channel();
        (release, Held { until: Mutex::new(until), fails })
    };
    let (release, disk) = held(false);
    let (running, address, _) = in_process(&home, "state", disk);
    let mkdir = call(1, MKDIR, &root(address), "folder");
    let mut stream = TcpStream::connect(address).unwrap();
    send(&mut stream, &mkdir);
    until(|| fs::exists(home.path("data/folder")).unwrap());
    until(|| fs::metadata(home.path("state/replies")).unwrap().len() > 0);
    // A kill would leave these files: the server has made the change, and the sync of the change
    // runs.
    fs::copy(home.path("state/replies"), home.path("after/replies")).unwrap();
    fs::copy(home.path("state/replies"), home.path("broken/replies")).unwrap();
    stream.set_nonblocking(true).unwrap();
    let early = stream.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(early, Err(ErrorKind::WouldBlock), "no reply comes before the sync");
    stream.set_nonblocking(false).unwrap();
    drop(release);
    let reply = read_reply(&mut stream);
    assert!(done(&reply));
    running.stop(TIMEOUT);

    let (release, disk) = held(false);
    drop(release);
    let (running, address, known) = in_process(&home, "after", disk);
    assert_eq!(known, 1);
    assert_eq!(over_stream(address, &mkdir), reply, "the call does not run again");
    running.stop(TIMEOUT);
    // A start whose sync fails ignores the record, and so does the next start.
    let (release, disk) = held(true);
    drop(release);
    let (running, _, known) = in_process(&home, "broken", disk);
    assert_eq!(known, 0);
    running.stop(TIMEOUT);
    let (release, disk) = held(false);
    drop(release);
    let (running, _, known) = in_process(&home, "broken", disk);
    assert_eq!(known, 0);
    running.stop(TIMEOUT);
}

/// The server returns an error for such a call, also for a retransmission.
#[test]
fn change_that_fails_on_disk_is_not_recorded_as_done() {
    const IO: [u8; 4] = [0, 0, 0, 5];
    let home = Home::new();
    fs::create_dir(home.path("state")).unwrap();
    fs::set_permissions(home.path("state"), Permissions::from_mode(0o700)).unwrap();
    let (release, until) = mpsc::channel();
    drop(release);
    let disk = Held { until: Mutex::new(until), fails: true };
    let (running, address, _) = in_process(&home, "state", disk);
    let mkdir = call(1, MKDIR, &root(address), "folder");
    let mut stream = TcpStream::connect(address).unwrap();
    let reply = over(&mut stream, &mkdir);
    assert_eq!(reply[24..28], IO, "{reply:?}");
    // The reply has a status, and no attributes of the directory before and after.
    assert_eq!(reply.len(), 24 + 12);
    assert_eq!(over(&mut stream, &mkdir), reply);
    running.stop(TIMEOUT);
    // The next server recognizes the call as failed.
    let (release, until) = mpsc::channel();
    drop(release);
    let disk = Held { until: Mutex::new(until), fails: false };
    let (running, address, known) = in_process(&home, "state", disk);
    assert_eq!(known, 1);
    assert_eq!(over_stream(address, &mkdir), reply);
    running.stop(TIMEOUT);
}

fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "the condition is not met in time");
        thread::sleep(Duration::from_millis(5));
    }
}
