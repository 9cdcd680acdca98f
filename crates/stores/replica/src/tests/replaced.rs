//! Tests of a rename over an object of another home: at every moment some object has the name, and
//! after a crash the change is either complete or has no effect.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join, select};
use leasehold_base::units::FileId;
use leasehold_core::replica::Place as At;
use leasehold_fs::{FsError, Guard, ObjectId, Place, Store};

use super::covers::{One, three_of};
use super::data::new_file;
use super::lan::{Lan, name, who};
use crate::Order;
use crate::lookup::object;
use crate::record::Record;

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

/// The homes of the directory, of the renamed object, and of the replaced object.
const ABOVE: usize = 0;
const NEW: usize = 1;
const OLD: usize = 2;

/// A directory with the file to replace and the file that replaces it.
struct Files {
    lan: Lan,
    directory: ObjectId,
    new: ObjectId,
    old: ObjectId,
}

impl Files {
    fn of(lan: Lan) -> Self {
        let directory = lan.mkdir(ABOVE, lan.root(), "directory");
        let create = |at, text| lan.create(at, directory, text).expect("the name is free").object;
        let (new, old) = (create(NEW, "new"), create(OLD, "old"));
        Self { lan, directory, new, old }
    }

    fn lans() -> Vec<Lan> {
        let head = |_, _| Bytes::from_static(b"head");
        let orders = [Order::Sequential, Order::Tree, Order::Constant];
        let lazy = orders.into_iter().map(|order| Lan::new(3, order));
        lazy.chain([Lan::strict(3, head)]).collect()
    }

    async fn rename(&self, at: usize) -> Result<(), FsError> {
        let (store, directory) = (self.lan.at(at), self.directory);
        let place = |text| Place { directory, name: name(text) };
        store.rename(&who(), place("new"), place("old")).await.result
    }

    /// Returns the file that has the name, as a client of one metaserver sees it.
    async fn seen(&self, at: usize) -> Result<&'static str, FsError> {
        let found = self.lan.at(at).lookup(&who(), &self.directory, name("old")).await?.object;
        assert!(found == self.old || found == self.new);
        Ok(if found == self.old { "old" } else { "new" })
    }

    /// Checks that all metaservers see the same complete state, and returns the file that has the
    /// name.
    fn all_see(&self) -> &'static str {
        let seen =
            [0, 1, 2].map(|at| self.lan.run(self.seen(at)).expect("some object has the name"));
        assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
        for at in 0..3 {
            let both = seen[0] == "old";
            assert_eq!(self.lan.look(at, self.directory, "new").is_ok(), both, "all or nothing");
            let mut names = self.lan.names(at, self.directory);
            names.sort();
            let all: &[&str] = if both { &[".", "..", "new", "old"] } else { &[".", "..", "old"] };
            assert_eq!(names, all);
        }
        seen[0]
    }

    /// Returns the number of two-phase renames that are recorded as incomplete.
    fn replacing(&self) -> usize {
        let records = crate::compacted(&self.lan.disk(NEW)).expect("it was written");
        let records = records.iter().map(|record| Record::decode(record).expect("it was written"));
        records.filter(|record| matches!(record, Record::Replaces(_, Some(_)))).count()
    }
}

#[test]
fn a_replacement_works_from_every_metaserver() {
    for lan in Files::lans() {
        for by in 0..3 {
            let files = Files::of(lan.clone());
            assert_eq!(files.lan.run(files.rename(by)), Ok(()));
            assert_eq!(files.lan.run(files.seen(by)), Ok("new"));
            lan.pass(WINDOW);
            assert_eq!((files.all_see(), files.replacing()), ("new", 0));
            assert_eq!(lan.run(lan.at(by).getattr(&files.old)), Err(FsError::Stale));
            lan.remove(by, files.directory, "old").expect("it is there");
            lan.create(by, files.directory, "old").expect("the name is free");
            lan.remove(by, files.directory, "old").expect("it is there");
            lan.run(
                lan.at(by).rmdir(&who(), Place { directory: lan.root(), name: name("directory") }),
            )
            .result
            .expect("it is empty");
        }
    }
}

