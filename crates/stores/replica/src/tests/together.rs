//! Tests of the names and attributes that clients of several metaservers see.

use core::net::IpAddr;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Budget, Caller, Found, FsError, Mode, NewFile, NewNode, ObjectId, Place,
    SetAttributes, SetTime, Stability, Store, Wanted,
};

use super::lan::{Lan, name, who};
use crate::record::Record;
use crate::{Load, Notice, Order, moved};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

impl Lan {
    pub(super) fn look(
        &self,
        at: usize,
        directory: ObjectId,
        text: &str,
    ) -> Result<Found, FsError> {
        let store = self.at(at);
        self.run(store.lookup(&who(), &directory, name(text)))
    }

    pub(super) fn create(
        &self,
        at: usize,
        directory: ObjectId,
        text: &str,
    ) -> Result<Found, FsError> {
        let store = self.at(at);
        let place = Place { directory, name: name(text) };
        let how = NewFile::Guarded(SetAttributes::default());
        self.run(store.create(&who(), place, &how)).result
    }

    pub(super) fn mkdir(&self, at: usize, directory: ObjectId, text: &str) -> ObjectId {
        let store = self.at(at);
        let place = Place { directory, name: name(text) };
        let none = SetAttributes::default();
        let made = self.run(store.make(&who(), place, &NewNode::Directory, &none));
        made.result.expect("the name is free").object
    }

    pub(super) fn remove(&self, at: usize, directory: ObjectId, text: &str) -> Result<(), FsError> {
        let store = self.at(at);
        self.run(store.remove(&who(), Place { directory, name: name(text) })).result
    }

    fn rmdir(&self, at: usize, directory: ObjectId, text: &str) -> Result<(), FsError> {
        let store = self.at(at);
        self.run(store.rmdir(&who(), Place { directory, name: name(text) })).result
    }

    pub(super) fn rename(
        &self,
        at: usize,
        from: (ObjectId, &str),
        to: (ObjectId, &str),
    ) -> Result<(), FsError> {
        let store = self.at(at);
        let place = |(directory, text)| Place { directory, name: name(text) };
        self.run(store.rename(&who(), place(from), place(to))).result
    }

    pub(super) fn names(&self, at: usize, directory: ObjectId) -> Vec<String> {
        let store = self.at(at);
        let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
        let who = who();
        let read = store.readdir(&who, &directory, Cookie(0), budget, Wanted::Everything);
        let page = self.run(read).expect("it is there");
        assert!(page.end);
        let names = page.entries.iter().map(|entry| String::from_utf8_lossy(entry.name).into());
        names.collect()
    }

    pub(super) fn root(&self) -> ObjectId {
        self.at(0).root()
    }
}

const ORDERS: [Order; 4] = [Order::Sequential, Order::Nearest, Order::Tree, Order::Constant];

#[test]
fn a_created_object_is_found_everywhere_with_its_id() {
    for order in ORDERS {
        let lan = Lan::new(4, order);
        let directory = lan.mkdir(1, lan.root(), "directory");
        let made = lan.create(2, directory, "file").expect("the name is free");
        for at in 0..4 {
            let found = lan.look(at, lan.root(), "directory").expect("it is there");
            assert_eq!(found.object, directory);
            let found = lan.look(at, directory, "file").expect("it is there");
            assert_eq!((found.object, found.attributes), (made.object, made.attributes));
            assert_eq!(lan.names(at, directory), [".", "..", "file"]);
        }
        assert_eq!(lan.create(3, directory, "file"), Err(FsError::AlreadyExists));
    }
}

#[test]
fn a_removed_object_is_gone_everywhere_at_once() {
    let lan = Lan::new(3, Order::Constant);
    let made = lan.create(0, lan.root(), "file").expect("the name is free").object;
    for at in 0..3 {
        assert_eq!(lan.look(at, lan.root(), "file").map(|found| found.object), Ok(made));
    }
    lan.remove(2, lan.root(), "file").expect("it is there");
    for _ in 0..4 {
        for at in 0..3 {
            assert_eq!(lan.look(at, lan.root(), "file").err(), Some(FsError::NotFound), "{at}");
            let store = lan.at(at);
            assert_eq!(lan.run(store.getattr(&made)), Err(FsError::Stale));
            assert_eq!(lan.names(at, lan.root()), [".", ".."]);
        }
        lan.pass(WINDOW);
    }
    assert_eq!(lan.remove(1, lan.root(), "file"), Err(FsError::NotFound));
}

