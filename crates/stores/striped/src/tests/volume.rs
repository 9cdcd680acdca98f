//! A volume in memory, and tests of files in this volume.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{FileSystemId, FileTime};
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Caller, ClientKey, Mode, Name, NewFile, ObjectId, Place, SetAttributes, Stability, Step, Store,
    Verifier,
};
use leasehold_store_mem::{Config, MemStore};

use crate::{FileIod, Iod, Local, Mark, Member, Options, Striped};

/// The stripe unit: small, so that small files use all iods.
pub(super) const UNIT: u32 = 7;
pub(super) const INLINE: u32 = 20;

pub(super) const SUPERUSER: u32 = 0;

/// A volume with a store of names and three iods, and access to their stores.
pub(super) struct Volume {
    pub(super) names: Arc<MemStore>,
    pub(super) iods: Vec<Arc<MemStore>>,
    pub(super) copies: u16,
    pub(super) used: Vec<u16>,
    pub(super) rebalance: bool,
    /// True if other metaservers serve the same files.
    pub(super) shared: bool,
    starts: u64,
}

pub(super) fn superuser() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

impl Volume {
    pub(super) fn new() -> Self {
        let store = |number| {
            let config = Config { file_system: FileSystemId(number), ..Config::default() };
            Arc::new(MemStore::new(config))
        };
        let (iods, used) = ((10..13).map(store).collect(), vec![0, 1, 2]);
        let (names, copies, rebalance, shared) = (store(7), 1, false, false);
        Self { names, iods, copies, used, rebalance, shared, starts: 0 }
    }

    pub(super) fn set_now(&self, now: FileTime) {
        self.names.set_now(now);
        self.iods.iter().for_each(|iod| iod.set_now(now));
    }

    /// Crashes all stores: all data that is not stable is lost.
    pub(super) fn crash(&self) {
        self.names.crash();
        self.iods.iter().for_each(|iod| iod.crash());
    }

    pub(super) fn start(&mut self) -> Striped {
        self.start_with(|_, iod| iod)
    }

    /// Starts a metaserver with a wrapper around each iod.
    pub(super) fn start_with(
        &mut self,
        wrap: impl Fn(u16, Arc<dyn Iod>) -> Arc<dyn Iod>,
    ) -> Striped {
        self.start_over(Arc::<MemStore>::clone(&self.names), wrap)
    }

    /// Like `start_with`, with another store of names as well.
    pub(super) fn start_over(
        &mut self,
        names: Arc<dyn Store>,
        wrap: impl Fn(u16, Arc<dyn Iod>) -> Arc<dyn Iod>,
    ) -> Striped {
        self.starts += 1;
        let options = Options {
            volume: 5,
            unit: UNIT,
            inline_bytes_max: INLINE,
            // Multiples of six, so that the first file starts at the first iod if there are two or
            // three iods.
            start: 6 * self.starts,
            used: self.used.clone(),
            copies: self.copies,
            rebalance: self.rebalance,
            shared: self.shared,
            leased: self.shared,
            clients: ClientKey([6; 16]),
        };
        let mut iods: Vec<Arc<dyn Iod>> = Vec::new();
        for (number, store) in (0..).zip(&self.iods) {
            let mark = mark(number);
            let files = Local::new(Arc::<MemStore>::clone(store));
            let known = block_on(Mark::of(&files)).expect("it is sound");
            assert_eq!(known, (self.starts > 1).then(|| mark.clone()));
            let opened = block_on(FileIod::open(files, &mark));
            iods.push(wrap(number, Arc::new(opened.expect("it has room"))));
        }
        block_on(Striped::open(names, iods, options)).expect("all are there")
    }

    /// Returns the number of files and directories on iods.
    pub(super) fn objects(&self) -> u64 {
        let spaces = self.iods.iter().map(|iod| block_on(iod.space(&superuser(), &iod.root())));
        let spaces = spaces.map(|space| space.expect("it is there").0);
        spaces.map(|space| space.files - space.free_files).sum()
    }
}

pub(super) fn mark(number: u16) -> Mark {
    let member = |number| Member { label: format!("iod {number}"), gone: number == 2 };
    Mark { volume: 5, number, members: (0..3).map(member).collect() }
}

pub(super) fn name(text: &str) -> Name<'_> {
    match Step::parse(text.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

pub(super) fn place<'a>(store: &Striped, text: &'a str) -> Place<'a> {
    Place { directory: store.root(), name: name(text) }
}

pub(super) fn make(store: &Striped, text: &str) -> ObjectId {
    let mode = SetAttributes { mode: Some(Mode::from_bits(0o644)), ..SetAttributes::default() };
    let made = block_on(store.create(&superuser(), place(store, text), &NewFile::Guarded(mode)));
    made.result.expect("it is new").object
}

