//! What was made at one metaserver takes the name of what was made at another, while metaservers are killed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::nfs::messages::{Handle, Status};
use leasehold_shell::client::{Mounted, block_on};

use crate::metaservers::{Cluster, look, read};
use crate::support::{PATIENCE, put, who};

/// How often a name is replaced.
const ROUNDS: u32 = 24;

/// What is written in a round.
fn data(round: u32) -> Bytes {
    (0..2000).flat_map(|_| round.to_be_bytes()).collect()
}

/// Has it renamed, if it still has its name: an answer may be lost with whom it comes from.
fn rename(server: &Mounted) {
    let end = Instant::now() + PATIENCE;
    loop {
        let (from, to) = ((&server.root, &b"new"[..]), (&server.root, &b"file"[..]));
        let renamed = block_on(server.nfs.rename(&who(), from, to));
        match renamed.unwrap().done() {
            Ok(_) | Err(Status::NotFound) => return,
            Err(status) => assert!(Instant::now() < end, "{status:?}"),
        }
    }
}

fn until(mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it is not replaced");
    }
}

/// What all see, and that it is all of it or nothing.
fn seen(servers: &[Mounted], old: Handle, new: Handle) -> Handle {
    let found = look(&servers[0], "file").expect("somebody always has the name");
    for server in servers {
        assert_eq!(look(server, "file"), Some(found), "all see one thing");
        let left = look(server, "new");
        assert_eq!(left, (found == old).then_some(new), "all of it or nothing");
    }
    found
}

/// Says that it is over, also where that is a failure.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn replaced(strict: bool) {
    let mut cluster = if strict { Cluster::strict(3) } else { Cluster::start(3) };
    let servers: Vec<Mounted> = (0..3).map(|number| cluster.mount(number)).collect();
    let mut old = block_on(put(&servers[0], b"file", &data(0)));
    let (is_over, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for server in &servers {
            let (is_over, looks) = (&is_over, &looks);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert!(look(server, "file").is_some(), "somebody always has the name");
                    looks.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let _ends = Ends(&is_over);
        for round in 1..=ROUNDS {
            let [by, from, kills] = [round, round / 3, round / 2].map(|it| (it % 3) as usize);
            let new = block_on(put(&servers[from], b"new", &data(round)));
            // It is known to be nowhere for a window, where there are no leases.
            until(|| look(&servers[by], "new") == Some(new));
            let server = &servers[by];
            let renames = scope.spawn(|| rename(server));
            thread::sleep(Duration::from_micros(u64::from(round) * 300));
            cluster.kill(kills);
            cluster.begin(kills);
            renames.join().unwrap();
            // So is what others have copies of.
            until(|| servers.iter().all(|server| look(server, "file") == Some(new)));
            assert_eq!(seen(&servers, old, new), new);
            assert_eq!(read(&servers[by], &new, data(round).len()), data(round));
            old = new;
        }
    });
    assert!(looks.into_inner() > ROUNDS, "it was looked at meanwhile");
}

#[test]
fn somebody_always_has_a_name_that_is_replaced() {
    replaced(false);
}

#[test]
fn strict_metaservers_replace_in_one_step_too() {
    replaced(true);
}
