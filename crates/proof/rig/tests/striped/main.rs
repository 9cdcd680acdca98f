//! A striped volume whose iods are servers of their own: full ones, one that leaves out all it may
//! and takes a byte a WRITE, and one with names of its own.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::{Subject, block_on, run_all, run_model};
use leasehold_fs::{Caller, Name, NewFile, ObjectId, Place, Stability, Step, Store};
use leasehold_rig::{EXPORT, Manners, MemServer};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Runtime, Target, mount};
use leasehold_store_mem::{Config, MemStore};
use leasehold_store_striped::{Folder, Iod, Mark, Options, Remote, Striped};

const VOLUME: u64 = 9;

/// Names in memory, and servers that keep the data.
struct Cluster {
    runtime: Runtime,
    names: Arc<MemStore>,
    servers: Vec<MemServer>,
    starts: u64,
}

fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, ..Caller::nobody() }
}

impl Cluster {
    fn new(manners: &[Manners]) -> Self {
        let config = Config { file_system: FileSystemId(7), ..Config::default() };
        Self {
            runtime: Runtime::start().expect("there is a thread left"),
            names: Arc::new(MemStore::new(config)),
            servers: manners.iter().map(|&manners| MemServer::start(manners)).collect(),
            starts: 0,
        }
    }

    fn crash(&self) {
        self.names.crash();
        self.servers.iter().for_each(|server| server.store().crash());
    }

    fn start(&mut self) -> Striped {
        self.starts += 1;
        let who = Credential::system("metaserver", 0, 0, &[]);
        let mut iods: Vec<Arc<dyn Iod>> = Vec::new();
        for (number, server) in (0..).zip(&self.servers) {
            let at = server.address();
            let path = format!("/{EXPORT}");
            let target = Target {
                port: Some(at.port()),
                ..Target::new(&at.ip().to_string(), path.as_bytes(), Calling::stream())
            };
            let mounted = block_on(mount(&self.runtime, &target, &who)).expect("it is there");
            let files = Remote::new(mounted.nfs, who.clone(), mounted.root, mounted.bounds);
            let mark = Mark { volume: VOLUME, number };
            let known = block_on(Mark::of(&files)).expect("it is sound");
            assert_eq!(known, (self.starts > 1).then_some(mark));
            iods.push(Arc::new(block_on(Folder::open(files, mark)).expect("it has room")));
        }
        let options = Options { volume: VOLUME, unit: 7, inline_bytes_max: 20, start: self.starts };
        let names = Arc::<MemStore>::clone(&self.names) as Arc<dyn Store>;
        block_on(Striped::open(names, iods, options)).expect("all are there")
    }
}

fn subject(manners: &[Manners]) -> Subject {
    let mut cluster = Cluster::new(manners);
    let store = Arc::new(cluster.start());
    let cluster = Rc::new(RefCell::new(cluster));
    let clock = Rc::clone(&cluster);
    Subject {
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

/// Also where a server gives no attributes and no handles of what it makes, and takes a byte at a
/// time.
#[test]
fn a_volume_over_a_stingy_server_conforms() {
    let stingy = || subject(&[Manners::Full, Manners::Stingy]);
    assert_eq!(run_all(stingy), [""; 0], "nothing is skipped");
}

fn name(text: &str) -> Name<'_> {
    match Step::parse(text.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

fn put(store: &Striped, file: &ObjectId, offset: u64, byte: u8) -> leasehold_fs::Verifier {
    let data = Bytes::from(vec![byte; 50]);
    let done = block_on(store.write(&superuser(), file, offset, data, Stability::Unstable));
    done.result.expect("there is room").verifier
}

/// A server that is killed and started again comes back on the same address; what it had not made
/// stable is written again by whoever sees the verifier of the COMMIT.
#[test]
fn a_server_that_restarts_loses_nothing_that_was_committed() {
    let mut cluster = Cluster::new(&[Manners::Full; 2]);
    let store = cluster.start();
    let place = Place { directory: store.root(), name: name("file") };
    let made = block_on(store.create(&superuser(), place, &NewFile::Exclusive([1; 8])));
    let file = made.result.expect("it is new").object;
    for round in 0..10_u8 {
        let written = put(&store, &file, u64::from(round) * 50, round);
        let server = cluster.servers.pop().expect("there are two");
        let (address, memory) = (server.address(), Arc::clone(server.store()));
        drop(server);
        memory.crash();
        let again = MemServer::start_over(address, memory, Manners::Full);
        cluster.servers.push(again.expect("the address is free again"));
        let commit = || {
            let done = block_on(store.commit(&superuser(), &file, 0, 0));
            done.result.expect("all are there").verifier
        };
        assert_ne!(commit(), written, "something was lost");
        let written = put(&store, &file, u64::from(round) * 50, round);
        assert_eq!(commit(), written);
    }
    cluster.crash();
    let store = cluster.start();
    let read = block_on(store.read(&superuser(), &file, 0, 1000)).expect("it is there");
    let whole: Vec<u8> = (0..10).flat_map(|round| [round; 50]).collect();
    assert_eq!(read.data, whole);
}
