//! The state that survives a restart of the store.

use std::sync::Arc;

use leasehold_base::units::Cookie;

use super::cases;
use super::world::{UNLIMITED, World, lasting, mode, refused, size};
use crate::{FsError, NewFile, NewNode, Stability, Store};

cases! {
    Restart, "ObjectId":
        ids_live_on
        a_removed_object_stays_stale;
    Restart, "RFC 1813 3.3.7":
        stable_data_lives_on
        a_restart_changes_the_verifier
        lost_data_leaves_no_bytes_behind
        what_was_cut_off_does_not_come_back_by_a_restart;
    Restart, "RFC 1813 3.3.8":
        an_exclusive_create_can_be_repeated_after_a_restart;
    Restart, "RFC 1813 3.3.16":
        a_listing_goes_on;
}

fn restart(world: &World<'_>) -> Arc<dyn Store> {
    world.subject.restart.as_ref().expect("the case needs a restart")()
}

async fn ids_live_on(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let directory = world.directory("directory").await;
    let symlink = world.node("symlink", NewNode::Symlink(b"target")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    world.link(&file, world.place("second")).await.result.expect("a file can be linked");
    let objects = [world.store.root(), world.top, file, directory, symlink, fifo];
    let mut before = Vec::new();
    for object in objects {
        before.push(lasting(world.attributes(&object).await));
    }
    let names = world.names(&world.top).await;
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    for (object, attributes) in objects.iter().zip(before) {
        assert_eq!(lasting(world.attributes(object).await), attributes);
    }
    assert_eq!(store.root(), objects[0]);
    assert_eq!(world.names(&world.top).await, names);
    assert!(world.leads(world.place("second"), &file).await);
    world.put(&file, 0, b"xyz").await;
    let renamed = world.rename(world.place("directory"), world.place("moved")).await;
    renamed.result.expect("it can be");
    assert!(world.leads(world.place("moved"), &directory).await);
}

async fn a_removed_object_stays_stale(world: &World<'_>) {
    let gone = [world.gone_file("file").await, world.gone_directory("directory").await];
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    for text in ["one", "two", "three"] {
        world.file(text).await;
    }
    for object in gone {
        refused(store.getattr(&object).await, FsError::Stale);
    }
}

async fn stable_data_lives_on(world: &World<'_>) {
    let [file_sync, data_sync] = [world.file("file-sync").await, world.file("data-sync").await];
    let committed = world.file("committed").await;
    let cut = world.file_of("cut", b"0123456789").await;
    world.put(&file_sync, 0, b"abc").await;
    let done = world.write(&data_sync, 5000, b"abc", Stability::DataSync).await;
    done.result.expect("data can be written");
    for offset in [0, 10_000] {
        let done = world.write(&committed, offset, b"abc", Stability::Unstable).await;
        done.result.expect("data can be written");
    }
    let done = world.store.commit(world.owner(), &committed, 0, 0).await;
    done.result.expect("data can be committed");
    world.set(&cut, size(5)).await.result.expect("the owner may");
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    assert_eq!(world.data(&file_sync).await, b"abc");
    assert_eq!(&*world.get(&data_sync, 5000, 10).await.data, b"abc");
    assert_eq!(world.attributes(&committed).await.size, 10_003);
    assert_eq!(&*world.get(&committed, 10_000, 10).await.data, b"abc");
    assert_eq!(&*world.get(&committed, 0, 3).await.data, b"abc");
    assert_eq!(world.data(&cut).await, b"01234");
}

async fn a_restart_changes_the_verifier(world: &World<'_>) {
    let file = world.file("file").await;
    let written = world.write(&file, 0, b"abc", Stability::Unstable).await.result;
    let written = written.expect("data can be written").verifier;
    let store = restart(world);
    let done = store.commit(world.owner(), &file, 0, 0).await.result;
    assert_ne!(done.expect("it can be committed").verifier, written);
    let again = restart(world);
    let third = again.commit(world.owner(), &file, 0, 0).await.result;
    assert_ne!(third.expect("it can be committed").verifier, written);
    assert_ne!(third, done);
}

async fn lost_data_leaves_no_bytes_behind(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let done = world.write(&file, 1, &[7; 100], Stability::Unstable).await;
    done.result.expect("data can be written");
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    let kept = world.attributes(&file).await.size;
    assert!(kept == 3 || kept == 101, "all or nothing of one write's size: {kept}");
    world.set(&file, size(3)).await.result.expect("the owner may");
    world.set(&file, size(200)).await.result.expect("the owner may");
    assert_eq!(&*world.get(&file, 3, 1000).await.data, [0; 197]);
}

async fn what_was_cut_off_does_not_come_back_by_a_restart(world: &World<'_>) {
    let file = world.file_of("file", &[7; 20_000]).await;
    let done = world.write(&file, 5000, &[8; 10_000], Stability::Unstable).await;
    done.result.expect("data can be written");
    world.set(&file, size(100)).await.result.expect("the owner may");
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    assert_eq!(world.data(&file).await, [7; 100]);
    world.set(&file, size(20_000)).await.result.expect("the owner may");
    assert_eq!(&*world.get(&file, 100, 20_000).await.data, [0; 19_900]);
}

async fn an_exclusive_create_can_be_repeated_after_a_restart(world: &World<'_>) {
    let verifier = NewFile::exclusive(*b"verifier");
    let first = world.create(world.place("file"), verifier).await.result;
    let first = first.expect("the name is free").object;
    let attributes = mode(0o640);
    let with_mode = NewFile::Exclusive { verifier: *b"verifier", attributes };
    let second = world.create(world.place("with mode"), with_mode).await.result;
    let second = second.expect("the name is free").object;
    let store = restart(world);
    let world = &World { store: &*store, ..*world };
    let again = world.create(world.place("file"), verifier).await.result;
    assert!(world.same(&again.expect("the same call once more").object, &first));
    let again = world.create(world.place("with mode"), with_mode).await.result;
    let again = again.expect("the same call once more");
    assert!(world.same(&again.object, &second));
    assert_eq!(again.attributes.mode.bits(), 0o640);
    let other = NewFile::exclusive(*b"VERIFIER");
    refused(world.create(world.place("file"), other).await.result, FsError::AlreadyExists);
}

async fn a_listing_goes_on(world: &World<'_>) {
    for number in 0..20 {
        world.file(&number.to_string()).await;
    }
    let page = world.page(&world.top, Cookie(0), UNLIMITED).await.expect("it can be listed");
    let cookies: Vec<_> = page.entries.iter().map(|entry| entry.cookie).collect();
    let names: Vec<_> = page.entries.iter().map(|entry| entry.name.to_vec()).collect();
    let store = restart(world);
    for (number, cookie) in cookies.into_iter().enumerate() {
        let world = World { store: &*store, ..*world };
        let page = world.page(&world.top, cookie, UNLIMITED).await.expect("it can be listed");
        let rest: Vec<_> = page.entries.iter().map(|entry| entry.name.to_vec()).collect();
        assert_eq!(rest, names[number + 1..], "behind entry {number}");
    }
}
