//! Tests of slow homes. A home may execute a request after the requester's call has timed out. If
//! the client received NFS3ERR_JUKEBOX then, its retry of a REMOVE would find that the name does
//! not exist. The requester therefore repeats the request with an equal change number until the
//! home answers.

use core::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use leasehold_fs::{Found, FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Store};

use super::lan::{Lan, name, who};
use crate::Order;
use crate::change_slots::SLOTS;

/// The latency of the home's disk: longer than the timeout of a call.
const SLOW: Duration = Duration::from_secs(4);

/// The longest time for which a home may be silent.
const GIVE_UP: Duration = Duration::from_secs(20);

/// The metaserver that sends the requests and is the home of the root, and the metaserver that is
/// the home of the other files and directories.
const ASKER: usize = 0;
const HOME: usize = 1;

fn lan(strict: bool) -> Lan {
    Lan::giving_up(3, |_, _| Bytes::from_static(b"head"), (strict, false), GIVE_UP)
}

/// Returns a name in the root directory.
fn place(lan: &Lan, text: &'static str) -> Place<'static> {
    Place { directory: lan.at(ASKER).root(), name: name(text) }
}

/// Creates a file at the home, and looks it up at the requester.
fn create(lan: &Lan, text: &'static str) -> ObjectId {
    let (store, how) = (lan.at(HOME), NewFile::Guarded(SetAttributes::default()));
    let made = lan.run(store.create(&who(), place(lan, text), &how)).result;
    let made = made.expect("the name is free").object;
    assert_eq!(look(lan, ASKER, text).map(|found| found.object), Ok(made));
    made
}

fn mkdir(lan: &Lan, text: &'static str) {
    let (store, none) = (lan.at(HOME), SetAttributes::default());
    let made = lan.run(store.make(&who(), place(lan, text), &NewNode::Directory, &none));
    made.result.expect("the name is free");
    look(lan, ASKER, text).expect("it is there");
}

fn look(lan: &Lan, at: usize, text: &str) -> Result<Found, FsError> {
    let (store, root) = (lan.at(at), lan.at(ASKER).root());
    lan.run(store.lookup(&who(), &root, name(text)))
}

/// A change that the requester sends to the home.
#[derive(Clone, Copy, Debug)]
enum Change {
    Remove(&'static str),
    Rmdir(&'static str),
    Rename(&'static str, &'static str),
    Link(ObjectId, &'static str),
}

impl Change {
    async fn ask(self, lan: &Lan) -> Result<(), FsError> {
        let (store, who) = (lan.at(ASKER), who());
        match self {
            Self::Remove(text) => store.remove(&who, place(lan, text)).await.result,
            Self::Rmdir(text) => store.rmdir(&who, place(lan, text)).await.result,
            Self::Rename(from, to) => {
                store.rename(&who, place(lan, from), place(lan, to)).await.result
            }
            Self::Link(object, text) => store.link(&who, &object, place(lan, text)).await.result,
        }
    }
}

/// The names before the changes. The changes remove three of them.
const OLD: [&str; 4] = ["removed", "directory", "from", "linked"];

/// Returns one change of each kind.
fn changes(lan: &Lan) -> [Change; 4] {
    create(lan, "removed");
    mkdir(lan, "directory");
    create(lan, "from");
    let linked = create(lan, "linked");
    [
        Change::Remove("removed"),
        Change::Rmdir("directory"),
        Change::Rename("from", "to"),
        Change::Link(linked, "second"),
    ]
}

/// Checks that all metaservers see the new names.
fn is_done_everywhere(lan: &Lan) {
    lan.pass(2 * SLOW);
    for at in 0..3 {
        for text in &OLD[..3] {
            assert_eq!(look(lan, at, text).err(), Some(FsError::NotFound), "{text} at {at}");
        }
        for text in ["to", "linked", "second"] {
            assert!(look(lan, at, text).is_ok(), "{text} at {at}");
        }
    }
}

#[test]
fn a_slow_home_is_answered_with_its_result() {
    for strict in [false, true] {
        let lan = lan(strict);
        let changes = changes(&lan);
        lan.slow(HOME, SLOW);
        for change in changes {
            let began = lan.now();
            assert_eq!(lan.run(change.ask(&lan)), Ok(()), "{change:?}, {strict}");
            let took = lan.now() - began;
            assert!(took >= SLOW, "it was answered before it was stored: {change:?} took {took:?}");
        }
        is_done_everywhere(&lan);
    }
}

/// The home answers after the requester's timeout. A retry must receive the answer.
#[test]
fn a_late_answer_is_received_by_a_retry() {
    for strict in [false, true] {
        let lan = lan(strict);
        for change in changes(&lan) {
            // Look the names up first: with cached names the change sends only one request, whose
            // delayed answer is lost.
            for text in OLD {
                let _ = look(&lan, ASKER, text);
            }
            lan.delay(HOME, SLOW);
            let on_its_way = async {
                lan.at(ASKER).shared.outside.sleep(SLOW / 4).await;
                lan.delay(HOME, Duration::ZERO);
            };
            let (told, ()) = lan.run(join(change.ask(&lan), on_its_way));
            assert_eq!(told, Ok(()), "{change:?}, {strict}");
        }
        is_done_everywhere(&lan);
    }
}

/// A second removal of a name has another change number, so the home must execute it and not return
/// the cached reply of the first removal.
#[test]
fn a_recreated_name_is_removed_again() {
    let lan = lan(false);
    for _ in 0..3 {
        lan.slow(HOME, Duration::ZERO);
        create(&lan, "file");
        lan.slow(HOME, SLOW);
        assert_eq!(lan.run(Change::Remove("file").ask(&lan)), Ok(()));
        let again = lan.run(Change::Remove("file").ask(&lan));
        assert_eq!(again, Err(FsError::NotFound), "it is done");
    }
}

/// The home becomes unreachable during a request, so the result is unknown. The operation must fail
/// after the longest permitted silence.
#[test]
fn a_request_without_an_answer_fails_in_the_end() {
    let lan = lan(false);
    create(&lan, "file");
    lan.slow(HOME, SLOW);
    let goes = async {
        lan.at(ASKER).shared.outside.sleep(SLOW / 4).await;
        lan.cut(HOME, true);
    };
    let began = lan.now();
    let (told, ()) = lan.run(join(Change::Remove("file").ask(&lan), goes));
    assert_eq!(told, Err(FsError::Io));
    let took = lan.now() - began;
    assert!(took >= GIVE_UP && took < 2 * GIVE_UP, "{took:?}");
}

/// A home that cannot execute a request answers this in time, so that the client may retry.
#[test]
fn a_request_that_was_not_executed_is_retried() {
    let lan = lan(false);
    create(&lan, "from");
    // The disk of the directory's home is slow, so the reservation of the name is stored too late
    // for the file's home.
    lan.slow(ASKER, SLOW);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Err(FsError::Delay));
    lan.pass(SLOW);
    assert!(look(&lan, ASKER, "from").is_ok(), "it has the name that it had");
    lan.slow(ASKER, Duration::ZERO);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Ok(()));
}

/// Many changes wait at one home. They must occupy only some slots of the connection, so that other
/// calls are executed. A change without a slot receives NFS3ERR_JUKEBOX.
#[test]
fn few_changes_wait_at_one_home() {
    const FILES: usize = 80;
    let lan = lan(false);
    let names: Vec<&'static str> =
        (0..FILES).map(|at| &*Box::leak(format!("file{at}").into_boxed_str())).collect();
    for text in &names {
        create(&lan, text);
    }
    lan.slow(HOME, SLOW);
    let began = lan.now();
    let removes = names.iter().map(|text| async {
        let told = Change::Remove(text).ask(&lan).await;
        (*text, told, lan.now() - began)
    });
    let told = lan.run(join_all(removes));
    let (asked, others): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, told, _)| told.is_ok());
    assert_eq!(asked.len(), usize::try_from(SLOTS).expect("few"));
    for (text, told, took) in others {
        assert_eq!(told, Err(FsError::Delay), "{text}");
        assert!(took < SLOW, "{text} took {took:?}");
        assert!(look(&lan, HOME, text).is_ok(), "{text} was never asked for");
    }
    // The slots are free again, so later changes succeed.
    for text in &names {
        let told = lan.run(Change::Remove(text).ask(&lan));
        assert!(matches!(told, Ok(()) | Err(FsError::NotFound)), "{text}: {told:?}");
        assert_eq!(look(&lan, HOME, text).err(), Some(FsError::NotFound));
    }
}

/// While a search queries other metaservers, the name is created at the searching metaserver. The
/// search must not report that the name is free.
#[test]
fn a_name_created_during_a_search_is_not_reported_free() {
    let lan = Lan::new(3, Order::Sequential);
    lan.delay(2, SLOW / 4);
    let (store, how) = (lan.at(HOME), NewFile::Guarded(SetAttributes::default()));
    let (root, who) = (lan.at(ASKER).root(), who());
    let makes = async {
        lan.at(HOME).shared.outside.sleep(SLOW / 8).await;
        store.create(&who, place(&lan, "file"), &how).await.result.map(|made| made.object)
    };
    let (told, made) = lan.run(join(store.lookup(&who, &root, name("file")), makes));
    assert!(made.is_ok());
    assert_eq!(told.map(|found| found.object), made);
}