/// Other names (links) of the replaced file and of the new file must stay.
#[test]
fn other_links_stay() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        for (object, text) in [(files.old, "link"), (files.new, "other")] {
            let place = Place { directory: files.directory, name: name(text) };
            lan.run(lan.at(0).link(&who(), &object, place)).result.expect("the name is free");
        }
        assert_eq!(lan.run(files.rename(0)), Ok(()));
        lan.pass(WINDOW);
        for (object, text, count) in [(files.old, "link", 1), (files.new, "other", 2)] {
            let left = lan.look(2, files.directory, text).expect("it has another name");
            assert_eq!((left.object, left.attributes.link_count), (object, count));
        }
    }
}

/// Repeats the rename with a disk that fails after 0, 1, 2, ... records, and restarts the
/// metaserver of the disk. Returns the file that has the name after each run.
fn replaced_by_half(lan: &dyn Fn() -> Lan, fails: usize) -> Vec<&'static str> {
    let mut seen = Vec::new();
    for records in 0.. {
        let files = Files::of(lan());
        let lan = files.lan.clone();
        lan.pass(SECOND);
        lan.fail(fails, lan.disk(fails).len() + records);
        let is_done = lan.run(async {
            let give_up = lan.at(ABOVE).shared.outside.sleep(8 * SECOND);
            let rename = core::pin::pin!(files.rename(ABOVE));
            matches!(select(rename, give_up).await, Either::Left((Ok(()), _)))
        });
        lan.kill(fails, None);
        lan.start(fails);
        lan.pass(3 * WINDOW);
        seen.push(files.all_see());
        assert_eq!(files.replacing(), 0);
        if is_done {
            return seen;
        }
        assert!(records < 20, "it never comes to its end: {seen:?}");
    }
    seen
}

#[test]
fn a_crash_leaves_all_or_nothing() {
    let head = |_, _| Bytes::from_static(b"head");
    let lans: [&dyn Fn() -> Lan; 3] =
        [&|| Lan::new(3, Order::Constant), &|| Lan::new(3, Order::Sequential), &|| {
            Lan::strict(3, head)
        }];
    for (at, lan) in lans.iter().enumerate() {
        for fails in 0..3 {
            let seen = replaced_by_half(lan, fails);
            assert_eq!(seen.last(), Some(&"new"), "{at}, {fails}: {seen:?}");
        }
    }
}

/// While a slow rename runs, all metaservers look the name up repeatedly, and must always find a
/// file.
#[test]
fn the_name_is_never_missing() {
    for (of, lan) in Files::lans().into_iter().enumerate() {
        let is_strict = of >= 3;
        for by in 0..3 {
            let files = Files::of(lan.clone());
            (0..3).for_each(|at| lan.slow(at, Duration::from_millis(100)));
            let (is_done, clock) = (AtomicBool::new(false), &lan.at(0).shared.outside);
            let rename = async {
                clock.sleep(Duration::from_millis(50)).await;
                assert_eq!(files.rename(by).await, Ok(()));
                is_done.store(true, Ordering::Relaxed);
            };
            let look = async {
                let mut seen = Vec::new();
                while !is_done.load(Ordering::Relaxed) {
                    for at in 0..3 {
                        seen.push(files.seen(at).await.expect("some object has the name"));
                        clock.sleep(Duration::from_millis(7)).await;
                    }
                }
                seen
            };
            let ((), seen) = lan.run(join(rename, look));
            let order: Vec<bool> = seen.iter().map(|one| *one == "new").collect();
            assert!(order.contains(&false), "it was looked at before");
            assert!(!is_strict || order.is_sorted(), "{by}: {seen:?}");
            lan.pass(WINDOW);
            assert_eq!(files.all_see(), "new");
            lan.remove(0, files.directory, "old").expect("it is there");
            lan.run(
                lan.at(0).rmdir(&who(), Place { directory: lan.root(), name: name("directory") }),
            )
            .result
            .expect("it is empty");
        }
    }
}

/// Starts the rename, lets it run for a time span, and kills a metaserver.
fn begun(files: &Files, span: Duration, kills: usize) {
    let rename = core::pin::pin!(files.rename(ABOVE));
    let is_over = files.lan.at(ABOVE).shared.outside.sleep(span);
    let either = files.lan.run(select(rename, is_over));
    assert!(matches!(either, Either::Right(_)), "it takes its time");
    files.lan.kill(kills, None);
}

