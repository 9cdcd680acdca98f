//! Cases for operations on byte ranges. A store may support some of the operations only.

use super::cases;
use super::world::{World, refused, size};
use crate::{
    ByteRange, Changed, Content, FsError, NewNode, ObjectId, RangeCopy, Seek, Stability, WriteDone,
};

cases! {
    Nothing, "RFC 7862 15.11":
        a_seek_finds_data_and_holes;
    Nothing, "RFC 7862 15.1":
        an_allocation_extends_a_file;
    Nothing, "RFC 7862 15.4":
        a_deallocation_leaves_zeros;
    Nothing, "RFC 7862 15.13":
        a_clone_has_the_data
        a_clone_outside_of_the_source_fails;
    Nothing, "RFC 7862 15.2":
        a_copy_has_the_data;
    Nothing, "RFC 7862 15":
        only_files_have_ranges;
    Other, "RFC 7862 15":
        ranges_need_permission;
}

/// A multiple of the block sizes of common file systems.
const BLOCK: u64 = 64 << 10;

fn bytes(count: u64, byte: u8) -> Vec<u8> {
    vec![byte; usize::try_from(count).expect("it is small")]
}

async fn seek(
    world: &World<'_>,
    file: &ObjectId,
    offset: u64,
    content: Content,
) -> Result<Seek, FsError> {
    world.store.seek(world.owner(), file, offset, content).await
}

async fn allocate(world: &World<'_>, file: &ObjectId, range: ByteRange) -> Changed<()> {
    world.store.allocate(world.owner(), file, range).await
}

async fn deallocate(world: &World<'_>, file: &ObjectId, range: ByteRange) -> Changed<()> {
    world.store.deallocate(world.owner(), file, range).await
}

async fn clone(world: &World<'_>, copy: RangeCopy) -> Changed<()> {
    world.store.clone_range(world.owner(), &copy).await
}

async fn copy(world: &World<'_>, copy: RangeCopy) -> Changed<WriteDone> {
    world.store.copy_range(world.owner(), &copy).await
}

/// Returns true if the store does not support the operation with this result.
fn is_missing<T>(changed: &Changed<T>) -> bool {
    matches!(changed.result, Err(FsError::NotSupported))
}

async fn a_seek_finds_data_and_holes(world: &World<'_>) {
    let file = world.file("sparse").await;
    if world.store.capabilities().ranges.is_none() {
        refused(seek(world, &file, 0, Content::Data).await, FsError::NotSupported);
        return;
    }
    for content in [Content::Data, Content::Hole] {
        refused(seek(world, &file, 0, content).await, FsError::NoSuchDevice);
    }
    // A hole, data, and a hole.
    let (start, end) = (4 * BLOCK, 8 * BLOCK + 100);
    world.set(&file, size(end)).await.result.expect("the owner sets the size");
    world.put(&file, start, &bytes(BLOCK, 7)).await;
    let first = seek(world, &file, 0, Content::Data).await.expect("it is inside");
    assert!(first.offset <= start && !first.end, "{first:?}");
    let hole = seek(world, &file, start, Content::Hole).await.expect("it is inside");
    assert!((start + BLOCK..=end).contains(&hole.offset), "{hole:?}");
    assert_eq!(hole.end, hole.offset == end);
    let data = seek(world, &file, start + 10, Content::Data).await;
    assert_eq!(data, Ok(Seek { offset: start + 10, end: false }));
    // Behind the data is either more data, or no data up to the end.
    let last = seek(world, &file, end - 1, Content::Data).await.expect("it is inside");
    let offset = if last.end { end } else { end - 1 };
    assert_eq!(last, Seek { offset, ..last });
    for content in [Content::Data, Content::Hole] {
        for beyond in [end, end + 1, u64::MAX] {
            refused(seek(world, &file, beyond, content).await, FsError::NoSuchDevice);
        }
    }
    // Each hole reads as zeros.
    let hole = seek(world, &file, 0, Content::Hole).await.expect("it is inside");
    if hole.offset < start {
        assert_eq!(&*world.get(&file, hole.offset, 100).await.data, [0; 100]);
    }
}

