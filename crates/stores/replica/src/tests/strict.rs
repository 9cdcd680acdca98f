//! Tests of strict mode, with leases on copies: when a change is answered, all metaservers show the
//! change.

use core::time::Duration;
use std::sync::Arc;

use futures_util::future::join_all;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Budget, FsError, Mode, NewFile, NewNode, ObjectId, Place, SetAttributes, Stability,
    Store, Wanted,
};
use leasehold_store_striped::Striped;

use super::data::{Iods, new_file};
use super::lan::{Lan, name, who};
use crate::{Load, Order};

const WINDOW: Duration = Duration::from_secs(3);

/// The result of a lookup of a free name.
const NOWHERE: Result<ObjectId, FsError> = Err(FsError::NotFound);

/// A client of one metaserver.
struct Client {
    lan: Lan,
    volume: Arc<Striped>,
}

impl Client {
    fn place<'n>(&self, text: &'n str) -> Place<'n> {
        Place { directory: self.volume.root(), name: name(text) }
    }

    fn create(&self, text: &str) -> ObjectId {
        let how = NewFile::Guarded(SetAttributes::default());
        let made = self.lan.run(self.volume.create(&who(), self.place(text), &how));
        made.result.expect("the name is free").object
    }

    fn mkdir(&self, text: &str) -> ObjectId {
        let (who, none) = (who(), SetAttributes::default());
        let made = self.volume.make(&who, self.place(text), &NewNode::Directory, &none);
        self.lan.run(made).result.expect("the name is free").object
    }

    fn rename(&self, from: &str, (directory, to): (ObjectId, &str)) -> Result<(), FsError> {
        let to = Place { directory, name: name(to) };
        self.lan.run(self.volume.rename(&who(), self.place(from), to)).result
    }

    fn look(&self, text: &str) -> Result<ObjectId, FsError> {
        let root = self.volume.root();
        self.lan.run(self.volume.lookup(&who(), &root, name(text))).map(|found| found.object)
    }

    fn write(&self, file: ObjectId, offset: u64, data: &'static [u8]) {
        let data = bytes::Bytes::from_static(data);
        let stability = Stability::Unstable;
        let done = self.lan.run(self.volume.write(&who(), &file, offset, data, stability));
        done.result.expect("there is room");
    }

    fn read(&self, file: ObjectId) -> (u64, Vec<u8>) {
        let data = self.lan.run(self.volume.read(&who(), &file, 0, 100)).expect("it is there");
        let size = self.lan.run(self.volume.getattr(&file)).expect("it is there").size;
        (size, data.data.to_vec())
    }
}

fn clients(lan: &Lan) -> [Client; 3] {
    let iods = Iods::new();
    [0, 1, 2].map(|at| Client { lan: lan.clone(), volume: iods.open(lan, at) })
}

/// Makes changes at one metaserver after the other. Returns true if all other metaservers always
/// showed each change at once.
fn shows_all_at_once(lan: &Lan) -> bool {
    let clients = clients(lan);
    let mut shows = true;
    for (at, one) in clients.iter().enumerate() {
        let others: Vec<&Client> =
            clients.iter().enumerate().filter(|(other, _)| *other != at).map(|it| it.1).collect();
        // Look the names up first, so that all metaservers cache that the names are free.
        let names = [format!("file{at}"), format!("other{at}")];
        let [file, other] = &names;
        for client in &clients {
            assert_eq!(client.look(file), Err(FsError::NotFound));
            assert_eq!(client.look(other), Err(FsError::NotFound));
        }
        let object = one.create(file);
        shows &= others.iter().all(|client| client.look(file) == Ok(object));
        let mut written = Vec::new();
        for client in &clients {
            // An unstable WRITE without a COMMIT must be visible, too.
            client.write(object, written.len() as u64, b"a few words ");
            written.extend_from_slice(b"a few words ");
            let whole = (written.len() as u64, written.clone());
            shows &= clients.iter().all(|client| client.read(object) == whole);
        }
        let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..<_>::default() };
        let done = lan.run(others[0].volume.setattr(&who(), &object, &set, None));
        done.result.expect("the superuser may");
        for client in &clients {
            let mode = lan.run(client.volume.getattr(&object)).map(|it| it.mode.bits());
            shows &= mode == Ok(0o640);
        }
        let (from, to) = (others[1].place(file), others[1].place(other));
        lan.run(others[1].volume.rename(&who(), from, to)).result.expect("the name is free");
        for client in &clients {
            shows &= client.look(file) == Err(FsError::NotFound);
            shows &= client.look(other) == Ok(object);
        }
        lan.run(one.volume.remove(&who(), one.place(other))).result.expect("it is there");
        for client in &clients {
            shows &= client.look(other) == Err(FsError::NotFound);
            shows &= lan.run(client.volume.getattr(&object)) == Err(FsError::Stale);
        }
    }
    shows
}

