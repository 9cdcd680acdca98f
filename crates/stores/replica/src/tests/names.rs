//! Tests of delegable leases on directories: clients of a metaserver cache names until a client of
//! another metaserver changes the names.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use futures_util::future::{join, join_all};
use leasehold_fs::{
    Coherence, FsError, Guard, NewFile, NewNode, ObjectId, Place, SetAttributes, Store,
};

use super::lan::{Lan, name, who};
use crate::{Later, Lender, Metaserver};

const WINDOW: Duration = Duration::from_secs(3);

/// A directory and a name in it.
type At = (ObjectId, &'static str);

/// The names that the clients of a metaserver cache, and their leases.
#[derive(Default)]
struct Cached {
    /// The number of recalls of each directory.
    evicted: BTreeMap<ObjectId, u64>,
    leased: BTreeSet<ObjectId>,
    names: BTreeMap<At, Option<ObjectId>>,
    /// The directories in which one of the clients is changing a name. The other clients get no
    /// lease on them meanwhile.
    changing: BTreeSet<ObjectId>,
    are_away: bool,
}

/// A metaserver with clients that cache names under leases.
#[derive(Clone)]
struct One {
    lan: Lan,
    me: usize,
    cached: Arc<Mutex<Cached>>,
}

impl Lender for One {
    fn is_recovering(&self) -> bool {
        false
    }

    fn evict(&self, object: ObjectId) -> Later<bool> {
        let gone = !self.cached().are_away;
        if gone {
            self.lost(object);
        }
        Box::pin(async move { gone })
    }

    fn lost(&self, object: ObjectId) {
        let mut cached = self.cached();
        *cached.evicted.entry(object).or_default() += 1;
        cached.leased.remove(&object);
        cached.names.retain(|(directory, _), _| *directory != object);
    }
}

/// A change of names by a client.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create(At),
    Mkdir(At),
    Remove(At),
    Rmdir(At),
    Rename(At, At),
    Link(ObjectId, At),
}

fn place((directory, text): At) -> Place<'static> {
    Place { directory, name: name(text) }
}

impl One {
    fn cached(&self) -> MutexGuard<'_, Cached> {
        self.cached.lock().expect("no test panics with it")
    }

    fn store(&self) -> Metaserver {
        self.lan.at(self.me)
    }

    /// Acquires a lease on a directory for the clients.
    async fn lease(&self, directory: ObjectId) -> Result<(), FsError> {
        let evicted = self.cached().evicted.get(&directory).copied();
        self.store().acquire(&directory, Guard::Changes, false).await?;
        let mut cached = self.cached();
        // Record the lease only if it was not recalled in the meantime.
        if cached.evicted.get(&directory).copied() == evicted {
            cached.leased.insert(directory);
        }
        Ok(())
    }

    /// Returns the object of a name as a client sees it: from the client's cache, if the client has
    /// a lease on the directory.
    async fn look(&self, at: At) -> Result<Option<ObjectId>, FsError> {
        let evicted = self.cached().evicted.get(&at.0).copied();
        if let Some(known) = self.cached().names.get(&at) {
            return Ok(*known);
        }
        let found = match self.store().lookup(&who(), &at.0, name(at.1)).await {
            Ok(found) => Some(found.object),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let mut cached = self.cached();
        let is_same = cached.evicted.get(&at.0).copied() == evicted;
        if is_same && cached.leased.contains(&at.0) && !cached.changing.contains(&at.0) {
            cached.names.insert(at, found);
        }
        Ok(found)
    }

    /// Executes a change of names. While it runs, other clients of the same metaserver get no lease
    /// on the directories.
    async fn change(&self, change: Change) -> Result<(), FsError> {
        let within = match change {
            Change::Create(at) | Change::Mkdir(at) => vec![at.0],
            Change::Remove(at) | Change::Rmdir(at) | Change::Link(_, at) => vec![at.0],
            Change::Rename(from, to) => vec![from.0, to.0],
        };
        {
            let mut cached = self.cached();
            cached.changing.extend(&within);
            cached.names.retain(|(directory, _), _| !within.contains(directory));
        }
        let (store, who, none) = (self.store(), who(), SetAttributes::default());
        let done = match change {
            Change::Create(at) => {
                let how = NewFile::Guarded(none);
                store.create(&who, place(at), &how).await.result.map(|_| ())
            }
            Change::Mkdir(at) => {
                let made = store.make(&who, place(at), &NewNode::Directory, &none).await;
                made.result.map(|_| ())
            }
            Change::Remove(at) => store.remove(&who, place(at)).await.result,
            Change::Rmdir(at) => store.rmdir(&who, place(at)).await.result,
            Change::Rename(from, to) => store.rename(&who, place(from), place(to)).await.result,
            Change::Link(object, at) => store.link(&who, &object, place(at)).await.result,
        };
        self.cached().changing.retain(|directory| !within.contains(directory));
        done
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.lan.run(work)
    }
}

