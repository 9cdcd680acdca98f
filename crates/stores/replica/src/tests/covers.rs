//! Tests of delegable leases on files: clients of a metaserver cache a file until a client of
//! another metaserver reads or changes the file.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use leasehold_fs::{
    Coherence, FsError, Guard, NewFile, NewNode, ObjectId, Place, SetAttributes, Stability, Store,
};
use leasehold_store_striped::Striped;

use super::data::{Iods, new_file};
use super::lan::{Lan, name, who};
use crate::{Later, Lender};

const SECOND: Duration = Duration::from_secs(1);

/// The term of a delegable lease for clients.
const COVER: Duration = Duration::from_secs(180);

/// The state of a metaserver's clients, which hold leases.
#[derive(Default)]
pub(super) struct Clients {
    /// The content of each file at the recall of its lease.
    given: BTreeMap<ObjectId, Vec<u8>>,
    lost: Vec<ObjectId>,
    is_recovering: bool,
    /// True if the clients do not reply.
    pub(super) are_away: bool,
    /// The data that a client flushes before it returns its next lease.
    late: Option<&'static [u8]>,
}

/// A metaserver with clients that hold leases.
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
        self.lan.run(self.volume.acquire(&file, guard, false))
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

    /// Returns the content of a file at the recall of its lease; `None` if no lease was recalled
    /// since the last call.
    pub(super) fn given(&self, file: ObjectId) -> Option<Vec<u8>> {
        self.clients().given.remove(&file)
    }

    /// Connects these clients to the running metaserver.
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
            // The read fails if the delegable lease has expired, so that no client reads under an
            // expired lease.
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
    // The metaservers started without a lease server and so count as recovering. Wait until their
    // peers have sent HELLO again.
    lan.pass(3 * SECOND);
    (lan, iods, all)
}

/// Kills and restarts the first two metaservers, and does not connect their clients yet.
fn started_anew(lan: &Lan, iods: &Iods, ones: [One; 2]) -> [One; 2] {
    (0..ones.len()).for_each(|me| lan.kill(me, None));
    (0..ones.len()).for_each(|me| lan.start(me));
    let [home, one] = ones;
    [(0, home), (1, one)].map(|(me, one)| One { volume: iods.open(lan, me), ..one })
}

/// Returns the three metaservers in each rotation. The first one is the home of a file.
fn rotations(all: &[One; 3]) -> impl Iterator<Item = [&One; 3]> {
    (0..3).map(|at| [0, 1, 2].map(|next| &all[(at + next) % 3]))
}

#[test]
fn readers_share_a_file_and_a_writer_recalls_first() {
    let (_, _, all) = three();
    for (round, [home, one, two]) in rotations(&all).enumerate() {
        let file = home.create(&format!("file{round}"));
        home.write(file, b"old").expect("there is room");
        for at in [home, one, two] {
            assert_eq!(at.read(file).as_deref(), Ok(&b"old"[..]));
            assert_eq!(at.lend(file, Guard::Changes), Ok(()));
        }
        assert!([home, one, two].iter().all(|at| at.given(file).is_none()));
        // The write recalls the leases of the clients of the other metaservers before any client
        // sees the new data.
        one.write(file, b"new").expect("there is room");
        assert_eq!(home.given(file).as_deref(), Some(&b"old"[..]));
        assert_eq!(two.given(file).as_deref(), Some(&b"old"[..]));
        assert_eq!(one.given(file), None, "its own clients are not recalled");
        assert!([home, one, two].iter().all(|at| at.read(file).as_deref() == Ok(b"new")));
    }
}

#[test]
fn cached_writes_are_flushed_before_another_client_reads() {
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
            assert_eq!(size, Ok(4), "a reader of attributes flushes it as well");
            assert_eq!(writer.given(file).as_deref(), Some(&b"late"[..]));
            assert_eq!(reader.read(file).as_deref(), Ok(&b"late"[..]));
            // A LOOKUP of another client also recalls the write lease and so flushes the data.
            assert_eq!(writer.lend(file, Guard::Everything), Ok(()));
            writer.clients().late = Some(b"later");
            let (root, text) = (reader.volume.root(), format!("file{round}.{other}"));
            let found = reader.lan.run(reader.volume.lookup(&who(), &root, name(&text)));
            assert_eq!(found.map(|found| found.attributes.size), Ok(5));
        }
    }
}

