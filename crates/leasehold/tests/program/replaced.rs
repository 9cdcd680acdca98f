//! Objects of one metaserver replace the names of objects of another, while metaservers are killed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::nfs::messages::{Handle, Status};
use leasehold_shell::client::{Mounted, block_on};

use crate::metaservers::{Cluster, look, read};
use crate::support::{TIMEOUT, put, who};

/// The number of replacements.
const ROUNDS: u32 = 24;

/// Returns the data of a round.
fn data(round: u32) -> Bytes {
    (0..2000).flat_map(|_| round.to_be_bytes()).collect()
}

/// Renames the object, if it still has its name: a killed metaserver may lose the reply.
fn rename(server: &Mounted) {
    let end = Instant::now() + TIMEOUT;
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
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "the object is not replaced");
    }
}

/// Checks that all metaservers see the same object, and that the rename happened completely or not
/// at all.
fn seen(servers: &[Mounted], old: Handle, new: Handle) -> Handle {
    let found = look(&servers[0], "file").expect("the name always exists");
    for server in servers {
        assert_eq!(look(server, "file"), Some(found), "all see the same object");
        let left = look(server, "new");
        assert_eq!(
            left,
            (found == old).then_some(new),
            "the rename is complete or has not happened"
        );
    }
    found
}

/// Sets the flag on drop, also when the test fails.
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
                    assert!(look(server, "file").is_some(), "the name always exists");
                    looks.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let _ends = Ends(&is_over);
        for round in 1..=ROUNDS {
            let [by, from, kills] = [round, round / 3, round / 2].map(|it| (it % 3) as usize);
            let new = block_on(put(&servers[from], b"new", &data(round)));
            // Without leases, a cached negative entry is valid for a window.
            until(|| look(&servers[by], "new") == Some(new));
            let server = &servers[by];
            let renames = scope.spawn(|| rename(server));
            thread::sleep(Duration::from_micros(u64::from(round) * 300));
            cluster.kill(kills);
            cluster.begin(kills);
            renames.join().unwrap();
            // The cached entries of other metaservers are valid as long.
            until(|| servers.iter().all(|server| look(server, "file") == Some(new)));
            assert_eq!(seen(&servers, old, new), new);
            assert_eq!(read(&servers[by], &new, data(round).len()), data(round));
            old = new;
        }
    });
    assert!(looks.into_inner() > ROUNDS, "it was read meanwhile");
}

#[test]
fn replaced_name_always_exists() {
    replaced(false);
}

#[test]
fn strict_metaservers_replace_atomically() {
    replaced(true);
}
