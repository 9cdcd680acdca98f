//! A lease-enforcing store gives the same guarantees as the store that it wraps.

use core::pin::pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use leasehold_base::units::{ConnectionId, FileId, FileSystemId, FileTime, Time};
use leasehold_core::leases::table::{self, Access};
use leasehold_core::leases::{Client, Modrev, Object, Open, Serial, clients};
use leasehold_fs::suite::{Subject, block_on, check_wrapper, run_all, run_model};
use leasehold_fs::{
    Access as Rights, Attributes, ByteRange, Caller, Capabilities, Capability, Changed, Coherence,
    Committed, Completeness, Content, DirectLayouts, ExclusiveAccess, ExportId, Found, FsError,
    Guard, Layout, LocalMetadata, MaybeReady, NewFile, ObjectId, Place, Purpose, RangeCopy,
    Reservations, SUPERUSER, SetAttributes, SetTime, SetXattr, Space, Stability, Step, Store, Wcc,
    WriteDone, XattrName, forward_store,
};
use leasehold_store_mem::MemStore;
use leasehold_wire::lease::{self, Base, Kind, Terms, place};

use super::{
    ChangeBase, ChangeLease, GuardRequest, LeaseRequests, LeasedCall, LeasedStore, OperationGuard,
    Piggyback, Use, covered, object_of,
};
use crate::{HandleKey, Handles, Leases, Protocol, Remembered, ReturnPath};

const HOST: core::net::IpAddr = core::net::IpAddr::V4(core::net::Ipv4Addr::LOCALHOST);

/// Returns a lease-enforcing store that wraps a store in memory, for a client without leases or for
/// a client that requests leases with every operation.
fn subject(with_leases: bool) -> Subject {
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    let by = with_leases.then(|| {
        let who = ([1; 16], 1);
        let way = ReturnPath::Connection(ConnectionId::default());
        leases.hello(Time::ZERO, (way, HOST), who, Protocol::Lease, "").expect("it is new");
        let caller = lease::Caller { client: who.0, instance: who.1, epoch: 1 };
        let client = leases.admit(Time::ZERO, way, &caller);
        let terms = Terms { kind: Kind::Write, term_ms: 0, opportune: false, space: 0 };
        let asks = [place::FIRST, place::SECOND, place::ENTRIES];
        let asks = asks.map(|place| lease::Ask { place, terms });
        LeasedCall {
            asked: Arc::new(Piggyback::new(
                client.expect("it is known"),
                LeaseRequests::new(&asks),
                ChangeBase::Named(None),
            )),
            caller: Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() },
            read_only: false,
        }
    });
    let store = Arc::new(MemStore::default());
    let behind = Arc::<MemStore>::clone(&store);
    let gate: Arc<dyn Store> = Arc::new(LeasedStore::new(behind, ExportId(1), leases, by));
    Subject {
        capabilities: vec![
            Capability::OpenFiles,
            Capability::ExtendedAttributes,
            Capability::Ranges,
        ],
        ..Subject::of_every_user(gate, move |now| store.set_now(now))
    }
}

#[test]
fn gate_keeps_every_promise_of_a_store() {
    let itself = || {
        let store = Arc::new(MemStore::default());
        let behind = Arc::<MemStore>::clone(&store);
        Subject {
            capabilities: vec![
                Capability::Coherence,
                Capability::LayoutPolicies,
                Capability::OpenFiles,
                Capability::ExtendedAttributes,
                Capability::Ranges,
            ],
            ..Subject::of_every_user(behind, move |now| store.set_now(now))
        }
    };
    let below = MemStore::default();
    let withheld = [Capability::Coherence, Capability::LayoutPolicies];
    for with_leases in [false, true] {
        check_wrapper(&below, &*subject(with_leases).store, &withheld, &[]);
        assert_eq!(run_all(|| subject(with_leases)), run_all(itself));
    }
}