#[test]
fn a_rename_is_visible_and_the_tree_has_no_cycle() {
    let lan = Lan::new(3, Order::Constant);
    let (one, two) = (lan.mkdir(0, lan.root(), "one"), lan.mkdir(1, lan.root(), "two"));
    let made = lan.create(2, one, "a").expect("the name is free").object;
    let over = lan.create(0, two, "b").expect("the name is free").object;
    lan.look(1, one, "a").expect("it is there");
    lan.rename(1, (one, "a"), (two, "b")).expect("both are there");
    lan.pass(WINDOW);
    for at in 0..3 {
        assert_eq!(lan.look(at, two, "b").map(|found| found.object), Ok(made), "{at}");
        assert_eq!(lan.look(at, one, "a").err(), Some(FsError::NotFound));
        let store = lan.at(at);
        assert_eq!(lan.run(store.getattr(&over)), Err(FsError::Stale));
    }
    lan.rename(2, (lan.root(), "two"), (one, "two")).expect("it can move");
    assert_eq!(lan.rename(0, (lan.root(), "one"), (two, "one")), Err(FsError::Invalid));
    assert_eq!(lan.rmdir(0, one, "two"), Err(FsError::NotEmpty));
    lan.remove(0, two, "b").expect("it is there");
    lan.pass(Duration::from_secs(1));
    assert_eq!(lan.rmdir(2, one, "two"), Ok(()));
    assert_eq!(lan.names(1, one), [".", ".."]);
}

/// Renames a file over another file of the same home, in a directory of another home. Repeats this
/// with a disk that fails after 0, 1, 2, ... records, and restarts the files' home. Returns the
/// file that has the name after each restart.
fn replaced_by_half() -> Vec<&'static str> {
    let mut seen = Vec::new();
    for records in 0.. {
        let lan = Lan::new(3, Order::Constant);
        let directory = lan.mkdir(0, lan.root(), "directory");
        let [old, new] = ["old", "new"]
            .map(|text| lan.create(1, directory, text).expect("the name is free").object);
        lan.fail(1, lan.disk(1).len() + records);
        let is_done = lan.rename(1, (directory, "new"), (directory, "old")).is_ok();
        lan.kill(1, None);
        lan.start(1);
        lan.pass(WINDOW);
        let found = lan.look(2, directory, "old").expect("some object always has the name").object;
        assert_eq!(lan.look(2, directory, "new").is_ok(), found == old, "all of it or nothing");
        let (both, one) = (vec![".", "..", "old", "new"], vec![".", "..", "old"]);
        assert_eq!(lan.names(2, directory), if found == old { both } else { one });
        seen.push(if found == old { "old" } else { "new" });
        assert!(found == old || found == new);
        // If the rename had no effect, the name must still be in order: it exists, it can be
        // removed, and then it can be created again.
        if found == old {
            assert_eq!(lan.create(2, directory, "old").err(), Some(FsError::AlreadyExists));
            lan.remove(2, directory, "old").expect("it is there");
            lan.create(2, directory, "old").expect("the name is free");
        }
        if is_done {
            return seen;
        }
    }
    seen
}

