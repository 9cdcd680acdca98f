//! Tests of a striped volume whose iods are separate servers. Some servers have all features, and
//! one omits all optional parts of replies and accepts only one byte in each WRITE.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::{Subject, block_on, run_all, run_model};
use leasehold_fs::{
    Caller, Capability, ClientKey, FsError, Name, NewFile, ObjectId, Place, SetAttributes,
    Stability, Step, Store,
};
use leasehold_rig::{Cable, EPOCH_KEY, EXPORT, Faults, Manners, MemServer};
use leasehold_serve::{Epoch, EpochKey};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Runtime, SourcePort, Target, mount};
use leasehold_store_mem::{Config, MemStore};
use leasehold_store_striped::{
    FileIod, Files as _, Iod, Mark, ObjectName, Options, Remote, RetryingIod, Striped, Timeouts,
};

const VOLUME: u64 = 9;

/// A store of names in memory, and the servers that store the data.
struct Cluster {
    runtime: Runtime,
    names: Arc<MemStore>,
    servers: Vec<MemServer>,
    starts: u64,
    copies: u16,
    patience: Option<Timeouts>,
    /// The key under which a metaserver reports its epoch. The epoch of a metaserver is the number
    /// of metaservers started so far.
    key: EpochKey,
}

fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, ..Caller::nobody() }
}

impl Cluster {
    fn new(manners: &[Manners]) -> Self {
        let config = Config { file_system: FileSystemId(7), ..Config::default() };
        Self {
            runtime: Runtime::start().expect("the system has a thread left"),
            names: Arc::new(MemStore::new(config)),
            servers: manners.iter().map(|&manners| MemServer::start(manners)).collect(),
            starts: 0,
            copies: 1,
            patience: None,
            key: EPOCH_KEY,
        }
    }

    fn crash(&self) {
        self.names.crash();
        self.servers.iter().for_each(|server| server.store().crash());
    }

    fn start(&mut self) -> Striped {
        self.starts += 1;
        let who = Credential::system("metaserver", 0, 0, &[]);
        let in_epoch = Arc::new(OnceLock::new());
        let mut iods: Vec<Arc<dyn Iod>> = Vec::new();
        for (number, server) in (0..).zip(&self.servers) {
            let at = server.address();
            let path = format!("/{EXPORT}");
            let target = Target {
                port: Some(at.port()),
                ..Target::new(&at.ip().to_string(), path.as_bytes(), Calling::stream())
            };
            let mounted = block_on(mount(&self.runtime, &target, &who)).expect("the server runs");
            let files = Remote::new(mounted.nfs, who.clone(), mounted.root, mounted.bounds, 0);
            let files = files.later_as(Arc::clone(&in_epoch), Arc::new(|| ()));
            let mark = Mark { volume: VOLUME, number, members: Vec::new() };
            let known = block_on(Mark::of(&files)).expect("the mark is sound");
            assert_eq!(known, (self.starts > 1).then(|| mark.clone()));
            let iod = Arc::new(block_on(FileIod::open(files, &mark)).expect("the disk has space"));
            iods.push(match self.patience {
                None => iod,
                Some(patience) => {
                    let clock = self.runtime.session(at, Calling::stream(), SourcePort::Any);
                    RetryingIod::new(iod, clock.expect("no socket is needed"), patience)
                }
            });
        }
        let epoch = Epoch { volume: VOLUME, metaserver: Epoch::ALONE, number: self.starts };
        let begun = Credential::system(&epoch.word(self.key), 0, 0, &[]);
        in_epoch.set(begun).expect("the epoch is set once");
        let used = (0..).zip(&self.servers).map(|(number, _)| number).collect();
        let options = Options {
            volume: VOLUME,
            unit: 7,
            inline_bytes_max: 20,
            start: self.starts,
            used,
            copies: self.copies,
            rebalance: false,
            shared: false,
            leased: false,
            clients: ClientKey([6; 16]),
        };
        let names = Arc::<MemStore>::clone(&self.names) as Arc<dyn Store>;
        block_on(Striped::open(names, iods, options)).expect("all iods run")
    }
}