#[test]
fn an_answered_change_is_visible_at_all_metaservers() {
    assert!(shows_all_at_once(&Lan::strict(3, new_file)));
    assert!(!shows_all_at_once(&Lan::with(3, Order::Constant, new_file)), "copies are not strict");
}

#[test]
fn one_of_several_concurrent_creations_wins() {
    let lan = Lan::strict(3, new_file);
    let clients = clients(&lan);
    let how = NewFile::Guarded(SetAttributes::default());
    for round in 0..20 {
        let text = format!("name{round}");
        let who = who();
        let made = clients.iter().map(|one| one.volume.create(&who, one.place(&text), &how));
        let made: Vec<_> = lan.run(join_all(made)).into_iter().map(|made| made.result).collect();
        let winners: Vec<_> = made.iter().filter_map(|made| made.as_ref().ok()).collect();
        let [winner] = &*winners else { panic!("{made:?}") };
        let losers = made.iter().filter_map(|made| made.as_ref().err());
        assert!(losers.clone().all(|error| *error == FsError::AlreadyExists), "{made:?}");
        assert!(clients.iter().all(|client| client.look(&text) == Ok(winner.object)));
    }
}

#[test]
fn operations_wait_for_an_unreachable_home() {
    let lan = Lan::strict(3, new_file);
    let clients = clients(&lan);
    let [one, two, _] = &clients;
    let (here, there) = (one.create("here"), two.create("there"));
    assert_eq!(clients.each_ref().map(|client| client.look("there")), [Ok(there); 3]);
    let load = Load { busy_tenths: 3, connections: 40 };
    lan.at(1).is_busy(load);
    assert_eq!(lan.run(lan.at(0).load_of(1)), Some(load));
    lan.cut(1, true);
    assert_eq!(lan.run(lan.at(0).load_of(1)), None);
    assert_eq!(lan.run(lan.at(1).load_of(1)), Some(load), "it does not call itself");
    // The copy is valid until its lease ends, also while the home is unreachable.
    assert_eq!(clients[0].look("there"), Ok(there));
    lan.pass(WINDOW);
    for client in [&clients[0], &clients[2]] {
        assert_eq!(lan.run(client.volume.getattr(&there)), Err(FsError::Delay));
        assert_eq!(client.look("there"), Err(FsError::Delay));
        assert_eq!(client.look("here"), Ok(here), "its home is there");
    }
    assert_eq!(two.look("here"), Err(FsError::Delay), "nothing old is shown");
    lan.cut(1, false);
    lan.pass(Duration::from_secs(1));
    assert_eq!(clients.each_ref().map(|client| client.look("there")), [Ok(there); 3]);
    assert_eq!(two.look("here"), Ok(here));
}

/// The longest time for which a home may be silent.
const GIVE_UP: Duration = Duration::from_mins(1);

