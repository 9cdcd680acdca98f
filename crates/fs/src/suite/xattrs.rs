//! Cases for extended attributes.

use bytes::Bytes;
use leasehold_base::units::Cookie;

use super::cases;
use super::world::{World, refused};
use crate::{Allowance, Changed, FsError, NewNode, ObjectId, SetXattr, XATTR_BYTES_MAX, XattrName};

cases! {
    Nothing, "RFC 8276 8.4":
        an_extended_attribute_is_kept
        an_extended_attribute_changes_the_change_time
        conditions_of_extended_attributes_are_kept
        extended_attributes_have_limits
        extended_attributes_are_listed_in_pages
        files_and_directories_have_extended_attributes
        names_of_stores_are_out_of_reach;
    Other, "RFC 8276 8.4":
        extended_attributes_need_permission;
    Restart, "RFC 8276 8.4":
        extended_attributes_live_on;
}

fn name(text: &str) -> XattrName<'_> {
    XattrName::parse(text.as_bytes()).expect("it is a name")
}

/// Returns true if the store has extended attributes.
async fn has_xattrs(world: &World<'_>, object: &ObjectId) -> bool {
    if world.store.capabilities().extended_attributes.is_some() {
        return true;
    }
    refused(get(world, object, "name").await, FsError::NotSupported);
    refused(set(world, object, "name", b"x", SetXattr::Either).await.result, FsError::NotSupported);
    refused(remove(world, object, "name").await.result, FsError::NotSupported);
    false
}

async fn get(world: &World<'_>, object: &ObjectId, text: &str) -> Result<Bytes, FsError> {
    world.store.xattr(world.owner(), object, name(text)).await
}

async fn set(
    world: &World<'_>,
    object: &ObjectId,
    text: &str,
    value: &[u8],
    how: SetXattr,
) -> Changed<()> {
    let value = Bytes::copy_from_slice(value);
    world.store.set_xattr(world.owner(), object, name(text), value, how).await
}

async fn put(world: &World<'_>, object: &ObjectId, text: &str, value: &[u8]) {
    set(world, object, text, value, SetXattr::Either).await.result.expect("it can be set");
}

async fn remove(world: &World<'_>, object: &ObjectId, text: &str) -> Changed<()> {
    world.store.remove_xattr(world.owner(), object, name(text)).await
}

/// Returns the names of all extended attributes.
async fn all(world: &World<'_>, object: &ObjectId) -> Vec<Vec<u8>> {
    let page = world.store.list_xattrs(world.owner(), object, Cookie(0), Allowance::UNLIMITED);
    let page = page.await.expect("it can be listed");
    assert!(page.end, "the page has no limit");
    page.names
}

async fn an_extended_attribute_is_kept(world: &World<'_>) {
    let file = world.file_of("file", b"data").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    assert_eq!(get(world, &file, "name").await, Err(FsError::NoAttribute));
    for value in [&b"value"[..], b"", &[0xff, 0, 7]] {
        put(world, &file, "name", value).await;
        assert_eq!(get(world, &file, "name").await.as_deref(), Ok(value));
    }
    put(world, &file, "other", b"2").await;
    assert_eq!(all(world, &file).await, [&b"name"[..], b"other"]);
    remove(world, &file, "name").await.result.expect("it is there");
    assert_eq!(get(world, &file, "name").await, Err(FsError::NoAttribute));
    refused(remove(world, &file, "name").await.result, FsError::NoAttribute);
    assert_eq!(all(world, &file).await, [b"other"]);
    assert_eq!(world.data(&file).await, b"data");
}

async fn an_extended_attribute_changes_the_change_time(world: &World<'_>) {
    let file = world.file_of("file", b"data").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    let first = world.attributes(&file).await;
    world.pass_time();
    let done = set(world, &file, "name", b"value", SetXattr::Either).await;
    done.result.expect("it can be set");
    world.assert_wcc(&done.wcc, &file, &first).await;
    let second = world.attributes(&file).await;
    assert!(first.changed < second.changed, "after a set");
    assert_eq!((first.modified, first.size), (second.modified, second.size));
    world.pass_time();
    let done = remove(world, &file, "name").await;
    done.result.expect("it is there");
    world.assert_wcc(&done.wcc, &file, &second).await;
    assert!(second.changed < world.attributes(&file).await.changed, "after a removal");
}

async fn conditions_of_extended_attributes_are_kept(world: &World<'_>) {
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    let replaced = set(world, &file, "name", b"1", SetXattr::Replace).await;
    refused(replaced.result, FsError::NoAttribute);
    set(world, &file, "name", b"2", SetXattr::Create).await.result.expect("it is new");
    let created = set(world, &file, "name", b"3", SetXattr::Create).await;
    refused(created.result, FsError::AlreadyExists);
    assert_eq!(get(world, &file, "name").await.as_deref(), Ok(&b"2"[..]));
    set(world, &file, "name", b"4", SetXattr::Replace).await.result.expect("it is there");
    assert_eq!(get(world, &file, "name").await.as_deref(), Ok(&b"4"[..]));
}