fn subject(manners: &[Manners]) -> Subject {
    let mut cluster = Cluster::new(manners);
    let store = Arc::new(cluster.start());
    let cluster = Rc::new(RefCell::new(cluster));
    let clock = Rc::clone(&cluster);
    Subject {
        capabilities: vec![
            Capability::Coherence,
            Capability::DirectLayouts,
            Capability::LocalMetadata,
            Capability::Reservations,
            Capability::OpenFiles,
            Capability::ExtendedAttributes,
            Capability::Ranges,
        ],
        files_are_its_own: false,
        restart: Some(Box::new(move || {
            let mut cluster = cluster.borrow_mut();
            cluster.crash();
            Arc::new(cluster.start()) as Arc<dyn Store>
        })),
        ..Subject::of_every_user(store, move |now| clock.borrow().names.set_now(now))
    }
}

#[test]
fn a_volume_over_servers_conforms() {
    let full = || subject(&[Manners::Full; 3]);
    assert_eq!(run_all(full), [""; 0], "nothing is skipped");
    for seed in 0..10 {
        run_model(full, seed, 120);
    }
}

/// The volume must also conform if a server returns no attributes and no handles of created
/// objects, and accepts only one byte in each WRITE.
#[test]
fn a_volume_over_a_stingy_server_conforms() {
    let stingy = || subject(&[Manners::Full, Manners::Stingy]);
    assert_eq!(run_all(stingy), [""; 0], "nothing is skipped");
}

fn name(text: &str) -> Name<'_> {
    match Step::parse(text.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is not a name"),
    }
}

fn put(store: &Striped, file: &ObjectId, offset: u64, byte: u8) -> leasehold_fs::Verifier {
    let data = Bytes::from(vec![byte; 50]);
    let done = block_on(store.write(&superuser(), file, offset, data, Stability::Unstable));
    done.result.expect("the disk has space").verifier
}

/// A server is killed and started again at the same address. A client that sees the new write
/// verifier in the reply to COMMIT must write its unstable data again.
#[test]
fn a_server_that_restarts_loses_nothing_that_was_committed() {
    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    let store = cluster.start();
    let place = Place { directory: store.root(), name: name("file") };
    let made = block_on(store.create(&superuser(), place, &NewFile::exclusive([1; 8])));
    let file = made.result.expect("the file is new").object;
    for round in 0..10_u8 {
        let written = put(&store, &file, u64::from(round) * 50, round);
        let server = cluster.servers.pop().expect("two servers run");
        let (address, memory) = (server.address(), Arc::clone(server.store()));
        drop(server);
        memory.crash();
        let again = MemServer::start_over(address, memory, Manners::Full);
        cluster.servers.push(again.expect("the address is free again"));
        let commit = || {
            let done = block_on(store.commit(&superuser(), &file, 0, 0));
            done.result.expect("all iods run").verifier
        };
        assert_ne!(commit(), written, "data was lost");
        let written = put(&store, &file, u64::from(round) * 50, round);
        assert_eq!(commit(), written);
    }
    cluster.crash();
    let store = cluster.start();
    let read = block_on(store.read(&superuser(), &file, 0, 1000)).expect("the file exists");
    let whole: Vec<u8> = (0..10).flat_map(|round| [round; 50]).collect();
    assert_eq!(read.data, whole);
}

/// Writes to the first bytes of a file whose stripes lie on all iods.
fn try_put(store: &Striped, file: &ObjectId, byte: u8) -> Result<(), FsError> {
    let data = Bytes::from(vec![byte; 50]);
    let done = block_on(store.write(&superuser(), file, 0, data, Stability::FileSync));
    // The store may write only a part, and the client then writes the rest again: let the caller of
    // this function retry.
    done.result.and_then(|done| if done.count == 50 { Ok(()) } else { Err(FsError::Delay) })
}

/// Repeats an attempt until it succeeds; returns the result.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(Instant::now() < end, "the attempt does not succeed");
    }
}