fn three() -> (Lan, [One; 3]) {
    let lan = Lan::giving_up(
        3,
        |_, _| Bytes::from_static(b"head"),
        (true, true),
        Duration::from_secs(20),
    );
    let all = [0, 1, 2].map(|me| {
        let one = One { lan: lan.clone(), me, cached: Arc::default() };
        lan.at(me).lend_by(Arc::new(one.clone()));
        one
    });
    lan.pass(WINDOW);
    (lan, all)
}

/// Returns three directories with different homes: the root, whose home is the first metaserver,
/// and a directory of each other metaserver.
fn directories(lan: &Lan, all: &[One; 3]) -> [ObjectId; 3] {
    let root = lan.at(0).root();
    let made = |one: usize, text: &'static str| {
        lan.run(all[one].change(Change::Mkdir((root, text)))).expect("the name is free");
        lan.run(all[one].look((root, text))).expect("it is there").expect("it is there")
    };
    [root, made(1, "one"), made(2, "two")]
}

/// Tests each kind of change by a client of each metaserver, for an object of each home in a
/// directory of each home. Before the reply, clients of other metaservers must have dropped the
/// cached name. The client that makes the change keeps its lease on the directory.
#[test]
fn cached_names_are_recalled_before_they_change() {
    let (lan, all) = three();
    assert!(lan.at(0).lends());
    let directories = directories(&lan, &all);
    let (mut taken, mut kept) = (0, 0);
    for (by, home, directory) in (0..27).map(|case| (case / 9, case / 3 % 3, case % 3)) {
        let within = directories[directory];
        let [at, to] = [(within, "name"), (within, "other")];
        let file = |text| lan.run(all[home].look((within, text))).expect("the lookup is answered");
        let steps: [(usize, &dyn Fn() -> Change); 7] = [
            (home, &|| Change::Create(at)),
            (by, &|| Change::Rename(at, to)),
            (by, &|| Change::Link(file("other").expect("it is there"), at)),
            (by, &|| Change::Remove(at)),
            (by, &|| Change::Remove(to)),
            (home, &|| Change::Mkdir(at)),
            (by, &|| Change::Rmdir(at)),
        ];
        for (who, step) in steps {
            let change = step();
            for one in &all {
                assert_eq!(lan.run(one.lease(within)), Ok(()));
                lan.run(one.look(at)).expect("the lookup is answered");
                lan.run(one.look(to)).expect("the lookup is answered");
            }
            assert_eq!(lan.run(all[who].change(change)), Ok(()), "{change:?}");
            for one in &all {
                let is_leased = one.cached().leased.contains(&within);
                taken += usize::from(!is_leased);
                kept += usize::from(is_leased);
                assert_eq!(is_leased, one.me == who, "{change:?} by {who}, at {}", one.me);
            }
        }
    }
    assert_eq!((taken, kept), (27 * 7 * 2, 27 * 7));
}

