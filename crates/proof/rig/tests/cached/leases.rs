//! Clients with leases, two on one server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_client::{Error, Late, Mode, OpenHow, Rescuer, Status, User, Variant};
use leasehold_rig::{Manners, MemServer};
use leasehold_shell::client::block_on;

const MODE: Mode = Mode::from_bits(0o700);

fn user(server: &MemServer, seed: u64) -> User {
    super::paths::user(server, Variant::Lease, seed)
}

fn calls(user: &User) -> u64 {
    user.client().nfs().session().counters().calls
}

/// Data that is in no cache but the writer's is seen by whoever asks.
#[test]
fn what_one_writes_the_other_sees_at_once() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        for number in 0..20 {
            let text = Bytes::from(format!("the {number}th"));
            let file = one.create(b"file", MODE, false).await.unwrap();
            file.write_at(0, text.clone()).await.unwrap();
            // It is neither synced nor closed.
            assert_eq!(other.read(b"file").await.unwrap(), text);
            let size = other.attributes(b"file").await.unwrap().size;
            assert_eq!(size, text.len() as u64);
            file.close().await.unwrap();
        }
    });
}

#[test]
fn what_is_cached_under_a_lease_takes_no_call() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        one.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        let absent: Result<Bytes, Error> = Err(Error::Failed(Status::NotFound));
        assert_eq!(other.read(b"file").await.unwrap(), "text");
        assert_eq!(other.read(b"none").await, absent);
        let before = calls(&other);
        for _ in 0..100 {
            assert_eq!(other.read(b"file").await.unwrap(), "text");
            assert_eq!(other.attributes(b"file").await.unwrap().size, 4);
            assert_eq!(other.read(b"none").await, absent);
        }
        assert_eq!(calls(&other), before);
        // Whoever changes it is waited for by nobody who looks afterwards.
        one.write(b"file", MODE, Bytes::from_static(b"other")).await.unwrap();
        one.write(b"none", MODE, Bytes::from_static(b"there")).await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "other");
        assert_eq!(other.read(b"none").await.unwrap(), "there");
    });
}

/// A listing brings leases on the directory and on all that is in it.
#[test]
fn what_was_listed_takes_no_call() {
    let server = MemServer::start(Manners::Full);
    let [maker, reader, writer] = [1, 2, 3].map(|seed| user(&server, seed));
    let path = |number: u32| format!("directory/{number}").into_bytes();
    block_on(async {
        maker.create_directory(b"directory", MODE).await.unwrap();
        for number in 0..20 {
            maker.write(&path(number), MODE, Bytes::from_static(b"x")).await.unwrap();
        }
        maker.client().goodbye().await;
        assert_eq!(reader.list(b"directory", true).await.unwrap().len(), 20);
        let before = calls(&reader);
        for number in 0..20 {
            assert_eq!(reader.attributes(&path(number)).await.unwrap().size, 1);
        }
        assert_eq!(calls(&reader), before);
        writer.write(&path(7), MODE, Bytes::from_static(b"longer")).await.unwrap();
        assert_eq!(reader.attributes(&path(7)).await.unwrap().size, 6);
    });
}

#[test]
fn writes_are_delayed_and_merged_under_a_lease() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, Bytes::from_static(b"0")).await.unwrap();
        let before = calls(&one);
        for at in 1..100 {
            file.write_at(at, Bytes::from_static(b"x")).await.unwrap();
        }
        file.close().await.unwrap();
        assert_eq!(calls(&one), before, "a close pushes nothing");
        let file = one.open(b"file", OpenHow::READ).await.unwrap();
        assert_eq!(file.read_at(98, 10).await.unwrap().into_bytes(), "xx");
        assert_eq!(calls(&one), before, "who made it is not asked about");
        assert_eq!(other.read(b"file").await.unwrap().len(), 100);
    });
}

/// Whoever is told otherwise makes it again, and then more are removed than were made.
#[test]
fn what_was_made_was_made_also_when_another_removes_it_at_once() {
    const TIMES: usize = 200;
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let over = AtomicBool::new(false);
    let (made, removed) = std::thread::scope(|scope| {
        let making = scope.spawn(|| {
            let made: Vec<_> =
                (0..TIMES).map(|_| block_on(one.create(b"file", MODE, true)).map(drop)).collect();
            over.store(true, Ordering::Relaxed);
            made
        });
        let mut removed = 0;
        while !over.load(Ordering::Relaxed) {
            removed += usize::from(block_on(other.remove(b"file")).is_ok());
        }
        (making.join().unwrap(), removed)
    });
    let taken = Err(Error::Failed(Status::AlreadyExists));
    assert!(made.iter().all(|made| made.is_ok() || *made == taken), "{made:?}");
    let left = usize::from(block_on(other.remove(b"file")).is_ok());
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), removed + left);
}

