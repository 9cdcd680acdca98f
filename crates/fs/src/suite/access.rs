//! Access checks, and targets of symbolic links.

use super::cases;
use super::world::{World, lasting, refused};
use crate::{Access, FsError, NewNode};

cases! {
    OrdinaryOwner, "RFC 1813 3.3.4":
        access_to_a_file_follows_its_mode
        access_to_a_directory_follows_its_mode;
    Nothing, "RFC 1813 3.3.4":
        access_grants_only_what_was_asked
        access_to_a_removed_object_is_stale;
    Nothing, "RFC 1813 3.3.5":
        a_symbolic_link_says_what_it_was_told
        a_symbolic_link_may_be_long
        only_symbolic_links_can_be_read_so;
}

/// Every kind of access.
pub(super) const ALL: Access =
    Access { read: true, lookup: true, modify: true, extend: true, delete: true, execute: true };

const NONE: Access = Access {
    read: false,
    lookup: false,
    modify: false,
    extend: false,
    delete: false,
    execute: false,
};

async fn access_to_a_file_follows_its_mode(world: &World<'_>) {
    let file = world.file("file").await;
    let change = Access { modify: true, extend: true, ..NONE };
    for (bits, expected) in [
        (0o077, NONE),
        (0o100, Access { execute: true, ..NONE }),
        (0o200, change),
        (0o400, Access { read: true, ..NONE }),
        (0o600, Access { read: true, ..change }),
        (0o700, Access { read: true, execute: true, ..change }),
    ] {
        world.set_mode(&file, bits).await;
        let (granted, attributes) =
            world.store.access(world.owner(), &file, ALL).await.expect("it is there");
        assert_eq!(granted, expected, "mode {bits:o}");
        assert_eq!(lasting(attributes), lasting(world.attributes(&file).await));
    }
}

async fn access_to_a_directory_follows_its_mode(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let search = Access { lookup: true, ..NONE };
    let change = Access { modify: true, extend: true, delete: true, ..search };
    for (bits, expected) in [
        (0o077, NONE),
        (0o100, search),
        (0o200, NONE),
        (0o300, change),
        (0o400, Access { read: true, ..NONE }),
        (0o500, Access { read: true, ..search }),
        (0o700, Access { read: true, ..change }),
    ] {
        world.set_mode(&directory, bits).await;
        let granted = world.store.access(world.owner(), &directory, ALL).await;
        assert_eq!(granted.expect("it is there").0, expected, "mode {bits:o}");
    }
    world.set_mode(&directory, 0o755).await;
}

async fn access_grants_only_what_was_asked(world: &World<'_>) {
    let file = world.file("file").await;
    for object in [world.top, file] {
        for wanted in [NONE, Access { read: true, ..NONE }, Access { modify: true, ..NONE }] {
            let granted = world.store.access(world.owner(), &object, wanted).await;
            assert_eq!(granted.expect("it is there").0, wanted);
        }
    }
}

async fn access_to_a_removed_object_is_stale(world: &World<'_>) {
    for gone in [world.gone_file("file").await, world.gone_directory("directory").await] {
        refused(world.store.access(world.owner(), &gone, ALL).await, FsError::Stale);
        refused(world.store.readlink(world.owner(), &gone).await, FsError::Stale);
    }
}

async fn a_symbolic_link_says_what_it_was_told(world: &World<'_>) {
    for (text, target) in [
        ("relative", &b"../x"[..]),
        ("absolute", b"/nowhere/at all"),
        ("not-text", b"\xff\xfe\\ \n"),
        ("itself", b"itself"),
    ] {
        let symlink = world.node(text, NewNode::Symlink(target)).await;
        let (said, attributes) =
            world.store.readlink(world.owner(), &symlink).await.expect("it is a link");
        assert_eq!(said, target);
        assert_eq!(attributes.size, target.len() as u64);
        assert_eq!(lasting(attributes), lasting(world.attributes(&symlink).await));
    }
}

async fn a_symbolic_link_may_be_long(world: &World<'_>) {
    for length in [59, 60, 255, 256, 1023] {
        let target = vec![b't'; length];
        let symlink = world.node(&length.to_string(), NewNode::Symlink(&target)).await;
        let (said, _) = world.store.readlink(world.owner(), &symlink).await.expect("it is a link");
        assert_eq!(said, target);
    }
}

async fn only_symbolic_links_can_be_read_so(world: &World<'_>) {
    let file = world.file("file").await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    for object in [world.top, file, fifo] {
        refused(world.store.readlink(world.owner(), &object).await, FsError::Invalid);
    }
}
