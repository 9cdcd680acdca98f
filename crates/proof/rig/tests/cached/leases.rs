//! Tests of two clients with leases on one server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::attributes::{Attributes, SetAttributes, SetTime};
use leasehold_base::units::FileTime;
use leasehold_client::{Error, Mode, OpenHow, Refused, Rescuer, Status, User, Variant, Why};
use leasehold_rig::{Manners, MemServer};
use leasehold_session::Credential;
use leasehold_shell::client::block_on;
use leasehold_store_mem::{Config, MemStore};

const MODE: Mode = Mode::from_bits(0o700);

fn user(server: &MemServer, seed: u64) -> User {
    super::paths::user(server, Variant::Lease, seed)
}

fn calls(user: &User) -> u64 {
    user.client().nfs().session().counters().calls
}

/// Every client sees data that exists only in the cache of the client that wrote it.
#[test]
fn a_client_sees_the_writes_of_another_at_once() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        for number in 0..20 {
            let text = Bytes::from(format!("the {number}th"));
            let file = one.create(b"file", MODE, false).await.unwrap();
            file.write_at(0, text.clone()).await.unwrap();
            // The writer has neither synced nor closed the file.
            assert_eq!(other.read(b"file").await.unwrap(), text);
            let size = other.attributes(b"file").await.unwrap().size;
            assert_eq!(size, text.len() as u64);
            file.close().await.unwrap();
        }
    });
}

#[test]
fn data_cached_under_a_lease_takes_no_call() {
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
        // The change returns only after all other clients have dropped the old data from their
        // caches.
        one.write(b"file", MODE, Bytes::from_static(b"other")).await.unwrap();
        one.write(b"none", MODE, Bytes::from_static(b"there")).await.unwrap();
        assert_eq!(other.read(b"file").await.unwrap(), "other");
        assert_eq!(other.read(b"none").await.unwrap(), "there");
    });
}

/// A listing gets leases on the directory and on all its entries.
#[test]
fn listed_names_take_no_call() {
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

/// After a listing, the client lists the directory again without a call, until a client changes a
/// name in it.
#[test]
fn a_listing_is_cached_until_a_name_changes() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let names = async |user: &User, with_attributes: bool| {
        let listed = user.list(b"directory", with_attributes).await.unwrap();
        let mut names: Vec<_> = listed.into_iter().map(|listed| listed.name).collect();
        names.sort();
        names.concat()
    };
    block_on(async {
        other.create_directory(b"directory", MODE).await.unwrap();
        for name in [b"directory/a", b"directory/b"] {
            other.write(name, MODE, Bytes::from_static(b"x")).await.unwrap();
        }
        other.client().sync().await;
        for (with_attributes, expected) in [(true, b"ab"), (false, b"ab")] {
            assert_eq!(names(&one, with_attributes).await, expected);
            assert_eq!(names(&one, with_attributes).await, expected);
        }
        let before = calls(&one);
        for with_attributes in [true, false] {
            assert_eq!(names(&one, with_attributes).await, b"ab");
        }
        assert_eq!(calls(&one), before);
        // The cached listing must show changes by this client, and changes by another client.
        one.write(b"directory/c", MODE, Bytes::new()).await.unwrap();
        assert_eq!(names(&one, true).await, b"abc");
        other.remove(b"directory/a").await.unwrap();
        assert_eq!(names(&one, true).await, b"bc");
        other.rename(b"directory/b", b"directory/d").await.unwrap();
        assert_eq!(names(&one, false).await, b"cd");
        // The cached listing must also show a new size by another client, although no name changes.
        other.write(b"directory/d", MODE, Bytes::from_static(b"longer")).await.unwrap();
        let listed = one.list(b"directory", true).await.unwrap();
        let sizes = listed.iter().filter(|one| &one.name[..] == b"d");
        let sizes: Vec<_> = sizes.filter_map(|one| one.attributes).map(|it| it.size).collect();
        assert!(sizes.iter().all(|size| *size == 6), "{sizes:?}");
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
        assert_eq!(calls(&one), before, "a close writes nothing back");
        let file = one.open(b"file", OpenHow::READ).await.unwrap();
        assert_eq!(file.read_at(98, 10).await.unwrap().into_bytes(), "xx");
        assert_eq!(calls(&one), before, "the file's creator needs no call for it");
        assert_eq!(other.read(b"file").await.unwrap().len(), 100);
    });
}

