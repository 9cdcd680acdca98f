//! Cases for files that the store keeps after the removal of their last name.

use super::cases;
use super::world::{World, lasting, refused, size};
use crate::{FsError, Held, NewNode, ObjectId, Stability};

cases! {
    Nothing, "OpenFiles::hold":
        a_held_file_outlives_its_name
        a_held_file_outlives_its_replacement
        a_held_file_lives_until_the_last_drop
        a_held_file_without_a_name_grows
        only_an_existing_file_can_be_held;
}

/// Keeps a file; returns None for a store without the capability.
async fn hold(world: &World<'_>, file: &ObjectId) -> Option<Held> {
    if world.store.capabilities().open_files.is_none() {
        refused(world.store.hold(file).await, FsError::NotSupported);
        return None;
    }
    Some(world.store.hold(file).await.expect("it is a file"))
}

/// Fails unless all operations on a file succeed although it has no name.
async fn assert_alive(world: &World<'_>, file: &ObjectId) {
    let attributes = world.attributes(file).await;
    assert_eq!((attributes.link_count, attributes.size), (0, 4));
    assert_eq!(world.data(file).await, b"data");
    world.put(file, 1, b"i").await;
    let attributes = world.attributes(file).await;
    let done = world.write(file, 2, b"s", Stability::Unstable).await;
    world.assert_wcc(&done.wcc, file, &attributes).await;
    done.result.expect("data can be written");
    let committed = world.store.commit(world.owner(), file, 0, 0).await;
    committed.result.expect("data can be committed");
    assert_eq!(world.data(file).await, b"disa");
    world.set_mode(file, 0o600).await;
    world.set(file, size(3)).await.result.expect("the owner sets the size");
    let attributes = world.attributes(file).await;
    assert_eq!((attributes.mode.bits(), attributes.size), (0o600, 3));
    refused(world.link(file, world.place("again")).await.result, FsError::Stale);
    refused(world.find(world.place("again")).await, FsError::NotFound);
    assert_eq!(lasting(world.attributes(file).await), lasting(attributes));
}

/// Fails unless a file is gone.
async fn assert_gone(world: &World<'_>, file: &ObjectId) {
    refused(world.store.getattr(file).await, FsError::Stale);
    refused(world.store.read(world.owner(), file, 0, 1).await, FsError::Stale);
    refused(world.write(file, 0, b"x", Stability::FileSync).await.result, FsError::Stale);
    refused(world.set(file, size(0)).await.result, FsError::Stale);
}

async fn a_held_file_outlives_its_name(world: &World<'_>) {
    let file = world.file_of("held", b"data").await;
    let Some(held) = hold(world, &file).await else { return };
    world.remove(world.place("held")).await.result.expect("it has the name");
    refused(world.find(world.place("held")).await, FsError::NotFound);
    assert_alive(world, &file).await;
    // A new file of the name is another file.
    let other = world.file_of("held", b"other").await;
    assert!(!world.same(&file, &other));
    assert_eq!(world.data(&file).await, b"dis");
    drop(held);
    assert_gone(world, &file).await;
    assert_eq!(world.data(&other).await, b"other");
}

async fn a_held_file_outlives_its_replacement(world: &World<'_>) {
    let file = world.file_of("old", b"data").await;
    let new = world.file_of("new", b"new").await;
    let Some(held) = hold(world, &file).await else { return };
    let renamed = world.rename(world.place("new"), world.place("old")).await;
    renamed.result.expect("a file replaces a file");
    assert!(world.leads(world.place("old"), &new).await);
    assert_alive(world, &file).await;
    drop(held);
    assert_gone(world, &file).await;
    assert_eq!(world.data(&new).await, b"new");
}

async fn a_held_file_lives_until_the_last_drop(world: &World<'_>) {
    let file = world.file_of("held", b"data").await;
    let Some(first) = hold(world, &file).await else { return };
    let second = hold(world, &file).await.expect("the store has the capability");
    drop(first);
    world.remove(world.place("held")).await.result.expect("it has the name");
    let third = hold(world, &file).await.expect("a kept file can be kept once more");
    drop(second);
    assert_alive(world, &file).await;
    drop(third);
    assert_gone(world, &file).await;
    // The drop of a result has no effect on a file with a name.
    let file = world.file_of("named", b"data").await;
    drop(hold(world, &file).await);
    assert_eq!(world.data(&file).await, b"data");
}

/// The data of a file may be in another place after it has grown.
async fn a_held_file_without_a_name_grows(world: &World<'_>) {
    const LENGTH: usize = 300_000;
    let file = world.file("held").await;
    let Some(held) = hold(world, &file).await else { return };
    world.remove(world.place("held")).await.result.expect("it has the name");
    assert_eq!(world.attributes(&file).await.size, 0);
    world.put(&file, 0, &[7; LENGTH]).await;
    assert_eq!(world.data(&file).await, [7; LENGTH]);
    drop(held);
    assert_gone(world, &file).await;
}

async fn only_an_existing_file_can_be_held(world: &World<'_>) {
    if world.store.capabilities().open_files.is_none() {
        return;
    }
    let gone = world.gone_file("gone").await;
    refused(world.store.hold(&gone).await, FsError::Stale);
    for (text, node) in [
        ("directory", NewNode::Directory),
        ("symlink", NewNode::Symlink(b"file")),
        ("fifo", NewNode::Fifo),
    ] {
        let object = world.node(text, node).await;
        refused(world.store.hold(&object).await, FsError::WrongType);
    }
}