#[test]
fn a_replacement_at_one_home_is_atomic() {
    let seen = replaced_by_half();
    assert_eq!((seen.first(), seen.last()), (Some(&"old"), Some(&"new")), "{seen:?}");
    // Replaced directories must be empty, and a replaced file keeps its other names.
    let lan = Lan::new(3, Order::Constant);
    let [full, empty, moved] =
        ["full", "empty", "moved"].map(|text| lan.mkdir(1, lan.root(), text));
    lan.create(2, full, "file").expect("the name is free");
    let at = |text| (lan.root(), text);
    assert_eq!(lan.rename(2, at("moved"), at("full")), Err(FsError::NotEmpty));
    lan.rename(2, at("moved"), at("empty")).expect("it is empty");
    assert_eq!(lan.look(0, lan.root(), "empty").map(|found| found.object), Ok(moved));
    assert_eq!(lan.run(lan.at(0).getattr(&empty)), Err(FsError::Stale));
    assert_eq!(lan.names(0, lan.root()), [".", "..", "full", "empty"]);
    let [one, two] =
        ["one", "two"].map(|text| lan.create(1, full, text).expect("the name is free").object);
    let store = lan.at(2);
    let link = Place { directory: full, name: name("link") };
    lan.run(store.link(&who(), &two, link)).result.expect("the name is free");
    lan.rename(0, (full, "one"), (full, "two")).expect("both are there");
    for at in 0..3 {
        assert_eq!(lan.look(at, full, "two").map(|found| found.object), Ok(one));
        let left = lan.look(at, full, "link").expect("it has another name");
        assert_eq!((left.object, left.attributes.link_count), (two, 1));
        assert_eq!(lan.names(at, full), [".", "..", "file", "two", "link"]);
    }
}

#[test]
fn changes_are_seen_within_a_window() {
    let lan = Lan::new(2, Order::Constant);
    let made = lan.create(0, lan.root(), "file").expect("the name is free").object;
    let mode = |at: usize| {
        let store = lan.at(at);
        lan.run(store.getattr(&made)).expect("it is there").mode.bits()
    };
    assert_eq!((mode(0), mode(1)), (0o600, 0o600));
    let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..SetAttributes::default() };
    for at in [1, 0] {
        let store = lan.at(at);
        lan.run(store.setattr(&who(), &made, &set, None)).result.expect("the owner may");
        assert_eq!(mode(at), 0o640, "the metaserver of the change sees it");
        lan.pass(WINDOW);
        assert_eq!((mode(0), mode(1)), (0o640, 0o640));
    }
    // A metaserver uses a cached copy for a window without a call to the home.
    let asked = lan.messages();
    assert_eq!((mode(1), lan.messages()), (0o640, asked));
    lan.pass(WINDOW);
    assert_eq!((mode(1), lan.messages()), (0o640, asked + 1));
}

#[test]
fn remote_writes_are_released() {
    let lan = Lan::new(2, Order::Constant);
    let made = lan.create(0, lan.root(), "file").expect("the name is free").object;
    let content = |at: usize| {
        let store = lan.at(at);
        lan.run(store.read(&who(), &made, 0, 100)).expect("it is there").data
    };
    assert_eq!(&content(1)[..], b"head");
    let write = |at: usize, data: &'static [u8], stability| {
        let store = lan.at(at);
        let who = who();
        let write = store.write(&who, &made, 4, data.into(), stability);
        lan.run(write).result.expect("the owner may");
    };
    write(1, b" one", Stability::Unstable);
    assert_eq!((&content(1)[..], &content(0)[..]), (&b"head one"[..], &b"head"[..]));
    lan.pass(Duration::from_secs(1));
    assert_eq!(&content(0)[..], b"head one", "a second after the last");
    write(1, b" two", Stability::FileSync);
    assert_eq!((&content(1)[..], &content(0)[..]), (&b"head two"[..], &b"head two"[..]));
    write(1, b" six", Stability::Unstable);
    let store = lan.at(1);
    lan.run(store.commit(&who(), &made, 0, 0)).result.expect("it can be");
    assert_eq!(&content(0)[..], b"head six");
}

