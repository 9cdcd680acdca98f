//! Reading, writing and committing data.

use leasehold_base::random::Random;

use super::cases;
use super::world::{World, lasting, mode, refused};
use crate::{FsError, NewNode, Stability, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.6":
        a_read_ends_where_the_file_does
        a_read_tells_the_attributes
        only_files_can_be_read;
    Nothing, "RFC 1813 3.3.7":
        what_is_written_is_read
        a_write_behind_the_end_leaves_a_hole
        writes_go_far_out
        writes_of_nothing_change_nothing
        a_write_tells_before_and_after
        writes_are_as_stable_as_asked
        no_write_goes_beyond_what_can_be
        only_files_can_be_written
        a_mebibyte_is_written_at_once
        random_writes_read_back
        data_is_the_same_by_every_name;
    Nothing, "RFC 1813 3.3.21":
        a_commit_has_the_verifier_of_the_writes
        any_range_can_be_committed
        a_commit_tells_before_and_after
        only_files_can_be_committed;
    Nothing, "Store":
        a_removed_file_has_no_data;
}

const STABILITIES: [Stability; 3] = [Stability::Unstable, Stability::DataSync, Stability::FileSync];

async fn a_read_ends_where_the_file_does(world: &World<'_>) {
    let file = world.file_of("file", b"0123456789").await;
    for (offset, count, data, end) in [
        (0, 10, &b"0123456789"[..], true),
        (0, 9, b"012345678", false),
        (0, 11, b"0123456789", true),
        (4, 3, b"456", false),
        (9, 1, b"9", true),
        (9, 4096, b"9", true),
        (10, 5, b"", true),
        (11, 5, b"", true),
        (u64::MAX, 5, b"", true),
        (3, 0, b"", false),
        (10, 0, b"", true),
    ] {
        let done = world.get(&file, offset, count).await;
        assert_eq!((&*done.data, done.end), (data, end), "{count} bytes at {offset}");
    }
    let empty = world.file("empty").await;
    let done = world.get(&empty, 0, 100).await;
    assert_eq!((done.data.len(), done.end), (0, true));
}

async fn a_read_tells_the_attributes(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let done = world.get(&file, 0, 3).await;
    assert_eq!(lasting(done.attributes), lasting(world.attributes(&file).await));
}