/// Names change while clients of other metaservers look them up under leases, and messages and
/// disks have latency. A client must never see an outdated cached name.
#[test]
fn cached_names_are_never_stale() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let mut hits = 0;
    for seed in 1..=60_u64 {
        let (lan, all) = three();
        let directories = directories(&lan, &all);
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        for me in 0..3 {
            lan.delay(me, Duration::from_millis(1 + random(30)));
            lan.slow(me, Duration::from_millis(1 + random(60)));
        }
        for _ in 0..12 {
            let mut pick = |of: usize| usize::try_from(random(of as u64)).expect("few");
            let mut at = || (directories[pick(3)], NAMES[pick(3)]);
            let (one, other) = (at(), at());
            let file = lan.run(all[0].look(other)).ok().flatten();
            let change = match (pick(4), file) {
                (0, _) => Change::Create(one),
                (1, _) => Change::Remove(one),
                (2, Some(file)) => Change::Link(file, one),
                _ => Change::Rename(other, one),
            };
            let by = pick(3);
            let pauses: Vec<Duration> =
                (0..3).map(|_| Duration::from_millis(pick(200) as u64)).collect();
            let watch = |watcher: One, pause: Duration| async move {
                let outside = watcher.store().shared.outside.clone();
                for _ in 0..4 {
                    outside.sleep(pause).await;
                    for at in [one, other] {
                        // Ignore an error: without a lease the client looks the name up at its
                        // metaserver.
                        let _ = watcher.lease(at.0).await;
                        let _ = watcher.look(at).await;
                    }
                }
            };
            let watching =
                all.iter().zip(pauses).map(|(watcher, pause)| watch(watcher.clone(), pause));
            let (_, changed) = lan.run(join(join_all(watching), all[by].change(change)));
            assert!(!matches!(changed, Err(FsError::Io)), "{change:?}");
            for watcher in &all {
                let known: Vec<_> =
                    watcher.cached().names.iter().map(|(at, known)| (*at, *known)).collect();
                for (at, known) in known {
                    hits += 1;
                    for store in &all {
                        let found = lan.run(store.store().lookup(&who(), &at.0, name(at.1)));
                        let found = found.ok().map(|found| found.object);
                        assert_eq!(
                            known, found,
                            "{at:?} at {} after {change:?}, seed {seed}",
                            watcher.me
                        );
                    }
                }
            }
        }
    }
    assert!(hits > 1000, "{hits}");
}

/// Clients that do not return their leases block changes of names in the leased directory until
/// their leases expire, and in no other directory. The client that changes a name receives
/// NFS3ERR_JUKEBOX.
#[test]
fn unresponsive_clients_block_only_their_directory() {
    let (lan, all) = three();
    let [root, one, two] = directories(&lan, &all);
    assert_eq!(all[2].run(all[2].lease(one)), Ok(()));
    all[2].cached().are_away = true;
    for by in 0..3 {
        let done = lan.run(all[by].change(Change::Create((two, ["a", "b", "c"][by]))));
        assert_eq!(done, Ok(()));
    }
    for by in &all[..2] {
        let begun = lan.now();
        assert_eq!(lan.run(by.change(Change::Create((one, "name")))), Err(FsError::Delay));
        assert!(lan.now() - begun < 2 * WINDOW);
    }
    assert_eq!(lan.run(all[0].change(Change::Create((root, "name")))), Ok(()));
    all[2].cached().are_away = false;
    lan.pass(4 * WINDOW);
    assert_eq!(lan.run(all[0].change(Change::Create((one, "name")))), Ok(()));
    assert_eq!(lan.run(all[2].look((one, "name"))).map(|found| found.is_some()), Ok(true));
}

/// A metaserver sends BEGIN and becomes unreachable. Its intent blocks leases on the directory for
/// one window only.
#[test]
fn an_intent_of_an_unreachable_home_expires() {
    let (lan, all) = three();
    let [_, one, _] = directories(&lan, &all);
    assert_eq!(lan.run(all[2].change(Change::Create((one, "name")))), Ok(()));
    assert_eq!(lan.run(all[0].lease(one)), Ok(()));
    let before = lan.run(all[0].store().getattr(&one)).expect("it is there").modified;
    lan.slow(2, Duration::from_millis(500));
    lan.delay(2, Duration::from_millis(10));
    let outside = lan.at(0).shared.outside.clone();
    let cut = async {
        while all[0].cached().leased.contains(&one) {
            outside.sleep(Duration::from_millis(5)).await;
        }
        lan.cut(2, true);
        let begun = lan.now();
        while all[0].lease(one).await.is_err() {
            outside.sleep(Duration::from_millis(50)).await;
        }
        lan.now() - begun
    };
    let (waited, _) = lan.run(join(cut, all[2].change(Change::Remove((one, "name")))));
    assert!(waited > WINDOW / 2 && waited < 2 * WINDOW, "{waited:?}");
    // The change may have been stored, as in this test, so the expiry of the intent changes the
    // times of the directory.
    let after = lan.run(all[0].store().getattr(&one)).expect("it is there").modified;
    assert!(after > before);
    lan.cut(2, false);
    lan.pass(4 * WINDOW);
    assert_eq!(lan.run(all[0].look((one, "name"))), Ok(None));
}