#[test]
fn answered_changes_survive_a_crash() {
    let lan = Lan::new(2, Order::Constant);
    let directory = lan.mkdir(1, lan.root(), "directory");
    for number in 0..5 {
        lan.create(number % 2, directory, &format!("file{number}")).expect("the name is free");
    }
    lan.remove(0, directory, "file1").expect("it is there");
    lan.rename(1, (directory, "file2"), (lan.root(), "other")).expect("it is there");
    let ids = |lan: &Lan| {
        let names = ["file0", "file3", "file4"].map(|text| (directory, text));
        let all = names.into_iter().chain([(lan.root(), "other")]);
        all.map(|(directory, text)| lan.look(0, directory, text)).collect::<Vec<_>>()
    };
    let before = ids(&lan);
    for at in [0, 1] {
        lan.kill(at, None);
        lan.start(at);
        lan.pass(WINDOW);
        assert_eq!(ids(&lan), before);
        assert_eq!(lan.names(1, directory), [".", "..", "file0", "file3", "file4"]);
        assert_eq!(lan.look(at, directory, "file1").err(), Some(FsError::NotFound));
    }
}

#[test]
fn operations_wait_while_a_home_is_unreachable() {
    let lan = Lan::new(3, Order::Constant);
    let made = lan.create(1, lan.root(), "file").expect("the name is free").object;
    assert_eq!(lan.look(2, lan.root(), "file").map(|found| found.object), Ok(made));
    lan.cut(1, true);
    assert!(lan.look(2, lan.root(), "file").is_ok(), "the window is not over");
    lan.pass(WINDOW);
    assert_eq!(lan.look(2, lan.root(), "file").err(), Some(FsError::Delay), "nothing old");
    assert!(lan.create(2, lan.root(), "other").is_ok(), "all else goes on");
    assert_eq!(lan.create(1, lan.root(), "third").err(), Some(FsError::Delay));
    lan.cut(1, false);
    assert_eq!(lan.look(2, lan.root(), "file").map(|found| found.object), Ok(made));
    assert!(lan.create(1, lan.root(), "third").is_ok());
}

#[test]
fn older_metadata_is_not_served() {
    let lan = Lan::new(2, Order::Constant);
    let backup = lan.disk(1);
    lan.create(1, lan.root(), "file").expect("the name is free");
    lan.look(0, lan.root(), "file").expect("it is there, and a peer has recorded it");
    lan.kill(1, Some(backup));
    lan.start(1);
    lan.pass(WINDOW);
    assert!(!lan.at(1).is_open());
    assert_eq!(lan.look(1, lan.root(), "file").err(), Some(FsError::Io));
    let older = |notice: &Notice| matches!(notice, Notice::Older { peer: 0, .. });
    assert!(lan.notices().iter().any(older));
}

/// A metaserver continues to run although another machine has taken over with its records and a
/// later epoch. At its first call it must learn that it is superseded. Afterwards a start from the
/// old records must be recognised as rolled back.
#[test]
fn a_superseded_metaserver_refuses_to_serve() {
    let lan = Lan::new(2, Order::Constant);
    let file = lan.create(1, lan.root(), "file").expect("the name is free").object;
    let (old, disk) = (lan.at(1), lan.disk(1));
    let elsewhere = moved(&disk).expect("it was written").into_iter().map(Bytes::from).collect();
    lan.start_elsewhere(1, elsewhere);
    lan.pass(WINDOW);
    assert!(lan.at(1).is_open());
    assert_eq!(lan.look(0, lan.root(), "file").map(|found| found.object), Ok(file));
    assert!(lan.run(old.getattr(&file)).is_ok(), "it has not learned of the move");
    let asked = lan.run(old.lookup(&who(), &lan.root(), name("other")));
    assert!(asked.is_err());
    lan.pass(WINDOW);
    assert_eq!(lan.run(old.getattr(&file)).err(), Some(FsError::Io));
    assert!(lan.notices().iter().any(|it| matches!(it, Notice::Over { peer: 0, .. })));
    drop(old);
    assert!(lan.create(1, lan.root(), "other").is_ok(), "the other goes on");
    lan.kill(1, Some(disk));
    lan.start(1);
    lan.pass(WINDOW);
    assert!(!lan.at(1).is_open());
}

