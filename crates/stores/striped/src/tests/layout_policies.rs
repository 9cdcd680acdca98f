//! Tests of layout policies of directories and files.

use leasehold_fs::suite::block_on;
use leasehold_fs::{
    ClientKey, FsError, Name, NewFile, NewNode, ObjectId, Place, SetAttributes, Stability, Step,
    Store as _,
};

use super::volume::{Volume, data, make, place, put, superuser, text};
use crate::{LayoutPolicy, Options, Placed, RebalanceReport, Striped};

const OPTIONS: Options = Options {
    volume: 5,
    unit: 1 << 16,
    inline_bytes_max: 0,
    start: 0,
    used: Vec::new(),
    copies: 1,
    rebalance: false,
    shared: false,
    leased: false,
    clients: ClientKey([6; 16]),
};

const DEFAULT: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    accessed: leasehold_fs::SetTime::Keep,
    modified: leasehold_fs::SetTime::Keep,
};

fn name(text: &str) -> Name<'_> {
    match Step::parse(text.as_bytes()) {
        Ok(Step::Child(name)) => name,
        step => panic!("{step:?} is no name"),
    }
}

fn make_directory(store: &Striped, directory: ObjectId, text: &str) -> ObjectId {
    let place = Place { directory, name: name(text) };
    let made = block_on(store.make(&superuser(), place, &NewNode::Directory, &DEFAULT));
    made.result.expect("it is new").object
}

fn make_in(store: &Striped, directory: ObjectId, text: &str, file: &NewFile) -> ObjectId {
    let place = Place { directory, name: name(text) };
    block_on(store.create(&superuser(), place, file)).result.expect("it can be").object
}

/// Returns the location of a file's data from its metafile.
fn placed(volume: &Volume, file: &ObjectId) -> Placed {
    let head = block_on(volume.names.read(&superuser(), file, 0, 512)).expect("it is there").data;
    Placed::read(&head).expect("it is sound").expect("it has data")
}

fn lay_out(store: &Striped, object: &ObjectId, shape: &LayoutPolicy) {
    block_on(store.lay_out(object, shape)).expect("it is there");
}

#[test]
fn decoding_reverses_encoding() {
    let all = LayoutPolicy {
        unit: Some(4096),
        width: Some(2),
        first: Some(0),
        iods: vec![4, 0],
        copies: Some(2),
    };
    assert_eq!(all.text(), "unit 4096\nwidth 2\nfirst 0\niods 4 0\ncopies 2\n");
    for shape in
        [all, LayoutPolicy::default(), LayoutPolicy { first: Some(3), ..LayoutPolicy::default() }]
    {
        assert_eq!(LayoutPolicy::parse(shape.text().as_bytes()), Some(shape));
    }
    for wrong in
        ["unit 0", "width 0", "copies 3", "copies 0", "iods", "iods x", "other 1", "\u{e9}"]
    {
        assert_eq!(LayoutPolicy::parse(wrong.as_bytes()), None, "{wrong}");
    }
    assert_eq!(LayoutPolicy::parse(&[0xFF]), None);
}

#[test]
fn new_files_inherit_the_layout_policy_of_their_directory() {
    let mut volume = Volume::new();
    let store = volume.start();
    let directory = make_directory(&store, store.root(), "directory");
    let before = make_in(&store, directory, "before", &NewFile::Unchecked(DEFAULT));
    put(&store, &before, 0, &text(100), Stability::FileSync);
    let shape = LayoutPolicy {
        unit: Some(5),
        iods: vec![2, 1],
        first: Some(1),
        copies: Some(2),
        ..LayoutPolicy::default()
    };
    lay_out(&store, &directory, &shape);
    let below = make_directory(&store, directory, "below");
    let with_size = SetAttributes { size: Some(100), ..DEFAULT };
    let files = [
        make_in(&store, directory, "file", &NewFile::Guarded(DEFAULT)),
        make_in(&store, directory, "exclusive", &NewFile::exclusive([7; 8])),
        make_in(&store, directory, "long", &NewFile::Unchecked(with_size)),
        make_in(&store, below, "below", &NewFile::Unchecked(DEFAULT)),
    ];
    for file in &files {
        put(&store, file, 0, &text(10), Stability::FileSync);
        put(&store, file, 10, &text(90), Stability::FileSync);
        let said = placed(&volume, file);
        assert_eq!((said.unit, &said.iods[..], said.copies), (5, &[1, 2][..], 2));
    }
    // Existing files, and new files elsewhere, keep the layout of the volume.
    let elsewhere = make(&store, "elsewhere");
    put(&store, &elsewhere, 0, &text(100), Stability::FileSync);
    make_in(&store, directory, "before", &NewFile::Unchecked(DEFAULT));
    for file in [&before, &elsewhere] {
        let said = placed(&volume, file);
        assert_eq!((said.unit, said.iods.len(), said.copies), (7, 3, 1));
    }
    // A file that is renamed into another directory keeps its policy, so the rebalancer does not
    // migrate its data.
    let from = Place { directory, name: name("file") };
    let renamed = block_on(store.rename(&superuser(), from, place(&store, "moved")));
    renamed.result.expect("it can be");
    volume.rebalance = true;
    let store = volume.start();
    assert_eq!(block_on(store.tend()), Ok(Some(RebalanceReport::default())));
    for file in &files {
        assert_eq!(placed(&volume, file).copies, 2);
        assert_eq!(data(&store, file), [text(10), text(90)].concat());
    }
}