async fn extended_attributes_have_limits(world: &World<'_>) {
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    let long = "n".repeat(XattrName::BYTES_MAX);
    let longer = long.clone() + "n";
    assert_eq!(XattrName::parse(longer.as_bytes()), Err(FsError::NameTooLong));
    for malformed in [&b""[..], b"a\0b"] {
        assert_eq!(XattrName::parse(malformed), Err(FsError::Invalid));
    }
    match set(world, &file, &long, b"value", SetXattr::Either).await.result {
        Ok(()) => assert_eq!(get(world, &file, &long).await.as_deref(), Ok(&b"value"[..])),
        // A prefix of the local file system may need a part of the length.
        Err(error) => assert_eq!(error, FsError::NameTooLong),
    }
    let too_big = set(world, &file, "big", &vec![7; XATTR_BYTES_MAX + 1], SetXattr::Either).await;
    refused(too_big.result, FsError::AttributeTooBig);
    let big = vec![7; XATTR_BYTES_MAX];
    match set(world, &file, "big", &big, SetXattr::Either).await.result {
        Ok(()) => assert_eq!(get(world, &file, "big").await.as_deref(), Ok(&big[..])),
        // The blocks of a local file system may be smaller.
        Err(error) => {
            assert!(matches!(error, FsError::AttributeTooBig | FsError::NoSpace), "{error}");
        }
    }
}

async fn extended_attributes_are_listed_in_pages(world: &World<'_>) {
    const COUNT: usize = 7;
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    assert_eq!(all(world, &file).await, [[0; 0]; 0]);
    let names: Vec<String> = (0..COUNT).map(|number| format!("name{number}")).collect();
    for text in names.iter().rev() {
        put(world, &file, text, b"x").await;
    }
    let store = world.store;
    // Each page has space for two names: 5 bytes of a name count as 8, and 4 are for its length.
    let allowance = Allowance { bytes: 30, entry_bytes: 4 };
    let (mut listed, mut cookie) = (Vec::new(), Cookie(0));
    loop {
        let page = store.list_xattrs(world.owner(), &file, cookie, allowance).await;
        let page = page.expect("it can be listed");
        assert!((1..=2).contains(&page.names.len()), "{page:?}");
        listed.extend(page.names);
        cookie = page.next;
        if page.end {
            break;
        }
    }
    let expected: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    assert_eq!(listed, expected);
    let small = Allowance { bytes: 11, entry_bytes: 4 };
    refused(store.list_xattrs(world.owner(), &file, Cookie(0), small).await, FsError::TooSmall);
    let after_end = Cookie(u64::MAX);
    let page = store.list_xattrs(world.owner(), &file, after_end, small).await;
    assert!(page.is_ok_and(|page| page.end && page.names.is_empty()));
}

async fn files_and_directories_have_extended_attributes(world: &World<'_>) {
    if !has_xattrs(world, &world.top).await {
        return;
    }
    let directory = world.directory("directory").await;
    put(world, &directory, "name", b"value").await;
    assert_eq!(get(world, &directory, "name").await.as_deref(), Ok(&b"value"[..]));
    let others = [("symlink", NewNode::Symlink(b"directory")), ("fifo", NewNode::Fifo)];
    for (text, node) in others {
        let object = world.node(text, node).await;
        let done = set(world, &object, "name", b"value", SetXattr::Either).await;
        refused(done.result, FsError::WrongType);
        refused(remove(world, &object, "name").await.result, FsError::WrongType);
        assert_eq!(get(world, &object, "name").await, Err(FsError::NoAttribute));
        assert_eq!(all(world, &object).await, [[0; 0]; 0]);
    }
    let gone = world.gone_file("gone").await;
    refused(get(world, &gone, "name").await, FsError::Stale);
    refused(set(world, &gone, "name", b"x", SetXattr::Either).await.result, FsError::Stale);
}

async fn names_of_stores_are_out_of_reach(world: &World<'_>) {
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    let policy = Bytes::from_static(b"width=2");
    // A store above may keep the policies to itself.
    let is_set = world.store.set_layout_policy(&file, policy.clone()).await.is_ok();
    for text in ["leasehold.layout", "leasehold.exclusive", "leasehold.other"] {
        refused(get(world, &file, text).await, FsError::NoAttribute);
        refused(remove(world, &file, text).await.result, FsError::NoAttribute);
        let done = set(world, &file, text, b"x", SetXattr::Either).await;
        refused(done.result, FsError::Access);
    }
    assert_eq!(all(world, &file).await, [[0; 0]; 0]);
    if is_set {
        assert_eq!(world.store.layout_policy(&file).await, Ok(Some(policy)));
    }
}

async fn extended_attributes_need_permission(world: &World<'_>) {
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    put(world, &file, "name", b"value").await;
    let (store, other) = (world.store, world.other());
    let value = || Bytes::from_static(b"other");
    for (bits, reads, writes) in [(0o600, false, false), (0o604, true, false), (0o602, false, true)]
    {
        world.set_mode(&file, bits).await;
        let read = store.xattr(other, &file, name("name")).await;
        assert_eq!(read.is_ok(), reads, "{bits:o}: {read:?}");
        let listed = store.list_xattrs(other, &file, Cookie(0), Allowance::UNLIMITED).await;
        assert_eq!(listed.is_ok(), reads, "{bits:o}: {listed:?}");
        let set = store.set_xattr(other, &file, name("name"), value(), SetXattr::Either).await;
        assert_eq!(set.result.is_ok(), writes, "{bits:o}: {set:?}");
        let removed = store.remove_xattr(other, &file, name("name")).await.result;
        assert_eq!(removed.is_ok(), writes, "{bits:o}: {removed:?}");
        if !writes {
            assert_eq!((set.result, removed), (Err(FsError::Access), Err(FsError::Access)));
        }
    }
}

async fn extended_attributes_live_on(world: &World<'_>) {
    let file = world.file("file").await;
    if !has_xattrs(world, &file).await {
        return;
    }
    put(world, &file, "name", b"value").await;
    let restart = world.subject.restart.as_ref().expect("the case needs it");
    let store = restart();
    let world = &World { store: &*store, ..*world };
    assert_eq!(get(world, &file, "name").await.as_deref(), Ok(&b"value"[..]));
}