#[test]
fn unresponsive_clients_block_only_their_own_file() {
    let (lan, _, [home, one, two]) = three();
    let (file, other) = (home.create("file"), home.create("other"));
    home.write(file, b"old").expect("there is room");
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    one.clients().are_away = true;
    assert_eq!(two.write(file, b"new"), Err(FsError::Delay));
    assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Delay), "without a wait");
    assert_eq!((two.write(other, b"new"), two.read(file)), (Ok(()), Ok(b"old".to_vec())));
    one.clients().are_away = false;
    lan.pass(10 * SECOND);
    assert_eq!(two.write(file, b"new"), Ok(()));
}

#[test]
fn leases_of_an_unreachable_metaserver_expire() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.cut(1, true);
    lan.pass(COVER - 10 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Delay));
    assert_eq!(home.read(file), Err(FsError::Delay));
    // The rest of the delegable lease is too short for a new lease of a client, so the request
    // fails.
    assert!(one.clients().lost.is_empty());
    assert_eq!(one.lend(file, Guard::Everything), Err(FsError::Delay));
    lan.pass(10 * SECOND);
    assert_eq!(one.clients().lost, [file]);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(two.write(file, b"new"), Ok(()));
    lan.cut(1, false);
    lan.pass(4 * SECOND);
    assert_eq!(one.read(file).as_deref(), Ok(&b"new"[..]));
}

/// A home that waits for a lease of another metaserver still answers health checks, so it does not
/// count as silent.
#[test]
fn a_home_that_waits_for_another_is_not_silent() {
    let (lan, _, [home, one, two]) =
        three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    let began = lan.now();
    lan.cut(1, true);
    while lan.now() < began + COVER / 2 {
        assert_eq!(two.read(file), Err(FsError::Delay));
    }
    lan.pass(COVER);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
}

/// A REMOVE waits for clients that do not return their leases. The client must not receive
/// NFS3ERR_JUKEBOX, because its retry could find that the name no longer exists.
#[test]
fn a_removal_that_waits_for_unresponsive_clients_runs_once() {
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

/// A home has two short outages, and no operation needs the home in between. The time between the
/// outages must not count as silence, also if the home waits for another metaserver afterwards.
#[test]
fn a_short_outage_of_a_home_does_not_count() {
    let give_up = 20 * SECOND;
    let (lan, _, [home, one, two]) = three_of(Lan::giving_up(3, new_file, (true, true), give_up));
    let file = home.create_with("file", b"old");
    for _ in 0..2 {
        lan.cut(0, true);
        lan.pass(3 * SECOND);
        assert_eq!(two.read(file), Err(FsError::Delay));
        lan.cut(0, false);
        lan.pass(2 * give_up);
    }
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.cut(1, true);
    let end = lan.now() + 2 * give_up;
    while lan.now() < end {
        assert_eq!(two.read(file), Err(FsError::Delay));
    }
}

#[test]
fn a_restarted_home_recovers_delegable_leases() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().late = Some(b"late");
    lan.kill(0, None);
    assert_eq!(two.read(file), Err(FsError::Delay));
    lan.start(0);
    let home = One { volume: iods.open(&lan, 0), ..home };
    // The home's own clients may hold leases from before the restart, so the home is in recovery.
    home.clients().is_recovering = true;
    home.join(0);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Delay));
    assert_eq!(one.given(file), None);
    home.clients().is_recovering = false;
    lan.pass(SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
    assert_eq!(one.given(file).as_deref(), Some(&b"late"[..]));
}

/// A restarted home assigns other lease sequence numbers. A later grant with a short term must not
/// shorten a delegable lease from before the restart.
#[test]
fn a_restarted_home_does_not_shorten_leases() {
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
    assert!(one.clients().lost.is_empty(), "its clients still use it");
    assert_eq!(two.write(file, b"newer"), Ok(()));
    assert_eq!(one.given(file).as_deref(), Some(&b"new"[..]));
}

