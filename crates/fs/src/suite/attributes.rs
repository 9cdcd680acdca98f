//! Reading and changing attributes except times.

use super::cases;
use super::world::{World, lasting, mode, refused, size};
use crate::{FileType, FsError, Mode, NO_USER, NewFile, NewNode, SetAttributes};

cases! {
    Nothing, "RFC 1813 3.3.1":
        a_new_file_is_empty_and_its_makers
        objects_have_numbers_of_their_own
        a_removed_object_has_no_attributes;
    Nothing, "RFC 1813 3.3.2":
        modes_can_be_set
        a_size_can_be_cut
        a_size_can_grow
        what_was_cut_off_does_not_come_back
        only_files_have_a_size_to_set
        no_file_is_larger_than_can_be
        changes_come_all_or_none
        nothing_can_be_changed
        a_change_tells_before_and_after
        the_right_guard_lets_a_change_pass
        the_wrong_guard_stops_a_change
        a_removed_object_cannot_be_changed;
    Superuser, "RFC 1813 3.3.2":
        the_superuser_gives_files_away
        nothing_is_given_to_the_number_of_no_user;
}

/// No object may get the owner `NO_USER`: a Linux client that meets such an object lists the
/// directory again and again, and for a kernel this id means that the owner stays unchanged.
async fn nothing_is_given_to_the_number_of_no_user(world: &World<'_>) {
    let superuser = world.superuser();
    let none = Some(NO_USER);
    let given = [
        SetAttributes { uid: none, ..SetAttributes::default() },
        SetAttributes { gid: none, ..SetAttributes::default() },
        SetAttributes { uid: Some(1000), gid: none, ..SetAttributes::default() },
    ];
    let file = world.file("file").await;
    let before = world.attributes(&file).await;
    for (number, wanted) in given.iter().enumerate() {
        let changed = world.store.setattr(superuser, &file, wanted, None).await;
        refused(changed.result, FsError::Invalid);
        for new in [NewFile::Guarded(*wanted), NewFile::Unchecked(*wanted)] {
            let name = format!("made {number}");
            let created = world.store.create(superuser, world.place(&name), &new).await;
            refused(created.result, FsError::Invalid);
        }
        for node in [NewNode::Directory, NewNode::Fifo, NewNode::Symlink(b"target")] {
            let name = format!("node {number}");
            let made = world.store.make(superuser, world.place(&name), &node, wanted).await;
            refused(made.result, FsError::Invalid);
        }
    }
    assert_eq!(world.attributes(&file).await, before);
    for number in 0..given.len() {
        for name in [format!("made {number}"), format!("node {number}")] {
            refused(world.find(world.place(&name)).await, FsError::NotFound);
        }
    }
}

async fn a_new_file_is_empty_and_its_makers(world: &World<'_>) {
    let file = world.file("file").await;
    let attributes = world.attributes(&file).await;
    assert_eq!(attributes.file_type, FileType::Regular);
    assert_eq!(attributes.mode, Mode::from_bits(0o644));
    assert_eq!((attributes.size, attributes.used), (0, 0));
    assert_eq!(attributes.link_count, 1);
    assert_eq!((attributes.uid, attributes.gid), (world.owner().uid, world.owner().gid));
    assert_eq!(attributes.device, crate::Device::default());
}

async fn objects_have_numbers_of_their_own(world: &World<'_>) {
    let top = world.attributes(&world.top).await;
    let mut numbers = vec![top.file_id];
    for text in ["a", "b", "c", "d"] {
        let file = world.file(text).await;
        let attributes = world.attributes(&file).await;
        assert_eq!(attributes.file_system, top.file_system);
        assert!(!numbers.contains(&attributes.file_id));
        numbers.push(attributes.file_id);
    }
}

async fn a_removed_object_has_no_attributes(world: &World<'_>) {
    let file = world.gone_file("file").await;
    let directory = world.gone_directory("directory").await;
    refused(world.store.getattr(&file).await, FsError::Stale);
    refused(world.store.getattr(&directory).await, FsError::Stale);
}

async fn modes_can_be_set(world: &World<'_>) {
    let file = world.file("file").await;
    let directory = world.directory("directory").await;
    for bits in [0o000, 0o777, 0o640, 0o4755, 0o421] {
        world.set_mode(&file, bits).await;
        assert_eq!(world.attributes(&file).await.mode.bits(), bits);
    }
    for bits in [0o1777, 0o000, 0o700] {
        world.set_mode(&directory, bits).await;
        assert_eq!(world.attributes(&directory).await.mode.bits(), bits);
    }
}

async fn a_size_can_be_cut(world: &World<'_>) {
    let file = world.file_of("file", b"0123456789").await;
    for length in [7, 7, 1, 0] {
        world.set(&file, size(length)).await.result.expect("a file can be cut");
        assert_eq!(world.attributes(&file).await.size, length);
        assert_eq!(world.data(&file).await.len() as u64, length);
    }
}

