//! Adding names to objects.

use super::cases;
use super::world::{World, below, lasting, refused};
use crate::{FsError, NewNode, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.15":
        a_link_is_one_more_name
        a_link_may_lie_in_another_directory
        a_link_goes_over_no_name
        a_directory_has_one_name
        a_removed_object_gets_no_name
        links_are_made_in_directories_only
        a_link_tells_of_object_and_directory;
}

async fn a_link_is_one_more_name(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for (text, count) in [("second", 2), ("third", 3)] {
        world.link(&file, world.place(text)).await.result.expect("a file can be linked");
        assert!(world.leads(world.place(text), &file).await);
        assert_eq!(world.attributes(&file).await.link_count, count);
    }
    let found = world.find(world.place("file")).await.expect("it is there");
    assert_eq!(found.attributes.link_count, 3);
}

async fn a_link_may_lie_in_another_directory(world: &World<'_>) {
    let file = world.file("file").await;
    let directory = world.directory("directory").await;
    let inside = below(&directory, "file");
    world.link(&file, inside).await.result.expect("a file can be linked");
    assert!(world.leads(inside, &file).await);
    world.remove(world.place("file")).await.result.expect("it is there");
    assert!(world.leads(inside, &file).await);
    assert_eq!(world.attributes(&file).await.link_count, 1);
}

async fn a_link_goes_over_no_name(world: &World<'_>) {
    let file = world.file("file").await;
    world.directory("directory").await;
    world.node("symlink", NewNode::Symlink(b"nothing")).await;
    let before = world.attributes(&world.top).await;
    for text in ["file", "directory", "symlink"] {
        let linked = world.link(&file, world.place(text)).await;
        refused(linked.result, FsError::AlreadyExists);
        world.assert_wcc_kept(&linked.directory, &world.top, &before).await;
    }
    assert_eq!(world.attributes(&file).await.link_count, 1);
}

async fn a_directory_has_one_name(world: &World<'_>) {
    let directory = world.directory("directory").await;
    refused(world.link(&directory, world.place("second")).await.result, FsError::Invalid);
    refused(world.find(world.place("second")).await, FsError::NotFound);
}

async fn a_removed_object_gets_no_name(world: &World<'_>) {
    let gone = world.gone_file("file").await;
    let linked = world.link(&gone, world.place("second")).await;
    refused(linked.result, FsError::Stale);
    assert_eq!(linked.attributes, None);
    refused(world.find(world.place("second")).await, FsError::NotFound);
    let file = world.file("file").await;
    let directory = world.gone_directory("directory").await;
    let linked = world.link(&file, below(&directory, "second")).await;
    refused(linked.result, FsError::Stale);
    assert_eq!(linked.directory, Wcc::default());
}

async fn links_are_made_in_directories_only(world: &World<'_>) {
    let file = world.file("file").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    for object in [file, symlink] {
        refused(world.link(&file, below(&object, "x")).await.result, FsError::NotDirectory);
    }
    assert_eq!(world.attributes(&file).await.link_count, 1);
}

async fn a_link_tells_of_object_and_directory(world: &World<'_>) {
    let file = world.file("file").await;
    let before = world.attributes(&world.top).await;
    let linked = world.link(&file, world.place("second")).await;
    linked.result.expect("a file can be linked");
    world.assert_wcc(&linked.directory, &world.top, &before).await;
    let told = linked.attributes.expect("the reply contains the object's attributes");
    assert_eq!(lasting(told), lasting(world.attributes(&file).await));
}
