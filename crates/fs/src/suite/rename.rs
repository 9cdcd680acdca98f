//! Renaming objects.

use super::cases;
use super::world::{World, below, lasting, new_file, refused};
use crate::{FsError, NewNode, ObjectId, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.14":
        a_rename_moves_a_name
        a_rename_goes_between_directories
        a_rename_replaces_by_kind
        a_replaced_object_is_gone
        a_replaced_object_lives_on_by_another_name
        a_rename_onto_the_same_object_does_nothing
        a_directory_cannot_go_below_itself
        a_directory_may_go_deeper_elsewhere
        a_moved_directory_has_another_parent
        what_is_not_there_cannot_be_renamed
        renames_go_between_directories_only
        a_rename_tells_of_both_directories
        a_rename_within_a_directory_tells_of_it_twice;
}

async fn a_rename_moves_a_name(world: &World<'_>) {
    let file = world.file_of("old", b"abc").await;
    world.rename(world.place("old"), world.place("new")).await.result.expect("it can be");
    refused(world.find(world.place("old")).await, FsError::NotFound);
    assert!(world.leads(world.place("new"), &file).await);
    assert_eq!(world.data(&file).await, b"abc");
    assert_eq!(world.names(&world.top).await, [b"new"]);
    assert_eq!(world.attributes(&file).await.link_count, 1);
}

async fn a_rename_goes_between_directories(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    for node in [NewNode::Directory, NewNode::Symlink(b"x"), NewNode::Fifo, NewNode::Socket] {
        let (from, to) = (below(&one, "node"), below(&two, "other"));
        let object = world.make(from, node).await.result.expect("the name is free").object;
        world.rename(from, to).await.result.expect("it can be");
        assert!(world.leads(to, &object).await);
        assert!(world.names(&one).await.is_empty());
        world.rename(to, from).await.result.expect("and back");
        assert!(world.leads(from, &object).await);
        let removed = if node == NewNode::Directory {
            world.rmdir(from).await
        } else {
            world.remove(from).await
        };
        removed.result.expect("it is there");
    }
}

/// Creates one object of a kind in a directory.
async fn make_kind(world: &World<'_>, directory: &ObjectId, kind: &str, text: &str) -> ObjectId {
    let place = below(directory, text);
    let made = match kind {
        "file" => world.create(place, new_file()).await,
        "symlink" => world.make(place, NewNode::Symlink(b"empty")).await,
        "fifo" => world.make(place, NewNode::Fifo).await,
        _ => world.make(place, NewNode::Directory).await,
    };
    let object = made.result.expect("the name is free").object;
    if kind == "full" {
        world.create(below(&object, "x"), new_file()).await.result.expect("the name is free");
    }
    object
}

async fn a_rename_replaces_by_kind(world: &World<'_>) {
    let is_directory = |kind| kind == "empty" || kind == "full";
    for from in ["file", "symlink", "fifo", "empty", "full"] {
        for to in ["file", "symlink", "fifo", "empty", "full"] {
            let directory = world.directory(&format!("{from}-over-{to}")).await;
            let source = make_kind(world, &directory, from, "from").await;
            let target = make_kind(world, &directory, to, "to").await;
            let expected = match (is_directory(from), is_directory(to)) {
                (false, true) => Err(FsError::IsDirectory),
                (true, false) => Err(FsError::NotDirectory),
                (true, true) if to == "full" => Err(FsError::NotEmpty),
                (true, true) | (false, false) => Ok(()),
            };
            let places = (below(&directory, "from"), below(&directory, "to"));
            let renamed = world.rename(places.0, places.1).await;
            assert_eq!(renamed.result, expected, "{from} over {to}");
            if expected.is_ok() {
                assert!(world.leads(places.1, &source).await, "{from} over {to}");
                assert_eq!(world.names(&directory).await, [b"to"]);
            } else {
                assert!(world.leads(places.0, &source).await, "{from} over {to}");
                assert!(world.leads(places.1, &target).await, "{from} over {to}");
            }
        }
    }
}

async fn a_replaced_object_is_gone(world: &World<'_>) {
    let [_, old] = [world.file_of("new", b"new").await, world.file_of("old", b"old").await];
    world.rename(world.place("new"), world.place("old")).await.result.expect("it can be");
    refused(world.store.getattr(&old).await, FsError::Stale);
    let [_, old] = [world.directory("from").await, world.directory("to").await];
    world.rename(world.place("from"), world.place("to")).await.result.expect("it can be");
    refused(world.store.getattr(&old).await, FsError::Stale);
}

async fn a_replaced_object_lives_on_by_another_name(world: &World<'_>) {
    let [_, old] = [world.file_of("new", b"new").await, world.file_of("old", b"old").await];
    world.link(&old, world.place("second")).await.result.expect("a file can be linked");
    world.rename(world.place("new"), world.place("old")).await.result.expect("it can be");
    assert_eq!(world.attributes(&old).await.link_count, 1);
    assert!(world.leads(world.place("second"), &old).await);
    assert_eq!(world.data(&old).await, b"old");
}

