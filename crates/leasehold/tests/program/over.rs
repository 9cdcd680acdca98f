//! Suspended metaservers that resume after another has replaced them: their writes then reach no
//! object of an iod.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::nfs::messages::{Handle, write};
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::cluster::{iod, iod_command, meta, try_mount};
use crate::metaservers::{Cluster, look};
use crate::support::{
    Home, Serving, TIMEOUT, address, call_of_user, leasehold, opaque, over, port, put, read_reply,
    run, send, who,
};

const WRITE: u32 = 7;

/// Each of two iods stores a part of this length.
const LENGTH: usize = 20_000;

fn data(byte: u8) -> Bytes {
    vec![byte; LENGTH].into()
}

/// Returns the call that writes such data.
fn write_call(xid: u32, file: &Handle, byte: u8) -> Vec<u8> {
    let count = u32::try_from(LENGTH).unwrap().to_be_bytes();
    let file_sync = 2_u32.to_be_bytes();
    let head = [&opaque(file.as_bytes())[..], &[0; 8], &count, &file_sync].concat();
    call_of_user(xid, WRITE, &[head, opaque(&data(byte))].concat())
}

fn status(reply: &[u8]) -> u32 {
    u32::from_be_bytes(reply[24..28].try_into().unwrap())
}

/// Suspends all threads of a server.
pub(crate) fn stop(serving: &Serving) {
    let process = Pid::from_child(&serving.child);
    kill_process(process, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "the server still runs");
}

pub(crate) fn go_on(serving: &Serving) {
    kill_process(Pid::from_child(&serving.child), Signal::CONT).unwrap();
}

fn copy(from: &str, to: &str) {
    assert!(Command::new("cp").args(["-a", from, to]).status().unwrap().success());
}

/// Overwrites a file, and retries until the write succeeds.
fn overwrite(server: &Mounted, file: &Handle, byte: u8) {
    let end = Instant::now() + TIMEOUT;
    loop {
        let what = (data(byte), write::Stability::FileSync);
        match block_on(server.nfs.write(&who(), file, 0, what)).unwrap().done() {
            Ok(done) if done.count as usize == LENGTH => return,
            done => assert!(Instant::now() < end, "{done:?}"),
        }
    }
}

/// Reads a file, and retries until the read succeeds.
fn content(server: &Mounted, file: &Handle) -> Bytes {
    let (length, end) = (u32::try_from(LENGTH).unwrap(), Instant::now() + TIMEOUT);
    loop {
        match block_on(server.nfs.read(&who(), file, 0, length)).unwrap().done() {
            Ok(read) => return read.data,
            Err(status) => assert!(Instant::now() < end, "{status:?}"),
        }
    }
}

/// A client's WRITE waits at the suspended metaserver; the machine with its disk is attached
/// elsewhere, where its home is moved and served.
#[test]
fn suspended_home_writes_to_no_object() {
    let mut cluster = Cluster::start(2);
    let (first, second) = (cluster.mount(0), cluster.mount(1));
    let file = block_on(put(&second, b"file", &data(1)));
    assert_eq!(look(&first, "file"), Some(file));
    let old = cluster.metaservers[1].take().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.ports[1])).unwrap();
    assert_eq!(status(&over(&mut stream, &write_call(1, &file, 2))), 0);
    stop(&old);
    send(&mut stream, &write_call(2, &file, 3));

    let [attached, new] = ["attached", "new"].map(|name| cluster.home.path(name));
    copy(&cluster.places[1], &attached);
    fs::create_dir(&new).unwrap();
    let (code, _, said) = run(leasehold(&["cluster", "move-home", &attached, &new]));
    assert_eq!(code, 0, "{said}");
    fs::rename(cluster.home.path("state-names1"), cluster.home.path("state-old")).unwrap();
    cluster.kill(0);
    (cluster.ports[1], cluster.places[1]) = (port(), new);
    (0..2).for_each(|number| cluster.begin(number));
    let (first, moved) = (cluster.mount(0), cluster.mount(1));
    // A retransmission could overwrite this data.
    overwrite(&first, &file, 4);

    go_on(&old);
    assert_ne!(status(&read_reply(&mut stream)), 0, "it was written");
    for xid in 3..5 {
        assert_ne!(status(&over(&mut stream, &write_call(xid, &file, 5))), 0, "it was written");
    }
    assert!([&first, &moved].iter().all(|server| content(server, &file) == data(4)));
    overwrite(&moved, &file, 6);
    assert_eq!(content(&moved, &file), data(6));
}

