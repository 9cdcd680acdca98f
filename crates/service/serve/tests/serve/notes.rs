//! The persistent duplicate request cache after a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use leasehold_base::limits::{NOTE_BYTES_MAX, REPLIES_MAX, REPLY_AGE_MAX};
use leasehold_base::units::{ConnectionId, Time};
use leasehold_serve::{Noted, ReplyJournal, Service};
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Name, PROGRAM, SetAttributes, VERSION, create, mkdir, remove, rename,
    write,
};

use crate::support::Server;

/// A reply journal in memory.
#[derive(Default)]
struct Open(Mutex<BTreeMap<u32, (Time, Vec<u8>)>>);

impl Open {
    fn noted(&self) -> Vec<Noted> {
        let pages = self.0.lock().expect("no test panics here");
        let noted = pages.iter().map(|(slot, (given, note))| Noted {
            slot: *slot,
            given: *given,
            note: Bytes::copy_from_slice(note),
        });
        noted.collect()
    }
}

impl ReplyJournal for Open {
    fn write(&self, slot: u32, given: Time, note: &[u8]) {
        assert!((slot as usize) < REPLIES_MAX && note.len() <= NOTE_BYTES_MAX);
        self.0.lock().expect("no test panics here").insert(slot, (given, note.to_vec()));
    }
}

/// A server with a reply journal.
struct Noting {
    server: Server,
    reply_journal: Arc<Open>,
}

impl Noting {
    fn new() -> Self {
        let mut noting = Self { server: Server::new(), reply_journal: Arc::default() };
        noting.restart_with(&[]);
        noting
    }

    fn restart(&mut self) {
        self.restart_with(&self.reply_journal.noted());
    }

    fn restart_with(&mut self, noted: &[Noted]) {
        let reply_journal: Arc<dyn ReplyJournal> = Arc::<Open>::clone(&self.reply_journal);
        let now = self.server.arrival.now;
        self.server
            .restart(|service: Service| service.with_reply_journal(&reply_journal, noted, now));
    }

    fn message(&mut self, procedure: u32, name: &[u8]) -> Bytes {
        let place = DirectoryArgs { directory: self.root(), name: Name(name) };
        let attributes = SetAttributes { mode: Some(0o755), ..Default::default() };
        let to = DirectoryArgs { directory: self.root(), name: Name(b"other") };
        let number = (PROGRAM, VERSION, procedure);
        match procedure {
            mkdir::NUMBER => self.server.message(number, &mkdir::Args { place, attributes }),
            create::NUMBER => {
                let how = create::How::Guarded(attributes);
                self.server.message(number, &create::Args { place, how })
            }
            rename::NUMBER => self.server.message(number, &rename::Args { from: place, to }),
            _ => self.server.message(number, &place),
        }
    }

    fn root(&self) -> Handle {
        let handle = self.server.service.root_handle(crate::support::NAME);
        handle.expect("the export is there").into()
    }

    fn answer(&self, message: &Bytes) -> Bytes {
        self.server.answer(message).expect("it is answered")
    }
}

#[test]
fn a_call_runs_once_across_a_restart() {
    for connection in [Some(ConnectionId::default()), None] {
        let mut noting = Noting::new();
        noting.server.arrival.connection = connection;
        for procedure in [mkdir::NUMBER, create::NUMBER, rename::NUMBER, remove::NUMBER] {
            let name: &[u8] = match procedure {
                mkdir::NUMBER => b"folder",
                create::NUMBER | rename::NUMBER => b"file",
                _ => b"other",
            };
            let message = noting.message(procedure, name);
            let first = noting.answer(&message);
            assert_eq!(first[24..28], [0; 4], "succeeds");
            // A client retransmits a datagram from the same port, and may reconnect a stream from
            // another port.
            let ports = if connection.is_some() { 701..703 } else { 700..702 };
            for port in ports {
                noting.restart();
                if connection.is_some() {
                    noting.server.arrival.from.set_port(port);
                }
                assert_eq!(noting.answer(&message), first, "{connection:?} {procedure}");
            }
        }
    }
}

#[test]
fn write_is_not_recorded() {
    let mut noting = Noting::new();
    let args = write::Args {
        file: noting.root(),
        offset: 0,
        count: 1,
        stability: write::Stability::FileSync,
        data: Bytes::from_static(b"x"),
    };
    let message = noting.server.message((PROGRAM, VERSION, write::NUMBER), &args);
    noting.answer(&message);
    assert_eq!(noting.reply_journal.noted(), []);
}

#[test]
fn entry_expires_at_its_original_time() {
    let mut noting = Noting::new();
    let remove = noting.message(remove::NUMBER, b"none");
    let first = noting.answer(&remove);
    noting.server.arrival.now = Time::ZERO + (REPLY_AGE_MAX - Duration::from_secs(1));
    noting.restart();
    assert_eq!(noting.answer(&remove), first);
    // The server has sent the reply again, which restarted the age of the entry.
    noting.server.arrival.now = Time::ZERO + (REPLY_AGE_MAX + Duration::from_secs(1));
    noting.restart();
    let create = noting.message(create::NUMBER, b"none");
    noting.answer(&create);
    assert_eq!(noting.answer(&remove), first);
    noting.server.arrival.now = Time::ZERO + 3 * REPLY_AGE_MAX;
    noting.restart();
    assert_ne!(noting.answer(&remove), first, "now it runs");
}

#[test]
fn malformed_entries_are_ignored() {
    let mut noting = Noting::new();
    let remove = noting.message(remove::NUMBER, b"none");
    let first = noting.answer(&remove);
    let noted = noting.reply_journal.noted();
    let [good] = &noted[..] else { panic!("there is one note") };
    let mut bad = Vec::new();
    for length in 0..good.note.len() {
        bad.push(Noted { note: good.note.slice(..length), ..good.clone() });
    }
    for slot in [good.slot ^ 0x1000, u32::MAX, u32::try_from(REPLIES_MAX).expect("they are few")] {
        bad.push(Noted { slot, ..good.clone() });
    }
    noting.restart_with(&bad);
    let create = noting.message(create::NUMBER, b"none");
    noting.answer(&create);
    assert_ne!(noting.answer(&remove), first, "it runs");
    noting.restart_with(&[&bad[..], &noted[..]].concat());
    assert_eq!(noting.answer(&remove), first, "the good one counts");
}
