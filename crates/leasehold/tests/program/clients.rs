//! Clients of NFS version 4.2, as an administrator sees them.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{getegid, geteuid};
use serde_json::Value;

use crate::cluster::iod;
use crate::nearest::metaserver;
use crate::support::{
    Home, MOUNT, NFS, Serving, TIMEOUT, address, leasehold, opaque, over, over_stream, port, run,
};

/// The numbers of operations.
const LOOKUP: u32 = 15;
const OPEN: u32 = 18;
const PUTROOTFH: u32 = 24;
const EXCHANGE_ID: u32 = 42;
const CREATE_SESSION: u32 = 43;
const SEQUENCE: u32 = 53;
const RECLAIM_COMPLETE: u32 = 58;

const NOENT: u32 = 2;
const BADSESSION: u32 = 10_052;

/// A client of version 4.2 with one session, which uses one slot.
pub(crate) struct Client {
    stream: TcpStream,
    id: [u8; 8],
    session: [u8; 16],
    sequence: u32,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns the status of a compound, and the bytes after the status of its first result.
fn compound(stream: &mut TcpStream, operations: &[Vec<u8>]) -> (u32, Vec<u8>) {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let head = [9, 0, 2, NFS, 4, 1, 1, 20, 0, 0, user, group, 0, 0, 0];
    // An empty tag, the minor version, and the number of operations.
    let count = u32::try_from(operations.len()).unwrap();
    let call = [words(&head), words(&[0, 2, count]), operations.concat()].concat();
    let reply = over(stream, &call);
    assert_eq!(reply[..24], words(&[9, 1, 0, 0, 0, 0]), "{reply:?}");
    let status = u32::from_be_bytes(reply[24..28].try_into().unwrap());
    (status, reply.get(44..).unwrap_or_default().to_vec())
}

impl Client {
    pub(crate) fn start(address: SocketAddr, name: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let args = [words(&[EXCHANGE_ID]), vec![1; 8], opaque(name), words(&[0, 0, 0])].concat();
        let (status, results) = compound(&mut stream, &[args]);
        assert_eq!(status, 0);
        let id: [u8; 8] = results[..8].try_into().unwrap();
        let channel = words(&[0, 1 << 16, 1 << 16, 1 << 12, 16, 8, 0]);
        let args = [words(&[CREATE_SESSION]), id.to_vec(), results[8..12].to_vec(), words(&[0])];
        let args = [args.concat(), channel.clone(), channel, words(&[1 << 30, 1, 0])].concat();
        let (status, results) = compound(&mut stream, &[args]);
        assert_eq!(status, 0);
        let session = results[..16].try_into().unwrap();
        let mut client = Self { stream, id, session, sequence: 0 };
        assert_eq!(client.run(&[words(&[RECLAIM_COMPLETE, 0])]), 0);
        client
    }

    /// Runs operations in the session; returns the status of the compound.
    pub(crate) fn run(&mut self, operations: &[Vec<u8>]) -> u32 {
        self.sequence += 1;
        let rest = words(&[self.sequence, 0, 0, 0]);
        let sequence = [words(&[SEQUENCE]), self.session.to_vec(), rest].concat();
        compound(&mut self.stream, &[&[sequence], operations].concat()).0
    }

    /// Looks up a name at the root of the server.
    pub(crate) fn look_up(&mut self, name: &[u8]) -> u32 {
        self.run(&[words(&[PUTROOTFH]), [words(&[LOOKUP]), opaque(name)].concat()])
    }