#[test]
fn gate_matches_the_model() {
    for with_leases in [false, true] {
        for seed in 0..20 {
            run_model(|| subject(with_leases), seed, 120);
        }
    }
}

/// All grants of clients may end while the server acquires a server-side lease.
#[test]
fn grant_that_ends_before_its_cover_is_refused() {
    let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
    let (who, way) = (([1; 16], 1), ReturnPath::Connection(ConnectionId::default()));
    leases.hello(Time::ZERO, (way, HOST), who, Protocol::Lease, "").expect("it is new");
    let caller = lease::Caller { client: who.0, instance: who.1, epoch: 1 };
    let client = leases.admit(Time::ZERO, way, &caller).expect("it is known");
    let (export, identity) = (ExportId(1), ObjectId::new(b"file").expect("it is short"));
    let ask = table::Ask {
        kind: leasehold_core::leases::Kind::Write,
        term: Duration::from_secs(30),
        space: 0,
        opportune: false,
        reclaim: false,
        reports: false,
    };
    let wanted = GuardRequest {
        object: Object { file_system: FileSystemId(1), file: FileId(2) },
        export,
        identity,
        named: identity,
        access: Access::Read,
        client: Some(client),
        under: ChangeLease::Named(None),
        ask: Some(ask),
        beside: None,
    };
    for is_lost in [false, true] {
        let mut turn = OperationGuard::ask(&leases, &wanted).expect("there is room");
        let run = block_on(turn.begin()).expect("there is no conflict");
        let grant = run.grant.expect("it was asked for");
        assert!(grant.cachable);
        let covering = async {
            if is_lost {
                leases.end(export, identity);
            }
            Ok(())
        };
        let expected = if is_lost { Err(FsError::Delay) } else { Ok(()) };
        assert_eq!(block_on(covered(&turn, grant, MaybeReady::later(covering))), expected);
    }
}

/// A store that changes a file and then, while it is unreachable, reports only the change time of
/// the file.
struct Away {
    store: MemStore,
    is_away: AtomicBool,
    /// True if another server changes a file before a call acquires exclusive access.
    others_come: AtomicBool,
    upkeep: Mutex<Option<(FileTime, FileTime)>>,
    /// A future that does the work of other callers; the store runs it during the creation of a
    /// file.
    meanwhile: Mutex<Option<Meanwhile>>,
}

type Meanwhile = Box<dyn FnOnce() + Send>;

fn superuser() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

impl Away {
    /// Changes a file.
    fn touch(&self, id: &ObjectId) {
        let (caller, data) = (superuser(), Bytes::from_static(b"data"));
        block_on(self.store.write(&caller, id, 0, data, Stability::Unstable))
            .result
            .expect("there is room");
        self.is_away.store(true, Ordering::Relaxed);
    }

    /// Simulates internal maintenance of a file at the given second.
    fn keep_up(&self, id: &ObjectId, second: i64) {
        let before = block_on(self.store.getattr(id)).expect("it is there");
        self.store.set_now(FileTime { seconds: second, nanoseconds: 0 });
        let modified = SetTime::To(before.modified);
        let times = SetAttributes { modified, ..SetAttributes::default() };
        block_on(self.store.setattr(&superuser(), id, &times, None)).result.expect("it may be");
        let after = block_on(self.change_time(id)).expect("it is there");
        assert!(before.changed < after);
        *self.upkeep.lock().expect("no test panicked") = Some((before.changed, after));
    }
}