async fn a_rename_onto_the_same_object_does_nothing(world: &World<'_>) {
    let file = world.file("file").await;
    world.link(&file, world.place("second")).await.result.expect("a file can be linked");
    world.directory("directory").await;
    let before = world.attributes(&world.top).await;
    for (from, to) in [("file", "second"), ("file", "file"), ("directory", "directory")] {
        world.rename(world.place(from), world.place(to)).await.result.expect("it can be");
    }
    let names: [&[u8]; 3] = [b"directory", b"file", b"second"];
    assert_eq!(world.names(&world.top).await, names);
    assert_eq!(world.attributes(&file).await.link_count, 2);
    assert_eq!(lasting(world.attributes(&world.top).await), lasting(before));
}

async fn a_directory_cannot_go_below_itself(world: &World<'_>) {
    let above = world.directory("above").await;
    let made = world.make(below(&above, "middle"), NewNode::Directory).await;
    let middle = made.result.expect("the name is free").object;
    for directory in [above, middle] {
        let renamed = world.rename(world.place("above"), below(&directory, "x")).await;
        refused(renamed.result, FsError::Invalid);
    }
    let renamed = world.rename(below(&above, "middle"), below(&middle, "x")).await;
    refused(renamed.result, FsError::Invalid);
    assert!(world.leads(below(&above, "middle"), &middle).await);
    assert!(world.names(&middle).await.is_empty());
}

async fn a_directory_may_go_deeper_elsewhere(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    let made = world.make(below(&one, "deeper"), NewNode::Directory).await;
    let deeper = made.result.expect("the name is free").object;
    let to = below(&deeper, "two");
    world.rename(world.place("two"), to).await.result.expect("it moves below another");
    assert!(world.leads(to, &two).await);
    world.rename(to, world.place("two")).await.result.expect("and up again");
    // A directory may move below a former parent that is now its sibling.
    let from = below(&one, "deeper");
    world.rename(from, world.place("deeper")).await.result.expect("it moves up");
    let renamed = world.rename(world.place("one"), below(&deeper, "one")).await;
    renamed.result.expect("above and below change places");
    assert!(world.leads(below(&deeper, "one"), &one).await);
}

async fn a_moved_directory_has_another_parent(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    world.rename(world.place("two"), below(&one, "two")).await.result.expect("it can be");
    let parent = world.store.parent(world.owner(), &two).await.expect("it has a parent");
    assert!(world.same(&parent.object, &one));
    let page = world.page(&two, <_>::default(), super::world::UNLIMITED).await;
    let page = page.expect("it can be listed");
    let dots = page.entries.iter().find(|entry| entry.name == b"..").expect("it is listed");
    assert_eq!(dots.file_id, world.attributes(&one).await.file_id);
}

async fn what_is_not_there_cannot_be_renamed(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for to in ["file", "other", "nothing"] {
        let before = world.attributes(&world.top).await;
        let renamed = world.rename(world.place("nothing"), world.place(to)).await;
        refused(renamed.result, FsError::NotFound);
        world.assert_wcc_kept(&renamed.from, &world.top, &before).await;
        world.assert_wcc_kept(&renamed.to, &world.top, &before).await;
    }
    assert_eq!(world.data(&file).await, b"abc");
    let gone = world.gone_directory("directory").await;
    let renamed = world.rename(below(&gone, "x"), world.place("x")).await;
    refused(renamed.result, FsError::Stale);
    assert_eq!(renamed.from, Wcc::default());
    let renamed = world.rename(world.place("file"), below(&gone, "x")).await;
    refused(renamed.result, FsError::Stale);
    assert_eq!(renamed.to, Wcc::default());
    assert!(world.leads(world.place("file"), &file).await);
}

async fn renames_go_between_directories_only(world: &World<'_>) {
    let file = world.file("file").await;
    world.file("source").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    for object in [file, symlink] {
        let renamed = world.rename(below(&object, "source"), world.place("x")).await;
        refused(renamed.result, FsError::NotDirectory);
        let renamed = world.rename(world.place("source"), below(&object, "x")).await;
        refused(renamed.result, FsError::NotDirectory);
    }
}

async fn a_rename_tells_of_both_directories(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    world.create(below(&one, "file"), new_file()).await.result.expect("the name is free");
    world.create(below(&two, "file"), new_file()).await.result.expect("the name is free");
    let before = [world.attributes(&one).await, world.attributes(&two).await];
    let renamed = world.rename(below(&one, "file"), below(&two, "file")).await;
    renamed.result.expect("it can be");
    world.assert_wcc(&renamed.from, &one, &before[0]).await;
    world.assert_wcc(&renamed.to, &two, &before[1]).await;
}

async fn a_rename_within_a_directory_tells_of_it_twice(world: &World<'_>) {
    world.file("file").await;
    let before = world.attributes(&world.top).await;
    let renamed = world.rename(world.place("file"), world.place("other")).await;
    renamed.result.expect("it can be");
    world.assert_wcc(&renamed.from, &world.top, &before).await;
    world.assert_wcc(&renamed.to, &world.top, &before).await;
}
