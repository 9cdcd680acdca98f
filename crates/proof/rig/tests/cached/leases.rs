//! Clients with leases, two on one server.

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

/// A directory that was listed is listed again without a call, until somebody changes its names.
#[test]
fn a_listing_is_kept_as_long_as_nobody_changes_names() {
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
        // Its own changes, and those of another.
        one.write(b"directory/c", MODE, Bytes::new()).await.unwrap();
        assert_eq!(names(&one, true).await, b"abc");
        other.remove(b"directory/a").await.unwrap();
        assert_eq!(names(&one, true).await, b"bc");
        other.rename(b"directory/b", b"directory/d").await.unwrap();
        assert_eq!(names(&one, false).await, b"cd");
        // Who has changed no name but a size has it seen, too.
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
        assert_eq!(calls(&one), before, "a close pushes nothing");
        let file = one.open(b"file", OpenHow::READ).await.unwrap();
        assert_eq!(file.read_at(98, 10).await.unwrap().into_bytes(), "xx");
        assert_eq!(calls(&one), before, "who made it is not asked about");
        assert_eq!(other.read(b"file").await.unwrap().len(), 100);
    });
}

fn setting(mode: u32, modified: i64) -> SetAttributes {
    let time = FileTime { seconds: modified, nanoseconds: 0 };
    let (mode, modified) = (Some(Mode::from_bits(mode)), SetTime::To(time));
    SetAttributes { mode, modified, ..SetAttributes::default() }
}

/// As an archive is unpacked: a file is made, written, and given its times and mode. What is set
/// goes along with what was written, and others see it at once all the same.
#[test]
fn what_is_set_goes_along_with_what_is_written() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        one.create_directory(b"new", MODE).await.unwrap();
        let before = calls(&one);
        let file = one.create(b"new/file", Mode::from_bits(0o600), true).await.unwrap();
        assert_eq!(calls(&one), before + 1, "it is made");
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
        assert_eq!(calls(&one), before + 1, "who looks on has nothing brought back");
        one.client().sync().await;
        assert_eq!(calls(&one), before + 2, "one WRITE has it all");
        let seen = other.attributes(b"new/file").await.unwrap();
        assert!(is_set(&seen), "{seen:?}");
        // A write has a time of its own.
        let file = one.open(b"new/file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(0, Bytes::from_static(b"more")).await.unwrap();
        file.sync().await.unwrap();
        assert_ne!(other.attributes(b"new/file").await.unwrap().modified.seconds, 78);
    });
}

/// As a program makes a file that knows how long it will be, or takes back what it wrote: the size
/// goes along as well, and what is written behind it is not cut off.
#[test]
fn the_size_of_a_new_file_goes_along_with_what_is_written() {
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
        assert_eq!(calls(&one), before, "nothing is brought back for who looks on");
        let text = [&[0; 10][..], b"te", &[0; 8], b"more"].concat();
        assert_eq!(other.read(b"file").await.unwrap(), text);
        assert_eq!(one.read(b"file").await.unwrap(), text);
        // With no data at all it is one call.
        let file = one.create(b"empty", MODE, true).await.unwrap();
        let before = calls(&one);
        one.set_attributes(b"empty", &sized(5000)).await.unwrap();
        assert_eq!(calls(&one), before);
        assert_eq!(file.read_at(4000, 5000).await.unwrap().into_bytes(), vec![0; 1000]);
        file.sync().await.unwrap();
        assert_eq!(other.read(b"empty").await.unwrap(), vec![0; 5000]);
        // What the server has is cut there.
        one.set_attributes(b"empty", &sized(3)).await.unwrap();
        assert_eq!(other.read(b"empty").await.unwrap(), vec![0; 3]);
    });
}

/// A full disk is told by the write, not behind it; what lies there already can be written over.
#[test]
fn a_write_says_that_the_disk_is_full() {
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
        assert!(end >= 512 << 10, "much of the disk can be used: {end}");
        assert_eq!(file.sync().await, Ok(()), "what was taken has room");
        for at in [0, end - 4096] {
            file.write_at(at, Bytes::from(vec![2; 4096])).await.unwrap();
        }
        assert_eq!(file.sync().await, Ok(()));
        let read = one.read(b"file").await.unwrap();
        assert_eq!((read.len() as u64, read[0], read[5000]), (end, 2, 1));
    });
}

/// The client hands over data that the server refuses after the write has returned before a program
/// learns of the refusal, and the next writes do not return before the server has their data.
#[test]
fn data_that_finds_no_room_later_is_handed_over() {
    let config = Config { capacity_bytes: 1 << 20, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, Arc::<MemStore>::clone(&store), Manners::Full).unwrap();
    // The second server knows no lease of the first server, like a program on the server's machine.
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
            assert_eq!(all, data, "all of it");
            assert!(kept.iter().all(|one| one.why == Why::Failed(full.clone())));
            assert_eq!(kept[0].path.as_deref(), Some(&[b"file".to_vec().into()][..]));
        }
        assert_eq!(file.write_at(0, data.clone()).await, Err(full));
        filler.close().await.unwrap();
        other.remove(b"filler").await.unwrap();
        file.write_at(0, data.clone()).await.unwrap();
        assert_eq!(one.client().cached_bytes().1, 0, "the server has it");
    });
}

/// What is reserved for files that nobody writes to any more keeps nobody from the rest of the disk.
#[test]
fn room_that_is_not_used_is_given_to_who_writes() {
    let config = Config { capacity_bytes: 8 << 20, ..Config::default() };
    let any = ([127, 0, 0, 1], 0).into();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, store, Manners::Full).unwrap();
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        // With what is reserved ahead for each it is many times what there is.
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

/// Nothing is written under a mode that lets in more than the owner was told.
#[test]
fn a_mode_that_shuts_others_out_is_told_at_once() {
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

/// What others may do hangs on a mode that only its setter knows.
#[test]
fn who_asks_for_access_is_told_by_the_mode_that_was_set() {
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

/// A start of the server loses nothing of what was set, nor does the end of a lease.
#[test]
fn what_was_set_survives_a_server_that_forgets_leases() {
    let server = MemServer::start(Manners::Full);
    let (one, other) = (user(&server, 1), user(&server, 2));
    block_on(async {
        let file = one.create(b"file", Mode::from_bits(0o600), true).await.unwrap();
        one.set_attributes(b"file", &setting(0o640, 77)).await.unwrap();
        let server = restart(server);
        file.sync().await.unwrap();
        let seen = other.attributes(b"file").await.unwrap();
        assert_eq!((seen.mode.bits(), seen.modified.seconds), (0o640, 77));
        // What a write brings back takes what was set along.
        one.set_attributes(b"file", &setting(0o644, 78)).await.unwrap();
        other.write(b"file", MODE, Bytes::from_static(b"text")).await.unwrap();
        let seen = one.attributes(b"file").await.unwrap();
        assert_eq!((seen.mode.bits(), seen.size), (0o644, 4));
        assert_ne!(seen.modified.seconds, 78);
        drop(server);
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
struct Kept(Mutex<Vec<Refused>>);

impl Rescuer for Kept {
    fn rescue(&self, refused: &Refused) {
        self.0.lock().unwrap().push(refused.clone());
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