async fn only_files_can_be_read(world: &World<'_>) {
    let read = |object| async move { world.store.read(world.owner(), &object, 0, 1).await };
    refused(read(world.top).await, FsError::IsDirectory);
    let symlink = world.node("symlink", NewNode::Symlink(b"target")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    let socket = world.node("socket", NewNode::Socket).await;
    for object in [symlink, fifo, socket] {
        refused(read(object).await, FsError::Invalid);
    }
}

async fn what_is_written_is_read(world: &World<'_>) {
    let file = world.file("file").await;
    world.put(&file, 0, b"0123456789").await;
    world.put(&file, 3, b"abc").await;
    world.put(&file, 8, b"xyz").await;
    assert_eq!(world.data(&file).await, b"012abc67xyz");
    let attributes = world.attributes(&file).await;
    assert_eq!(attributes.size, 11);
    assert_eq!(attributes.link_count, 1);
}

async fn a_write_behind_the_end_leaves_a_hole(world: &World<'_>) {
    let file = world.file_of("file", b"ab").await;
    world.put(&file, 9000, b"yz").await;
    let mut expected = b"ab".to_vec();
    expected.resize(9000, 0);
    expected.extend(b"yz");
    assert_eq!(world.data(&file).await, expected);
    let done = world.get(&file, 4096, 4096).await;
    assert_eq!((&*done.data, done.end), (&[0; 4096][..], false));
}

async fn writes_go_far_out(world: &World<'_>) {
    for (text, offset) in [("2g", (1 << 31) - 1), ("4g", (1 << 32) - 2), ("far", (1 << 40) + 3)] {
        let file = world.file(text).await;
        world.put(&file, offset, b"abc").await;
        let attributes = world.attributes(&file).await;
        assert_eq!(attributes.size, offset + 3);
        assert!(attributes.used < 1 << 20, "a hole takes no room");
        let done = world.get(&file, offset - 2, 100).await;
        assert_eq!((&*done.data, done.end), (&b"\0\0abc"[..], true));
    }
}

async fn writes_of_nothing_change_nothing(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for (offset, stability) in [0, 3, 1000].into_iter().zip(STABILITIES) {
        let done = world.write(&file, offset, b"", stability).await.result;
        assert_eq!(done.expect("nothing can be written").count, 0);
    }
    assert_eq!(world.data(&file).await, b"abc");
}

async fn a_write_tells_before_and_after(world: &World<'_>) {
    let file = world.file("file").await;
    for stability in STABILITIES {
        let before = world.attributes(&file).await;
        let done = world.write(&file, before.size, b"abc", stability).await;
        done.result.expect("data can be written");
        world.assert_wcc(&done.wcc, &file, &before).await;
        assert_eq!(done.wcc.after.map(|after| after.size), Some(before.size + 3));
    }
}

async fn writes_are_as_stable_as_asked(world: &World<'_>) {
    let file = world.file("file").await;
    for stability in STABILITIES {
        let done = world.write(&file, 0, b"abc", stability).await.result;
        let done = done.expect("data can be written");
        assert!(done.stability >= stability);
        assert_eq!(done.count, 3);
    }
}

async fn no_write_goes_beyond_what_can_be(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let before = world.attributes(&file).await;
    for offset in [u64::MAX, u64::MAX - 2, u64::MAX - 3, 1 << 63, (1 << 63) - 1] {
        let done = world.write(&file, offset, b"abc", Stability::FileSync).await;
        refused(done.result, FsError::FileTooBig);
        world.assert_wcc_kept(&done.wcc, &file, &before).await;
    }
    assert_eq!(world.data(&file).await, b"abc");
}

async fn only_files_can_be_written(world: &World<'_>) {
    let write =
        |object| async move { world.write(&object, 0, b"abc", Stability::FileSync).await.result };
    refused(write(world.top).await, FsError::IsDirectory);
    let symlink = world.node("symlink", NewNode::Symlink(b"target")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    let socket = world.node("socket", NewNode::Socket).await;
    for object in [symlink, fifo, socket] {
        refused(write(object).await, FsError::Invalid);
    }
}

async fn a_mebibyte_is_written_at_once(world: &World<'_>) {
    let file = world.file("file").await;
    let mut random = Random::from_seed(1);
    let data: Vec<u8> = (0..1 << 20).map(|_| random.next_u64().to_be_bytes()[0]).collect();
    world.put(&file, 0, &data).await;
    assert_eq!(world.data(&file).await, data);
    let attributes = world.attributes(&file).await;
    assert_eq!(attributes.size, 1 << 20);
    assert!(attributes.used >= 1 << 20, "data that is stable takes room");
}

async fn random_writes_read_back(world: &World<'_>) {
    let file = world.file("file").await;
    let (mut random, mut model) = (Random::from_seed(2), Vec::new());
    let mut below = |bound| usize::try_from(random.below(bound)).expect("it is small");
    for turn in 0..100_u8 {
        let (offset, length) = (below(20_000), below(9000));
        let data = vec![turn; length];
        if model.len() < offset + length && length > 0 {
            model.resize(offset + length, 0);
        }
        if length > 0 {
            model[offset..offset + length].copy_from_slice(&data);
        }
        let stability = STABILITIES[below(3)];
        let done = world.write(&file, offset as u64, &data, stability).await.result;
        assert_eq!(done.expect("data can be written").count as usize, length);
        let start = below(20_000);
        let got = world.get(&file, start as u64, 10_000).await;
        let expected = model.get(start..).unwrap_or_default();
        assert_eq!(&*got.data, &expected[..expected.len().min(10_000)], "turn {turn}");
        assert_eq!(got.end, start + 10_000 >= model.len());
    }
}

async fn data_is_the_same_by_every_name(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.link(&file, world.place("second")).await.result.expect("a file can be linked");
    let second = world.find(world.place("second")).await.expect("it is there").object;
    world.put(&second, 1, b"XY").await;
    assert_eq!(world.data(&file).await, b"aXY");
}

async fn a_commit_has_the_verifier_of_the_writes(world: &World<'_>) {
    let [one, two] = [world.file("one").await, world.file("two").await];
    let mut verifiers = Vec::new();
    for object in [one, two] {
        for stability in STABILITIES {
            let done = world.write(&object, 0, b"abc", stability).await.result;
            verifiers.push(done.expect("data can be written").verifier);
        }
        let done = world.store.commit(world.owner(), &object, 0, 0).await.result;
        verifiers.push(done.expect("data can be committed").verifier);
    }
    assert!(verifiers.iter().all(|verifier| *verifier == verifiers[0]), "{verifiers:?}");
}

async fn any_range_can_be_committed(world: &World<'_>) {
    let file = world.file("file").await;
    for (offset, length) in
        [(0, 0), (0, 3), (1, 1), (3, 1), (1000, 0), (u64::MAX, 0), (u64::MAX - 1, 10)]
    {
        let written = world.write(&file, 0, b"abc", Stability::Unstable).await.result;
        let done = world.store.commit(world.owner(), &file, offset, length).await.result;
        let done = done.expect("any range can be committed");
        assert_eq!(done.verifier, written.expect("data can be written").verifier);
    }
    assert_eq!(world.data(&file).await, b"abc");
}

async fn a_commit_tells_before_and_after(world: &World<'_>) {
    let file = world.file("file").await;
    let written = world.write(&file, 0, b"abc", Stability::Unstable).await;
    written.result.expect("data can be written");
    let before = world.attributes(&file).await;
    let done = world.store.commit(world.owner(), &file, 0, 0).await;
    done.result.expect("data can be committed");
    world.assert_wcc(&done.wcc, &file, &before).await;
}

async fn only_files_can_be_committed(world: &World<'_>) {
    let commit = |object| async move { world.store.commit(world.owner(), &object, 0, 0).await };
    refused(commit(world.top).await.result, FsError::IsDirectory);
    let symlink = world.node("symlink", NewNode::Symlink(b"target")).await;
    let fifo = world.node("fifo", NewNode::Fifo).await;
    for object in [symlink, fifo] {
        refused(commit(object).await.result, FsError::Invalid);
    }
}

async fn a_removed_file_has_no_data(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.set(&file, mode(0o600)).await.result.expect("the owner may");
    world.remove(world.place("file")).await.result.expect("it is there");
    refused(world.store.read(world.owner(), &file, 0, 1).await, FsError::Stale);
    let written = world.write(&file, 0, b"abc", Stability::FileSync).await;
    refused(written.result, FsError::Stale);
    assert_eq!(written.wcc, Wcc::default());
    let committed = world.store.commit(world.owner(), &file, 0, 0).await;
    refused(committed.result, FsError::Stale);
}