fn setting(mode: u32, modified: i64) -> SetAttributes {
    let time = FileTime { seconds: modified, nanoseconds: 0 };
    let (mode, modified) = (Some(Mode::from_bits(mode)), SetTime::To(time));
    SetAttributes { mode, modified, ..SetAttributes::default() }
}

/// An archive program creates a file, writes it, and sets its times and mode. The client sends
/// these attributes together with the written data, and other clients nevertheless see them at
/// once.
#[test]
fn attributes_are_sent_with_the_written_data() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        one.create_directory(b"new", MODE).await.unwrap();
        let before = calls(&one);
        let file = one.create(b"new/file", Mode::from_bits(0o600), true).await.unwrap();
        assert_eq!(calls(&one), before + 1, "CREATE");
        file.write_at(0, Bytes::from_static(b"text")).await.unwrap();
        one.set_attributes(b"new/file", &setting(0o640, 77)).await.unwrap();
        one.set_attributes(b"new/file", &setting(0o644, 78)).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(calls(&one), before + 1);
        let is_set = |seen: &Attributes| {
            (seen.mode.bits(), seen.modified.seconds, seen.size) == (0o644, 78, 4)
        };
        assert!(is_set(&one.attributes(b"new/file").await.unwrap()));
        let seen = other.attributes(b"new/file").await.unwrap();
        assert!(is_set(&seen), "{seen:?}");
        assert_eq!(calls(&one), before + 1, "a look by another client writes nothing back");
        one.client().sync().await;
        assert_eq!(calls(&one), before + 2, "one WRITE has everything");
        let seen = other.attributes(b"new/file").await.unwrap();
        assert!(is_set(&seen), "{seen:?}");
        // A write after the attributes were set must set a new time.
        let file = one.open(b"new/file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(0, Bytes::from_static(b"more")).await.unwrap();
        file.sync().await.unwrap();
        assert_ne!(other.attributes(b"new/file").await.unwrap().modified.seconds, 78);
    });
}

/// A program creates a file with a known length, or removes the last bytes of a file. The client
/// sends the size together with the data, and keeps data that is written later beyond that size.
#[test]
fn the_size_of_a_new_file_is_sent_with_its_data() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let sized = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    block_on(async {
        let file = one.create(b"file", MODE, true).await.unwrap();
        let before = calls(&one);
        one.set_attributes(b"file", &sized(100_000)).await.unwrap();
        assert_eq!(one.attributes(b"file").await.unwrap().size, 100_000);
        file.write_at(10, Bytes::from_static(b"text")).await.unwrap();
        one.set_attributes(b"file", &sized(12)).await.unwrap();
        file.write_at(20, Bytes::from_static(b"more")).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(one.attributes(b"file").await.unwrap().size, 24);
        assert_eq!(other.attributes(b"file").await.unwrap().size, 24);
        assert_eq!(calls(&one), before, "a look by another client writes nothing back");
        let text = [&[0; 10][..], b"te", &[0; 8], b"more"].concat();
        assert_eq!(other.read(b"file").await.unwrap(), text);
        assert_eq!(one.read(b"file").await.unwrap(), text);
        // If no data is written, setting the size takes one call.
        let file = one.create(b"empty", MODE, true).await.unwrap();
        let before = calls(&one);
        one.set_attributes(b"empty", &sized(5000)).await.unwrap();
        assert_eq!(calls(&one), before);
        assert_eq!(file.read_at(4000, 5000).await.unwrap().into_bytes(), vec![0; 1000]);
        file.sync().await.unwrap();
        assert_eq!(other.read(b"empty").await.unwrap(), vec![0; 5000]);
        // The existing data of the file must be truncated to the new size.
        one.set_attributes(b"empty", &sized(3)).await.unwrap();
        assert_eq!(other.read(b"empty").await.unwrap(), vec![0; 3]);
    });
}

