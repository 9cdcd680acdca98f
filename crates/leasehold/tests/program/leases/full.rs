//! Starts of a server whose state directory is on a disk that rejects changes.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_wire::lease::{Answer, Kind};
use leasehold_wire::nfs3::Handle;
use rustix::process::Signal;

use super::{Holder, file, served};
use crate::support::{
    Home, Serving, SmallDisk, TIMEOUT, address, call_of_user, leasehold, opaque, over_stream, root,
    run, success,
};

const MKDIR: u32 = 9;

/// Starts a server, with its log in a file.
fn start(home: &Home) -> (Serving, SocketAddr) {
    start_with(home, &["--json", "--no-local-coherence"])
}

fn start_with(home: &Home, options: &[&str]) -> (Serving, SocketAddr) {
    let log = File::create(home.path("log")).unwrap();
    let command = home.command(options);
    let serving = Serving::logging(command, log.into());
    let address = address(&serde_json::from_str(&serving.line()).unwrap());
    (serving, address)
}

/// Waits until the log contains a text.
fn logged(home: &Home, text: &str) {
    let end = Instant::now() + TIMEOUT;
    while !fs::read_to_string(home.path("log")).unwrap().contains(text) {
        assert!(Instant::now() < end, "{}", fs::read_to_string(home.path("log")).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Leaves the complete state of a killed server: a client holds a lease, and a reply is recorded.
/// Returns the file with the lease, the call, and its reply.
fn leave_state(home: &Home) -> (Handle, Vec<u8>, Vec<u8>) {
    let (mut serving, address) = start(home);
    let mut holder = Holder::connect(address);
    holder.hello();
    let leased = file(address);
    holder.granted(leased, Kind::Write);
    let no_attributes = [0; 24];
    let arguments = [opaque(&root(address)), opaque(b"folder"), no_attributes.to_vec()].concat();
    let mkdir = call_of_user(7, MKDIR, &arguments);
    let reply = over_stream(address, &mkdir);
    assert!(reply.starts_with(&success()) && reply[24..28] == [0; 4], "{reply:?}");
    serving.end(Signal::KILL);
    (leased, mkdir, reply)
}

/// The server refused such a start: clients with leases could not have distinguished the start from
/// the next one.
#[test]
fn server_starts_on_a_full_disk_and_grants_leases_after_space_is_freed() {
    let home = served();
    let disk = SmallDisk::at(home.path("state"));
    let (leased, mkdir, reply) = leave_state(&home);
    disk.fill();
    // The second start has another epoch, although neither start wrote a new file.
    let mut epochs = Vec::new();
    for signal in [Signal::KILL, Signal::TERM] {
        let (mut serving, address) = start(&home);
        let state = home.path("state");
        let (code, page, error) = run(leasehold(&["leases", "--state", &state]));
        assert!(code == 0 && page.contains("not returned since the start"), "{page}{error}");
        assert_eq!(over_stream(address, &mkdir), reply, "the call does not run again");
        if signal == Signal::KILL {
            epochs.push(Holder::connect(address).hello().epoch);
            serving.end(signal);
            continue;
        }
        let (code, said, error) = run(leasehold(&["forget", "6120", "--state", &state]));
        assert_eq!(code, 0, "{said}{error}");
        let mut holder = Holder::connect(address);
        epochs.push(holder.hello().epoch);
        let end = Instant::now() + TIMEOUT;
        loop {
            match holder.wanted(leased, Kind::Write) {
                Answer::Done(done) => break assert_eq!(done.results.held.0.len(), 0),
                // Calls from before the first HELLO may still run.
                Answer::Later if Instant::now() < end => {}
                answer @ (Answer::Epoch(_)
                | Answer::Instance(_)
                | Answer::Unknown
                | Answer::Late(_)
                | Answer::Later) => panic!("{answer:?}"),
            }
        }
        logged(&home, "new clients are granted no leases until it can");
        disk.empty();
        holder.granted(leased, Kind::Write);
        logged(&home, "new clients are granted leases again");
        assert!(serving.end(signal).success());
    }
    assert!(epochs[0] < epochs[1], "{epochs:?}");
}

/// The state records the stable log, and a full disk has no space for another record.
#[test]
fn server_with_a_stable_log_restarts_on_a_full_disk() {
    let home = served();
    let disk = SmallDisk::at(home.path("state"));
    let stable_log = home.path("stable-log");
    let options = ["--json", "--stable-log", &stable_log];
    let (mut serving, _) = start_with(&home, &options);
    serving.end(Signal::KILL);
    disk.fill();
    let (mut serving, address) = start_with(&home, &options);
    file(address);
    assert!(serving.end(Signal::TERM).success());
}

/// Neither the list of clients nor its number can be written: the server admits no earlier client,
/// because the client could not distinguish this start from the next one.
#[test]
fn server_starts_on_a_read_only_disk_and_waits_for_earlier_leases() {
    let home = served();
    let disk = SmallDisk::at(home.path("state"));
    let (leased, ..) = leave_state(&home);
    disk.set_read_only(true);
    let (mut serving, address) = start(&home);
    logged(&home, "no client is granted leases until it can");
    logged(&home, "waiting for clients with leases from before the restart");
    let mut holder = Holder::connect(address);
    assert!(holder.hello().recovering);
    let answer = holder.wanted(leased, Kind::Write);
    assert!(matches!(answer, Answer::Later), "{answer:?}");
    serving.end(Signal::KILL);
    disk.set_read_only(false);
    let (_serving, _) = start(&home);
    let (_, page, _) = run(leasehold(&["leases", "--state", &home.path("state")]));
    assert!(page.contains("client 6120"), "the earlier list is unchanged: {page}");
}