/// If a server is unreachable, the metaserver waits, then lets its caller retry, and finally fails
/// the call. Operations on files without data on this server continue. When the server is reachable
/// again, all operations continue.
#[test]
fn a_call_waits_for_an_unreachable_server() {
    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    // The two times differ much, because a slow machine may need long until it replies with a
    // retry.
    let (later, give_up) = (Duration::from_millis(50), Duration::from_secs(3));
    cluster.patience = Some(Timeouts { later, give_up });
    let store = cluster.start();
    let make = |text| {
        let place = Place { directory: store.root(), name: name(text) };
        let made = block_on(store.create(&superuser(), place, &NewFile::exclusive([1; 8])));
        made.result.expect("the file is new").object
    };
    let [large, small, doomed] = ["large", "small", "doomed"].map(make);
    until(|| try_put(&store, &large, 1).ok());
    until(|| try_put(&store, &doomed, 1).ok());
    let server = cluster.servers.pop().expect("two servers run");
    let (address, memory) = (server.address(), Arc::clone(server.store()));
    drop(server);
    let away = Instant::now();
    assert_eq!(try_put(&store, &large, 2), Err(FsError::Delay));
    let lost = until(|| try_put(&store, &large, 3).err().filter(|it| *it != FsError::Delay));
    assert_eq!(lost, FsError::Io);
    assert!(away.elapsed() >= give_up, "the call waits for the server");
    let bytes = Bytes::from_static(b"small");
    let done = block_on(store.write(&superuser(), &small, 0, bytes, Stability::FileSync));
    assert_eq!(done.result.expect("the call needs no iod").count, 5);
    let place = Place { directory: store.root(), name: name("doomed") };
    let removed = block_on(store.remove(&superuser(), place)).result;
    assert_eq!(removed, Ok(()), "a name is removed without its iods");
    let again = MemServer::start_over(address, memory, Manners::Full);
    cluster.servers.push(again.expect("the address is free again"));
    // The rest of an old change may still be in progress and must end first, so repeat the write
    // until it succeeds.
    until(|| try_put(&store, &large, 4).ok());
    let read = until(|| block_on(store.read(&superuser(), &large, 0, 1000)).ok());
    assert_eq!(read.data, vec![4; 50]);
}

/// A superseded metaserver continues before its successor has written anything. Its calls must
/// reach no stripe object, and its clients have to retry.
#[test]
fn a_superseded_metaserver_reaches_no_object() {
    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    let before = cluster.start();
    let place = Place { directory: before.root(), name: name("file") };
    let made = block_on(before.create(&superuser(), place, &NewFile::exclusive([1; 8])));
    let file = made.result.expect("the file is new").object;
    assert_eq!(try_put(&before, &file, 1), Ok(()));
    let after = cluster.start();
    assert_eq!(try_put(&before, &file, 2), Err(FsError::Delay));
    let cut = SetAttributes { size: Some(30), ..SetAttributes::default() };
    let done = block_on(before.setattr(&superuser(), &file, &cut, None));
    assert_eq!(done.result, Err(FsError::Delay));
    let read = |store: &Striped| block_on(store.read(&superuser(), &file, 0, 1000));
    assert_eq!(read(&before).map(|read| read.data), Err(FsError::Delay));
    assert_eq!(read(&after).expect("the file exists").data, vec![1; 50]);
    assert_eq!(try_put(&after, &file, 3), Ok(()));
    assert_eq!(try_put(&before, &file, 4), Err(FsError::Delay));
    assert_eq!(read(&after).expect("the file exists").data, vec![3; 50]);
}

/// A metaserver of an earlier version has no epoch, so servers do not compare it with other
/// metaservers. An iod of an earlier version ignores epochs, so it accepts every metaserver.
#[test]
fn epochs_bind_only_programs_that_send_them() {
    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    cluster.start();
    let iod = open_folder(&cluster.runtime, cluster.servers[0].address());
    let data = Bytes::from_static(b"data");
    let written = block_on(iod.write(ObjectName([1; 16]), 0, data, Stability::FileSync));
    assert!(written.is_ok());

    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    cluster.key = EpochKey([0; 16]);
    let before = cluster.start();
    let place = Place { directory: before.root(), name: name("file") };
    let made = block_on(before.create(&superuser(), place, &NewFile::exclusive([1; 8])));
    let file = made.result.expect("the file is new").object;
    let after = cluster.start();
    for store in [&after, &before] {
        assert_eq!(try_put(store, &file, 1), Ok(()));
    }
}