/// Kills the home of the renamed file while the answer to YIELD is in flight, so that this home has
/// stored nothing.
fn crashed_behind_its_yield(files: &Files) {
    let lan = &files.lan;
    lan.pass(WINDOW);
    lan.delay(OLD, SECOND);
    begun(files, Duration::from_millis(1500), NEW);
    lan.delay(OLD, Duration::ZERO);
}

#[test]
fn a_prepared_object_is_hidden_until_the_outcome_is_known() {
    for lan in Files::lans() {
        // The killed metaserver has stored the rename, and has not sent REPLACED to any other
        // metaserver.
        let files = Files::of(lan.clone());
        lan.slow(NEW, 5 * SECOND);
        begun(&files, Duration::from_millis(500), NEW);
        lan.pass(2 * WINDOW);
        assert_eq!(lan.run(files.seen(OLD)), Err(FsError::Delay));
        assert_eq!(lan.run(files.seen(ABOVE)), Err(FsError::Delay));
        lan.slow(NEW, Duration::ZERO);
        lan.start(NEW);
        lan.pass(2 * WINDOW);
        assert_eq!((files.all_see(), files.replacing()), ("new", 0));
    }
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        crashed_behind_its_yield(&files);
        lan.pass(2 * WINDOW);
        lan.start(NEW);
        lan.pass(2 * WINDOW);
        assert_eq!((files.all_see(), files.replacing()), ("old", 0));
        assert_eq!(lan.run(files.rename(NEW)), Ok(()));
    }
}

/// The home of the replaced file restarts before the file has lost the name. The file must stay
/// hidden.
#[test]
fn a_prepared_object_stays_hidden_after_a_restart() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        lan.slow(OLD, 5 * SECOND);
        lan.slow(NEW, 2 * SECOND);
        // At this time the rename is stored, and the reservation of the name is not.
        begun(&files, Duration::from_millis(2100), OLD);
        lan.slow(OLD, Duration::ZERO);
        lan.cut(ABOVE, true);
        lan.start(OLD);
        lan.pass(SECOND);
        lan.cut(ABOVE, false);
        lan.slow(NEW, Duration::ZERO);
        lan.pass(SECOND);
        assert_ne!(lan.run(files.seen(OLD)), Ok("old"));
        lan.pass(3 * WINDOW);
        assert_eq!((files.all_see(), files.replacing()), ("new", 0));
    }
}

/// The home of the replaced file restarts without waiting for the other home, and so loses the
/// preparation. The other home must repeat YIELD.
#[test]
fn a_forgotten_preparation_is_repeated() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        lan.slow(NEW, SECOND);
        // The home of the renamed file has stored the rename, and has not sent REPLACED to any
        // other metaserver.
        begun(&files, SECOND / 2, NEW);
        lan.kill(OLD, None);
        lan.without(u32::try_from(NEW).expect("few")).start(OLD);
        lan.pass(3 * WINDOW);
        assert_eq!(lan.run(files.seen(OLD)), Ok("old"));
        lan.slow(NEW, Duration::ZERO);
        lan.start(NEW);
        lan.pass(3 * WINDOW);
        assert_eq!((files.all_see(), files.replacing()), ("new", 0));
        assert_eq!(lan.remove(OLD, files.directory, "old"), Ok(()));
    }
}

/// The replaced file has lost the name, and then its home restarts. A search may have queried the
/// home of the new file before the rename, and query the home of the replaced file now. It must not
/// report that the name is free.
#[test]
fn a_recently_replaced_name_is_not_reported_free_after_a_restart() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        assert_eq!((lan.run(files.rename(NEW)), files.replacing()), (Ok(()), 0));
        let place = At {
            directory: object(&files.directory).expect("it is of this volume"),
            name: b"old".to_vec(),
        };
        let was_lost = || lan.at(OLD).with(|node| node.yields.was_lost(node.now, &place));
        assert!(was_lost());
        lan.kill(OLD, None);
        lan.start(OLD);
        lan.pass(SECOND / 2);
        assert!(lan.at(OLD).is_open() && was_lost());
        lan.pass(WINDOW);
        assert!(!was_lost());
    }
}