impl Store for Away {
    forward_store!(store: root identity path properties setattr lookup parent access readlink read make remove rmdir rename link readdir);

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            coherence: Some(self),
            direct_layouts: Some(self),
            local_metadata: Some(self),
            reservations: Some(self),
            extended_attributes: Some(&self.store),
            ranges: Some(&self.store),
            ..Capabilities::NONE
        }
    }

    fn getattr<'a>(&'a self, id: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        if self.is_away.load(Ordering::Relaxed) {
            return MaybeReady::now(Err(FsError::Delay));
        }
        self.store.getattr(id)
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::later(async move {
            *self.upkeep.lock().expect("no test panicked") = None;
            let done = self.store.write(caller, id, offset, data, stability).await;
            self.is_away.store(true, Ordering::Relaxed);
            Changed { wcc: Wcc::default(), ..done }
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        let others = self.meanwhile.lock().expect("no test panicked").take();
        others.into_iter().for_each(|others| others());
        self.store.create(caller, place, file)
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        if self.is_away.load(Ordering::Relaxed) {
            return MaybeReady::now(Err(FsError::Delay));
        }
        self.store.space(caller, id)
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        self.touch(id);
        self.store.commit(caller, id, offset, length)
    }
}

impl Coherence for Away {
    fn acquire<'a>(
        &'a self,
        _: &'a ObjectId,
        _: Guard,
        _: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }

    fn exclusive<'a>(
        &'a self,
        id: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        if self.others_come.swap(false, Ordering::Relaxed) {
            let data = Bytes::from_static(b"theirs");
            block_on(self.store.write(&superuser(), id, 0, data, Stability::Unstable))
                .result
                .expect("there is room");
            self.store.set_now(FileTime { seconds: 2, nanoseconds: 0 });
        }
        MaybeReady::now(Ok(ExclusiveAccess::default()))
    }
}

impl DirectLayouts for Away {
    fn open_layout<'a>(
        &'a self,
        _: &'a Caller,
        id: &'a ObjectId,
        _: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>> {
        self.touch(id);
        MaybeReady::now(Err(FsError::Delay))
    }

    fn recall_layout<'a>(&'a self, _: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::now(Ok(()))
    }
}

impl LocalMetadata for Away {
    fn getattr_local<'a>(
        &'a self,
        id: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, Completeness), FsError>> {
        let completeness = match self.is_away.load(Ordering::Relaxed) {
            true => Completeness::SizeMayBeOld,
            false => Completeness::Complete,
        };
        MaybeReady::later(async move { Ok((self.store.getattr(id).await?, completeness)) })
    }

    fn change_time<'a>(&'a self, id: &'a ObjectId) -> MaybeReady<'a, Result<FileTime, FsError>> {
        MaybeReady::later(async move { Ok(self.store.getattr(id).await?.changed) })
    }

    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a ObjectId,
        wanted: Rights,
    ) -> MaybeReady<'a, Result<Rights, FsError>> {
        MaybeReady::later(async move { Ok(self.store.access(caller, id, wanted).await?.0) })
    }

    fn maintenance_span(&self, _: &ObjectId) -> Option<(FileTime, FileTime)> {
        *self.upkeep.lock().expect("no test panicked")
    }
}

impl Reservations for Away {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        MaybeReady::later(async move { Ok(self.store.space(caller, id).await?.0) })
    }
}

/// A client with a write lease on a file.
struct Writer {
    store: Arc<Away>,
    leases: Arc<Leases>,
    client: Client,
    file: ObjectId,
    object: Object,
    base: Base,
}

impl Writer {
    fn new() -> Self {
        let store = Arc::new(Away {
            store: MemStore::default(),
            is_away: AtomicBool::default(),
            others_come: AtomicBool::default(),
            upkeep: Mutex::default(),
            meanwhile: Mutex::default(),
        });
        let leases = Arc::new(Leases::without_past(HandleKey([1; 16])));
        let (who, way) = (([1; 16], 1), ReturnPath::Connection(ConnectionId::default()));
        leases.hello(Time::ZERO, (way, HOST), who, Protocol::Lease, "").expect("it is new");
        let caller = lease::Caller { client: who.0, instance: who.1, epoch: 1 };
        let client = leases.admit(Time::ZERO, way, &caller).expect("it is known");
        let Ok(Step::Child(name)) = Step::parse(b"file") else { panic!("it is a name") };
        let place = Place { directory: store.root(), name };
        let new = NewFile::Guarded(SetAttributes::default());
        let made = block_on(store.create(&superuser(), place, &new)).result.expect("there is room");
        let (file, object) = (made.object, object_of(&made.attributes));
        let base = Base { serial: 0, modrev: 0 };
        let mut writer = Self { store, leases, client, file, object, base };
        let terms = Terms { kind: Kind::Write, term_ms: 0, opportune: false, space: 0 };
        let asks = LeaseRequests::new(&[lease::Ask { place: place::FIRST, terms }]);
        let (gate, asked) = writer.call(asks, None);
        block_on(gate.lease(&file)).expect("there is no conflict");
        let granted = asked.outcome().granted.pop().expect("it was asked for").grant;
        assert!(granted.cachable);
        writer.base = Base { serial: granted.serial, modrev: granted.modrev };
        writer.store.store.set_now(FileTime { seconds: 1, nanoseconds: 0 });
        writer
    }