async fn an_allocation_extends_a_file(world: &World<'_>) {
    let file = world.file_of("file", b"data").await;
    let before = world.attributes(&file).await;
    world.pass_time();
    let range = ByteRange { offset: BLOCK, length: BLOCK };
    let done = allocate(world, &file, range).await;
    if is_missing(&done) {
        return;
    }
    done.result.expect("there is room");
    world.assert_wcc(&done.wcc, &file, &before).await;
    let after = world.attributes(&file).await;
    assert_eq!(after.size, 2 * BLOCK);
    assert!(after.used >= BLOCK, "{} bytes in use", after.used);
    assert!(before.changed < after.changed);
    assert_eq!(&*world.get(&file, 0, 6).await.data, b"data\0\0");
    assert_eq!(&*world.get(&file, BLOCK, 100).await.data, [0; 100]);
    // An allocation changes neither data nor the size of a larger file.
    world.put(&file, BLOCK + 10, b"more").await;
    let inside = ByteRange { offset: 1, length: BLOCK + 20 };
    allocate(world, &file, inside).await.result.expect("there is room");
    assert_eq!(world.attributes(&file).await.size, 2 * BLOCK);
    assert_eq!(&*world.get(&file, BLOCK + 10, 4).await.data, b"more");
    assert_eq!(&*world.get(&file, 0, 4).await.data, b"data");
    let empty = ByteRange { offset: 0, length: 0 };
    refused(allocate(world, &file, empty).await.result, FsError::Invalid);
    let endless = ByteRange { offset: 1, length: u64::MAX };
    refused(allocate(world, &file, endless).await.result, FsError::FileTooBig);
    let huge = ByteRange { offset: 0, length: i64::MAX.unsigned_abs() };
    let huge = allocate(world, &file, huge).await.result;
    assert!(matches!(huge, Err(FsError::NoSpace | FsError::FileTooBig)), "{huge:?}");
    assert_eq!(world.attributes(&file).await.size, 2 * BLOCK);
}

async fn a_deallocation_leaves_zeros(world: &World<'_>) {
    let file = world.file("file").await;
    world.put(&file, 0, &bytes(4 * BLOCK, 7)).await;
    let before = world.attributes(&file).await;
    world.pass_time();
    let range = ByteRange { offset: BLOCK - 10, length: 2 * BLOCK };
    let done = deallocate(world, &file, range).await;
    if is_missing(&done) {
        return;
    }
    done.result.expect("it can be freed");
    world.assert_wcc(&done.wcc, &file, &before).await;
    let after = world.attributes(&file).await;
    assert_eq!(after.size, 4 * BLOCK);
    assert!(after.used < before.used && before.changed < after.changed);
    let expected = [bytes(BLOCK - 10, 7), bytes(2 * BLOCK, 0), bytes(BLOCK + 10, 7)].concat();
    assert_eq!(world.data(&file).await, expected);
    let hole = seek(world, &file, 0, Content::Hole).await.expect("it is inside");
    assert!((BLOCK - 10..=BLOCK).contains(&hole.offset), "{hole:?}");
    // The end of the range may be behind the end of the file.
    let rest = ByteRange { offset: 3 * BLOCK, length: BLOCK * 4 };
    deallocate(world, &file, rest).await.result.expect("it can be freed");
    assert_eq!(world.attributes(&file).await.size, 4 * BLOCK);
    assert_eq!(&*world.get(&file, 3 * BLOCK, 100).await.data, [0; 100]);
    let empty = ByteRange { offset: 0, length: 0 };
    refused(deallocate(world, &file, empty).await.result, FsError::Invalid);
    world.put(&file, BLOCK, b"again").await;
    assert_eq!(&*world.get(&file, BLOCK, 6).await.data, b"again\0");
}

