//! The write verifier across restarts.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use rustix::process::Signal;

use crate::support::{Home, Serving, address, call_of_user, opaque, over_stream, root, success};

const LOOKUP: u32 = 3;
const WRITE: u32 = 7;
const COMMIT: u32 = 21;

const UNSTABLE: u32 = 0;

/// The file with the verifier.
const VERIFIER: &str = "state/verifier";

/// A server with a file to write.
struct World {
    home: Home,
    durability: &'static str,
    serving: Serving,
    address: SocketAddr,
    file: Vec<u8>,
    calls: u32,
}

impl World {
    fn new(durability: &'static str) -> Self {
        let home = Home::new();
        fs::write(home.path("data/file"), "").unwrap();
        let (serving, address) = start(&home, durability);
        let mut world = Self { home, durability, serving, address, file: Vec::new(), calls: 0 };
        let place = [opaque(&root(address)), opaque(b"file")].concat();
        world.file = world.call(LOOKUP, &place)[32..64].to_vec();
        world
    }

    /// Restarts the server after it has ended by a signal.
    fn restart(&mut self, signal: Signal) {
        assert!(
            !Path::new(&self.home.path(VERIFIER)).exists(),
            "the file does not exist while a server runs"
        );
        self.serving.end(signal);
        (self.serving, self.address) = start(&self.home, self.durability);
    }

    /// Returns the reply to a successful call.
    fn call(&mut self, procedure: u32, arguments: &[u8]) -> Vec<u8> {
        self.calls += 1;
        let reply = over_stream(self.address, &call_of_user(self.calls, procedure, arguments));
        assert_eq!(reply[4..24], success()[4..], "{reply:?}");
        assert_eq!(reply[24..28], [0; 4], "{reply:?}");
        reply
    }

    /// Writes, and returns the verifier.
    fn write(&mut self) -> [u8; 8] {
        let words = [0, 0, 4, UNSTABLE].map(u32::to_be_bytes).concat();
        let arguments = [opaque(&self.file), words, opaque(b"data")].concat();
        verifier(&self.call(WRITE, &arguments))
    }

    fn commit(&mut self) -> [u8; 8] {
        let arguments = [opaque(&self.file), vec![0; 12]].concat();
        verifier(&self.call(COMMIT, &arguments))
    }
}

fn start(home: &Home, durability: &str) -> (Serving, SocketAddr) {
    let (serving, ready) = Serving::with_json(home, &["--durability", durability]);
    let address = address(&ready);
    (serving, address)
}

/// Returns the verifier at the end of the replies to WRITE and COMMIT.
fn verifier(reply: &[u8]) -> [u8; 8] {
    *reply.last_chunk().unwrap()
}

#[test]
fn verifier_survives_a_clean_stop() {
    let mut world = World::new("disk");
    let first = world.write();
    for _ in 0..2 {
        world.restart(Signal::TERM);
        assert_eq!(world.commit(), first, "data written before the stop is stable");
        assert_eq!(world.write(), first);
    }
    assert_eq!(fs::read(world.home.path("data/file")).unwrap(), b"data");
}

#[test]
fn verifier_changes_when_the_server_is_killed() {
    let mut world = World::new("disk");
    let mut seen = BTreeSet::new();
    // Also after a clean stop, also if the killed server received no calls, and although all this
    // takes less than a second.
    for last in [Signal::KILL, Signal::KILL, Signal::TERM, Signal::KILL, Signal::KILL] {
        let is_new = seen.insert(world.write());
        assert!(is_new, "{seen:?}");
        if last == Signal::TERM {
            world.restart(last);
        }
        world.restart(Signal::KILL);
    }
    assert!(seen.insert(world.commit()));
}

#[test]
fn verifier_changes_at_every_stop_without_syncs() {
    let mut world = World::new("memory");
    let first = world.write();
    world.restart(Signal::TERM);
    assert_ne!(world.commit(), first);
}

#[test]
fn damaged_verifier_is_not_used() {
    let mut world = World::new("disk");
    let first = world.write();
    world.serving.end(Signal::TERM);
    assert_eq!(fs::read(world.home.path(VERIFIER)).unwrap(), first);
    fs::write(world.home.path(VERIFIER), &first[..7]).unwrap();
    (world.serving, world.address) = start(&world.home, "disk");
    let second = world.commit();
    assert_ne!(second, first);
    world.restart(Signal::TERM);
    assert_eq!(world.commit(), second);
}
