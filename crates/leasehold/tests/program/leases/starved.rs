//! Clients with leases that would starve, or would starve others: the list of clients cannot be
//! written, and holders give nothing back.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_wire::lease::{Answer, ClientName, Kind, Terms, hello, leases};
use leasehold_wire::list::{List, UpTo};
use leasehold_wire::nfs3::{Handle, Status, write};

use super::{Holder, file, plain, results, served, start_with};
use crate::support::PATIENCE;

/// How long the leases of the silent clients last.
const TERM: Duration = Duration::from_secs(3);

/// A mount hung in its first operation where the disk of the state directory was full, and went on
/// hanging when there was room again.
#[test]
fn an_operation_runs_without_a_lease_until_the_list_of_clients_can_be_written() {
    let home = served();
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    // No file takes the place of a directory.
    fs::remove_file(home.path("state/leases")).unwrap();
    fs::create_dir(home.path("state/leases")).unwrap();
    let mut holder = Holder::connect(address);
    holder.hello();
    let begun = Instant::now();
    loop {
        match holder.wanted(file, Kind::Read) {
            Answer::Done(done) => break assert_eq!(done.results.held.0.len(), 0),
            // Calls may still run that began before the first HELLO.
            Answer::Later => assert!(begun.elapsed() < PATIENCE, "the operation hangs"),
            answer => panic!("{answer:?}"),
        }
    }
    fs::remove_dir(home.path("state/leases")).unwrap();
    holder.cachable(file, Kind::Read);
}

impl Holder {
    fn hello_as(&mut self, client: [u8; 16]) {
        let args = hello::Args { client, instance: 1, name: ClientName(b"silent") };
        let answer: hello::Reply = self.call(hello::NUMBER, &args);
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        self.epoch = done.results.epoch;
    }

    /// Asks for a short lease to read, and reports whether it is granted.
    fn takes(&mut self, client: [u8; 16], object: Handle) -> bool {
        let term_ms = u32::try_from(TERM.as_millis()).unwrap();
        let terms = Terms { kind: Kind::Read, term_ms, opportune: false, space: 0 };
        let mut caller = self.caller();
        caller.client = client;
        let args = leases::Args {
            caller,
            wanted: UpTo(vec![leases::Wanted { object, terms, reclaim: false }]),
            returned: UpTo(Vec::new()),
            progress: leases::Progress::Recovered,
        };
        self.send_call(leases::NUMBER, &args);
        let reply = loop {
            let message = self.receive();
            // The server calls as well, by the way that the client was last heard on.
            if message[4..8] == [0, 0, 0, 1] {
                break message;
            }
        };
        let answer: leases::Reply = results(&reply);
        matches!(answer, Answer::Done(done) if done.results.held != List(Vec::new()))
    }
}

/// Three clients took a short lease in turn, gave none back, and the owner of the file never wrote.
#[test]
fn an_owner_writes_though_silent_clients_take_leases_in_turn() {
    let home = served();
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut holders: Vec<_> = (0..3)
            .map(|number| {
                let (client, mut holder) = ([number + 1; 16], Holder::connect(address));
                holder.hello_as(client);
                (client, holder)
            })
            .collect();
        let (client, holder) = &mut holders[0];
        let begun = Instant::now();
        while !holder.takes(*client, file) {
            assert!(begun.elapsed() < PATIENCE, "the first lease is granted");
        }
        for (client, mut holder) in holders {
            let ends = &ends;
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    holder.takes(client, file);
                    thread::sleep(TERM / 6);
                }
            });
        }
        let begun = Instant::now();
        let args = write::Args {
            file,
            offset: 0,
            count: 3,
            stability: write::Stability::FileSync,
            data: bytes::Bytes::from_static(b"new"),
        };
        loop {
            match plain::<write::Reply>(address, write::NUMBER, &args).done() {
                Ok(_) => break,
                Err(Status::Jukebox) => thread::sleep(Duration::from_millis(500)),
                Err(status) => panic!("{status:?}"),
            }
            assert!(begun.elapsed() < 10 * TERM, "the owner is kept waiting");
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_to_string(home.path("data/file")).unwrap(), "new");
}
