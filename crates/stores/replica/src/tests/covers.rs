//! What metaservers let their clients cache of files: until another's client is to see or change them.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use leasehold_fs::{
    FsError, Guard, NewFile, NewNode, ObjectId, Place, SetAttributes, Stability, Store,
};
use leasehold_store_striped::Striped;

use super::data::{Iods, new_file};
use super::lan::{Lan, name, who};
use crate::{Later, Lender};

const SECOND: Duration = Duration::from_secs(1);

/// How long a cover lasts that is lent.
const COVER: Duration = Duration::from_secs(180);

/// Clients of a metaserver that hold leases.
#[derive(Default)]
pub(super) struct Clients {
    /// What each file was when its lease was taken back.
    given: BTreeMap<ObjectId, Vec<u8>>,
    lost: Vec<ObjectId>,
    is_recovering: bool,
    /// Whether they do not answer.
    pub(super) are_away: bool,
    /// What is written when a lease is given up.
    late: Option<&'static [u8]>,
}

/// A metaserver with such clients.
#[derive(Clone)]
pub(super) struct One {
    pub(super) lan: Lan,
    pub(super) volume: Arc<Striped>,
    pub(super) clients: Arc<Mutex<Clients>>,
}

impl One {
    pub(super) fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().expect("no test panics with it")
    }

    pub(super) fn lend(&self, file: ObjectId, guard: Guard) -> Result<(), FsError> {
        self.lan.run(self.volume.cover(&file, guard, false))
    }

    fn create(&self, text: &str) -> ObjectId {
        let how = NewFile::Guarded(SetAttributes::default());
        let place = Place { directory: self.volume.root(), name: name(text) };
        let made = self.lan.run(self.volume.create(&who(), place, &how));
        made.result.expect("the name is free").object
    }

    pub(super) fn create_with(&self, text: &str, data: &'static [u8]) -> ObjectId {
        let file = self.create(text);
        self.write(file, data).expect("there is room");
        file
    }

    fn write(&self, file: ObjectId, data: &'static [u8]) -> Result<(), FsError> {
        let (who, data) = (who(), Bytes::from_static(data));
        let written = self.volume.write(&who, &file, 0, data, Stability::Unstable);
        self.lan.run(written).result.map(|_| ())
    }

    fn read(&self, file: ObjectId) -> Result<Vec<u8>, FsError> {
        let read = self.lan.run(self.volume.read(&who(), &file, 0, 100));
        read.map(|read| read.data.to_vec())
    }

    /// What was given up of a file, since the last time that was asked.
    pub(super) fn given(&self, file: ObjectId) -> Option<Vec<u8>> {
        self.clients().given.remove(&file)
    }

    /// Has the metaserver that runs now be that of these clients.
    pub(super) fn join(&self, me: usize) {
        self.lan.at(me).lend_by(Arc::new(self.clone()));
    }
}

impl Lender for One {
    fn is_recovering(&self) -> bool {
        self.clients().is_recovering
    }

    fn evict(&self, object: ObjectId) -> Later<bool> {
        let this = self.clone();
        Box::pin(async move {
            let late = {
                let mut clients = this.clients();
                if clients.are_away {
                    return false;
                }
                clients.late.take()
            };
            let who = who();
            if let Some(late) = late {
                let data = Bytes::from_static(late);
                let written = this.volume.write(&who, &object, 0, data, Stability::Unstable);
                written.await.result.expect("they have it for writing");
            }
            // What is over already they may not see any more.
            if let Ok(seen) = this.volume.read(&who, &object, 0, 100).await {
                this.clients().given.insert(object, seen.data.to_vec());
            }
            true
        })
    }

    fn lost(&self, object: ObjectId) {
        self.clients().lost.push(object);
    }
}

fn three() -> (Lan, Iods, [One; 3]) {
    three_of(Lan::lending(3, new_file))
}

pub(super) fn three_of(lan: Lan) -> (Lan, Iods, [One; 3]) {
    let iods = Iods::new();
    let all = [0, 1, 2].map(|me| {
        let clients = Arc::default();
        let one = One { lan: lan.clone(), volume: iods.open(&lan, me), clients };
        one.join(me);
        one
    });
    // Those that started when nobody lent are asked again.
    lan.pass(3 * SECOND);
    (lan, iods, all)
}

/// The first two of them, killed and started again; they are yet to join.
fn started_anew(lan: &Lan, iods: &Iods, ones: [One; 2]) -> [One; 2] {
    (0..ones.len()).for_each(|me| lan.kill(me, None));
    (0..ones.len()).for_each(|me| lan.start(me));
    let [home, one] = ones;
    [(0, home), (1, one)].map(|(me, one)| One { volume: iods.open(lan, me), ..one })
}