#[test]
fn a_file_with_a_new_layout_policy_is_moved() {
    let mut volume = Volume::new();
    let store = volume.start();
    let [file, small] = ["file", "small"].map(|name| make(&store, name));
    put(&store, &file, 0, &text(100), Stability::FileSync);
    put(&store, &small, 0, &text(10), Stability::FileSync);
    assert!(store.is_settled());
    let two = LayoutPolicy { width: Some(2), copies: Some(2), ..LayoutPolicy::default() };
    let one = LayoutPolicy { iods: vec![2], unit: Some(1000), ..LayoutPolicy::default() };
    for (shape, iods, copies) in [(two, 2, 2), (one, 1, 1), (LayoutPolicy::default(), 1, 1)] {
        lay_out(&store, &file, &shape);
        lay_out(&store, &small, &shape);
        assert!(!store.is_settled());
        let moved = u64::from(shape != LayoutPolicy::default());
        assert_eq!(block_on(store.tend()), Ok(Some(RebalanceReport { moved, left: 0 })));
        assert!(store.is_settled());
        let said = placed(&volume, &file);
        assert_eq!((said.iods.len(), said.copies), (iods, copies));
        assert_eq!(data(&store, &file), text(100));
    }
    // A small file gets the layout of its policy when its data moves from the metafile to iods.
    let last = LayoutPolicy { iods: vec![1], ..LayoutPolicy::default() };
    lay_out(&store, &small, &last);
    put(&store, &small, 10, &text(90), Stability::FileSync);
    assert_eq!(placed(&volume, &small).iods, [1]);
    assert_eq!(data(&store, &small), [text(10), text(90)].concat());
    let link = NewNode::Symlink(b"there");
    let link = block_on(store.make(&superuser(), place(&store, "link"), &link, &DEFAULT));
    let link = link.result.expect("it is new").object;
    assert_eq!(block_on(store.lay_out(&link, &last)), Err(FsError::Invalid));
}

#[test]
fn files_leave_unused_iods_regardless_of_their_policy() {
    let mut volume = Volume::new();
    let store = volume.start();
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    let shape = LayoutPolicy {
        iods: vec![1, 2],
        first: Some(1),
        copies: Some(2),
        ..LayoutPolicy::default()
    };
    lay_out(&store, &file, &shape);
    block_on(store.tend()).expect("the names are there");
    assert_eq!(placed(&volume, &file).iods, [1, 2]);
    for (used, iods) in [(vec![0, 2], 2), (vec![0], 1), (vec![0, 1, 2], 2)] {
        volume.used = used;
        let store = volume.start();
        lay_out(&store, &file, &shape);
        block_on(store.tend()).expect("the names are there");
        let said = placed(&volume, &file);
        assert_eq!((said.iods.len(), usize::from(said.copies)), (iods, iods));
        assert!(said.iods.iter().all(|iod| volume.used.contains(iod)));
        assert_eq!(data(&store, &file), text(100));
    }
    assert_eq!(placed(&volume, &file).iods, [1, 2], "they are there again");
}

/// Files of one metaserver start at successive iods; several metaservers start at different iods.
#[test]
fn files_start_at_the_iods_in_turn() {
    let first = |start, number, shared| {
        let used = vec![0, 1, 2];
        let options = Options { start, used, shared, ..OPTIONS };
        let placed = Placed::read(&options.new_file(number)).expect("it is sound");
        placed.expect("it has a head").iods[0]
    };
    assert_eq!([0, 1, 2, 3].map(|number| first(7, number, false)), [0, 1, 2, 0]);
    let begins = [0, 1, 2].map(|start| first(start, 0, true));
    assert_eq!(begins, [0, 1, 2]);
    assert_eq!([0, 1, 2].map(|number| first(1, number, true)), [1, 2, 0]);
}
