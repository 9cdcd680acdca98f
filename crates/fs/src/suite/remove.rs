//! Removing names.

use super::cases;
use super::world::{World, below, lasting, new_file, refused};
use crate::{FsError, NewNode, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.12":
        a_removed_name_is_gone_with_its_object
        a_name_less_leaves_the_others
        anything_but_directories_can_be_removed
        remove_takes_no_directory
        a_remove_tells_of_the_directory;
    Nothing, "RFC 1813 3.3.13":
        an_empty_directory_can_be_removed
        a_full_directory_stays
        rmdir_takes_directories_only
        a_rmdir_tells_of_the_directory_above;
    Nothing, "RFC 1813 3.3.12 and 3.3.13":
        what_is_not_there_cannot_be_removed
        names_are_removed_from_directories_only;
}

async fn a_removed_name_is_gone_with_its_object(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.remove(world.place("file")).await.result.expect("it is there");
    refused(world.find(world.place("file")).await, FsError::NotFound);
    refused(world.store.getattr(&file).await, FsError::Stale);
    let new = world.file("file").await;
    assert!(!world.same(&new, &file));
    assert!(world.data(&new).await.is_empty());
    refused(world.store.getattr(&file).await, FsError::Stale);
}

async fn a_name_less_leaves_the_others(world: &World<'_>) {
    let file = world.file_of("one", b"abc").await;
    for text in ["two", "three"] {
        world.link(&file, world.place(text)).await.result.expect("a file can be linked");
    }
    for (text, left) in [("one", 2), ("three", 1)] {
        world.remove(world.place(text)).await.result.expect("it is there");
        assert_eq!(world.attributes(&file).await.link_count, left);
    }
    assert!(world.leads(world.place("two"), &file).await);
    assert_eq!(world.data(&file).await, b"abc");
}

async fn anything_but_directories_can_be_removed(world: &World<'_>) {
    let file = world.file("file").await;
    for node in [NewNode::Symlink(b"file"), NewNode::Socket, NewNode::Fifo] {
        let object = world.node("node", node).await;
        world.remove(world.place("node")).await.result.expect("it is there");
        refused(world.store.getattr(&object).await, FsError::Stale);
    }
    assert!(world.leads(world.place("file"), &file).await, "a link's target stays");
}

async fn remove_takes_no_directory(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let before = world.attributes(&world.top).await;
    let removed = world.remove(world.place("directory")).await;
    refused(removed.result, FsError::IsDirectory);
    world.assert_wcc_kept(&removed.wcc, &world.top, &before).await;
    assert!(world.leads(world.place("directory"), &directory).await);
}

async fn a_remove_tells_of_the_directory(world: &World<'_>) {
    world.file("file").await;
    let before = world.attributes(&world.top).await;
    let removed = world.remove(world.place("file")).await;
    removed.result.expect("it is there");
    world.assert_wcc(&removed.wcc, &world.top, &before).await;
}

async fn an_empty_directory_can_be_removed(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let inside = below(&directory, "file");
    world.create(inside, new_file()).await.result.expect("the name is free");
    world.remove(inside).await.result.expect("it is there");
    world.rmdir(world.place("directory")).await.result.expect("it is empty again");
    refused(world.find(world.place("directory")).await, FsError::NotFound);
    refused(world.store.getattr(&directory).await, FsError::Stale);
}

async fn a_full_directory_stays(world: &World<'_>) {
    let directory = world.directory("directory").await;
    for node in [NewNode::Directory, NewNode::Symlink(b"x"), NewNode::Fifo] {
        let inside = below(&directory, "node");
        world.make(inside, node).await.result.expect("the name is free");
        let before = world.attributes(&world.top).await;
        let removed = world.rmdir(world.place("directory")).await;
        refused(removed.result, FsError::NotEmpty);
        world.assert_wcc_kept(&removed.wcc, &world.top, &before).await;
        if node == NewNode::Directory {
            world.rmdir(inside).await.result.expect("it is empty");
        } else {
            world.remove(inside).await.result.expect("it is there");
        }
    }
    world.rmdir(world.place("directory")).await.result.expect("it is empty");
}

async fn rmdir_takes_directories_only(world: &World<'_>) {
    world.directory("directory").await;
    world.file("file").await;
    world.node("symlink", NewNode::Symlink(b"directory")).await;
    world.node("fifo", NewNode::Fifo).await;
    let before = world.attributes(&world.top).await;
    for text in ["file", "symlink", "fifo"] {
        refused(world.rmdir(world.place(text)).await.result, FsError::NotDirectory);
        world.find(world.place(text)).await.expect("it is still there");
    }
    assert_eq!(lasting(world.attributes(&world.top).await), lasting(before));
}

async fn a_rmdir_tells_of_the_directory_above(world: &World<'_>) {
    world.directory("directory").await;
    let before = world.attributes(&world.top).await;
    let removed = world.rmdir(world.place("directory")).await;
    removed.result.expect("it is empty");
    world.assert_wcc(&removed.wcc, &world.top, &before).await;
}

async fn what_is_not_there_cannot_be_removed(world: &World<'_>) {
    let before = world.attributes(&world.top).await;
    for removed in
        [world.remove(world.place("nothing")).await, world.rmdir(world.place("nothing")).await]
    {
        refused(removed.result, FsError::NotFound);
        world.assert_wcc_kept(&removed.wcc, &world.top, &before).await;
    }
    let gone = world.gone_directory("directory").await;
    for removed in [world.remove(below(&gone, "x")).await, world.rmdir(below(&gone, "x")).await] {
        refused(removed.result, FsError::Stale);
        assert_eq!(removed.wcc, Wcc::default());
    }
}

async fn names_are_removed_from_directories_only(world: &World<'_>) {
    let file = world.file("file").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    for object in [file, symlink] {
        refused(world.remove(below(&object, "file")).await.result, FsError::NotDirectory);
        refused(world.rmdir(below(&object, "file")).await.result, FsError::NotDirectory);
    }
}