async fn a_clone_has_the_data(world: &World<'_>) {
    let from = world.file("from").await;
    world.put(&from, 0, &[bytes(BLOCK, 1), bytes(BLOCK, 2), bytes(100, 3)].concat()).await;
    let to = world.file_of("to", b"old data").await;
    let whole = RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
    let before = world.attributes(&to).await;
    world.pass_time();
    let done = clone(world, whole).await;
    if is_missing(&done) {
        return;
    }
    done.result.expect("the files are on one file system");
    world.assert_wcc(&done.wcc, &to, &before).await;
    assert_eq!(world.data(&to).await, world.data(&from).await);
    // A change of one file does not change the other.
    world.put(&to, 5, b"changed").await;
    assert_eq!(&*world.get(&from, 0, 12).await.data, [1; 12]);
    let part = RangeCopy { from_offset: BLOCK, to_offset: 4 * BLOCK, length: BLOCK, ..whole };
    clone(world, part).await.result.expect("the range is inside");
    assert_eq!(world.attributes(&to).await.size, 5 * BLOCK);
    assert_eq!(&*world.get(&to, 4 * BLOCK, 100).await.data, [2; 100]);
    assert_eq!(&*world.get(&to, 3 * BLOCK, 100).await.data, [0; 100]);
    let inside = RangeCopy { from: to, from_offset: 0, to_offset: BLOCK, length: BLOCK, to };
    clone(world, inside).await.result.expect("the ranges do not overlap");
    assert_eq!(&*world.get(&to, BLOCK, 12).await.data, b"\x01\x01\x01\x01\x01changed");
}

async fn a_clone_outside_of_the_source_fails(world: &World<'_>) {
    let from = world.file("from").await;
    world.put(&from, 0, &bytes(2 * BLOCK, 1)).await;
    let to = world.file("to").await;
    let whole = RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
    if is_missing(&clone(world, whole).await) {
        return;
    }
    for wrong in [
        RangeCopy { from_offset: 3 * BLOCK, ..whole },
        RangeCopy { from_offset: BLOCK, length: 2 * BLOCK, ..whole },
        RangeCopy { from_offset: u64::MAX, length: u64::MAX, ..whole },
        RangeCopy { from_offset: 1, length: BLOCK, ..whole },
        RangeCopy { to_offset: 1, length: BLOCK, ..whole },
        RangeCopy { to: from, to_offset: BLOCK, length: 2 * BLOCK, ..whole },
    ] {
        refused(clone(world, wrong).await.result, FsError::Invalid);
    }
    let far = RangeCopy { to_offset: u64::MAX - BLOCK + 1, ..whole };
    let far = clone(world, far).await.result;
    assert!(matches!(far, Err(FsError::FileTooBig | FsError::Invalid)), "{far:?}");
    assert_eq!(world.attributes(&to).await.size, 2 * BLOCK);
}

/// Copies until the source ends or all bytes are copied; returns the number of bytes.
async fn copy_all(world: &World<'_>, mut rest: RangeCopy) -> u64 {
    let mut copied = 0;
    loop {
        let done = copy(world, rest).await.result.expect("it can be copied");
        assert!(done.stability >= Stability::Unstable);
        let count = u64::from(done.count);
        copied += count;
        if count == 0 || (rest.length > 0 && count >= rest.length) {
            return copied;
        }
        rest.from_offset += count;
        rest.to_offset += count;
        rest.length -= if rest.length > 0 { count } else { 0 };
    }
}