/// A requester may give up before its change is stored. So after a window the change also recalls
/// the leases of the requester's clients on the directory.
#[test]
fn a_requester_that_gave_up_loses_its_cached_names_too() {
    let (lan, all) = three();
    let [root, one, two] = directories(&lan, &all);
    for (directory, text) in [(root, "first"), (one, "second"), (two, "third")] {
        for away in [Duration::from_millis(100), 2 * WINDOW] {
            let at = (directory, text);
            assert_eq!(lan.run(all[1].change(Change::Create(at))), Ok(()));
            let file = lan.run(all[1].look(at)).expect("it is there").expect("it is there");
            assert_eq!(lan.run(all[0].lease(directory)), Ok(()));
            assert_eq!(lan.run(all[2].lease(file)), Ok(()));
            all[2].cached().are_away = true;
            let outside = lan.at(0).shared.outside.clone();
            let comes_back = async {
                outside.sleep(away).await;
                all[2].cached().are_away = false;
            };
            let (removed, ()) = lan.run(join(all[0].change(Change::Remove(at)), comes_back));
            assert_eq!(removed, Ok(()));
            assert_eq!(all[0].cached().leased.contains(&directory), away < WINDOW, "{text}");
        }
    }
}

/// The home of a directory restarts during a change of a name and loses the intent. The times of
/// the directory must change nevertheless.
#[test]
fn a_restarted_directory_home_shows_changes_made_meanwhile() {
    let (lan, all) = three();
    let [.., two] = directories(&lan, &all);
    assert_eq!(lan.run(all[1].change(Change::Create((two, "name")))), Ok(()));
    assert_eq!(lan.run(all[0].lease(two)), Ok(()));
    let before = lan.run(all[0].store().getattr(&two)).expect("it is there").modified;
    lan.slow(1, Duration::from_millis(500));
    let outside = lan.at(0).shared.outside.clone();
    let killed = async {
        while all[0].cached().leased.contains(&two) {
            outside.sleep(Duration::from_millis(5)).await;
        }
        lan.kill(2, None);
    };
    let ((), removed) = lan.run(join(killed, all[1].change(Change::Remove((two, "name")))));
    assert_eq!(removed, Ok(()));
    lan.start(2);
    lan.at(2).lend_by(Arc::new(all[2].clone()));
    lan.pass(4 * WINDOW);
    let after = lan.run(all[0].store().getattr(&two)).expect("it is there").modified;
    assert!(after > before, "{after:?}");
}

/// Several changes that wait for leases of the same clients reach their deadlines together. They
/// must be given up and leave no guard or intent at the directory.
#[test]
fn changes_given_up_together_leave_no_trace() {
    let (lan, all) = three();
    let [_, one, _] = directories(&lan, &all);
    assert_eq!(lan.run(all[1].change(Change::Create((one, "d")))), Ok(()));
    assert_eq!(lan.run(all[2].look((one, "d"))).map(|found| found.is_some()), Ok(true));
    assert_eq!(lan.run(all[2].lease(one)), Ok(()));
    all[2].cached().are_away = true;
    let names = ["a", "b", "c"];
    let changes = names.map(|name| all[1].change(Change::Create((one, name))));
    // A change by the metaserver of the leaseholders does not need to recall their leases, so it
    // waits only behind the other changes.
    let own = all[2].change(Change::Remove((one, "d")));
    let (changed, _) = lan.run(join(join_all(changes), own));
    assert!(changed.iter().all(|changed| *changed == Err(FsError::Delay)), "{changed:?}");
    all[2].cached().are_away = false;
    lan.pass(2 * WINDOW);
    for by in &all {
        assert_eq!(lan.run(by.lease(one)), Ok(()));
        assert!(lan.run(by.store().getattr(&one)).is_ok());
    }
    assert_eq!(lan.run(all[0].change(Change::Create((one, "e")))), Ok(()));
}