/// Returns the address of a client host.
fn host(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

#[test]
fn clients_are_sent_to_the_least_busy_metaserver() {
    let lan = Lan::new(3, Order::Constant);
    let busy = |at: usize, busy_tenths, connections| {
        lan.at(at).is_busy(Load { busy_tenths, connections });
    };
    let mut hosts = (0..).map(host);
    let mut told = |at: usize, among: &[u32]| {
        let host = hosts.next().expect("there are many");
        lan.run(lan.at(at).least_busy(among, host))
    };
    let all = [0, 1, 2];
    for (at, busy_tenths, connections) in [(0, 2, 0), (1, 1, 7), (2, 1, 6)] {
        busy(at, busy_tenths, connections);
    }
    // A client that was referred to a metaserver counts as a connection of this metaserver for the
    // next choice.
    assert_eq!([0; 3].map(|at| told(at, &all)), [Some(2), Some(1), Some(2)]);
    assert_eq!(
        [1; 2].map(|at| told(at, &all)),
        [Some(2), Some(1)],
        "it prefers itself among equals"
    );
    busy(0, 2, 0);
    assert_eq!(told(0, &all), Some(2), "the new load reports include it");
    assert_eq!((told(0, &[0]), told(0, &[])), (Some(0), None));
    lan.cut(2, true);
    lan.pass(SECOND);
    assert_eq!(told(0, &all), Some(1));
    // A metaserver that does not serve clients itself can still refer clients to the metaservers
    // that do.
    lan.kill(0, None);
    lan.start(0);
    lan.pass(Duration::from_secs(2));
    assert!(!lan.at(0).is_open());
    assert_eq!((told(0, &all), told(0, &[0, 2])), (Some(1), None));
}

#[test]
fn a_metaserver_that_has_just_started_attracts_no_clients() {
    let lan = Lan::new(2, Order::Constant);
    let told = |at: usize| lan.run(lan.at(at).least_busy(&[0, 1], host(1)));
    lan.at(0).is_busy(Load { busy_tenths: 9, connections: 700 });
    assert_eq!([told(0), told(1)], [Some(0); 2], "the other has reported no load");
    lan.at(1).is_busy(Load { busy_tenths: 0, connections: 1 });
    lan.pass(SECOND);
    assert_eq!([told(0), told(1)], [Some(1); 2]);
}

#[test]
fn a_host_that_asks_often_counts_once() {
    let lan = Lan::new(2, Order::Constant);
    lan.at(0).is_busy(Load { busy_tenths: 1, connections: 20 });
    lan.at(1).is_busy(Load { busy_tenths: 1, connections: 6 });
    let told = |number| lan.run(lan.at(0).least_busy(&[0, 1], host(number)));
    assert!((0..50).all(|_| told(0) == Some(1)));
    // Each host counts once, however often it requests a referral. So 14 hosts are referred to this
    // metaserver before the loads are equal.
    assert!((1..14).all(|number| told(number) == Some(1)));
    assert_eq!(told(14), Some(0));
}

#[test]
fn each_metaserver_is_asked_for_its_load_once_in_a_second() {
    let lan = Lan::giving_up(4, |_, _| "head".into(), (false, false), Duration::from_mins(1));
    let (store, all) = (lan.at(0), [0, 1, 2, 3]);
    let asked = lan.messages();
    for number in 0..100 {
        assert!(lan.run(store.least_busy(&all, host(number))).is_some());
    }
    assert_eq!(lan.messages() - asked, 3);
    lan.pass(SECOND);
    // One metaserver no longer replies. The first clients wait for its reply for a second, and
    // further clients do not wait.
    lan.delay(3, Duration::from_hours(1));
    let (mut waiting, mut at_once) = (Vec::new(), 0);
    for number in 0..100 {
        let mut one = Box::pin(store.least_busy(&all, host(number)));
        match one.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(told) => at_once += usize::from(told.is_some()),
            Poll::Pending => waiting.push(one),
        }
    }
    assert_eq!((waiting.len(), at_once), (64, 36));
    let began = lan.now();
    let told = lan.run(join_all(waiting));
    assert_eq!(lan.now() - began, SECOND);
    assert!(told.iter().all(|told| told.is_some_and(|number| number != 3)), "{told:?}");
    assert_eq!(lan.messages() - asked, 6);
    // When the metaserver is known to be silent, no client waits for it.
    lan.pass(2 * SECOND);
    let began = lan.now();
    assert!(lan.run(store.least_busy(&all, host(0))).is_some());
    assert_eq!(lan.now(), began);
}