/// Two threads of two clients: nothing of one lies over something of the other.
#[test]
fn what_is_appended_by_two_is_all_there() {
    const TIMES: u64 = 40;
    let server = MemServer::start(Manners::Full);
    let users = [user(&server, 1), user(&server, 2)];
    block_on(users[0].write(b"file", MODE, Bytes::new())).unwrap();
    std::thread::scope(|scope| {
        for user in &users {
            scope.spawn(|| {
                block_on(async {
                    let file = user.open(b"file", OpenHow::READ_WRITE).await.unwrap();
                    for _ in 0..TIMES {
                        file.append(Bytes::from_static(b"0123456789")).await.unwrap();
                    }
                    file.close().await.unwrap();
                });
            });
        }
    });
    let text = block_on(users[1].read(b"file")).unwrap();
    assert_eq!(text, b"0123456789".repeat(2 * usize::try_from(TIMES).unwrap()));
}

/// What was refused.
#[derive(Default)]
struct Kept(Mutex<Vec<Late>>);

impl Rescuer for Kept {
    fn rescue(&self, late: &Late) {
        self.0.lock().unwrap().push(late.clone());
    }
}

/// Another start over the same files, which knows nothing of leases.
fn restart(server: MemServer) -> MemServer {
    let (address, store) = (server.address(), Arc::clone(server.store()));
    drop(server);
    MemServer::start_over(address, store, Manners::Full).unwrap()
}

/// The same, where somebody else has changed the file meanwhile.
fn restart_changed(server: MemServer, text: &'static [u8]) -> MemServer {
    let (address, store) = (server.address(), Arc::clone(server.store()));
    drop(server);
    let changer = std::thread::spawn({
        let store = Arc::clone(&store);
        move || {
            let any = ([127, 0, 0, 1], 0).into();
            let elsewhere = MemServer::start_over(any, store, Manners::Full).unwrap();
            let changer = user(&elsewhere, 3);
            block_on(changer.write(b"file", MODE, Bytes::from_static(text))).unwrap();
        }
    });
    changer.join().unwrap();
    MemServer::start_over(address, store, Manners::Full).unwrap()
}

/// Links, moves and removals of ours change a file's times, which would look as if somebody else
/// had been there.
#[test]
fn names_of_our_own_make_no_conflict() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let kept = Arc::new(Kept::default());
    one.client().rescue_by(Arc::<Kept>::clone(&kept));
    block_on(async {
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, Bytes::from_static(b"text")).await.unwrap();
        one.link(b"file", b"second").await.unwrap();
        one.link(b"file", b"third").await.unwrap();
        one.remove(b"second").await.unwrap();
        one.rename(b"third", b"moved").await.unwrap();
        one.write(b"over", MODE, Bytes::new()).await.unwrap();
        one.link(b"file", b"fourth").await.unwrap();
        one.rename(b"over", b"fourth").await.unwrap();
        let _server = restart(server);
        file.sync().await.unwrap();
        assert_eq!(other.read(b"moved").await.unwrap(), "text");
    });
    assert_eq!(*kept.0.lock().unwrap(), []);
}

/// A server of which nothing is left but the files takes what was changed under leases of before,
/// where nobody else has changed the file since.
#[test]
fn what_was_delayed_survives_a_server_that_forgets_leases() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let kept = Arc::new(Kept::default());
    one.client().rescue_by(Arc::<Kept>::clone(&kept));
    block_on(async {
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, Bytes::from_static(b"kept")).await.unwrap();
        let server = restart(server);
        file.sync().await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "kept");

        let file = one.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(0, Bytes::from_static(b"late")).await.unwrap();
        // Before it finds a server again, which it looks for by itself.
        let _server = restart_changed(server, b"newer");
        let late = Error::Failed(Status::NotSynchronized);
        assert_eq!(file.sync().await, Err(late), "it is not mixed in, and that is told");
        assert_eq!(other.read(b"file").await.unwrap(), "newer");
        assert_eq!(one.read(b"file").await.unwrap(), "newer");
    });
    let kept = kept.0.lock().unwrap();
    let [late] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((late.offset, &late.data[..]), (0, &b"late"[..]), "it is handed over");
    assert_eq!(late.path.as_deref(), Some(&[b"file".to_vec().into()][..]));
}