/// A metaserver stores a note beside the stripe objects. It must read the note unchanged, also on a
/// server that accepts only one byte in each WRITE.
#[test]
fn a_note_is_read_as_it_was_written() {
    for manners in [Manners::Full, Manners::Stingy] {
        let cluster = Cluster::new(&[manners]);
        let iod = open_folder(&cluster.runtime, cluster.servers[0].address());
        assert_eq!(block_on(iod.files().note("note", 100)), Ok(None));
        for text in ["first", "other"] {
            assert_eq!(block_on(iod.files().put_note("note", text)), Ok(()));
            let note = block_on(iod.files().note("note", 100));
            assert_eq!(note, Ok(Some(Bytes::from_static(text.as_bytes()))));
        }
    }
}

/// Over a narrow link the data of a call takes longer than a server may be silent. As long as data
/// moves, the call must be neither postponed nor sent twice.
#[test]
fn a_server_behind_a_narrow_cable_is_not_unreachable() {
    let server = MemServer::start(Manners::Full);
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let cable = Cable::lay(any, server.address(), Faults::default()).expect("a port is free");
    let runtime = Runtime::start().expect("the system has a thread left");
    let clock = runtime.session(cable.address(), Calling::stream(), SourcePort::Any);
    let clock = clock.expect("no socket is needed");
    let folder = open_folder(&runtime, cable.address());
    // The timeout is far longer than the time of a piece. So even if the machine pauses for some
    // seconds, the server does not count as silent.
    let (later, give_up) = (Duration::from_secs(6), Duration::from_secs(120));
    let iod = RetryingIod::new(Arc::new(folder), clock, Timeouts { later, give_up });
    let (object, data) = (ObjectName([1; 16]), Bytes::from(vec![7; 1 << 20]));
    let first = block_on(iod.write(object, 0, data.slice(..1), Stability::Unstable));
    assert!(first.is_ok_and(|written| written.extent.size == 1));
    let before = cable.counters().bytes;
    // A piece takes two thirds of a second, and all pieces together take nearly eleven seconds.
    cable.set_narrow(NonZeroU32::new(96 << 10));
    let begun = Instant::now();
    let written = block_on(iod.write(object, 0, data.clone(), Stability::Unstable));
    assert!(written.is_ok_and(|written| written.extent.size == 1 << 20));
    assert!(begun.elapsed() > later, "the transfer was slow");
    assert!(!iod.is_away());
    cable.set_narrow(None);
    let sent = cable.counters().bytes - before;
    assert!(sent < 2 * data.len() as u64, "{sent} bytes went through");
    assert!(block_on(iod.read(object, 0, 1 << 20)).is_ok_and(|read| read == data));
}

/// Opens the stripe objects of the server at an address.
fn open_folder(runtime: &Runtime, at: SocketAddr) -> FileIod<Remote> {
    let who = Credential::system("metaserver", 0, 0, &[]);
    let path = format!("/{EXPORT}");
    let target = Target {
        port: Some(at.port()),
        ..Target::new(&at.ip().to_string(), path.as_bytes(), Calling::stream())
    };
    let mounted = block_on(mount(runtime, &target, &who)).expect("the server runs");
    let files = Remote::new(mounted.nfs, who, mounted.root, mounted.bounds, 0);
    let mark = Mark { volume: VOLUME, number: 0, members: Vec::new() };
    block_on(FileIod::open(files, &mark)).expect("the disk has space")
}

/// Returns the names of all stripe objects of an iod.
fn objects(iod: &impl Iod) -> Vec<ObjectName> {
    let list = |first| block_on(iod.list(first)).expect("the iod runs");
    (0..=u8::MAX).flat_map(list).collect()
}

/// A list contains exactly the stripe objects of a server, in as many calls as needed.
#[test]
fn the_objects_of_a_server_are_listed() {
    let cluster = Cluster::new(&[Manners::Stingy]);
    let iod = open_folder(&cluster.runtime, cluster.servers[0].address());
    assert_eq!(objects(&iod), []);
    let names = (0..600_u32).map(|number| {
        let mut name = [number.to_be_bytes(); 4].concat();
        // Put many objects into one directory of the iod, and some into others.
        name[0] = if number % 100 == 0 { 0xFE } else { 3 };
        ObjectName(name.try_into().expect("it has 16 bytes"))
    });
    let mut names: Vec<_> = names.collect();
    for name in &names {
        let byte = Bytes::from_static(b"x");
        block_on(iod.write(*name, 0, byte, Stability::Unstable)).expect("the disk has space");
    }
    let mut listed = objects(&iod);
    listed.sort();
    names.sort();
    assert_eq!(listed, names);
}
