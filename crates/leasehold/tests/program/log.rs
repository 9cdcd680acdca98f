//! A log that cannot be written loses lines, but delays no call.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::iod_command;
use crate::support::{
    Home, MOUNT, Serving, TIMEOUT, address, call, leasehold, mount, over_stream, port, root, run,
    success,
};

/// Makes a server log a line, by a MNT of a path that the server does not export.
fn refused_mount(address: SocketAddr) {
    let reply = over_stream(address, &call(MOUNT, 1, b"\0\0\0\x05/none\0\0\0"));
    assert!(reply.starts_with(&success()) && reply[24..28] != [0; 4], "{reply:?}");
}

/// Returns the number of lost lines, from the server's metrics.
fn lost(ready: &Value) -> u64 {
    let base = ready["http"].as_str().unwrap();
    let host = base.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let name = "leasehold_events_total{event=\"log-lines-lost\"} ";
    page.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
}

fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "the condition is not reached");
        thread::sleep(Duration::from_millis(20));
    }
}

fn start(home: &Home, options: &[&str], log: Stdio) -> (Serving, Value) {
    let options = [&["--json", "--http", "127.0.0.1:0"], options].concat();
    let serving = Serving::logging(home.command(&options), log);
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, ready)
}

fn dev_full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// Returns a pipe without a reader.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    OwnedFd::from(writer).into()
}

/// The first line ended the loop that logged it, and the process stayed: every client hung.
#[test]
fn server_serves_when_its_log_cannot_be_written() {
    for format in ["plain", "json"] {
        for log in [dev_full, closed] {
            let home = Home::new();
            let (mut serving, ready) = start(&home, &["--log-format", format], log());
            let before = lost(&ready);
            refused_mount(address(&ready));
            until(|| lost(&ready) > before);
            // The calls reach every event loop.
            for _ in 0..16 {
                mount(address(&ready));
            }
            assert!(serving.end(Signal::TERM).success());
        }
    }
}

#[test]
fn unread_log_delays_no_call() {
    let home = Home::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let log = OwnedFd::from(writer).into();
    let (mut serving, ready) = start(&home, &["--log", "trace"], log);
    let at = address(&ready);
    let handle = root(at);
    // Each call logs a line, and all lines together far exceed the pipe's capacity.
    until(|| {
        for _ in 0..200 {
            assert_eq!(root(at), handle);
        }
        lost(&ready) > 0
    });
    drop(reader);
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn log_reports_lost_lines_when_it_can_be_written_again() {
    let home = Home::new();
    let log = File::create(home.path("log")).unwrap();
    let (serving, ready) = start(&home, &[], log.into());
    let limit = |bytes| {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(Pid::from_child(&serving.child)), Resource::Fsize, limit).unwrap();
    };
    // The limit has the effect of a full disk.
    limit(Some(1));
    until(|| {
        refused_mount(address(&ready));
        lost(&ready) > 0
    });
    limit(None);
    until(|| {
        refused_mount(address(&ready));
        std::fs::read_to_string(home.path("log")).unwrap().contains("lines of the log were lost")
    });
    let text = std::fs::read_to_string(home.path("log")).unwrap();
    let told = text.lines().find(|line| line.contains("lines of the log were lost")).unwrap();
    assert!(told.contains("File too large") && told.contains("since_start="), "{told}");
}

/// Other long-running commands.
#[test]
fn iod_and_database_of_names_run_without_a_log() {
    for log in [dev_full, closed] {
        let home = Home::new();
        let mut names = leasehold(&["names", "--listen", "127.0.0.1:0"]);
        let mut names = names.stdout(Stdio::piped()).stderr(log()).spawn().unwrap();
        let mut said = [0; 10];
        names.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert!(names.try_wait().unwrap().is_none());
        names.kill().unwrap();
        names.wait().unwrap();

        let mut iod = Serving::logging(iod_command(&home, "iod", "key", 0), log());
        let ready: Value = serde_json::from_str(&iod.line()).unwrap();
        for _ in 0..16 {
            refused_mount(address(&ready));
        }
        assert!(iod.end(Signal::TERM).success());
    }
}

#[test]
fn server_serves_when_its_ready_message_cannot_be_written() {
    for place in [dev_full, closed] {
        let home = Home::new();
        let at = port();
        let listen = format!("127.0.0.1:{at}");
        let mut command = leasehold(&["serve", &home.path("data"), "--listen", &listen]);
        command.args(["--state", &home.path("state")]);
        let mut child = command.stdout(place()).stderr(place()).spawn().unwrap();
        until(|| TcpStream::connect(&listen).is_ok());
        mount(listen.parse().unwrap());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A failure has its documented exit code, also if its message cannot be written.
#[test]
fn command_has_documented_exit_code_without_output() {
    let expected = run(leasehold(&["status", "--state", "/nonexistent"])).0;
    for log in [dev_full, closed] {
        let mut command = leasehold(&["status", "--state", "/nonexistent"]);
        let status = command.stdout(log()).stderr(log()).status().unwrap();
        assert_eq!(status.code(), Some(expected));
    }
}
