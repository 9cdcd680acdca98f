//! What has its home at one metaserver is replaced by what has its home at another: somebody always has the
//! name, and whoever crashes leaves all of it or nothing.

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
use crate::record::Record;
use crate::using::object;

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

/// The homes of the directory, of what is renamed, and of what it replaces.
const ABOVE: usize = 0;
const NEW: usize = 1;
const OLD: usize = 2;

/// A directory with what is to be replaced and what replaces it.
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

    /// Which of both has the name, for a client of one.
    async fn seen(&self, at: usize) -> Result<&'static str, FsError> {
        let found = self.lan.at(at).lookup(&who(), &self.directory, name("old")).await?.object;
        assert!(found == self.old || found == self.new);
        Ok(if found == self.old { "old" } else { "new" })
    }

    /// The same, where all see one thing, and all of it.
    fn all_see(&self) -> &'static str {
        let seen = [0, 1, 2].map(|at| self.lan.run(self.seen(at)).expect("somebody has the name"));
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

    /// The records that say what has been replaced and is not known to be gone.
    fn replacing(&self) -> usize {
        let records = crate::compacted(&self.lan.disk(NEW)).expect("it was written");
        let records = records.iter().map(|record| Record::decode(record).expect("it was written"));
        records.filter(|record| matches!(record, Record::Replaces(_, Some(_)))).count()
    }
}

#[test]
fn it_is_done_from_everywhere() {
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

/// A link of what is replaced stays, and so does one of what replaces it.
#[test]
fn other_names_stay() {
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

/// Has the disk of one fail behind each of its records, and starts that again.
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

/// Looks again and again at each, while it is done slowly.
#[test]
fn somebody_always_has_the_name() {
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
                        seen.push(files.seen(at).await.expect("somebody has the name"));
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

/// Begins the rename, lets it go on for so long, and kills whoever it is.
fn begun(files: &Files, span: Duration, kills: usize) {
    let rename = core::pin::pin!(files.rename(ABOVE));
    let is_over = files.lan.at(ABOVE).shared.outside.sleep(span);
    let either = files.lan.run(select(rename, is_over));
    assert!(matches!(either, Either::Right(_)), "it takes its time");
    files.lan.kill(kills, None);
}

/// Kills who renames when the other has yielded, whose answer is on its way: so nothing was stored.
fn crashed_behind_its_yield(files: &Files) {
    let lan = &files.lan;
    lan.pass(WINDOW);
    lan.delay(OLD, SECOND);
    begun(files, Duration::from_millis(1500), NEW);
    lan.delay(OLD, Duration::ZERO);
}

#[test]
fn what_is_yielded_is_shown_by_nobody_until_it_is_known_what_came_of_it() {
    for lan in Files::lans() {
        // It is on the disk of the one, which has told nobody.
        let files = Files::of(lan.clone());
        lan.slow(NEW, 5 * SECOND);
        begun(&files, Duration::from_millis(500), NEW);
        lan.pass(2 * WINDOW);
        assert_eq!(lan.run(files.seen(OLD)), Err(FsError::Later));
        assert_eq!(lan.run(files.seen(ABOVE)), Err(FsError::Later));
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

/// Who has yielded starts anew before it has lost the name.
#[test]
fn who_has_yielded_and_starts_anew_does_not_show_it_either() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        lan.slow(OLD, 5 * SECOND);
        lan.slow(NEW, 2 * SECOND);
        // It is stored, and its claim not noted.
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

/// Who has yielded starts anew without asking who it has yielded to, and before the name was claimed.
#[test]
fn what_was_forgotten_is_yielded_once_more() {
    for lan in Files::lans() {
        let files = Files::of(lan.clone());
        lan.slow(NEW, SECOND);
        // It is on the disk, and nobody has heard of that.
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

/// It has lost the name, and starts anew: whoever looks for the name, and came too early to what has it now, is
/// not told that it is nowhere.
#[test]
fn what_was_replaced_just_now_is_not_nowhere_behind_a_start() {
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

/// Who was to replace it starts anew, and is asked to go there by somebody who does not know of what stands
/// there: it has yielded to a change that nobody goes on with.
#[test]
fn what_has_yielded_to_a_change_that_is_void_still_has_the_name() {
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

/// Whoever caches what is renamed takes its time to give that up: what it replaces is there as long, and
/// its home may start anew.
#[test]
fn what_is_replaced_is_seen_while_somebody_has_leases_on_what_replaces_it() {
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
        assert_eq!(new.given(file).as_deref(), None, "its own clients are its own matter");
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

/// Whose client has it done starts anew meanwhile, and its clients cache names again: nobody waits for it.
#[test]
fn nothing_is_replaced_for_who_has_begun_anew() {
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

/// Each of two files is renamed over the other, and both wait for clients first.
#[test]
fn of_two_that_replace_each_other_one_does() {
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
    assert_eq!((replaces, is_replaced), (Ok(()), Err(FsError::Later)));
    assert!(lan.now() - began < 6 * SECOND, "{:?}", lan.now() - began);
    for at in [ABOVE, NEW, OLD] {
        let seen = |text| lan.look(at, lan.root(), text).map(|found| found.object);
        assert_eq!((seen("new"), seen("old")), (Err(FsError::NotFound), Ok(files[0])));
    }
}

/// In a tree one is asked with others behind it, of which one has what replaced that of the first.
#[test]
fn what_has_replaced_another_is_found_at_once() {
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
fn a_record_of_what_is_replaced_outlives_a_start() {
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