pub(super) fn put(
    store: &Striped,
    file: &ObjectId,
    offset: u64,
    data: &[u8],
    how: Stability,
) -> Verifier {
    let data = Bytes::copy_from_slice(data);
    let length = data.len();
    let done = block_on(store.write(&superuser(), file, offset, data, how)).result;
    let done = done.expect("it has room");
    assert_eq!(done.count as usize, length);
    done.verifier
}

pub(super) fn data(store: &Striped, file: &ObjectId) -> Vec<u8> {
    let read = block_on(store.read(&superuser(), file, 0, 1 << 20)).expect("it is there");
    assert!(read.end);
    assert_eq!(read.data.len() as u64, read.attributes.size);
    read.data.to_vec()
}

pub(super) fn commit(store: &Striped, file: &ObjectId) -> Verifier {
    let done = block_on(store.commit(&superuser(), file, 0, 0)).result;
    done.expect("nothing fails").verifier
}

pub(super) fn text(length: u8) -> Vec<u8> {
    (1..=length).collect()
}

#[test]
fn a_file_that_grows_moves_out() {
    let mut volume = Volume::new();
    let store = volume.start();
    let empty = volume.objects();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(10), Stability::FileSync);
    assert_eq!(volume.objects(), empty, "small files need no iod");
    put(&store, &file, 10, &text(90), Stability::FileSync);
    let whole = [text(10), text(90)].concat();
    assert_eq!(data(&store, &file), whole);
    assert!(volume.objects() > empty);
    volume.crash();
    let store = volume.start();
    assert_eq!(data(&store, &file), whole);
    // The data of a file never moves back to the metafile. The file can still be truncated to zero.
    let none = SetAttributes { size: Some(0), ..SetAttributes::default() };
    block_on(store.setattr(&superuser(), &file, &none, None)).result.expect("it may be");
    assert_eq!(data(&store, &file), []);
}

#[test]
fn a_file_that_is_gone_leaves_nothing_on_iods() {
    let mut volume = Volume::new();
    let store = volume.start();
    let (file, over) = (make(&store, "file"), make(&store, "over"));
    for file in [&file, &over] {
        put(&store, file, 0, &text(100), Stability::FileSync);
    }
    let superuser = superuser();
    let linked = block_on(store.link(&superuser, &file, place(&store, "second")));
    linked.result.expect("it can be");
    let with_two = volume.objects();
    block_on(store.remove(&superuser, place(&store, "file"))).result.expect("it is there");
    assert_eq!(volume.objects(), with_two, "it has another name");
    assert_eq!(data(&store, &file), text(100));
    let renamed =
        block_on(store.rename(&superuser, place(&store, "second"), place(&store, "over")));
    renamed.result.expect("it can be");
    assert_eq!(volume.objects(), with_two - 3, "one file of three objects was in the way");
    assert_eq!(data(&store, &file), text(100));
    // The removal also removes the objects if no call has used the file since the start of the
    // metaserver.
    let store = volume.start();
    block_on(store.remove(&superuser, place(&store, "over"))).result.expect("it is there");
    assert_eq!(volume.objects(), with_two - 6);
}

#[test]
fn an_iod_that_lost_data_changes_the_verifier_of_the_commit() {
    let mut volume = Volume::new();
    let store = volume.start();
    let [file, other] = ["file", "other"].map(|name| make(&store, name));
    let written = put(&store, &file, 0, &text(100), Stability::Unstable);
    assert_eq!(commit(&store, &file), written);
    let again = put(&store, &file, 50, &text(100), Stability::Unstable);
    assert_eq!(again, written);
    volume.iods[1].crash();
    assert_ne!(commit(&store, &file), again);
    // The verifiers of two files are equal, so a client that keeps one verifier for all files sees
    // no loss of data.
    let [one, two] =
        [&file, &other].map(|file| put(&store, file, 50, &text(100), Stability::Unstable));
    assert_eq!([one, two], [commit(&store, &file), commit(&store, &other)]);
    assert_eq!(data(&store, &file), [text(50), text(100)].concat());
}

#[test]
fn a_metaserver_that_restarts_alone_loses_nothing() {
    let mut volume = Volume::new();
    let store = volume.start();
    let file = make(&store, "file");
    let written = put(&store, &file, 0, &text(100), Stability::Unstable);
    drop(store);
    let store = volume.start();
    assert_eq!(commit(&store, &file), written);
    volume.crash();
    assert_eq!(data(&volume.start(), &file), text(100));
}

#[test]
fn a_foreign_or_damaged_head_is_an_error() {
    let mut volume = Volume::new();
    let store = volume.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    let damage = Bytes::from_static(b"x");
    let done = block_on(volume.names.write(&superuser(), &file, 30, damage, Stability::FileSync));
    done.result.expect("it has room");
    let store = volume.start();
    let read = block_on(store.read(&superuser(), &file, 0, 10));
    assert_eq!(read, Err(leasehold_fs::FsError::Io));
}