/// Returns the results of operations that need an object of the second metaserver, which has been
/// unreachable for a long time.
fn told_of(client: &Client, there: ObjectId, inside: ObjectId) -> Vec<Result<(), FsError>> {
    let Client { lan, volume } = client;
    let how = NewFile::Guarded(SetAttributes::default());
    let place = |directory, text| Place { directory, name: name(text) };
    let (root, who) = (volume.root(), who());
    let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..<_>::default() };
    let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
    let listed = volume.readdir(&who, &inside, Cookie(0), budget, Wanted::Names);
    vec![
        lan.run(listed).map(drop),
        lan.run(volume.getattr(&there)).map(drop),
        client.look("there").map(drop),
        lan.run(volume.lookup(&who, &inside, name("none"))).map(drop),
        lan.run(volume.setattr(&who, &there, &set, None)).result,
        lan.run(volume.create(&who, place(root, "there"), &how)).result.map(drop),
        lan.run(volume.create(&who, place(inside, "new"), &how)).result.map(drop),
        lan.run(volume.remove(&who, place(root, "there"))).result,
        lan.run(volume.rename(&who, place(root, "here"), place(inside, "here"))).result,
    ]
}

#[test]
fn operations_fail_after_a_long_outage_of_the_home() {
    for strict in [true, false] {
        let lan = Lan::giving_up(3, new_file, (strict, false), GIVE_UP);
        let clients = clients(&lan);
        let [one, two, three] = &clients;
        let (here, there) = (one.create("here"), two.create("there"));
        let inside = two.mkdir("inside");
        assert_eq!(clients.each_ref().map(|client| client.look("there")), [Ok(there); 3]);
        lan.cut(1, true);
        lan.pass(2 * WINDOW);
        // Checks that an operation took at least two seconds: it must be retried for this time
        // before it fails.
        let waits = |began: Duration| (lan.now() - began).as_secs() >= 2;
        for client in [one, three] {
            let began = lan.now();
            assert_eq!(client.look("there"), Err(FsError::Delay));
            assert!(waits(began));
            assert_eq!(client.look("here"), Ok(here));
        }
        assert_eq!(two.look("here"), Err(FsError::Delay));
        lan.pass(GIVE_UP / 2);
        assert_eq!(three.look("there"), Err(FsError::Delay), "it was not away for long enough");
        lan.pass(GIVE_UP);
        for client in [one, three] {
            let told = told_of(client, there, inside);
            assert!(told.iter().all(|told| *told == Err(FsError::Io)), "{strict}: {told:?}");
            assert_eq!(client.look("here"), Ok(here), "its home is there");
        }
        assert_eq!(
            two.look("here"),
            Err(FsError::Io),
            "a metaserver that is cut off reaches no peer"
        );
        // The home is reachable again, so the operations succeed without a restart.
        lan.cut(1, false);
        lan.pass(Duration::from_secs(1));
        assert_eq!(clients.each_ref().map(|client| client.look("there")), [Ok(there); 3]);
        assert_eq!(two.look("here"), Ok(here));
        assert_eq!(three.look("none"), NOWHERE);
    }
}

/// One home has had a short outage, and no operation has needed it since. Then another home becomes
/// unreachable. An operation that needs both homes must fail with an I/O error only when the other
/// home has been silent for long enough.
#[test]
fn only_the_unreachable_home_counts() {
    let lan = Lan::giving_up(3, new_file, (true, false), GIVE_UP);
    let clients = clients(&lan);
    let [one, two, three] = &clients;
    let (file, inside) = (two.create("file"), three.mkdir("inside"));
    lan.cut(2, true);
    assert_eq!(lan.run(one.volume.getattr(&inside)), Err(FsError::Delay));
    lan.cut(2, false);
    lan.pass(2 * GIVE_UP);
    assert_eq!((one.look("file"), one.look("inside")), (Ok(file), Ok(inside)));
    lan.cut(1, true);
    let began = lan.now();
    assert_eq!(one.rename("file", (inside, "file")), Err(FsError::Io), "in the end it fails");
    assert!(lan.now() - began >= GIVE_UP, "it was away for a moment only");
    lan.cut(1, false);
    lan.pass(2 * WINDOW);
    assert_eq!(one.rename("file", (inside, "file")), Ok(()));
}

