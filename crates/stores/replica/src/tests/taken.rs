//! Names of other objects.

use leasehold_fs::{FsError, NewFile, NewNode, ObjectId, Place, SetAttributes, Store as _};

use super::lan::{Lan, name, who};
use crate::Order;

/// A directory was to replace another that is not empty, so the reservation of the name is its own.
/// If its home has no record of the object at that name, the reservation does not grant the name.
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
    // The absence of the name is cached here for one window.
    assert_eq!(look(2), Err(FsError::NotFound));
    let full = make("full");
    let (store, how) = (lan.at(1), NewFile::Guarded(SetAttributes::default()));
    lan.run(store.create(&who(), at(full, "file"), &how)).result.expect("the name is free");
    assert_eq!(rename(1), Err(FsError::NotEmpty));
    assert_eq!(rename(2), Err(FsError::NotEmpty));
    assert_eq!([0, 1, 2].map(look), [Ok(full); 3]);
}