    fn call(&self, asks: LeaseRequests, base: Option<Base>) -> (LeasedStore, Arc<Piggyback>) {
        let asked = Arc::new(Piggyback::new(self.client, asks, ChangeBase::Named(base)));
        let by = LeasedCall { asked: Arc::clone(&asked), caller: superuser(), read_only: false };
        let (store, leases) = (Arc::<Away>::clone(&self.store), Arc::clone(&self.leases));
        (LeasedStore::new(store, ExportId(1), leases, Some(by)), asked)
    }

    /// Returns the current modrev of the file.
    fn now(&self) -> u64 {
        let changed = block_on(self.store.change_time(&self.file)).expect("it is there");
        self.leases.seen(self.object, changed, self.store.maintenance_span(&self.file)).0
    }

    /// Returns true if the server knows all changes since the grant as the client's own.
    fn is_own(&self) -> bool {
        let change = (Modrev(self.base.modrev), Modrev(self.now()));
        assert!(change.0 < change.1, "it was changed");
        self.leases.is_own(self.object, (self.client, Serial(self.base.serial)), change)
    }
}

/// An unreachable iod does not report a file's size, but the file still changes.
#[test]
fn change_is_reported_while_the_size_is_unknown() {
    let writer = Writer::new();
    let (gate, asked) = writer.call(LeaseRequests::default(), Some(writer.base));
    let (caller, data) = (superuser(), Bytes::from_static(b"data"));
    block_on(gate.write(&caller, &writer.file, 0, data, Stability::Unstable))
        .result
        .expect("there is room");
    let changes = asked.outcome().changes;
    let due =
        lease::Change { place: place::FIRST, before: writer.base.modrev, after: writer.now() };
    assert!(due.before < due.after, "it was changed");
    assert_eq!(changes, [due]);
}

/// A client that renews or reclaims a lease has little time: the server does not wait for an iod to
/// report the file's size or the free space. A new lease request waits.
#[test]
fn lease_renewal_does_not_wait_for_an_unreachable_iod() {
    let mut writer = Writer::new();
    let terms = Terms { kind: Kind::Write, term_ms: 0, opportune: false, space: 1 << 20 };
    let granted = |writer: &Writer, reclaim| {
        let (gate, asked) = writer.call(LeaseRequests::first(&terms, reclaim), None);
        let told = block_on(gate.lease(&writer.file));
        told.map(|(attributes, _)| (attributes, asked.outcome().granted.pop()))
    };
    writer.store.is_away.store(true, Ordering::Relaxed);
    let Ok((None, Some(renewed))) = granted(&writer, false) else { panic!("it is not renewed") };
    assert_eq!(renewed.grant.serial, writer.base.serial);
    // The server restarts in the next epoch, and the client reclaims its lease.
    let remembered = Remembered { epoch: 2, list: vec![([1; 16], 1)] };
    let handles = Handles::new(HandleKey([1; 16]));
    writer.leases = Arc::new(Leases::new(handles, remembered, None, Time::ZERO));
    let (who, way) = (([1; 16], 1), ReturnPath::Connection(ConnectionId::default()));
    writer.leases.hello(Time::ZERO, (way, HOST), who, Protocol::Lease, "").expect("it is known");
    let caller = lease::Caller { client: who.0, instance: who.1, epoch: 2 };
    writer.client = writer.leases.admit(Time::ZERO, way, &caller).expect("it is known");
    let Ok((None, Some(reclaimed))) = granted(&writer, true) else { panic!("not reclaimed") };
    assert!(reclaimed.grant.cachable && reclaimed.grant.serial > renewed.grant.serial);
    assert!(reclaimed.grant.space > 0, "there is space regardless of the file size");
    writer.leases.end(ExportId(1), writer.store.identity(&writer.file));
    writer.leases.progressed(clients::Event::Reclaimed(writer.client));
    writer.leases.progressed(clients::Event::Recovered(writer.client));
    for reclaim in [false, true] {
        assert_eq!(granted(&writer, reclaim), Err(FsError::Delay), "it is another lease");
    }
    writer.store.is_away.store(false, Ordering::Relaxed);
    assert!(matches!(granted(&writer, false), Ok((Some(_), Some(_)))));
}