#[test]
fn leases_of_a_peer_lost_in_recovery_expire() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    let [home, one] = started_anew(&lan, &iods, [home, one]);
    one.clients().is_recovering = true;
    home.join(0);
    one.join(1);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Delay), "its clients have not reclaimed their leases");
    lan.cut(1, true);
    lan.pass(COVER - 20 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Delay));
    lan.pass(30 * SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(home.write(file, b"new"), Ok(()));
}

#[test]
fn leases_of_before_a_restart_block_other_metaservers() {
    let (lan, iods, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    lan.kill(1, None);
    lan.start(1);
    let one = One { volume: iods.open(&lan, 1), ..one };
    one.clients().is_recovering = true;
    one.join(1);
    lan.pass(3 * SECOND);
    assert_eq!(two.read(file), Err(FsError::Delay), "its clients have not reclaimed their leases");
    assert_eq!(home.read(file), Err(FsError::Delay));
    // A client of the restarted metaserver reclaims its lease, and keeps the lease until the
    // recall.
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

/// After a restart the remaining term of a delegable lease is too short for a lease of a client.
/// The client must still be able to flush its late data before other clients read.
#[test]
fn late_writes_after_a_restart_precede_other_readers() {
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
    assert_eq!(two.read(file), Err(FsError::Delay), "its clients have not reclaimed their leases");
    assert_eq!(
        one.lend(file, Guard::Everything),
        Err(FsError::Delay),
        "its remaining term is too short"
    );
    assert_eq!(one.write(file, b"late"), Ok(()));
    one.clients().is_recovering = false;
    lan.pass(10 * SECOND);
    assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
}

/// Both the home and another metaserver have restarted, so no metaserver holds a delegable lease
/// from before. The recovery of a metaserver lasts until its clients have flushed their late data,
/// so these writes must not wait for the end of the recovery.
#[test]
fn late_writes_do_not_wait_for_the_recovery_of_their_metaserver() {
    for recovers in [0, 1] {
        let (lan, iods, [home, one, two]) = three();
        let file = home.create_with("file", b"old");
        let [home, one] = started_anew(&lan, &iods, [home, one]);
        let (late, other) = if recovers == 0 { (&home, &one) } else { (&one, &home) };
        late.clients().is_recovering = true;
        home.join(0);
        one.join(1);
        lan.pass(3 * SECOND);
        assert_eq!(two.read(file), Err(FsError::Delay), "clients have not reclaimed their leases");
        assert_eq!(other.write(file, b"new"), Err(FsError::Delay));
        assert_eq!(late.write(file, b"late"), Ok(()));
        late.clients().is_recovering = false;
        lan.pass(SECOND);
        assert_eq!(two.read(file).as_deref(), Ok(&b"late"[..]));
    }
}

/// A reader that waits for a lease is served before a later writer, and does not have to retry.
#[test]
fn a_reader_is_not_overtaken_by_the_next_writer() {
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
fn abandoned_requests_leave_no_state() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    assert_eq!(two.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    let waiting = || lan.at(2).with(|node| node.waiting.len());
    let before = waiting();
    one.clients().are_away = true;
    for _ in 0..5 {
        assert_eq!(two.write(file, b"new"), Err(FsError::Delay));
        assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Delay));
    }
    assert_eq!(waiting(), before);
}

/// The reply to a WRITE must contain the change time that other metaservers see afterwards.
/// Otherwise the client would take its own change for a change of another client.
#[test]
fn a_write_reply_has_the_change_time_that_all_see() {
    let (lan, _, all) = three();
    for (round, [home, one, two]) in rotations(&all).enumerate() {
        let file = home.create(&format!("file{round}"));
        for at in [home, one, two, one, home] {
            lan.pass(SECOND);
            let (who, data) = (who(), Bytes::from_static(b"data"));
            let written = at.volume.write(&who, &file, 0, data, Stability::Unstable);
            let told = lan.run(written).wcc.after.expect("the reply has attributes").changed;
            for other in [home, one, two] {
                let seen = lan.run(other.volume.getattr(&file)).expect("it is there").changed;
                assert_eq!(seen, told);
            }
        }
    }
}

#[test]
fn an_opportunistic_lease_is_granted_without_calls() {
    let (lan, _, [home, one, two]) = three();
    let file = home.create_with("file", b"old");
    lan.pass(4 * SECOND);
    let listed = |at: &One| {
        let asked = lan.messages();
        let lent = lan.run(at.volume.acquire(&file, Guard::Changes, true));
        (lent, lan.messages() - asked)
    };
    assert_eq!(one.read(file).as_deref(), Ok(&b"old"[..]));
    assert_eq!(listed(&one), (Err(FsError::Delay), 0));
    assert_eq!(listed(&home), (Ok(()), 0));
    assert_eq!(one.lend(file, Guard::Changes), Ok(()));
    assert_eq!(listed(&one), (Ok(()), 0));
    // An opportunistic request of the home must not recall the write lease of another metaserver.
    assert_eq!(two.lend(file, Guard::Everything), Ok(()));
    assert_eq!((one.given(file).is_some(), home.given(file).is_some()), (true, true));
    assert_eq!(listed(&home), (Err(FsError::Delay), 0));
    assert_eq!(two.given(file), None);
}

#[test]
fn symbolic_links_and_servers_without_leases_grant_none() {
    let (lan, _, [home, ..]) = three();
    let root = home.volume.root();
    assert!(home.volume.properties(&root).leases_names);
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
    assert!(!volume.properties(&volume.root()).leases_names);
    let how = NewFile::Guarded(SetAttributes::default());
    let place = Place { directory: volume.root(), name: name("file") };
    let made = lan.run(volume.create(&who, place, &how)).result.expect("it is free").object;
    assert_eq!(lan.run(volume.acquire(&made, Guard::Changes, false)), Err(FsError::NotSupported));
}

/// Writes a file until `end`, like a client that retries after each NFS3ERR_JUKEBOX. Returns the
/// longest time for one WRITE.
async fn longest_wait(one: &One, file: ObjectId, is_lent: bool, end: Duration) -> Duration {
    let (who, outside) = (who(), one.lan.at(0).shared.outside.clone());
    let mut longest = Duration::ZERO;
    while one.lan.now() < end {
        let (began, mut pause) = (one.lan.now(), Duration::from_millis(20));
        loop {
            if is_lent {
                // Ignore an error: the client then sends the WRITE without a lease.
                let _ = one.volume.acquire(&file, Guard::Everything, false).await;
            }
            let data = Bytes::from_static(b"data");
            let written = one.volume.write(&who, &file, 0, data, Stability::Unstable).await;
            if written.result.is_ok() {
                break;
            }
            assert_eq!(written.result.err(), Some(FsError::Delay));
            outside.sleep(pause).await;
            pause = (2 * pause).min(2 * SECOND);
        }
        longest = longest.max(one.lan.now() - began);
    }
    longest
}

/// Three metaservers write one file at the same time, and each of them must make progress. If a
/// home sent the recall of a lease before the reply with its grant, a metaserver would lose the
/// lease before its first use and queue again behind the other two.
#[test]
fn concurrent_writers_of_a_file_take_turns() {
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

/// A COVER call times out long before the clients of another metaserver return their leases. The
/// retry must keep the queue position of the call, and not add a request to the queue.
#[test]
fn a_retried_cover_request_keeps_its_place() {
    let (lan, _, [home, one, two]) =
        three_of(Lan::giving_up(3, new_file, (true, true), 20 * SECOND));
    let file = home.create_with("file", b"old");
    assert_eq!(one.lend(file, Guard::Everything), Ok(()));
    one.clients().are_away = true;
    let covers = || lan.at(0).with(|node| node.leasing.turns().1);
    for _ in 0..10 {
        assert_eq!(two.lend(file, Guard::Everything), Err(FsError::Delay));
        assert_eq!(two.write(file, b"new"), Err(FsError::Delay));
        assert!(covers() <= 1, "{}", covers());
    }
    one.clients().are_away = false;
    lan.pass(SECOND);
    assert_eq!(two.write(file, b"new"), Ok(()));
    assert_eq!(covers(), 0);
}

/// The recall of a delegable lease times out before slow clients return their leases. The next
/// recall must follow soon after, so that the return is not reported up to 8 s late.
#[test]
fn a_late_lease_return_is_reported_at_once() {
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
                assert_eq!(error, FsError::Delay);
            }
            lan.now()
        };
        let (back, seen) = lan.run(futures_util::future::join(comes_back, reads));
        assert!(seen - back < SECOND, "{:?} after {away:?}", seen - back);
    }
}