/// A write must itself report a full disk, although the data is only cached. Existing data can be
/// overwritten.
#[test]
fn a_write_reports_a_full_disk() {
    let config = Config { capacity_bytes: 1 << 20, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, store, Manners::Full).unwrap();
    let one = user(&server, 1);
    block_on(async {
        let file = one.create(b"file", MODE, true).await.unwrap();
        let full = Err(Error::Failed(Status::NoSpace));
        assert_eq!(file.write_at(0, Bytes::from(vec![1; 4 << 20])).await, full);
        let mut end = 0;
        while file.write_at(end, Bytes::from(vec![1; 4096])).await.is_ok() {
            end += 4096;
            assert!(end <= 1 << 20, "it fits");
        }
        assert!(end >= 512 << 10, "most of the disk can be used: {end}");
        assert_eq!(file.sync().await, Ok(()), "accepted data has space");
        for at in [0, end - 4096] {
            file.write_at(at, Bytes::from(vec![2; 4096])).await.unwrap();
        }
        assert_eq!(file.sync().await, Ok(()));
        let read = one.read(b"file").await.unwrap();
        assert_eq!((read.len() as u64, read[0], read[5000]), (end, 2, 1));
    });
}

/// The server may refuse data after the write of the data has returned. The client then passes the
/// data to the keeper of refused data before a program learns of the refusal. Later writes return
/// only after the server has their data.
#[test]
fn data_that_the_server_refuses_later_is_handed_over() {
    let config = Config { capacity_bytes: 1 << 20, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, Arc::<MemStore>::clone(&store), Manners::Full).unwrap();
    // The second server does not know the leases of the first server, so it acts like a program on
    // the server's machine.
    let elsewhere = MemServer::start_over(any, store, Manners::Full).unwrap();
    let (one, other) = (user(&server, 1), user(&elsewhere, 2));
    let kept = Arc::new(Kept::default());
    one.client().rescue_by(Arc::<Kept>::clone(&kept));
    let data = Bytes::from(vec![7; 64 << 10]);
    let full = Error::Failed(Status::NoSpace);
    block_on(async {
        let file = one.create(b"file", MODE, true).await.unwrap();
        file.write_at(0, data.clone()).await.unwrap();
        let filler = other.create(b"filler", MODE, true).await.unwrap();
        let mut end = 0;
        while filler.write_at(end, Bytes::from(vec![1; 4096])).await.is_ok() {
            end += 4096;
        }
        assert_eq!(filler.sync().await, Ok(()));
        assert_eq!(file.sync().await, Err(full.clone()));
        {
            let mut kept = kept.0.lock().unwrap();
            kept.sort_by_key(|one| one.offset);
            let all: Vec<u8> = kept.iter().flat_map(|one| one.data.to_vec()).collect();
            assert_eq!(all, data, "all data is there");
            assert!(kept.iter().all(|one| one.why == Why::Failed(full.clone())));
            assert_eq!(kept[0].path.as_deref(), Some(&[b"file".to_vec().into()][..]));
        }
        assert_eq!(file.write_at(0, data.clone()).await, Err(full));
        filler.close().await.unwrap();
        other.remove(b"filler").await.unwrap();
        file.write_at(0, data.clone()).await.unwrap();
        assert_eq!(one.client().cached_bytes().1, 0, "the server has the data");
    });
}

/// Reserved space that a client does not use must not keep other clients from using the disk.
#[test]
fn unused_reservations_are_given_to_writers() {
    let config = Config { capacity_bytes: 8 << 20, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, store, Manners::Full).unwrap();
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        // If the client kept all reservations, these files would need many times the size of the
        // disk.
        for number in 0..200 {
            let name = format!("small{number}");
            one.write(name.as_bytes(), MODE, Bytes::from(vec![1; 1024])).await.unwrap();
        }
        for (user, name) in [(&one, b"large1"), (&other, b"large2")] {
            let file = user.create(name, MODE, true).await.unwrap();
            for at in (0..2 << 20).step_by(256 << 10) {
                file.write_at(at, Bytes::from(vec![2; 256 << 10])).await.unwrap();
            }
            file.sync().await.unwrap();
            file.close().await.unwrap();
        }
        for number in 0..200 {
            let text = other.read(format!("small{number}").as_bytes()).await.unwrap();
            assert_eq!(text, vec![1; 1024]);
        }
    });
}