/// Changes by another server while a call waits for exclusive access are no part of the call's
/// change: otherwise its client would continue to use its outdated cache.
#[test]
fn changes_by_others_during_a_wait_are_not_reported_as_own() {
    let writer = Writer::new();
    let (gate, asked) = writer.call(LeaseRequests::default(), None);
    writer.store.others_come.store(true, Ordering::Relaxed);
    let (caller, data) = (superuser(), Bytes::from_static(b"data"));
    block_on(gate.write(&caller, &writer.file, 0, data, Stability::Unstable))
        .result
        .expect("there is room");
    let [change] = asked.outcome().changes[..] else { panic!("it has changed one file") };
    assert!(writer.base.modrev < change.before, "others have changed it before");
    assert!(change.before < change.after && change.after == writer.now());
}

/// A client creates a name in a directory, and another caller removes a name there before the
/// creation; the client returns its lease on the directory for the removal. If the reply reported
/// one change from the state before both operations, the client would continue to show the removed
/// name.
#[test]
fn names_changed_by_others_are_no_part_of_a_change() {
    let at = |writer: &Writer, name: &'static [u8]| {
        let Ok(Step::Child(name)) = Step::parse(name) else { panic!("it is a name") };
        Place { directory: writer.store.root(), name }
    };
    let new = NewFile::Guarded(SetAttributes::default());
    for others_come in [false, true] {
        let writer = Writer::new();
        let (root, client) = (writer.store.root(), writer.client);
        let made = block_on(writer.store.create(&superuser(), at(&writer, b"theirs"), &new));
        made.result.expect("there is room");
        let terms = Terms { kind: Kind::Read, term_ms: 0, opportune: false, space: 0 };
        let (gate, asked) = writer.call(LeaseRequests::first(&terms, false), None);
        block_on(gate.lease(&root)).expect("no other caller has a lease");
        let granted = asked.outcome().granted.pop().expect("the call asked for a lease").grant;
        writer.store.store.set_now(FileTime { seconds: 2, nanoseconds: 0 });
        if others_come {
            let (store, leases) = (Arc::<Away>::clone(&writer.store), Arc::clone(&writer.leases));
            let plain = LeasedStore::new(store, ExportId(1), Arc::clone(&leases), None);
            let theirs = at(&writer, b"theirs");
            *writer.store.meanwhile.lock().expect("no test panicked") = Some(Box::new(move || {
                leases.returned(client, (ExportId(1), root), Serial(granted.serial), Open::No);
                block_on(plain.remove(&superuser(), theirs)).result.expect("the name is there");
            }));
        }
        let (gate, asked) = writer.call(LeaseRequests::default(), None);
        let made = block_on(gate.create(&superuser(), at(&writer, b"own"), &new));
        made.result.expect("there is room");
        let changes = asked.outcome().changes;
        if others_come {
            assert_eq!(changes, [], "another caller has changed the directory as well");
        } else {
            let [change] = changes[..] else { panic!("the call has changed one directory") };
            assert_eq!((change.place, change.before), (place::FIRST, granted.modrev));
            assert!(change.before < change.after);
        }
    }
}