/// The metaservers in the order of each rotation: the home of a file, and two others.
fn rotations(all: &[One; 3]) -> impl Iterator<Item = [&One; 3]> {
    (0..3).map(|at| [0, 1, 2].map(|next| &all[(at + next) % 3]))
}

#[test]
fn readers_go_together_and_writers_take_back_first() {
    let (_, _, all) = three();
    for (round, [home, one, two]) in rotations(&all).enumerate() {
        let file = home.create(&format!("file{round}"));
        home.write(file, b"old").expect("there is room");
        for at in [home, one, two] {
            assert_eq!(at.read(file).as_deref(), Ok(&b"old"[..]));
            assert_eq!(at.lend(file, Guard::Changes), Ok(()));
        }
        assert!([home, one, two].iter().all(|at| at.given(file).is_none()));
        // Whoever writes, and its data is nowhere before the others have given up.
        one.write(file, b"new").expect("there is room");
        assert_eq!(home.given(file).as_deref(), Some(&b"old"[..]));
        assert_eq!(two.given(file).as_deref(), Some(&b"old"[..]));
        assert_eq!(one.given(file), None, "its own clients are its own matter");
        assert!([home, one, two].iter().all(|at| at.read(file).as_deref() == Ok(b"new")));
    }
}

#[test]
fn what_a_client_kept_is_brought_back_before_another_sees_the_file() {
    let (_, _, all) = three();
    for (round, [home, one, two]) in rotations(&all).enumerate() {
        for (other, at) in [(home, one), (one, home), (two, one)].into_iter().enumerate() {
            let (reader, writer) = at;
            let file = home.create(&format!("file{round}.{other}"));
            home.write(file, b"old").expect("there is room");
            assert_eq!(reader.read(file).as_deref(), Ok(&b"old"[..]));
            assert_eq!(writer.lend(file, Guard::Everything), Ok(()));
            writer.clients().late = Some(b"late");
            let size = reader.lan.run(reader.volume.getattr(&file)).map(|it| it.size);
            assert_eq!(size, Ok(4), "who only looks has it brought back as well");
            assert_eq!(writer.given(file).as_deref(), Some(&b"late"[..]));
            assert_eq!(reader.read(file).as_deref(), Ok(&b"late"[..]));
            // By its name, too.
            assert_eq!(writer.lend(file, Guard::Everything), Ok(()));
            writer.clients().late = Some(b"later");
            let (root, text) = (reader.volume.root(), format!("file{round}.{other}"));
            let found = reader.lan.run(reader.volume.lookup(&who(), &root, name(&text)));
            assert_eq!(found.map(|found| found.attributes.size), Ok(5));
        }
    }
}

#[test]
fn clients_that_do_not_answer_hold_up_nothing_but_that() {
    let (lan, _, [home, one, two]) = three();
    let (file, other) = (home.create("file"), home.create("other"));
    home.write(file, b"old").expect("there is room");
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    one.clients().are_away = true;
    assert_eq!(two.write(file, b"new"), Err(FsError::Later));
    assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Later), "and is not waited for");
    assert_eq!((two.write(other, b"new"), two.read(file)), (Ok(()), Ok(b"old".to_vec())));
    one.clients().are_away = false;
    lan.pass(10 * SECOND);
    assert_eq!(two.write(file, b"new"), Ok(()));
}

#[test]
fn a_metaserver_that_is_away_is_waited_out() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.cut(1, true);
    lan.pass(COVER - 10 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later));
    assert_eq!(home.read(file), Err(FsError::Later));
    // What it lent ends before, and it lends nothing that could be longer.
    assert!(one.clients().lost.is_empty());
    assert_eq!(one.lend(file, Guard::Everything), Err(FsError::Later));
    lan.pass(10 * SECOND);
    assert_eq!(one.clients().lost, [file]);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(two.write(file, b"new"), Ok(()));
    lan.cut(1, false);
    lan.pass(4 * SECOND);
    assert_eq!(one.read(file).as_deref(), Ok(&b"new"[..]));
}

/// However long a home waits for another, it answers whether it is there.
#[test]
fn a_home_that_waits_for_another_is_not_away() {
    let (lan, _, [home, one, two]) =
        three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    let began = lan.now();
    lan.cut(1, true);
    while lan.now() < began + COVER / 2 {
        assert_eq!(two.read(file), Err(FsError::Later));
    }
    lan.pass(COVER);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
}

