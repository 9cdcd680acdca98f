//! Looking up names, and the uniqueness of object ids.

use super::cases;
use super::world::{World, below, lasting, name, new_file, raw_name, refused};
use crate::{FileType, FsError, NewNode, ObjectId, Place};

cases! {
    Nothing, "Store::root":
        the_root_is_a_directory;
    Nothing, "Store::properties":
        properties_make_sense;
    Nothing, "RFC 1813 3.3.3":
        a_name_leads_to_its_object
        a_missing_name_is_not_found
        names_are_looked_up_in_directories_only
        nothing_is_found_in_a_removed_directory
        names_may_have_255_bytes
        symbolic_links_are_not_followed;
    Nothing, "Store::parent":
        a_directory_has_a_parent
        the_root_is_its_own_parent
        only_directories_have_a_parent;
    Nothing, "Store::path":
        a_path_that_is_told_leads_to_its_object;
    Nothing, "ObjectId":
        an_object_keeps_its_id_across_renames
        an_id_is_never_used_again
        ids_that_were_never_given_out_lead_nowhere;
}

async fn the_root_is_a_directory(world: &World<'_>) {
    let attributes = world.attributes(&world.store.root()).await;
    assert_eq!(attributes.file_type, FileType::Directory);
    assert!(attributes.link_count >= 1);
}

async fn properties_make_sense(world: &World<'_>) {
    let properties = world.store.properties(&world.store.root());
    assert_eq!(properties.name_bytes_max, 255);
    assert!(properties.file_bytes_max > 1 << 32);
    assert!(properties.link_max >= 2);
    assert!(properties.time_step.as_secs() <= 2);
    assert!(properties.time_step.as_nanos() >= 1);
}

async fn a_name_leads_to_its_object(world: &World<'_>) {
    let file = world.file("file").await;
    let directory = world.directory("directory").await;
    for (text, object) in [("file", file), ("directory", directory)] {
        let found = world.find(world.place(text)).await.expect("it is there");
        assert!(world.same(&found.object, &object));
        let truth = world.attributes(&object).await;
        assert_eq!(lasting(found.attributes), lasting(truth));
        let searched = found.directory.expect("the reply contains the directory's attributes");
        assert_eq!(lasting(searched), lasting(world.attributes(&world.top).await));
    }
}

async fn a_missing_name_is_not_found(world: &World<'_>) {
    world.file("file").await;
    for text in ["fil", "file ", "file2", "File\u{e4}", "..."] {
        refused(world.find(world.place(text)).await, FsError::NotFound);
    }
}

async fn names_are_looked_up_in_directories_only(world: &World<'_>) {
    let file = world.file("file").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    for object in [file, symlink, fifo] {
        let found = world.store.lookup(world.owner(), &object, name("x")).await;
        refused(found, FsError::NotDirectory);
    }
}

async fn nothing_is_found_in_a_removed_directory(world: &World<'_>) {
    let gone = world.gone_directory("directory").await;
    refused(world.store.lookup(world.owner(), &gone, name("x")).await, FsError::Stale);
    refused(world.store.parent(world.owner(), &gone).await, FsError::Stale);
}

async fn names_may_have_255_bytes(world: &World<'_>) {
    let longest = [b'n'; 255];
    let found = world.store.lookup(world.owner(), &world.top, raw_name(&longest)).await;
    refused(found, FsError::NotFound);
    for length in [256, 1000, 4096] {
        let long = vec![b'n'; length];
        let found = world.store.lookup(world.owner(), &world.top, raw_name(&long)).await;
        refused(found, FsError::NameTooLong);
    }
}

async fn symbolic_links_are_not_followed(world: &World<'_>) {
    world.file("file").await;
    for (text, target) in [("to-file", &b"file"[..]), ("to-nothing", b"nothing")] {
        let symlink = world.node(text, NewNode::Symlink(target)).await;
        let found = world.find(world.place(text)).await.expect("the link itself is there");
        assert!(world.same(&found.object, &symlink));
        assert_eq!(found.attributes.file_type, FileType::Symlink);
    }
}