/// The changes of NFS 4.2 pass through the operation guard, like a write.
#[test]
fn changes_of_ranges_and_extended_attributes_wait_for_a_lease() {
    let (caller, range) = (superuser(), ByteRange { offset: 0, length: 1 });
    let xattr = XattrName::parse(b"name").expect("it is a name");
    let value = || Bytes::from_static(b"value");
    let writer = Writer::new();
    let Ok(Step::Child(name)) = Step::parse(b"other") else { panic!("it is a name") };
    let (place, new) = (Place { directory: writer.store.root(), name }, NewFile::exclusive([1; 8]));
    let other = block_on(writer.store.store.create(&caller, place, &new)).result;
    let other = other.expect("there is room").object;
    let copy = |from, to| RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
    let (file, before) = (writer.file, writer.now());
    let (from, to) = (copy(file, other), copy(other, file));
    let (store, leases) = (Arc::<Away>::clone(&writer.store), Arc::clone(&writer.leases));
    let plain = LeasedStore::new(store, ExportId(1), leases, None);
    let plain: &dyn Store = &plain;
    assert_eq!(block_on(plain.xattr(&caller, &file, xattr)), Err(FsError::NoAttribute));
    assert!(waits(plain.set_xattr(&caller, &file, xattr, value(), SetXattr::Either)));
    assert!(waits(plain.remove_xattr(&caller, &file, xattr)));
    assert!(waits(plain.seek(&caller, &file, 0, Content::Data)));
    assert!(waits(plain.allocate(&caller, &file, range)));
    assert!(waits(plain.deallocate(&caller, &file, range)));
    for copy in [from, to] {
        assert!(waits(plain.clone_range(&caller, &copy)));
        assert!(waits(plain.copy_range(&caller, &copy)));
    }
    assert_eq!(writer.now(), before);
}

/// Returns true if an operation waits.
fn waits<T>(answer: MaybeReady<'_, T>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    pin!(answer).poll(&mut context).is_pending()
}

/// A request for a layout and a COMMIT name no lease, and their retry replies report no change.
#[test]
fn change_of_a_call_without_a_base_is_recorded() {
    let writer = Writer::new();
    let (gate, _) = writer.call(LeaseRequests::default(), None);
    let told = block_on(gate.open_layout(&superuser(), &writer.file, Purpose::Write));
    assert_eq!(told, Err(FsError::Delay));
    assert!(writer.is_own());
    let writer = Writer::new();
    let (gate, _) = writer.call(LeaseRequests::default(), None);
    block_on(gate.commit(&superuser(), &writer.file, 0, 0)).result.expect("it is there");
    assert!(writer.is_own());
}