/// Repeats operations on an object of another home for longer than a home may be silent. Returns
/// the results.
fn told_for_long(client: &Client, object: ObjectId) -> Vec<Result<(), FsError>> {
    let lan = &client.lan;
    let end = lan.now() + 2 * GIVE_UP;
    let mut told = Vec::new();
    while lan.now() < end {
        told.push(lan.run(client.volume.getattr(&object)).map(drop));
        lan.pass(Duration::from_secs(1));
    }
    told
}

/// The link to the home is so slow that each call exceeds its timeout, but there is traffic. The
/// home must not count as silent.
#[test]
fn a_slow_home_is_not_silent() {
    for delay in [Duration::from_secs(3), Duration::from_secs(7)] {
        let lan = Lan::giving_up(3, new_file, (true, false), GIVE_UP);
        let clients = clients(&lan);
        let there = clients[1].create("there");
        lan.delay(1, delay);
        let told = told_for_long(&clients[0], there);
        assert!(told.iter().all(|told| *told == Err(FsError::Delay)), "{delay:?}: {told:?}");
    }
}

/// A home refuses calls, because it runs another version or has another shared secret. It must not
/// count as silent.
#[test]
fn a_home_that_refuses_calls_is_not_silent() {
    let lan = Lan::giving_up(3, new_file, (true, false), GIVE_UP);
    let clients = clients(&lan);
    let there = clients[1].create("there");
    lan.estrange(1);
    let told = told_for_long(&clients[0], there);
    assert!(told.iter().all(|told| *told == Err(FsError::Delay)), "{told:?}");
}

/// A home with a failed disk answers health checks but cannot store changes, so operations that
/// need the home must fail with an I/O error.
#[test]
fn operations_fail_at_a_home_with_a_failed_disk() {
    let lan = Lan::giving_up(3, new_file, (false, false), GIVE_UP);
    let clients = clients(&lan);
    let [one, two, _] = &clients;
    let there = two.create("there");
    let set = |bits| {
        let set = SetAttributes { mode: Some(Mode::from_bits(bits)), ..<_>::default() };
        lan.run(one.volume.setattr(&who(), &there, &set, None)).result
    };
    assert_eq!(set(0o640), Ok(()));
    lan.fail(1, lan.disk(1).len());
    assert_eq!(set(0o600), Err(FsError::Delay));
    assert_eq!(lan.run(lan.at(0).load_of(1)), None, "it does not serve");
    let host = [192, 0, 2, 1].into();
    assert_eq!(lan.run(lan.at(1).least_busy(&[1], host)), None, "as it knows itself");
    lan.pass(GIVE_UP + 2 * WINDOW);
    assert_eq!(set(0o600), Err(FsError::Io));
    let mode = lan.run(one.volume.getattr(&there)).map(|it| it.mode.bits());
    assert_eq!(mode, Ok(0o640), "what it has stored is there");
}

/// Peers retry changes as long as the home is reachable. A home with a failed disk must not keep
/// state for each of these requests.
#[test]
fn a_home_with_a_failed_disk_accumulates_no_requests() {
    for strict in [false, true] {
        let lan = Lan::giving_up(3, new_file, (strict, false), GIVE_UP);
        let clients = clients(&lan);
        let [one, two, _] = &clients;
        let there = two.create("there");
        let kept = || {
            let home = lan.at(1);
            let seen = home.seen().len();
            home.with(|node| {
                let (turns, askers) = (node.leasing.turns(), node.askers.len());
                (seen, turns, askers, node.waiting.len(), node.calls.len())
            })
        };
        let before = kept();
        lan.fail(1, lan.disk(1).len());
        let changes = || {
            let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..<_>::default() };
            let set = lan.run(one.volume.setattr(&who(), &there, &set, None)).result;
            assert!(matches!(set, Err(FsError::Delay | FsError::Io)), "{set:?}, {strict}");
            let renamed = one.rename("there", (one.volume.root(), "elsewhere"));
            assert!(matches!(renamed, Err(FsError::Delay | FsError::Io)), "{renamed:?}, {strict}");
            lan.pass(2 * WINDOW);
        };
        for _ in 0..20 {
            changes();
        }
        assert_eq!(kept(), before, "{strict}");
    }
}