/// Waits until a log contains a text.
fn says(log: &str, what: &str) {
    let end = Instant::now() + TIMEOUT;
    while !fs::read_to_string(log).unwrap().contains(what) {
        assert!(Instant::now() < end, "no {what} in {log}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The only metaserver of a volume, whose directory was copied and is served elsewhere. One iod is
/// unreachable when the copy starts; the other restarts and knows only the recorded epoch. The
/// administrator finds the fault in both logs.
#[test]
fn suspended_metaserver_writes_to_no_object() {
    let home = Home::new();
    let runtime = Runtime::start().unwrap();
    let [(one, first), (two, second)] = ["one", "two"].map(|name| iod(&home, name, "key", 0));
    let [log_old, log_one] = ["log-old", "log-one"].map(|name| home.path(name));
    let log = |path: &str| fs::File::create(path).unwrap().into();
    let old = Serving::logging(meta(&home, &[first, second], &[]), log(&log_old));
    let at: SocketAddr = address(&serde_json::from_str(&old.line()).unwrap());
    let server = try_mount(&runtime, at.port(), "/data").unwrap();
    let file = block_on(put(&server, b"file", &data(1)));
    let mut stream = TcpStream::connect(at).unwrap();
    assert_eq!(status(&over(&mut stream, &write_call(1, &file, 2))), 0);
    stop(&old);
    send(&mut stream, &write_call(2, &file, 3));

    copy(&home.path("data"), &home.path("moved"));
    let mut command =
        leasehold(&["meta", &home.path("moved"), "--json", "--listen", "127.0.0.1:0"]);
    command.args(["--state", &home.path("state-moved"), "--cluster-key", &home.path("key")]);
    for port in [first, second] {
        command.args(["--iod", &format!("127.0.0.1:{port}")]);
    }
    drop(two);
    let new = Serving::start(command);
    let at_new = address(&serde_json::from_str(&new.line()).unwrap());
    let _two = iod(&home, "two", "key", second);
    let server = try_mount(&runtime, at_new.port(), "/moved").unwrap();
    let moved = look(&server, "file").unwrap();
    overwrite(&server, &moved, 4);
    stop(&new);
    let [note, other] = ["one", "two"].map(|name| {
        fs::read_to_string(home.path(&format!("{name}/leasehold-epoch-ffffffff"))).unwrap()
    });
    assert_eq!(note, other, "the iod that was unreachable has it too");
    drop(one);
    let one = Serving::logging(iod_command(&home, "one", "key", first), log(&log_one));
    one.line();

    go_on(&old);
    assert_ne!(status(&read_reply(&mut stream)), 0, "it was written");
    assert_ne!(status(&over(&mut stream, &write_call(3, &file, 5))), 0, "it was written");
    says(&log_one, "rejected a superseded metaserver: a later one has replaced it");
    says(&log_old, "iods reject this metaserver, because a later one has replaced it");
    let (_, told, _) = run(leasehold(&["status", "--json", "--state", &home.path("state-one")]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(told["events"]["metaservers-refused"].as_u64().unwrap() > 0, "{told}");
    go_on(&new);
    assert_eq!(content(&server, &moved), data(4));
    overwrite(&server, &moved, 6);
    assert_eq!(content(&server, &moved), data(6));
}
