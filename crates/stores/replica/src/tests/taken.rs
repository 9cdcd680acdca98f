//! Tests of names that other objects have.

use leasehold_fs::{FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Store as _};

use super::lan::{Lan, name, who};
use crate::Order;

/// A directory reserved the name of another directory in order to replace it, but the rename failed
/// because the other directory is not empty. The reservation is still recorded for the first
/// directory. It must not give the name to this directory when the rename is repeated by a
/// metaserver that does not know of the other directory.
#[test]
fn a_failed_change_does_not_grant_the_name() {
    let lan = Lan::new(3, Order::Constant);
    let root = lan.at(0).root();
    let at = |directory: ObjectId, text| Place { directory, name: name(text) };
    let look = |by: usize| {
        let store = lan.at(by);
        lan.run(store.lookup(&who(), &root, name("full"))).map(|found| found.object)
    };
    let make = |text| {
        let store = lan.at(1);
        let none = SetAttributes::default();
        let made = lan.run(store.make(&who(), at(root, text), &NewNode::Directory, &none));
        made.result.expect("the name is free").object
    };
    let rename = |by: usize| {
        let store = lan.at(by);
        lan.run(store.rename(&who(), at(root, "moved"), at(root, "full"))).result
    };
    make("moved");
    // This metaserver caches for one window that the name does not exist.
    assert_eq!(look(2), Err(FsError::NotFound));
    let full = make("full");
    let (store, how) = (lan.at(1), NewFile::Guarded(SetAttributes::default()));
    lan.run(store.create(&who(), at(full, "file"), &how)).result.expect("the name is free");
    assert_eq!(rename(1), Err(FsError::NotEmpty));
    assert_eq!(rename(2), Err(FsError::NotEmpty));
    assert_eq!([0, 1, 2].map(look), [Ok(full); 3]);
}