/// Nor is who asks for a name to be taken told to come again: it could only find the name gone then.
#[test]
fn what_waits_for_clients_that_do_not_answer_is_done_once() {
    let give_up = 20 * SECOND;
    let (lan, _, [home, one, two]) = three_of(Lan::giving_up(3, new_file, (true, true), give_up));
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    one.clients().are_away = true;
    let (who, at) = (who(), lan.at(2));
    let place = Place { directory: two.volume.root(), name: name("file") };
    let removes = two.volume.remove(&who, place);
    let comes_back = async {
        at.shared.outside.sleep(2 * give_up).await;
        one.clients().are_away = false;
    };
    let began = lan.now();
    let (removed, ()) = lan.run(futures_util::future::join(removes, comes_back));
    assert_eq!(removed.result, Ok(()));
    assert!(lan.now() - began >= 2 * give_up);
    for at in [&home, &one, &two] {
        assert_eq!(lan.run(at.volume.getattr(&file)).err(), Some(FsError::Stale));
    }
}

/// Neither where it waits for another then, nor where it is away for another moment: nobody asks anything
/// of it in between, and what ended unseen would count as if it had lasted.
#[test]
fn a_home_that_was_away_for_a_moment_is_there() {
    let give_up = 20 * SECOND;
    let (lan, _, [home, one, two]) = three_of(Lan::giving_up(3, new_file, (true, true), give_up));
    let file = home.create_with("file", b"old");
    for _ in 0..2 {
        lan.cut(0, true);
        lan.pass(3 * SECOND);
        assert_eq!(two.read(file), Err(FsError::Later));
        lan.cut(0, false);
        lan.pass(2 * give_up);
    }
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.cut(1, true);
    let end = lan.now() + 2 * give_up;
    while lan.now() < end {
        assert_eq!(two.read(file), Err(FsError::Later));
    }
}

#[test]
fn a_home_that_starts_again_knows_what_was_lent() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().late = Some(b"late");
    lan.kill(0, None);
    assert_eq!(two.read(file), Err(FsError::Later));
    lan.start(0);
    let home = One { volume: iods.open(&lan, 0), ..home };
    // Its own clients may hold more than it knows.
    home.clients().is_recovering = true;
    home.join(0);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later));
    assert_eq!(one.given(file), None);
    home.clients().is_recovering = false;
    lan.pass(SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
    assert_eq!(one.given(file).as_deref(), Some(&b"late"[..]));
}

/// Its numbers are others from then on, and what it grants for a moment is no end of what was lent.
#[test]
fn a_home_that_starts_again_makes_nothing_shorter_that_was_lent() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    lan.kill(0, None);
    lan.start(0);
    let home = One { volume: iods.open(&lan, 0), ..home };
    home.join(0);
    lan.pass(3 * SECOND);
    assert_eq!(one.write(file, b"new"), Ok(()));
    lan.pass(20 * SECOND);
    assert!(one.clients().lost.is_empty(), "its clients go by it still");
    assert_eq!(two.write(file, b"newer"), Ok(()));
    assert_eq!(one.given(file).as_deref(), Some(&b"new"[..]));
}

#[test]
fn one_that_recovers_and_is_gone_is_waited_out() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    let [home, one] = started_anew(&lan, &iods, [home, one]);
    one.clients().is_recovering = true;
    home.join(0);
    one.join(1);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later), "its clients have not said what they hold");
    lan.cut(1, true);
    lan.pass(COVER - 20 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later));
    lan.pass(30 * SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(home.write(file, b"new"), Ok(()));
}

#[test]
fn what_a_metaserver_lent_before_it_started_again_is_waited_for() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.kill(1, None);
    lan.start(1);
    let one = One { volume: iods.open(&lan, 1), ..one };
    one.clients().is_recovering = true;
    one.join(1);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later), "its clients have not said what they hold");
    assert_eq!(home.read(file), Err(FsError::Later));
    // One of them has, and goes on until it is told that it is wanted back.
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    assert_eq!(one.given(file), None);
    {
        let mut clients = one.clients();
        clients.late = Some(b"late");
        clients.is_recovering = false;
    }
    lan.pass(10 * SECOND);
    assert_eq!(one.given(file).as_deref(), Some(&b"late"[..]));
    assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().late = Some(b"later");
    assert_eq!(two.read(file).as_deref(), Ok(&b"later"[..]));
}

/// Where too little is left of a cover for a lease to go on, what was written under one comes in by it.
#[test]
fn what_is_late_after_a_start_comes_in_before_another_sees_the_file() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.pass(70 * SECOND);
    lan.kill(1, None);
    lan.start(1);
    let one = One { volume: iods.open(&lan, 1), ..one };
    one.clients().is_recovering = true;
    one.join(1);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Later), "its clients have not said what they hold");
    assert_eq!(one.lend(file, Guard::Everything), Err(FsError::Later), "it is over too soon");
    assert_eq!(one.write(file, b"late"), Ok(()));
    one.clients().is_recovering = false;
    lan.pass(10 * SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
}