/// The home of the new file restarts after YIELD, so the prepared rename is void. It then receives
/// a rename of the file to the same name from a metaserver that does not name the replaced file.
/// The old file must keep the name.
#[test]
fn an_object_prepared_for_a_void_change_keeps_the_name() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        crashed_behind_its_yield(&files);
        lan.start(NEW);
        let [from, to] = ["new", "old"].map(|text| At {
            directory: object(&files.directory).expect("it is of this volume"),
            name: text.as_bytes().to_vec(),
        });
        let new = object(&files.new).expect("it is of this volume");
        let (by, other) = (lan.at(ABOVE), lan.at(OLD));
        let old = object(&files.old).expect("it is of this volume");
        assert!(other.with(|node| node.yields.has_to(old, &to, new)));
        let placed = lan.run(by.place(new, Some(&from), Some(&to), None));
        assert_eq!(placed, Err(FsError::AlreadyExists));
        lan.pass(2 * WINDOW);
        assert_eq!((files.all_see(), files.replacing()), ("old", 0));
        assert_eq!(lan.run(files.rename(OLD)), Ok(()));
    }
}

/// Clients that cache the renamed file are slow to return their leases. Meanwhile the replaced file
/// must stay visible, also if its home restarts.
#[test]
fn the_replaced_object_is_visible_while_its_replacement_is_leased() {
    let (lan, iods, [above, new, old]) =
        three_of(Lan::giving_up(3, new_file, (true, true), SECOND));
    let files = [(&new, "new", &b"after"[..]), (&old, "old", b"before")];
    let [file, replaced] = files.map(|(at, text, data)| at.create_with(text, data));
    for (at, file) in
        [(&above, file), (&new, file), (&old, file), (&new, replaced), (&old, replaced)]
    {
        assert_eq!(at.lend(file, Guard::Changes), Ok(()));
    }
    above.clients().are_away = true;
    let place = |text| Place { directory: lan.root(), name: name(text) };
    let (who, clock) = (who(), lan.at(ABOVE).shared.outside.clone());
    let rename = new.volume.rename(&who, place("new"), place("old"));
    let meanwhile = async {
        for _ in 0..20 {
            clock.sleep(SECOND).await;
            for at in [&above, &new] {
                let seen = at.volume.lookup(&who, &lan.root(), name("old")).await;
                assert_eq!(seen.map(|found| found.object), Ok(replaced));
            }
        }
        assert_eq!(new.given(file).as_deref(), None, "its own clients are not recalled");
        assert_eq!(old.given(file).as_deref(), Some(&b"after"[..]));
        assert_eq!((old.given(replaced), new.given(replaced)), (None, None));
        lan.kill(OLD, None);
        lan.start(OLD);
        clock.sleep(5 * SECOND).await;
        let old = One { volume: iods.open(&lan, OLD), ..old.clone() };
        old.join(OLD);
        let seen = old.volume.lookup(&who, &lan.root(), name("old")).await;
        assert_eq!(seen.map(|found| found.object), Ok(replaced));
        above.clients().are_away = false;
    };
    let (renamed, ()) = lan.run(join(rename, meanwhile));
    assert_eq!(renamed.result, Ok(()));
    for at in [ABOVE, NEW, OLD] {
        assert_eq!(lan.look(at, lan.root(), "old").map(|found| found.object), Ok(file));
        assert_eq!(lan.run(lan.at(at).getattr(&replaced)), Err(FsError::Stale));
    }
}

