//! The harness of the tests: a store over its own directory, a thread pool, and a function that
//! waits for a result.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
pub(crate) use leasehold_fs::suite::block_on as wait;
use leasehold_fs::{
    Blocking, Caller, FsError, Job, Mode, Name, NewFile, ObjectId, Place, SetAttributes, Stability,
    Step, Store, Verifier,
};
use tempfile::TempDir;

use crate::sync::{Kernel, Syncer};
use crate::{DirStore, Durability, HandleSource, Options};

/// A few threads that take jobs from a queue. The threads end when the last clone of the sender is
/// dropped.
pub(crate) struct Pool(Mutex<Sender<Job>>);

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..threads {
            let receiver = Arc::clone(&receiver);
            thread::spawn(move || {
                loop {
                    let job = receiver.lock().expect("no job panics in recv").recv();
                    let Ok(job) = job else { return };
                    job();
                }
            });
        }
        Self(Mutex::new(sender))
    }
}

impl Blocking for Pool {
    fn run(&self, job: Job) {
        let sender = self.0.lock().expect("sending does not panic");
        sender.send(job).expect("the threads live as long as the pool");
    }
}

/// A store over a temporary directory.
pub(crate) struct World {
    pub(crate) directory: TempDir,
    pub(crate) store: DirStore,
}

impl Drop for World {
    /// This thread still acts as its last caller, and that caller must not remove the directory. So
    /// make the thread act as the server.
    fn drop(&mut self) {
        let _ = self.store.volume.acting.as_server();
    }
}

/// The parameters of a world that differ from the default.
pub(crate) struct Make {
    pub(crate) durability: Durability,
    pub(crate) descriptors_max: usize,
    pub(crate) handles: HandleSource,
    pub(crate) syncer: Box<dyn Syncer>,
    pub(crate) blocking: Arc<dyn Blocking>,
}

impl Default for Make {
    fn default() -> Self {
        Self {
            durability: Durability::Disk,
            descriptors_max: 256,
            handles: HandleSource::Probe,
            syncer: Box::new(Kernel::of(&std::env::temp_dir())),
            blocking: Arc::new(Pool::new(4)),
        }
    }
}

pub(crate) const VERIFIER: Verifier = Verifier(*b"started1");

impl World {
    pub(crate) fn new() -> Self {
        Self::make(Make::default())
    }

    pub(crate) fn make(make: Make) -> Self {
        rustix::process::umask(rustix::fs::Mode::empty());
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let store = Self::open(directory.path(), make);
        Self { directory, store }
    }

    pub(crate) fn open(path: &Path, make: Make) -> DirStore {
        let Make { durability, descriptors_max, handles, syncer, blocking } = make;
        let options =
            Options { blocking, verifier: VERIFIER, durability, descriptors_max, handles };
        DirStore::with_syncer(path, options, syncer).expect("the directory can be served")
    }

    /// Returns the configurations in which the store must behave in the same manner: with objects
    /// found by handle and by names, and with many descriptors and with one.
    pub(crate) fn all() -> Vec<Self> {
        [(HandleSource::Probe, 256), (HandleSource::Names, 256), (HandleSource::Names, 1)]
            .map(|(handles, descriptors_max)| {
                Self::make(Make { handles, descriptors_max, ..Make::default() })
            })
            .into()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn lookup(&self, directory: ObjectId, path: &str) -> Result<ObjectId, FsError> {
        wait(self.store.lookup(&superuser(), &directory, name(path))).map(|found| found.object)
    }

    /// Creates a file in the root.
    pub(crate) fn file(&self, path: &str) -> ObjectId {
        let attributes =
            SetAttributes { mode: Some(Mode::from_bits(0o644)), ..SetAttributes::default() };
        let place = self.at(path);
        let made = wait(self.store.create(&superuser(), place, &NewFile::Guarded(attributes)));
        made.result.expect("the file can be made").object
    }

    /// Returns a name in the root.
    pub(crate) fn at<'a>(&self, path: &'a str) -> Place<'a> {
        Place { directory: self.store.root(), name: name(path) }
    }

    pub(crate) fn write(&self, object: ObjectId, data: &'static [u8], stability: Stability) {
        let data = Bytes::from_static(data);
        let written = wait(self.store.write(&superuser(), &object, 0, data, stability));
        written.result.expect("the file can be written");
    }

    pub(crate) fn read(&self, object: ObjectId) -> Vec<u8> {
        let read = wait(self.store.read(&superuser(), &object, 0, 1 << 20));
        read.expect("the file can be read").data.to_vec()
    }
}

pub(crate) fn name(name: &str) -> Name<'_> {
    let step = Step::parse(name.as_bytes()).expect("a name of the tests");
    step.child(FsError::Invalid).expect("neither . nor ..")
}

pub(crate) fn superuser() -> Caller {
    user(0)
}

pub(crate) fn user(uid: u32) -> Caller {
    Caller { uid, gid: uid, ..Caller::nobody() }
}