#[test]
fn a_metaserver_in_another_mode_is_refused() {
    let lan = Lan::new(3, Order::Constant);
    lan.kill(1, None);
    lan.strictly().start(1);
    lan.pass(WINDOW);
    assert!(!lan.at(1).is_open(), "all are strict or none is");
    assert_eq!(lan.look(1, lan.root(), "file").err(), Some(FsError::Io));
    assert!(lan.notices().iter().any(|it| matches!(it, Notice::Unlike { strict: true, .. })));
    assert!(lan.create(0, lan.root(), "file").is_ok(), "the others go on");
    assert!(lan.run(lan.at(0).load_of(2)).is_some());
    assert_eq!(lan.run(lan.at(0).load_of(1)), None, "it answers, but does not serve");
    lan.kill(1, None);
    lan.start(1);
    lan.pass(WINDOW);
    assert!(lan.look(1, lan.root(), "file").is_ok());
}

#[test]
fn a_write_clears_set_id_bits_and_nothing_else_of_a_mode() {
    let lan = Lan::new(2, Order::Constant);
    let made = lan.create(0, lan.root(), "file").expect("the name is free").object;
    let set = |mode: u32| {
        let mode = Some(Mode::from_bits(mode));
        let set = SetAttributes { mode, uid: Some(7), ..SetAttributes::default() };
        let store = lan.at(0);
        lan.run(store.setattr(&who(), &made, &set, None)).result.expect("the superuser may");
    };
    let mode = |at: usize| lan.run(lan.at(at).getattr(&made)).expect("it is there").mode.bits();
    set(0o6777);
    assert_eq!(mode(1), 0o6777);
    // The other metaserver has cached the mode from before this change.
    set(0o4711);
    assert_eq!(mode(1), 0o6777);
    let (store, owner) = (lan.at(1), Caller { uid: 7, gid: 7, ..Caller::nobody() });
    let write = store.write(&owner, &made, 0, "data".into(), Stability::Unstable);
    lan.run(write).result.expect("the owner may");
    assert_eq!((mode(0), mode(1)), (0o711, 0o711));
}

#[test]
fn a_directory_has_one_name() {
    let lan = Lan::new(2, Order::Constant);
    let made = lan.mkdir(0, lan.root(), "one");
    let place = |text: &str| (lan.root(), text.to_owned());
    let further = |from: Option<&str>, to: Option<&str>| {
        let at = |text: &str| {
            let (directory, name) = place(text);
            let directory = crate::lookup::object(&directory).expect("it is one of these");
            leasehold_core::replica::Place { directory, name: name.into_bytes() }
        };
        let object = crate::lookup::object(&made).expect("it is one of these");
        let (from, to) = (from.map(at), to.map(at));
        let number = lan.at(1).with(crate::node::Node::number);
        let ask = crate::message::Ask::Place { number, object, from, to, over: None };
        lan.run(lan.at(1).ask_home(object, ask))
    };
    assert_eq!(further(None, Some("two")), crate::message::Answer::Exists);
    assert_eq!(further(None, None), crate::message::Answer::Gone);
    assert_eq!(lan.names(1, lan.root()), [".", "..", "one"]);
    assert!(matches!(further(Some("one"), Some("two")), crate::message::Answer::Version(_)));
    assert_eq!(lan.names(1, lan.root()), [".", "..", "two"]);
}