    /// Opens an existing file of an export for reading.
    fn open(&mut self, export: &[u8], file: &[u8]) -> u32 {
        // Access READ without denials, the open-owner, no creation, and the claim of a name.
        let open = [words(&[OPEN, 0, 1, 0]), self.id.to_vec(), opaque(b"owner")].concat();
        let open = [open, words(&[0, 0]), opaque(file)].concat();
        self.run(&[words(&[PUTROOTFH]), [words(&[LOOKUP]), opaque(export)].concat(), open])
    }
}

fn ask(home: &Home, words: &[&str]) -> (i32, String, String) {
    let state = home.path("state");
    run(leasehold(&[&["clients"], words, &["--state", &state]].concat()))
}

fn listed(home: &Home) -> Value {
    let (code, out, err) = ask(home, &["--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn clients_are_listed_and_forgotten() {
    let home = Home::new();
    fs::write(home.path("data/file"), "data").unwrap();
    let (_serving, ready) = Serving::with_json(&home, &["--versions", "3,4.2"]);
    let mut one = Client::start(address(&ready), b"one");
    let mut two = Client::start(address(&ready), b"two");
    assert_eq!(one.open(b"data", b"file"), 0);
    assert_eq!(two.look_up(b"none"), NOENT);

    let told = listed(&home);
    assert_eq!(
        (&told["count"], &told["sessions"], &told["opens"]),
        (&2.into(), &2.into(), &1.into())
    );
    let first = &told["clients"][0];
    assert_eq!((&first["owner"], &first["address"]), (&"one".into(), &"127.0.0.1".into()));
    assert_eq!((&first["minor_version"], &first["opens"]), (&2.into(), &1.into()));
    assert_eq!((&first["sessions"], &first["confirmed"]), (&1.into(), &true.into()));
    let (code, out, _) = ask(&home, &[]);
    assert!(code == 0 && out.contains("\"two\" at 127.0.0.1, version 4.2: 1 sessions"), "{out}");

    let (code, out, _) = run(leasehold(&["status", "--state", &home.path("state")]));
    assert_eq!(code, 0);
    let line = "NFS 4: 2 clients, 2 sessions, 0 busy slots, 1 opens, 0 locks, 0 waiters\n";
    assert!(out.contains(line), "{out}");
    assert!(out.contains("\nNFS 4 LOOKUP: noent 1 times\n"), "{out}");

    let (code, _, err) = ask(&home, &["forget", "three"]);
    assert!(code == 1 && err.contains("no client \"three\""), "{code} {err}");
    let (code, out, err) = ask(&home, &["forget", "one"]);
    assert!(code == 0 && out.starts_with("ended the client "), "{out} {err}");
    assert_eq!(one.look_up(b"data"), BADSESSION);
    assert_eq!(two.look_up(b"data"), 0);
    let told = listed(&home);
    assert_eq!((&told["count"], &told["clients"][0]["owner"]), (&1.into(), &"two".into()));
    // The opens end as soon as the client's record on stable storage forbids their reclaim.
    let end = Instant::now() + TIMEOUT;
    while listed(&home)["opens"] != 0 {
        assert!(Instant::now() < end, "the opens of the client stay");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_without_version_4_says_so() {
    let home = Home::new();
    let (_serving, ready) = Serving::with_json(&home, &["--versions", "3"]);
    assert_eq!(ready["mount_v4"], Value::Null);
    let (code, _, err) = ask(&home, &[]);
    assert!(code == 1 && err.contains("--versions 3,4.2"), "{code} {err}");
    // MOUNT 1 belongs to version 2 of NFS: PROG_MISMATCH with the range of 3 to 3.
    let null = words(&[7, 0, 2, MOUNT, 1, 0, 0, 0, 0, 0]);
    let mismatch = words(&[7, 1, 0, 0, 0, 2, 3, 3]);
    assert_eq!(over_stream(address(&ready), &null), mismatch);
}

#[test]
fn ready_message_has_the_short_mount_command() {
    let home = Home::new();
    let (_serving, ready) = Serving::with_json(&home, &["--versions", "3,4.1,4.2"]);
    let port = address(&ready).port();
    let command = format!("sudo mount -t nfs -o port={port} 127.0.0.1:/ /mnt");
    assert_eq!(ready["mount_v4"], Value::from(command));
    assert_eq!(ready["versions"], "4.2, 4.1 and 3");
}

/// A client without an option for the version gets PROG_MISMATCH for version 4, and then mounts
/// version 3.
#[test]
fn several_metaservers_refuse_version_4_and_say_so() {
    let home = Home::new();
    let (_iod, at) = iod(&home, "one", "key", 0);
    let ports = [port(), port()];
    let start = |number: usize| {
        metaserver(&home, (number, ports[number]), (&ports, at), &["--versions", "3,4.2"])
    };
    let (_one, ready) = start(0);
    assert_eq!((&ready["lacks_v4"], &ready["versions"]), (&true.into(), &"3".into()));
    assert_eq!(ready["mount_v4"], Value::Null);
    let null = words(&[7, 0, 2, NFS, 4, 0, 0, 0, 0, 0]);
    let mismatch = words(&[7, 1, 0, 0, 0, 2, 3, 3]);
    assert_eq!(over_stream(address(&ready), &null), mismatch);
}
