//! A home may execute a request after the requester's call has timed out. Without change numbers
//! the client would receive NFS3ERR_JUKEBOX, retry, and find no such name. The requester therefore
//! repeats the request with the same number until it is answered.

use core::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use leasehold_fs::{Found, FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Store};

use super::lan::{Lan, name, who};
use crate::Order;
use crate::change_slots::SLOTS;

/// The latency of the home's disk: longer than a call may take.
const SLOW: Duration = Duration::from_secs(4);

/// The longest silence of a home.
const GIVE_UP: Duration = Duration::from_secs(20);

/// The requester, which is the root's home, and the home of the files and directories of a test.
const ASKER: usize = 0;
const HOME: usize = 1;

fn lan(strict: bool) -> Lan {
    Lan::giving_up(3, |_, _| Bytes::from_static(b"head"), (strict, false), GIVE_UP)
}

/// Returns a place in the root.
fn place(lan: &Lan, text: &'static str) -> Place<'static> {
    Place { directory: lan.at(ASKER).root(), name: name(text) }
}

/// Creates a file that the requester has looked up.
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

/// A request to the home.
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

/// The names before the changes, three of which are removed.
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

/// The answer arrives after the requester's timeout; the retry receives it.
#[test]
fn a_late_answer_is_received_by_a_retry() {
    for strict in [false, true] {
        let lan = lan(strict);
        for change in changes(&lan) {
            // The delayed answer to this request is lost, and no other request is sent.
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

/// Each number is one change: a second removal of the same name is another change.
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

/// The result of a request to a home that became unreachable is unknown, and the operation fails in
/// the end.
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

/// A home that has not executed a request says so in time, and the client may retry.
#[test]
fn a_request_that_was_not_executed_is_retried() {
    let lan = lan(false);
    create(&lan, "from");
    // The directory's home stores the reservation too late for the file's home.
    lan.slow(ASKER, SLOW);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Err(FsError::Delay));
    lan.pass(SLOW);
    assert!(look(&lan, ASKER, "from").is_ok(), "it has the name that it had");
    lan.slow(ASKER, Duration::ZERO);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Ok(()));
}

/// Waiting changes occupy few slots of the connection to a home: other calls get through, and a
/// change without a slot receives NFS3ERR_JUKEBOX.
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
    // A free slot is used again.
    for text in &names {
        let told = lan.run(Change::Remove(text).ask(&lan));
        assert!(matches!(told, Ok(()) | Err(FsError::NotFound)), "{text}: {told:?}");
        assert_eq!(look(&lan, HOME, text).err(), Some(FsError::NotFound));
    }
}

/// A search asks other metaservers, and the name is created at home before the search ends.
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