/// The client sends a more restrictive mode to the server at once, before later writes.
#[test]
fn a_restrictive_mode_is_sent_at_once() {
    let server = MemServer::start(Manners::Full);
    let one = user(&server, 1);
    block_on(async {
        let file = one.create(b"file", Mode::from_bits(0o640), true).await.unwrap();
        one.set_attributes(b"file", &setting(0o644, 1)).await.unwrap();
        let before = calls(&one);
        one.set_attributes(b"file", &setting(0o600, 1)).await.unwrap();
        assert!(calls(&one) > before);
        let before = calls(&one);
        file.write_at(0, Bytes::from_static(b"secret")).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(calls(&one), before);
    });
}

/// Only the client that has set the mode knows it. The server must use it to decide about the
/// access of other users.
#[test]
fn access_is_decided_by_the_mode_that_was_set() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    let stranger = other.client().user(Credential::system("rig", 77, 77, &[]));
    block_on(async {
        for mode in [0o600, 0o666] {
            let file = one.create(b"file", Mode::from_bits(0o644), true).await.unwrap();
            one.set_attributes(b"file", &setting(mode, 1)).await.unwrap();
            let opened = stranger.open(b"file", OpenHow::READ_WRITE).await.map(drop);
            assert_eq!(opened.is_ok(), mode == 0o666, "{opened:?}");
            file.close().await.unwrap();
            one.remove(b"file").await.unwrap();
        }
    });
}

/// Attributes that a client has set survive a restart of the server, and the end of the lease.
#[test]
fn attributes_survive_a_server_that_forgets_leases() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        let file = one.create(b"file", Mode::from_bits(0o600), true).await.unwrap();
        one.set_attributes(b"file", &setting(0o640, 77)).await.unwrap();
        let server = restart(server);
        file.sync().await.unwrap();
        let seen = other.attributes(b"file").await.unwrap();
        assert_eq!((seen.mode.bits(), seen.modified.seconds), (0o640, 77));
        // When the client writes data back because of a recall, the call must contain the
        // attributes that were set earlier.
        one.set_attributes(b"file", &setting(0o644, 78)).await.unwrap();
        other.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        let seen = one.attributes(b"file").await.unwrap();
        assert_eq!((seen.mode.bits(), seen.size), (0o644, 4));
        assert_ne!(seen.modified.seconds, 78);
        drop(server);
    });
}

/// If the creation had a wrong result, the client would create the file again, and the test would
/// count more removals than creations.
#[test]
fn a_created_file_counts_as_created_if_another_client_removes_it_at_once() {
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

/// Two threads of two clients append to one file: no append may overwrite another.
#[test]
fn concurrent_appends_are_all_kept() {
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

/// The data that the server refused.
#[derive(Default)]
struct Kept(Mutex<Vec<Refused>>);

impl Rescuer for Kept {
    fn rescue(&self, refused: &Refused) {
        self.0.lock().unwrap().push(refused.clone());
    }
}

/// Starts a server over the same files, without knowledge of the earlier leases.
fn restart(server: MemServer) -> MemServer {
    let (address, store) = (server.address(), Arc::clone(server.store()));
    drop(server);
    MemServer::start_over(address, store, Manners::Full).unwrap()
}

/// Restarts the server like `restart`, after another client has changed the file.
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

/// Links, renames and removals by the client itself change the times of a file. The client must not
/// take these changes for changes by another client.
#[test]
fn own_changes_of_names_cause_no_conflict() {
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

/// A server that has lost its list of clients accepts changes under earlier leases, if no other
/// client has changed the file since.
#[test]
fn delayed_writes_survive_a_server_that_forgets_leases() {
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
        // The restart happens before the client has connected again; the client does that by
        // itself.
        let _server = restart_changed(server, b"newer");
        let late = Error::Failed(Status::NotSynchronized);
        assert_eq!(file.sync().await, Err(late), "the data is not merged, and fsync reports it");
        assert_eq!(other.read(b"file").await.unwrap(), "newer");
        assert_eq!(one.read(b"file").await.unwrap(), "newer");
    });
    let kept = kept.0.lock().unwrap();
    let [late] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((late.offset, &late.data[..]), (0, &b"late"[..]), "the program gets the data");
    assert_eq!(late.path.as_deref(), Some(&[b"file".to_vec().into()][..]));
}