#[test]
fn leased_copies_cost_no_calls_until_a_change() {
    let lan = Lan::strict(3, new_file);
    let clients = clients(&lan);
    let [one, two, three] = &clients;
    let object = one.create("file");
    let all_look = || {
        for client in [two, three] {
            assert_eq!((client.look("file"), client.look("none")), (Ok(object), NOWHERE));
        }
    };
    all_look();
    let asked = lan.messages();
    all_look();
    assert_eq!(lan.messages(), asked, "all of it is held");
    let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..<_>::default() };
    lan.run(one.volume.setattr(&who(), &object, &set, None)).result.expect("the owner may");
    assert_eq!(lan.messages() - asked, 2, "each was evicted");
    all_look();
    assert_eq!(lan.messages() - asked, 6, "the file is fetched, and the other name is not");
    lan.run(one.volume.setattr(&who(), &object, &set, None)).result.expect("the owner may");
    lan.pass(WINDOW);
    let asked = lan.messages();
    lan.run(one.volume.setattr(&who(), &object, &set, None)).result.expect("the owner may");
    assert_eq!(lan.messages(), asked, "no copy was left");
}

#[test]
fn leases_of_an_unreachable_holder_expire() {
    let lan = Lan::strict(2, new_file);
    let [one, two] = [0, 1].map(|at| lan.at(at));
    let directory = one.root();
    let named = |text| Place { directory, name: name(text) };
    let how = NewFile::Guarded(SetAttributes::default());
    let made = lan.run(one.create(&who(), named("file"), &how)).result.expect("it is free").object;
    let mode = |at: &crate::Metaserver| lan.run(at.getattr(&made)).map(|it| it.mode.bits());
    assert_eq!(mode(&two), Ok(0o600));
    lan.cut(1, true);
    let began = lan.now();
    let set = SetAttributes { mode: Some(Mode::from_bits(0o640)), ..<_>::default() };
    lan.run(one.setattr(&who(), &made, &set, None)).result.expect("the owner may");
    let took = lan.now() - began;
    assert!(took > WINDOW && took < 2 * WINDOW, "{took:?}");
    assert_eq!((mode(&one), mode(&two)), (Ok(0o640), Err(FsError::Delay)));
    lan.cut(1, false);
    lan.pass(Duration::from_secs(1));
    assert_eq!(mode(&two), Ok(0o640));
}

#[test]
fn no_lease_outlives_a_restart() {
    let lan = Lan::strict(2, new_file);
    let directory = lan.at(0).root();
    let place = Place { directory, name: name("file") };
    let how = NewFile::Guarded(SetAttributes::default());
    let made = lan.run(lan.at(0).create(&who(), place, &how)).result.expect("it is free").object;
    let mode = |at: usize| lan.run(lan.at(at).getattr(&made)).expect("it is there").mode.bits();
    let set = |bits| {
        let set = SetAttributes { mode: Some(Mode::from_bits(bits)), ..<_>::default() };
        lan.run(lan.at(0).setattr(&who(), &made, &set, None)).result.expect("the owner may");
    };
    // A restarted home has no leases, and a restarted holder has no copies. In both cases a change
    // must not wait for a lease to expire.
    for (restarted, bits) in [(0, 0o640), (1, 0o644), (0, 0o600)] {
        let was = mode(1);
        lan.kill(restarted, None);
        lan.start(restarted);
        lan.pass(Duration::from_secs(1));
        let began = lan.now();
        assert_eq!(mode(0), was);
        set(bits);
        assert_eq!(lan.now(), began, "no lease is waited out");
        assert_eq!(mode(1), bits);
    }
    // A metaserver that starts without a peer must wait until the leases of this peer have expired.
    assert_eq!(mode(1), 0o600);
    lan.cut(1, true);
    lan.kill(0, None);
    lan.without(1).start(0);
    lan.pass(WINDOW - Duration::from_secs(1));
    assert!(!lan.at(0).is_open());
    lan.pass(Duration::from_secs(2));
    assert!(lan.at(0).is_open());
    set(0o666);
    assert_eq!(lan.run(lan.at(1).getattr(&made)), Err(FsError::Delay));
}
