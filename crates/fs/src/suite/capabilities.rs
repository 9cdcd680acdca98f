//! Cases for the capabilities of a store, and the check of a wrapper.

use bytes::Bytes;

use super::{World, cases};
use crate::{Access, Capability, Completeness, FsError, Guard, Purpose, Store};

cases! {
    Nothing, "Store::capabilities":
        capabilities_are_the_declared_ones;
    Nothing, "LocalGuard::guard":
        a_guard_can_be_set_and_released;
    Nothing, "Coherence":
        exclusive_access_ends_when_it_is_dropped;
    Nothing, "DirectLayouts":
        a_recalled_layout_leaves_the_file_readable;
    Nothing, "LayoutPolicies":
        a_layout_policy_is_kept;
    Nothing, "LocalMetadata":
        local_metadata_agrees_with_the_operations;
    Nothing, "Reservations::reservable_space":
        reservable_space_is_at_most_the_available_space;
}

async fn capabilities_are_the_declared_ones(world: &World<'_>) {
    assert_eq!(world.store.capabilities().names(), world.subject.capabilities);
}

async fn a_guard_can_be_set_and_released(world: &World<'_>) {
    let file = world.file("guarded").await;
    for guard in [Guard::Changes, Guard::Everything, Guard::Nothing] {
        world.store.guard(&file, guard).expect("no local program has the file open");
    }
    assert_eq!(world.store.guard(&file, Guard::Nothing), Ok(()), "a release never fails");
}

async fn exclusive_access_ends_when_it_is_dropped(world: &World<'_>) {
    let file = world.file("exclusive").await;
    for _ in 0..2 {
        let access = world.store.exclusive(&file).await.expect("no other server has the file");
        drop(access);
    }
    // A store whose servers do not keep names consistent never grants a lease.
    let acquired = world.store.acquire(&file, Guard::Changes, false).await;
    assert!(matches!(acquired, Ok(()) | Err(FsError::NotSupported)), "{acquired:?}");
}

async fn a_recalled_layout_leaves_the_file_readable(world: &World<'_>) {
    let file = world.file_of("layout", b"data").await;
    // A store may keep the data of a file to itself, so the layout may be absent.
    let layout = world.store.open_layout(world.owner(), &file, Purpose::Write).await;
    assert!(layout.is_ok(), "{layout:?}");
    world.store.recall_layout(&file).await.expect("all servers answer");
    assert_eq!(world.data(&file).await, b"data");
}

async fn a_layout_policy_is_kept(world: &World<'_>) {
    let file = world.file("policy").await;
    let store = world.store;
    assert_eq!(store.layout_policy(&file).await, Ok(None));
    let policy = Bytes::from_static(b"width=2");
    match store.capabilities().layout_policies {
        Some(_) => {
            store.set_layout_policy(&file, policy.clone()).await.expect("the file exists");
            assert_eq!(store.layout_policy(&file).await, Ok(Some(policy)));
        }
        None => {
            store.set_layout_policy(&file, policy).await.expect_err("the store has no policies");
        }
    }
}

async fn local_metadata_agrees_with_the_operations(world: &World<'_>) {
    let file = world.file_of("metadata", b"data").await;
    let store = world.store;
    let wanted = Access { read: true, modify: true, extend: true, ..Access::default() };
    let attributes = world.attributes(&file).await;
    let local = store.getattr_local(&file).await;
    assert_eq!(local, Ok((attributes, Completeness::Complete)));
    assert_eq!(store.change_time(&file).await, Ok(attributes.changed));
    let (access, _) = store.access(world.owner(), &file, wanted).await.expect("it exists");
    assert_eq!(store.rights(world.owner(), &file, wanted).await, Ok(access));
    assert_eq!(store.maintenance_span(&file), None, "the file has been written last");
}

async fn reservable_space_is_at_most_the_available_space(world: &World<'_>) {
    let root = world.store.root();
    let (space, _) = world.store.space(world.owner(), &root).await.expect("the root exists");
    let reservable = world.store.reservable_space(world.owner(), &root).await;
    let reservable = reservable.expect("the root exists").available_bytes;
    assert!(reservable <= space.bytes, "{reservable} of {}", space.bytes);
}

/// Checks that a wrapper has each capability of the store below it except `withheld`, and that it
/// has no other capability than these and `own`.
///
/// # Panics
/// Panics with both lists if they differ.
pub fn check_wrapper(
    below: &dyn Store,
    wrapper: &dyn Store,
    withheld: &[Capability],
    own: &[Capability],
) {
    let mut expected = below.capabilities().names();
    expected.retain(|capability| !withheld.contains(capability));
    expected.extend_from_slice(own);
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(wrapper.capabilities().names(), expected, "capabilities of a wrapper");
}