/// The requesting metaserver restarts while the rename waits for leases, and its clients cache
/// names again. The rename must be given up.
#[test]
fn a_requester_that_has_restarted_replaces_nothing() {
    for starts_anew in [true, false] {
        let (lan, iods, [above, new, old]) = three_of(Lan::lending(3, new_file));
        let files = [(&new, "new"), (&old, "old")].map(|(at, text)| at.create_with(text, b"data"));
        let [file, replaced] = files;
        assert_eq!(old.lend(file, Guard::Changes), Ok(()));
        old.clients().are_away = true;
        let place = |text| Place { directory: lan.root(), name: name(text) };
        let (who, clock) = (who(), lan.at(NEW).shared.outside.clone());
        let rename = core::pin::pin!(above.volume.rename(&who, place("new"), place("old")));
        let either = lan.run(select(rename, clock.sleep(SECOND)));
        assert!(matches!(either, Either::Right(_)), "it takes its time");
        if starts_anew {
            lan.kill(ABOVE, None);
            lan.start(ABOVE);
            One { volume: iods.open(&lan, ABOVE), ..above.clone() }.join(ABOVE);
            lan.pass(2 * SECOND);
        }
        old.clients().are_away = false;
        lan.pass(10 * SECOND);
        let seen = |text| lan.look(OLD, lan.root(), text).map(|found| found.object);
        if starts_anew {
            assert_eq!((seen("new"), seen("old")), (Ok(file), Ok(replaced)));
        } else {
            assert_eq!((seen("new"), seen("old")), (Err(FsError::NotFound), Ok(file)));
        }
    }
}

/// Two clients rename two files over each other, and both renames wait for leases first. Exactly
/// one rename must succeed.
#[test]
fn one_of_two_mutual_replacements_succeeds() {
    let (lan, _, [above, new, old]) = three_of(Lan::lending(3, new_file));
    let files = [(&new, "new"), (&old, "old")].map(|(at, text)| at.create_with(text, b"data"));
    files.iter().for_each(|file| assert_eq!(above.lend(*file, Guard::Changes), Ok(())));
    above.clients().are_away = true;
    let place = |text| Place { directory: lan.root(), name: name(text) };
    let (who, clock) = (who(), lan.at(ABOVE).shared.outside.clone());
    let comes_back = async {
        clock.sleep(2 * SECOND).await;
        above.clients().are_away = false;
    };
    let replaces = new.volume.rename(&who, place("new"), place("old"));
    let is_replaced = old.volume.rename(&who, place("old"), place("new"));
    let began = lan.now();
    let (renamed, ()) = lan.run(join(join(replaces, is_replaced), comes_back));
    let (replaces, is_replaced) = (renamed.0.result, renamed.1.result);
    assert_eq!((replaces, is_replaced), (Ok(()), Err(FsError::Delay)));
    assert!(lan.now() - began < 6 * SECOND, "{:?}", lan.now() - began);
    for at in [ABOVE, NEW, OLD] {
        let seen = |text| lan.look(at, lan.root(), text).map(|found| found.object);
        assert_eq!((seen("new"), seen("old")), (Err(FsError::NotFound), Ok(files[0])));
    }
}

/// A search with several steps may query the home of the replaced file after the replacement, and
/// the home of the new file at any time. It must find the new file at the first attempt in each
/// search order.
#[test]
fn the_replacement_is_found_at_once() {
    for order in [Order::Sequential, Order::Tree, Order::Constant] {
        for (new, old) in [(1, 2), (2, 1), (3, 1), (1, 3), (0, 1)] {
            let lan = Lan::new(4, order);
            let root = lan.root();
            let [new, _] = [(new, "new"), (old, "old")]
                .map(|(at, text)| lan.create(at, root, text).expect("the name is free").object);
            lan.rename(0, (root, "new"), (root, "old")).expect("both are there");
            for at in 0..4 {
                let found = lan.look(at, root, "old").map(|found| found.object);
                assert_eq!(found, Ok(new), "{order:?}, at {at}");
            }
        }
    }
}

#[test]
fn a_replacement_record_survives_a_restart() {
    let place = At { directory: FileId(7), name: b"name".to_vec() };
    let record = Record::Replaces(FileId(8), Some((place, FileId(9))));
    let kept = crate::compacted(&[Bytes::from(record.encode())]).expect("it can be read");
    assert!(kept.contains(&record.encode()));
    let ended = [record, Record::Replaces(FileId(8), None)];
    let ended = ended.map(|record| Bytes::from(record.encode()));
    let kept = crate::compacted(&ended).expect("it can be read");
    let kept = kept.iter().map(|record| Record::decode(record).expect("it can be read"));
    assert!(!kept.into_iter().any(|record| matches!(record, Record::Replaces(..))));
}