async fn a_size_can_grow(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.set(&file, size(10_000)).await.result.expect("a file can grow");
    let mut expected = b"abc".to_vec();
    expected.resize(10_000, 0);
    assert_eq!(world.data(&file).await, expected);
    world.set(&file, size(1 << 40)).await.result.expect("a hole takes no room");
    let attributes = world.attributes(&file).await;
    assert_eq!(attributes.size, 1 << 40);
    assert!(attributes.used < 1 << 20);
    let done = world.get(&file, (1 << 40) - 10, 100).await;
    assert_eq!((&*done.data, done.end), (&[0; 10][..], true));
}

async fn what_was_cut_off_does_not_come_back(world: &World<'_>) {
    for (text, cut) in [("block", 4096), ("within", 100), ("nothing", 0), ("across", 5000)] {
        let file = world.file_of(text, &[7; 10_000]).await;
        for length in [cut, 10_000] {
            world.set(&file, size(length)).await.result.expect("a size can be set");
        }
        let data = world.data(&file).await;
        let kept = usize::try_from(cut).expect("it is small");
        assert_eq!(data.len(), 10_000);
        assert!(data[..kept].iter().all(|byte| *byte == 7), "cut at {cut}");
        assert!(data[kept..].iter().all(|byte| *byte == 0), "cut at {cut}");
    }
}

async fn only_files_have_a_size_to_set(world: &World<'_>) {
    refused(world.set(&world.top, size(0)).await.result, FsError::IsDirectory);
    let symlink = world.node("symlink", NewNode::Symlink(b"target")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    for object in [symlink, fifo] {
        refused(world.set(&object, size(0)).await.result, FsError::Invalid);
    }
}

async fn no_file_is_larger_than_can_be(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let changed = world.set(&file, size(u64::MAX)).await;
    refused(changed.result, FsError::FileTooBig);
    assert_eq!(world.data(&file).await, b"abc");
}

async fn changes_come_all_or_none(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let before = world.attributes(&directory).await;
    let changes = SetAttributes { size: Some(0), ..mode(0o700) };
    let changed = world.set(&directory, changes).await;
    refused(changed.result, FsError::IsDirectory);
    assert_eq!(lasting(world.attributes(&directory).await), lasting(before));
    world.assert_wcc_kept(&changed.wcc, &directory, &before).await;
}

async fn nothing_can_be_changed(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let before = world.attributes(&file).await;
    let changed = world.set(&file, SetAttributes::default()).await;
    changed.result.expect("nothing can be changed");
    let after = world.attributes(&file).await;
    assert_eq!((after.mode, after.size), (before.mode, before.size));
    assert_eq!(after.modified, before.modified);
}

async fn a_change_tells_before_and_after(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for changes in [mode(0o600), size(1), size(100), SetAttributes::default()] {
        let before = world.attributes(&file).await;
        let changed = world.set(&file, changes).await;
        changed.result.expect("the owner may");
        world.assert_wcc(&changed.wcc, &file, &before).await;
    }
}

async fn the_right_guard_lets_a_change_pass(world: &World<'_>) {
    let file = world.file("file").await;
    let guard = Some(world.attributes(&file).await.changed);
    let changed = world.store.setattr(world.owner(), &file, &mode(0o600), guard).await;
    changed.result.expect("the guard fits");
    assert_eq!(world.attributes(&file).await.mode.bits(), 0o600);
}

async fn the_wrong_guard_stops_a_change(world: &World<'_>) {
    let file = world.file("file").await;
    let old = world.attributes(&file).await.changed;
    world.pass_time();
    world.set_mode(&file, 0o640).await;
    let before = world.attributes(&file).await;
    for (guard, changes) in [(old, mode(0o600)), (old, size(5)), (<_>::default(), mode(0o600))] {
        let changed = world.store.setattr(world.owner(), &file, &changes, Some(guard)).await;
        refused(changed.result, FsError::NotSynchronized);
        world.assert_wcc_kept(&changed.wcc, &file, &before).await;
    }
    assert_eq!(lasting(world.attributes(&file).await), lasting(before));
}

async fn a_removed_object_cannot_be_changed(world: &World<'_>) {
    let gone = world.gone_file("file").await;
    let changed = world.set(&gone, mode(0o600)).await;
    refused(changed.result, FsError::Stale);
    assert_eq!(changed.wcc, crate::Wcc::default());
}

async fn the_superuser_gives_files_away(world: &World<'_>) {
    let file = world.file("file").await;
    let changes = SetAttributes { uid: Some(4321), gid: Some(1234), ..SetAttributes::default() };
    let changed = world.store.setattr(world.superuser(), &file, &changes, None).await;
    changed.result.expect("the superuser may");
    let attributes = world.attributes(&file).await;
    assert_eq!((attributes.uid, attributes.gid), (4321, 1234));
}
