//! A home may do what it was asked for after its asker has stopped waiting for the answer. The asker's
//! client was told to come again by then, came, and was told that the name that it had removed was not
//! there: the asker asks by the same number until it is answered.

use core::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};
use leasehold_fs::{Found, FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Store};

use super::lan::{Lan, name, who};
use crate::Order;
use crate::placing::SLOTS;

/// How long the home's disk takes: longer than a call may.
const SLOW: Duration = Duration::from_secs(4);

/// How long a home may be silent.
const GIVE_UP: Duration = Duration::from_secs(20);

/// The asker, which is the root's home, and the home of the files and directories of a test.
const ASKER: usize = 0;
const HOME: usize = 1;

fn lan(strict: bool) -> Lan {
    Lan::giving_up(3, |_, _| Bytes::from_static(b"head"), (strict, false), GIVE_UP)
}

/// A place in the root.
fn place(lan: &Lan, text: &'static str) -> Place<'static> {
    Place { directory: lan.at(ASKER).root(), name: name(text) }
}

/// Makes a file that the asker knows by then.
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

/// What is asked of the home.
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

/// The names that are there before, of which three go.
const OLD: [&str; 4] = ["removed", "directory", "from", "linked"];

/// What is done to what there is for it.
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

/// All has its new names at all of them.
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
fn what_a_slow_home_does_is_told() {
    for strict in [false, true] {
        let lan = lan(strict);
        let changes = changes(&lan);
        lan.slow(HOME, SLOW);
        for change in changes {
            let began = lan.now();
            assert_eq!(lan.run(change.ask(&lan)), Ok(()), "{change:?}, {strict}");
            let took = lan.now() - began;
            assert!(took >= SLOW, "it was told before it was stored: {change:?} took {took:?}");
        }
        is_done_everywhere(&lan);
    }
}

/// The answer comes when the asker waits for it no longer, and it is had by asking again.
#[test]
fn an_answer_that_was_late_is_had_once_more() {
    for strict in [false, true] {
        let lan = lan(strict);
        for change in changes(&lan) {
            // What it says to this is late enough to be lost, and nothing else is asked.
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

/// One number is one change: another of the same name is another.
#[test]
fn a_name_that_is_made_again_is_removed_again() {
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

/// What was asked of a home that is gone then is neither done nor not done, and has failed in the end.
#[test]
fn what_a_home_never_answers_has_failed_in_the_end() {
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

/// A home that says that it has not done it says so in time, and its client may come again.
#[test]
fn what_was_not_done_comes_again() {
    let lan = lan(false);
    create(&lan, "from");
    // The directory's home notes the new name, and does so too late for the file's.
    lan.slow(ASKER, SLOW);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Err(FsError::Later));
    lan.pass(SLOW);
    assert!(look(&lan, ASKER, "from").is_ok(), "it has the name that it had");
    lan.slow(ASKER, Duration::ZERO);
    assert_eq!(lan.run(Change::Rename("from", "to").ask(&lan)), Ok(()));
}

/// What waits at a home takes few of the places that calls to it have: it hears all else, and what has not
/// been asked of it is told to come again.
#[test]
fn few_changes_wait_at_a_home() {
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
        assert_eq!(told, Err(FsError::Later), "{text}");
        assert!(took < SLOW, "{text} took {took:?}");
        assert!(look(&lan, HOME, text).is_ok(), "{text} was never asked for");
    }
    // What is free is had again.
    for text in &names {
        let told = lan.run(Change::Remove(text).ask(&lan));
        assert!(matches!(told, Ok(()) | Err(FsError::NotFound)), "{text}: {told:?}");
        assert_eq!(look(&lan, HOME, text).err(), Some(FsError::NotFound));
    }
}

/// The search of a name asks others, and is no sooner over than the name is given at home.
#[test]
fn what_is_made_while_others_are_asked_is_not_nowhere() {
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