/// Migrating a file's data or marking a replica as out of date, after the end of a client's lease,
/// is no change by another client. A real change by another client makes data late before, after
/// and between such maintenance.
#[test]
fn maintenance_makes_no_data_late() {
    for others_come in [None, Some(0), Some(1), Some(2)] {
        let writer = Writer::new();
        let (store, file) = (&writer.store, &writer.file);
        writer.leases.end(ExportId(1), writer.store.identity(file));
        let another = |turn| {
            if others_come == Some(turn) {
                let store = Arc::<Away>::clone(store);
                let plain = LeasedStore::new(store, ExportId(1), Arc::clone(&writer.leases), None);
                let (caller, data) = (superuser(), Bytes::from_static(b"theirs"));
                block_on(plain.write(&caller, file, 0, data, Stability::Unstable))
                    .result
                    .expect("there is room");
                writer.store.is_away.store(false, Ordering::Relaxed);
            }
        };
        another(0);
        store.keep_up(file, 2);
        // A caller without leases reads the attributes, which makes the lease-enforcing store
        // record the maintenance.
        let plain = Arc::<Away>::clone(store);
        let plain = LeasedStore::new(plain, ExportId(1), Arc::clone(&writer.leases), None);
        block_on(plain.getattr(file)).expect("it is there");
        another(1);
        store.keep_up(file, 3);
        another(2);
        let (gate, asked) = writer.call(LeaseRequests::default(), Some(writer.base));
        let data = Bytes::from_static(b"late");
        let done = block_on(gate.write(&superuser(), file, 0, data, Stability::Unstable)).result;
        let told = asked.outcome();
        if others_come.is_some() {
            assert_eq!((done, told.late), (Err(FsError::Delay), Some(writer.now())));
            continue;
        }
        done.expect("there is room");
        let before = writer.base.modrev;
        let due = lease::Change { place: place::FIRST, before, after: writer.now() };
        assert_eq!(told.changes, [due], "the change starts at the known state");
    }
}

/// A new file has the file id of a file that was removed just now. The lease on the removed file
/// exists until the removing call has ended. That lease has no effect on the new file, and a lease
/// on the new file survives the end of the removing call.
#[test]
fn reused_file_number_inherits_no_lease() {
    let writer = Writer::new();
    let Ok(Step::Child(name)) = Step::parse(b"file") else { panic!("it is a name") };
    let place = Place { directory: writer.store.root(), name };
    let store = Arc::<Away>::clone(&writer.store);
    let plain = LeasedStore::new(store, ExportId(1), Arc::clone(&writer.leases), None);
    let (remover, _) = writer.call(LeaseRequests::default(), Some(writer.base));
    let used = Use { id: writer.file, access: Access::Write, place: Some(place::SECOND) };
    let removing = block_on(remover.hold(used));
    let removing = removing.map_err(drop).expect("it is its own");
    block_on(writer.store.remove(&superuser(), place)).result.expect("it is there");
    let new = NewFile::Guarded(SetAttributes::default());
    let made = block_on(plain.create(&superuser(), place, &new));
    let made = made.result.expect("there is room");
    assert_eq!(object_of(&made.attributes), writer.object, "the number is used again");
    assert_ne!(made.object, writer.file);
    assert!(writer.leases.shard(writer.object).table.leases(writer.object).is_empty());
    removing.turn.gone();
    drop(removing);
    // The same sequence again, with a client that requests a lease on the new file.
    let terms = Terms { kind: Kind::Write, term_ms: 0, opportune: false, space: 0 };
    let asks = || LeaseRequests::new(&[lease::Ask { place: place::FIRST, terms }]);
    let held = |id| Use { id, access: Access::Write, place: Some(place::FIRST) };
    let removing = block_on(writer.call(asks(), None).0.hold(held(made.object)));
    let removing = removing.map_err(drop).expect("there is no conflict");
    block_on(writer.store.remove(&superuser(), place)).result.expect("it is there");
    let next =
        block_on(writer.store.create(&superuser(), place, &new)).result.expect("there is room");
    let (gate, asked) = writer.call(asks(), None);
    block_on(gate.lease(&next.object)).expect("there is no conflict");
    let granted = asked.outcome().granted.pop().expect("it was asked for").grant;
    removing.turn.gone();
    drop(removing);
    // A late call for the former file fails, and does not drop the lease on the new file.
    let late = block_on(writer.call(asks(), None).0.hold_as(held(made.object), &made.attributes));
    assert_eq!(late.map(drop), Err(FsError::Stale));
    let name = (ExportId(1), next.object);
    assert_eq!(writer.leases.another(writer.object, name), None, "it is known as it was");
    let leases = writer.leases.shard(writer.object);
    let serials: Vec<u64> =
        leases.table.leases(writer.object).iter().map(|lease| lease.serial.0).collect();
    assert_eq!(serials, [granted.serial]);
}
