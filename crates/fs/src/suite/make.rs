//! Creating directories, symbolic links and special files.

use super::cases;
use super::world::{World, below, lasting, mode, refused};
use crate::{Device, FileType, FsError, NewNode, SetAttributes, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.9":
        a_directory_is_made_empty
        a_directory_counts_in_the_one_above;
    Nothing, "RFC 1813 3.3.10":
        a_symbolic_link_is_made;
    Nothing, "RFC 1813 3.3.11":
        sockets_and_pipes_are_made;
    Nothing, "RFC 1813 3.3.9 to 3.3.11":
        nothing_is_made_over_a_name
        attributes_that_mean_nothing_do_no_harm
        a_make_tells_of_the_directory
        nodes_are_made_in_directories_only
        no_node_is_made_in_a_removed_directory;
    Superuser, "RFC 1813 3.3.11":
        devices_are_made_by_the_superuser;
    OrdinaryOwner, "RFC 1813 3.3.11":
        devices_are_not_made_by_others;
}

/// The kinds of object that any user can create.
const ALL: [NewNode<'static>; 4] =
    [NewNode::Directory, NewNode::Symlink(b"target"), NewNode::Socket, NewNode::Fifo];

async fn a_directory_is_made_empty(world: &World<'_>) {
    let made = world.make(world.place("directory"), NewNode::Directory).await;
    let found = made.result.expect("the name is free");
    assert!(world.leads(world.place("directory"), &found.object).await);
    let truth = world.attributes(&found.object).await;
    assert_eq!(lasting(found.attributes), lasting(truth));
    assert_eq!(truth.file_type, FileType::Directory);
    assert_eq!(truth.mode.bits(), 0o755);
    assert_eq!((truth.uid, truth.gid), (world.owner().uid, world.owner().gid));
    assert!(world.names(&found.object).await.is_empty());
}

/// Some file systems count the `..` of subdirectories, others count each directory once.
async fn a_directory_counts_in_the_one_above(world: &World<'_>) {
    let links = async || world.attributes(&world.top).await.link_count;
    let none = links().await;
    let counts = u32::from(none != 1);
    assert!(none == 1 || none == 2);
    world.directory("one").await;
    world.directory("two").await;
    assert_eq!(links().await, none + 2 * counts);
    world.file("file").await;
    assert_eq!(links().await, none + 2 * counts);
    world.rename(world.place("one"), world.place("three")).await.result.expect("it can be");
    assert_eq!(links().await, none + 2 * counts);
    world.rename(world.place("three"), world.place("two")).await.result.expect("two is empty");
    assert_eq!(links().await, none + counts);
    world.rmdir(world.place("two")).await.result.expect("it is empty");
    assert_eq!(links().await, none);
}

async fn a_symbolic_link_is_made(world: &World<'_>) {
    let made = world.make(world.place("symlink"), NewNode::Symlink(b"../target")).await;
    let found = made.result.expect("the name is free");
    assert!(world.leads(world.place("symlink"), &found.object).await);
    let truth = world.attributes(&found.object).await;
    assert_eq!(lasting(found.attributes), lasting(truth));
    assert_eq!(truth.file_type, FileType::Symlink);
    assert_eq!((truth.size, truth.link_count), (9, 1));
    assert_eq!((truth.uid, truth.gid), (world.owner().uid, world.owner().gid));
}

async fn sockets_and_pipes_are_made(world: &World<'_>) {
    for (text, node, file_type) in
        [("socket", NewNode::Socket, FileType::Socket), ("fifo", NewNode::Fifo, FileType::Fifo)]
    {
        let made = world.make(world.place(text), node).await;
        let found = made.result.expect("the name is free");
        assert!(world.leads(world.place(text), &found.object).await);
        let truth = world.attributes(&found.object).await;
        assert_eq!(lasting(found.attributes), lasting(truth));
        assert_eq!((truth.file_type, truth.mode.bits()), (file_type, 0o755));
        assert_eq!((truth.size, truth.device), (0, Device::default()));
    }
}

async fn nothing_is_made_over_a_name(world: &World<'_>) {
    world.file("file").await;
    world.directory("directory").await;
    world.node("symlink", NewNode::Symlink(b"nothing")).await;
    let before = world.attributes(&world.top).await;
    for text in ["file", "directory", "symlink"] {
        for node in ALL {
            let made = world.make(world.place(text), node).await;
            refused(made.result, FsError::AlreadyExists);
            world.assert_wcc_kept(&made.wcc, &world.top, &before).await;
        }
    }
    assert_eq!(lasting(world.attributes(&world.top).await), lasting(before));
    let names: [&[u8]; 3] = [b"directory", b"file", b"symlink"];
    assert_eq!(world.names(&world.top).await, names);
}

async fn attributes_that_mean_nothing_do_no_harm(world: &World<'_>) {
    let symlink = world.node("plain", NewNode::Symlink(b"target")).await;
    let plain = world.attributes(&symlink).await.mode;
    for (text, node) in ["one", "two", "three", "four"].into_iter().zip(ALL) {
        let attributes = SetAttributes { size: Some(77), ..mode(0o700) };
        let made = world.store.make(world.owner(), world.place(text), &node, &attributes).await;
        let truth = world.attributes(&made.result.expect("the name is free").object).await;
        assert_ne!(truth.size, 77);
        if truth.file_type == FileType::Symlink {
            assert_eq!(truth.mode, plain);
        }
    }
}

async fn a_make_tells_of_the_directory(world: &World<'_>) {
    for (text, node) in ["one", "two", "three", "four"].into_iter().zip(ALL) {
        let before = world.attributes(&world.top).await;
        let made = world.make(world.place(text), node).await;
        made.result.expect("the name is free");
        world.assert_wcc(&made.wcc, &world.top, &before).await;
    }
}

async fn nodes_are_made_in_directories_only(world: &World<'_>) {
    let file = world.file("file").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    for object in [file, symlink] {
        for node in ALL {
            let made = world.make(below(&object, "x"), node).await;
            refused(made.result, FsError::NotDirectory);
        }
    }
}

async fn no_node_is_made_in_a_removed_directory(world: &World<'_>) {
    let gone = world.gone_directory("directory").await;
    for node in ALL {
        let made = world.make(below(&gone, "x"), node).await;
        refused(made.result, FsError::Stale);
        assert_eq!(made.wcc, Wcc::default());
    }
}

async fn devices_are_made_by_the_superuser(world: &World<'_>) {
    let device = Device { major: 1, minor: 3 };
    for (text, node, file_type) in [
        ("character", NewNode::CharacterDevice(device), FileType::CharacterDevice),
        ("block", NewNode::BlockDevice(device), FileType::BlockDevice),
    ] {
        let place = world.place(text);
        let made = world.store.make(world.superuser(), place, &node, &mode(0o600)).await;
        let found = made.result.expect("the superuser may");
        let truth = world.attributes(&found.object).await;
        assert_eq!((truth.file_type, truth.device), (file_type, device));
        let read = world.store.read(world.superuser(), &found.object, 0, 1).await;
        refused(read, FsError::Invalid);
    }
}

async fn devices_are_not_made_by_others(world: &World<'_>) {
    let device = Device { major: 1, minor: 3 };
    for node in [NewNode::CharacterDevice(device), NewNode::BlockDevice(device)] {
        let (place, none) = (world.place("device"), SetAttributes::default());
        let made = world.store.make(world.owner(), place, &node, &none).await;
        refused(made.result, FsError::NotOwner);
    }
    assert!(world.names(&world.top).await.is_empty());
}