async fn a_directory_has_a_parent(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let found = world.store.parent(world.owner(), &directory).await.expect("it has a parent");
    assert!(world.same(&found.object, &world.top));
    assert_eq!(lasting(found.attributes), lasting(world.attributes(&world.top).await));
    let searched = found.directory.expect("the reply contains the directory's attributes");
    assert_eq!(lasting(searched), lasting(world.attributes(&directory).await));
}

async fn the_root_is_its_own_parent(world: &World<'_>) {
    let root = world.store.root();
    let found = world.store.parent(world.owner(), &root).await.expect("it has a parent");
    assert!(world.same(&found.object, &root));
}

async fn only_directories_have_a_parent(world: &World<'_>) {
    let file = world.file("file").await;
    refused(world.store.parent(world.owner(), &file).await, FsError::NotDirectory);
}

/// Fails if the path that the store reports for an object identifies another object.
async fn path_leads_there(world: &World<'_>, object: &ObjectId) {
    let Some(path) = world.store.path(object) else { return };
    let mut at = world.store.root();
    for step in path.split(|byte| *byte == b'/').filter(|_| !path.is_empty()) {
        let place = Place { directory: at, name: raw_name(step) };
        at = world.find(place).await.expect("the reported path exists").object;
    }
    assert!(world.same(&at, object), "{}", path.escape_ascii());
}

async fn a_path_that_is_told_leads_to_its_object(world: &World<'_>) {
    path_leads_there(world, &world.store.root()).await;
    let above = world.directory("above").await;
    let inside = below(&above, "file (deleted)");
    let file = world.create(inside, new_file()).await.result.expect("it can be made").object;
    for object in [&world.top, &above, &file] {
        path_leads_there(world, object).await;
    }
    let renamed = world.rename(world.place("above"), world.place("elsewhere")).await;
    renamed.result.expect("a directory can be renamed");
    path_leads_there(world, &file).await;
    let moved = world.rename(inside, world.place("moved")).await;
    moved.result.expect("a file can be moved");
    path_leads_there(world, &file).await;
    world.link(&file, world.place("other")).await.result.expect("it can be linked");
    world.remove(world.place("moved")).await.result.expect("it is there");
    path_leads_there(world, &file).await;
    world.remove(world.place("other")).await.result.expect("it is there");
    assert_eq!(world.store.path(&file), None, "it has no name any more");
}

async fn an_object_keeps_its_id_across_renames(world: &World<'_>) {
    let above = world.directory("above").await;
    let inside = below(&above, "file");
    let file = world.create(inside, new_file()).await.result.expect("it can be made");
    let truth = world.attributes(&file.object).await;
    let renamed = world.rename(world.place("above"), world.place("elsewhere")).await;
    renamed.result.expect("a directory can be renamed");
    assert_eq!(lasting(world.attributes(&file.object).await), lasting(truth));
    let moved = world.rename(inside, world.place("moved")).await;
    moved.result.expect("a file can be moved");
    assert!(world.leads(world.place("moved"), &file.object).await);
    assert_eq!(world.attributes(&file.object).await.file_id, truth.file_id);
    world.put(&file.object, 0, b"by the old id").await;
    assert_eq!(world.data(&file.object).await, b"by the old id");
}

async fn an_id_is_never_used_again(world: &World<'_>) {
    let mut gone: Vec<ObjectId> = Vec::new();
    for turn in 0..64 {
        let object = match turn % 2 {
            0 => world.gone_file("file").await,
            _ => world.gone_directory("directory").await,
        };
        assert!(!gone.iter().any(|old| world.same(old, &object)), "used again after {turn}");
        gone.push(object);
    }
    world.file("file").await;
    world.directory("directory").await;
    for old in &gone {
        refused(world.store.getattr(old).await, FsError::Stale);
    }
}

async fn ids_that_were_never_given_out_lead_nowhere(world: &World<'_>) {
    let root = world.store.root();
    let mut cut = root.as_bytes().to_vec();
    cut.pop();
    for bytes in [&b""[..], b"x", &cut, &[0; ObjectId::BYTES_MAX], &[0xff; ObjectId::BYTES_MAX]] {
        let object = ObjectId::new(bytes).expect("it is short enough");
        let error = world.store.getattr(&object).await.expect_err("nothing has such an id");
        assert!(matches!(error, FsError::BadHandle | FsError::Stale), "{bytes:?}: {error}");
    }
}