/// Nobody has a cover of before where its home has started as well. A metaserver recovers once what is
/// late of its clients is in, so that does not wait for its recovery.
#[test]
fn what_is_late_does_not_wait_for_who_brings_it() {
    for recovers in [0, 1] {
        let (lan, iods, [home, one, two]) = three();
        let file = home.create_with("file", b"old");
        let [home, one] = started_anew(&lan, &iods, [home, one]);
        let (late, other) = if recovers == 0 { (&home, &one) } else { (&one, &home) };
        late.clients().is_recovering = true;
        home.join(0);
        one.join(1);
        lan.pass(3 * SECOND);
        assert_eq!(two.read(file), Err(FsError::Later), "clients have not said what they hold");
        assert_eq!(other.write(file, b"new"), Err(FsError::Later));
        assert_eq!(late.write(file, b"late"), Ok(()));
        late.clients().is_recovering = false;
        lan.pass(SECOND);
        assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
    }
}

/// A reader has its turn before who writes next, and need not ask once more.
#[test]
fn who_reads_is_not_overtaken_by_the_next_writer() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    lan.pass(4 * SECOND);
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().are_away = true;
    let (reader, asked) = (lan.at(2), lan.at(2).messages());
    let reads = reader.getattr(&file);
    let (who, data) = (who(), Bytes::from_static(b"newer"));
    let writes = home.volume.write(&who, &file, 0, data, Stability::Unstable);
    let comes_back = async {
        reader.shared.outside.sleep(SECOND / 2).await;
        one.clients().are_away = false;
    };
    let (seen, written, ()) = lan.run(futures_util::future::join3(reads, writes, comes_back));
    assert!(written.result.is_ok());
    assert_eq!((seen.is_ok(), reader.messages() - asked), (true, 1));
    assert_eq!(two.read(file).as_deref(), Ok(&b"newer"[..]));
}

#[test]
fn who_gave_up_waiting_is_forgotten() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    let waiting = || lan.at(2).with(|node| node.waiting.len());
    let before = waiting();
    one.clients().are_away = true;
    for _ in 0..5 {
        assert_eq!(two.write(file, b"new"), Err(FsError::Later));
        assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Later));
    }
    assert_eq!(waiting(), before);
}

/// What a client has changed itself it must not take for a change of another.
#[test]
fn a_write_is_answered_with_the_time_that_all_see() {
    let (lan, _, all) = three();
    for (round, [home, one, two]) in rotations(&all).enumerate() {
        let file = home.create(&format!("file{round}"));
        for at in [home, one, two, one, home] {
            lan.pass(SECOND);
            let (who, data) = (who(), Bytes::from_static(b"data"));
            let written = at.volume.write(&who, &file, 0, data, Stability::Unstable);
            let told = lan.run(written).wcc.after.expect("it is told").changed;
            for other in [home, one, two] {
                let seen = lan.run(other.volume.getattr(&file)).expect("it is there").changed;
                assert_eq!(seen, told);
            }
        }
    }
}

#[test]
fn what_is_only_listed_is_lent_where_nobody_is_asked() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    lan.pass(4 * SECOND);
    let listed = |at: &One| {
        let asked = lan.messages();
        let lent = lan.run(at.volume.cover(&file, Guard::Changes, true));
        (lent, lan.messages() - asked)
    };
    assert_eq!(one.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(listed(&one), (Err(FsError::Later), 0));
    assert_eq!(listed(&home), (Ok(()), 0));
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    assert_eq!(listed(&one), (Ok(()), 0));
    // Nobody gives up what he has for it.
    assert_eq!(two.lend(file, Guard::Everything), Ok(()));
    assert_eq!((one.given(file).is_some(), home.given(file).is_some()), (true, true));
    assert_eq!(listed(&home), (Err(FsError::Later), 0));
    assert_eq!(two.given(file), None);
}