async fn a_copy_has_the_data(world: &World<'_>) {
    let (large, length) = (40, 41 * BLOCK + 100);
    let from = world.file("from").await;
    world.put(&from, 0, &bytes(BLOCK, 1)).await;
    world.put(&from, large * BLOCK, &bytes(BLOCK + 100, 2)).await;
    let to = world.file_of("to", b"old data").await;
    let whole = RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
    let before = world.attributes(&to).await;
    world.pass_time();
    let done = copy(world, whole).await;
    if is_missing(&done) {
        return;
    }
    done.result.expect("the files are on one file system");
    world.assert_wcc(&done.wcc, &to, &before).await;
    assert!(before.changed < world.attributes(&to).await.changed);
    assert_eq!(copy_all(world, whole).await, length);
    assert_eq!(world.attributes(&to).await.size, length);
    assert_eq!(world.data(&to).await, world.data(&from).await);
    assert_eq!(&*world.get(&to, large * BLOCK, 100).await.data, [2; 100]);
    let part = RangeCopy { from_offset: BLOCK - 3, to_offset: 5, length: 6, ..whole };
    assert_eq!(copy_all(world, part).await, 6);
    let expected = [1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 1];
    assert_eq!(&*world.get(&to, 0, 12).await.data, expected);
    let behind = RangeCopy { from_offset: length + 1, ..whole };
    assert_eq!(copy_all(world, behind).await, 0);
    let overlap = RangeCopy { to: from, to_offset: 10, length: 20, ..whole };
    refused(copy(world, overlap).await.result, FsError::Invalid);
    let far = RangeCopy { to_offset: u64::MAX - 10, length: 20, ..whole };
    refused(copy(world, far).await.result, FsError::FileTooBig);
}

async fn only_files_have_ranges(world: &World<'_>) {
    if world.store.capabilities().ranges.is_none() {
        return;
    }
    let range = ByteRange { offset: 0, length: 1 };
    let file = world.file_of("file", b"data").await;
    for (text, node) in [
        ("directory", NewNode::Directory),
        ("symlink", NewNode::Symlink(b"file")),
        ("fifo", NewNode::Fifo),
    ] {
        let object = world.node(text, node).await;
        refused(seek(world, &object, 0, Content::Data).await, FsError::WrongType);
        let of = |from, to| RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
        let results = [
            allocate(world, &object, range).await.result,
            deallocate(world, &object, range).await.result,
            clone(world, of(object, file)).await.result,
            clone(world, of(file, object)).await.result,
            copy(world, of(object, file)).await.result.map(drop),
            copy(world, of(file, object)).await.result.map(drop),
        ];
        for result in results {
            assert!(
                matches!(result, Err(FsError::WrongType | FsError::NotSupported)),
                "{text}: {result:?}"
            );
        }
    }
    let gone = world.gone_file("gone").await;
    refused(seek(world, &gone, 0, Content::Data).await, FsError::Stale);
}

async fn ranges_need_permission(world: &World<'_>) {
    if world.store.capabilities().ranges.is_none() {
        return;
    }
    let file = world.file_of("file", b"data").await;
    let own = world.file_of("own", b"own").await;
    world.set_mode(&file, 0o600).await;
    world.set_mode(&own, 0o666).await;
    let (store, other) = (world.store, world.other());
    refused(store.seek(other, &file, 0, Content::Data).await, FsError::Access);
    let range = ByteRange { offset: 0, length: 1 };
    let of = |from, to| RangeCopy { from, from_offset: 0, to, to_offset: 0, length: 0 };
    let results = [
        store.allocate(other, &file, range).await.result,
        store.deallocate(other, &file, range).await.result,
        store.clone_range(other, &of(file, own)).await.result,
        store.clone_range(other, &of(own, file)).await.result,
        store.copy_range(other, &of(file, own)).await.result.map(drop),
        store.copy_range(other, &of(own, file)).await.result.map(drop),
    ];
    for (number, result) in results.into_iter().enumerate() {
        let is_refused = matches!(result, Err(FsError::Access | FsError::NotSupported));
        assert!(is_refused, "{number}: {result:?}");
    }
    assert_eq!((world.data(&file).await, world.data(&own).await), (b"data".into(), b"own".into()));
}
