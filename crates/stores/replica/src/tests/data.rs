//! Tests of striped files with several metaservers over the same iods.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::FileSystemId;
use leasehold_fs::suite::block_on;
use leasehold_fs::{ClientKey, NewFile, ObjectId, Place, SetAttributes, Stability, Store};
use leasehold_store_mem::{Config, MemStore};
use leasehold_store_striped::{FileIod, Iod, Local, Mark, Member, Options, Striped};

use super::lan::{Lan, name, who};
use crate::Order;

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

fn options(start: u64) -> Options {
    Options {
        volume: 5,
        unit: 7,
        inline_bytes_max: 0,
        start,
        used: vec![0, 1, 2],
        copies: 1,
        rebalance: false,
        shared: true,
        leased: true,
        clients: ClientKey([6; 16]),
    }
}

/// Returns the volumes of `count` metaservers over the same three iods.
fn volumes(count: usize) -> (Lan, Vec<Arc<Striped>>) {
    let (lan, iods) = (Lan::with(count, Order::Constant, new_file), Iods::new());
    let volumes = (0..count).map(|me| iods.open(&lan, me)).collect();
    (lan, volumes)
}

/// Returns the metafile header of a new file.
pub(super) fn new_file(start: u64, number: u64) -> Bytes {
    options(start).new_file(number)
}

/// Three iods that metaservers share.
#[derive(Clone)]
pub(super) struct Iods(Vec<Arc<MemStore>>);

impl Iods {
    pub(super) fn new() -> Self {
        let store = |number| {
            let config = Config { file_system: FileSystemId(number), ..Config::default() };
            Arc::new(MemStore::new(config))
        };
        Self((10..13).map(store).collect())
    }

    /// Opens the volume of a metaserver over the iods.
    pub(super) fn open(&self, lan: &Lan, me: usize) -> Arc<Striped> {
        self.open_with(lan, me, |iod| iod)
    }

    /// Opens the volume of a metaserver over these iods, with `wrap` applied to each iod.
    pub(super) fn open_with(
        &self,
        lan: &Lan,
        me: usize,
        wrap: impl Fn(Arc<dyn Iod>) -> Arc<dyn Iod>,
    ) -> Arc<Striped> {
        let member = |number| Member { label: format!("iod {number}"), gone: false };
        let members: Vec<Member> = (0..3).map(member).collect();
        let folder = |(number, store): (u16, &Arc<MemStore>)| {
            let mark = Mark { volume: 5, number, members: members.clone() };
            let files = Local::new(Arc::<MemStore>::clone(store));
            let folder = block_on(FileIod::open(files, &mark)).expect("it has room");
            wrap(Arc::new(folder))
        };
        let iods = (0..).zip(&self.0).map(folder).collect();
        let opened = Striped::open(Arc::new(lan.at(me)), iods, options(0));
        Arc::new(block_on(opened).expect("all are there"))
    }

    /// Returns the number of objects on all iods, including the directories that contain them.
    pub(super) fn objects(&self) -> u64 {
        let spaces = self.0.iter().map(|iod| block_on(iod.space(&who(), &iod.root())));
        let spaces = spaces.map(|space| space.expect("a store in memory answers").0);
        spaces.map(|space| space.files - space.free_files).sum()
    }
}

fn create(lan: &Lan, at: &Striped, text: &str) -> ObjectId {
    let place = Place { directory: at.root(), name: name(text) };
    let how = NewFile::Guarded(SetAttributes::default());
    lan.run(at.create(&who(), place, &how)).result.expect("the name is free").object
}

fn write(lan: &Lan, at: &Striped, file: ObjectId, offset: u64, data: &'static [u8]) {
    let (who, stability) = (who(), Stability::Unstable);
    let done = lan.run(at.write(&who, &file, offset, Bytes::from_static(data), stability));
    assert_eq!(done.result.expect("there is room").count as usize, data.len());
}

fn read(lan: &Lan, at: &Striped, file: ObjectId) -> Bytes {
    lan.run(at.read(&who(), &file, 0, 100)).expect("it is there").data
}

fn size(lan: &Lan, at: &Striped, file: ObjectId) -> u64 {
    lan.run(at.getattr(&file)).expect("it is there").size
}

#[test]
fn sizes_follow_writes_of_other_metaservers() {
    let (lan, volumes) = volumes(3);
    let [one, two, three] = &*volumes else { panic!("there are three") };
    let file = create(&lan, one, "file");
    assert_eq!((size(&lan, two, file), size(&lan, three, file)), (0, 0));
    write(&lan, two, file, 0, b"written at the second");
    assert_eq!(size(&lan, two, file), 21, "the writer sees it");
    assert_eq!(size(&lan, three, file), 0, "the data is not released yet");
    lan.pass(2 * SECOND + WINDOW);
    for at in &volumes {
        assert_eq!(size(&lan, at, file), 21);
        assert_eq!(&read(&lan, at, file)[..], b"written at the second");
    }
    // Two metaservers write at different offsets at the same time, and both writes must be visible.
    write(&lan, one, file, 21, b", the first");
    write(&lan, three, file, 32, b" and the third");
    lan.pass(2 * SECOND + WINDOW);
    for at in &volumes {
        assert_eq!(&read(&lan, at, file)[..], b"written at the second, the first and the third");
    }
}

#[test]
fn a_read_past_the_known_end_finds_appended_data() {
    let (lan, volumes) = volumes(2);
    let [one, two] = &*volumes else { panic!("there are two") };
    let file = create(&lan, one, "file");
    write(&lan, one, file, 0, b"first");
    lan.pass(2 * SECOND + WINDOW);
    assert_eq!(&read(&lan, two, file)[..], b"first");
    write(&lan, one, file, 5, b" second");
    let behind = lan.run(two.read(&who(), &file, 5, 100)).expect("it is there");
    assert_eq!((&behind.data[..], behind.end), (&b" second"[..], true));
}

#[test]
fn a_truncation_removes_data_of_other_metaservers() {
    let (lan, volumes) = volumes(2);
    let [one, two] = &*volumes else { panic!("there are two") };
    let file = create(&lan, one, "file");
    assert_eq!(size(&lan, two, file), 0);
    write(&lan, one, file, 0, b"longer than a few stripes are");
    let cut = SetAttributes { size: Some(3), ..SetAttributes::default() };
    lan.run(two.setattr(&who(), &file, &cut, None)).result.expect("the owner may");
    assert_eq!(&read(&lan, two, file)[..], b"lon");
    lan.pass(2 * SECOND + WINDOW);
    for at in [one, two] {
        assert_eq!((size(&lan, at, file), &read(&lan, at, file)[..]), (3, &b"lon"[..]));
    }
    let place = Place { directory: one.root(), name: name("file") };
    lan.run(two.remove(&who(), place)).result.expect("it is there");
    assert!(lan.run(one.getattr(&file)).is_err());
}