#[test]
fn a_cycle_of_parents_is_detected() {
    let lan = Lan::new(1, Order::Constant);
    let [one, two] = ["one", "two"].map(|text| lan.mkdir(0, lan.root(), text));
    lan.mkdir(0, one, "taken");
    lan.mkdir(0, lan.root(), "moved");
    // Change the records so that each of two directories is the parent of the other.
    let damaged = lan.disk(0).into_iter().map(|record| {
        let Ok(Record::Put(mut metafile)) = Record::decode(&record) else { return record };
        for (this, other) in [(one, two), (two, one)] {
            if crate::lookup::id(metafile.object) == this {
                let directory = crate::lookup::object(&other).expect("it is one of these");
                metafile.places.iter_mut().for_each(|place| place.directory = directory);
            }
        }
        Record::Put(metafile).encode().into()
    });
    let damaged = damaged.collect();
    lan.kill(0, Some(damaged));
    lan.start(0);
    lan.pass(WINDOW);
    assert_eq!(lan.rename(0, (lan.root(), "moved"), (one, "taken")), Err(FsError::Io));
}

#[test]
fn each_search_order_costs_its_number_of_calls() {
    for (order, most) in [(Order::Sequential, 7), (Order::Nearest, 7), (Order::Tree, 7)] {
        let lan = Lan::new(8, order);
        lan.create(7, lan.root(), "file").expect("the name is free");
        lan.look(3, lan.root(), "other").expect_err("it is nowhere");
        let asked = lan.messages();
        lan.look(3, lan.root(), "file").expect("it is there");
        let cost = lan.messages() - asked;
        assert!(cost > 2 && cost <= most, "{order:?}: {cost}");
    }
    let lan = Lan::new(16, Order::Constant);
    lan.create(15, lan.root(), "file").expect("the name is free");
    lan.look(3, lan.root(), "other").expect_err("it is nowhere");
    let asked = lan.messages();
    lan.look(3, lan.root(), "file").expect("it is there");
    assert_eq!(lan.messages() - asked, 2, "however many there are");
    lan.look(3, lan.root(), "other").expect_err("it is nowhere");
    lan.look(3, lan.root(), "file").expect("it is there");
    assert_eq!(lan.messages() - asked, 2, "what is known costs nothing");
}

/// The nearest peer is queried first, independent of its number, also after the distances have
/// changed.
#[test]
fn the_nearest_peer_is_asked_first() {
    let lan = Lan::new(4, Order::Nearest);
    let (far, long) = (Duration::from_millis(50), Duration::from_secs(11));
    // Measures the time that the second metaserver needs to find a new file of the given
    // metaserver.
    let mut number = 0;
    let mut took = |maker: usize| {
        number += 1;
        let name = format!("file{number}");
        lan.create(maker, lan.root(), &name).expect("the name is free");
        let begun = lan.now();
        lan.look(1, lan.root(), &name).expect("it is there");
        lan.now() - begun
    };
    lan.delay(2, far);
    assert!(took(3) >= far, "it was as near as the others, and is before the last");
    // One slow answer does not change the order, because it may be an exception. So make several
    // slow searches.
    for _ in 0..2 {
        lan.pass(long);
        took(3);
    }
    for _ in 0..100 {
        assert!(took(3) < far, "the far one is not waited for");
        lan.pass(SECOND);
    }
    assert!(took(2) >= far, "it is asked if no nearer peer has the name");
    lan.delay(2, Duration::ZERO);
    lan.delay(3, far);
    // The searching metaserver measures the distance of all peers, whichever peer has the files.
    for _ in 0..3 {
        lan.pass(long);
        took(0);
    }
    assert!(took(2) < far, "they have changed places");
}

#[test]
fn exclusive_creation_runs_once() {
    let lan = Lan::new(2, Order::Constant);
    let create = |at: usize, verifier: u8| {
        let store = lan.at(at);
        let place = Place { directory: lan.root(), name: name("file") };
        let how = NewFile::exclusive([verifier; 8]);
        lan.run(store.create(&who(), place, &how)).result.map(|found| found.object)
    };
    let made = create(0, 1).expect("the name is free");
    assert_eq!((create(0, 1), create(1, 1)), (Ok(made), Ok(made)));
    assert_eq!(create(1, 2), Err(FsError::AlreadyExists));
    let times = SetAttributes { accessed: SetTime::Now, ..SetAttributes::default() };
    let store = lan.at(0);
    lan.run(store.setattr(&who(), &made, &times, None)).result.expect("the owner may");
    assert_eq!(create(0, 1), Err(FsError::AlreadyExists));
}