#[test]
fn nothing_is_lent_of_links_nor_by_who_is_not_to() {
    let (lan, _, [home, ..]) = three();
    let root = home.volume.root();
    assert!(home.volume.properties().leases_names);
    assert_eq!(home.lend(root, Guard::Changes), Ok(()));
    assert_eq!(home.lend(root, Guard::Everything), Err(FsError::NotSupported));
    assert_eq!(home.lend(root, Guard::Nothing), Ok(()));
    let (who, none) = (who(), SetAttributes::default());
    let place = Place { directory: root, name: name("link") };
    let made = home.volume.make(&who, place, &NewNode::Symlink(b"target"), &none);
    let made = lan.run(made).result.expect("it is free").object;
    assert_eq!(home.lend(made, Guard::Changes), Err(FsError::NotSupported));
    let (lan, iods) = (Lan::strict(2, new_file), Iods::new());
    let volume = iods.open(&lan, 0);
    assert!(!volume.properties().leases_names);
    let how = NewFile::Guarded(SetAttributes::default());
    let place = Place { directory: volume.root(), name: name("file") };
    let made = lan.run(volume.create(&who, place, &how)).result.expect("it is free").object;
    assert_eq!(lan.run(volume.cover(&made, Guard::Changes, false)), Err(FsError::NotSupported));
}

/// Writes a file again and again until some time, as a client does that comes again whenever it is told
/// to; says how long it had to wait for one of its WRITEs.
async fn longest_wait(one: &One, file: ObjectId, is_lent: bool, end: Duration) -> Duration {
    let (who, outside) = (who(), one.lan.at(0).shared.outside.clone());
    let mut longest = Duration::ZERO;
    while one.lan.now() < end {
        let (began, mut pause) = (one.lan.now(), Duration::from_millis(20));
        loop {
            if is_lent {
                // Without it is written all the same.
                let _ = one.volume.cover(&file, Guard::Everything, false).await;
            }
            let data = Bytes::from_static(b"data");
            let written = one.volume.write(&who, &file, 0, data, Stability::Unstable).await;
            if written.result.is_ok() {
                break;
            }
            assert_eq!(written.result.err(), Some(FsError::Later));
            outside.sleep(pause).await;
            pause = (2 * pause).min(2 * SECOND);
        }
        longest = longest.max(one.lan.now() - began);
    }
    longest
}

/// What a home says when it grants one is overtaken by what it says as another waits. So each of three was
/// told that its cover was gone before it had used it, came again and waited behind the others, who were
/// told the same: one could not write for as long as the others did.
#[test]
fn who_want_a_file_at_one_time_have_turns() {
    for (is_lent, most) in [(false, SECOND), (true, 3 * SECOND)] {
        for (way, disk) in [(1, 5), (20, 20)] {
            let (lan, _, all) = three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
            let file = all[0].create_with("file", b"old");
            (0..3).for_each(|me| lan.delay(me, Duration::from_millis(way)));
            lan.slow(0, Duration::from_millis(disk));
            let end = lan.now() + 10 * SECOND;
            let [one, two, three] = all.each_ref().map(|one| longest_wait(one, file, is_lent, end));
            let waits = lan.run(futures_util::future::join3(one, two, three));
            let longest = waits.0.max(waits.1).max(waits.2);
            assert!(longest < most, "{waits:?}, lent {is_lent}, {way} ms, {disk} ms");
        }
    }
}

/// A call for a cover ends long before clients elsewhere have given up what they have: who asks again is
/// as far as it was.
#[test]
fn who_asks_for_a_cover_again_has_its_turn() {
    let (lan, _, [home, one, two]) =
        three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().are_away = true;
    let covers = || lan.at(0).with(|node| node.leasing.turns().1);
    for _ in 0..10 {
        assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Later));
        assert_eq!(two.write(file, b"new"), Err(FsError::Later));
        assert!(covers() <= 1, "{}", covers());
    }
    one.clients().are_away = false;
    lan.pass(SECOND);
    assert_eq!(two.write(file, b"new"), Ok(()));
    assert_eq!(covers(), 0);
}

/// However long clients elsewhere take to give up what they have: a call that takes it back ends before,
/// and the next was only sent after 8 s.
#[test]
fn what_is_given_late_is_told_at_once() {
    for away in [6200, 10_500, 26_500].map(Duration::from_millis) {
        let (lan, _, [home, one, two]) =
            three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
        let file = home.create_with("file", b"old");
        assert_eq!(one.lend(file, Guard::Everything), Ok(()));
        one.clients().are_away = true;
        let outside = lan.at(0).shared.outside.clone();
        let comes_back = async {
            outside.sleep(away).await;
            one.clients().are_away = false;
            lan.now()
        };
        let reads = async {
            while let Err(error) = two.volume.read(&who(), &file, 0, 100).await {
                assert_eq!(error, FsError::Later);
            }
            lan.now()
        };
        let (back, seen) = lan.run(futures_util::future::join(comes_back, reads));
        assert!(seen - back < SECOND, "{:?} after {away:?}", seen - back);
    }
}
