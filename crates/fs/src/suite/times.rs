//! The file times that each operation changes.

use core::time::Duration;

use leasehold_base::units::FileTime;

use super::cases;
use super::world::{World, below, mode, new_file, size};
use crate::{Attributes, NewFile, NewNode, ObjectId, SetAttributes, SetTime};

cases! {
    Nothing, "RFC 1813 3.3.2":
        times_can_be_set
        times_can_be_set_to_the_present
        times_that_are_not_named_stay
        setting_a_time_is_a_change
        a_new_mode_is_a_change_but_no_modification
        a_new_size_is_a_modification;
    Nothing, "RFC 1813 2.5":
        a_write_is_a_modification
        a_write_of_nothing_is_no_change
        a_read_is_no_change
        a_link_changes_the_object_alone
        names_modify_their_directory
        renames_modify_both_directories
        a_changed_file_leaves_its_directory_alone;
}

/// The times of an object that an operation changed: the modification time, the change time, or
/// both.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    modified: bool,
    changed: bool,
}

const NEITHER: Moved = Moved { modified: false, changed: false };
const BOTH: Moved = Moved { modified: true, changed: true };
const CHANGED: Moved = Moved { modified: false, changed: true };

fn moved(before: &Attributes, after: &Attributes) -> Moved {
    assert!(after.modified >= before.modified && after.changed >= before.changed);
    Moved { modified: after.modified != before.modified, changed: after.changed != before.changed }
}

/// Runs an operation, and advances the clock before and after it. Returns the times that the
/// operation changed.
async fn moves<T>(
    world: &World<'_>,
    object: &ObjectId,
    operation: impl Future<Output = T>,
) -> Moved {
    let before = world.attributes(object).await;
    world.pass_time();
    operation.await;
    moved(&before, &world.attributes(object).await)
}

/// Rounds a time to the resolution of the store.
fn kept(world: &World<'_>, time: FileTime) -> FileTime {
    let step = world.store.properties(&world.store.root()).time_step;
    let seconds = step.as_secs().max(1).cast_signed();
    let nanoseconds = if step >= Duration::from_secs(1) { 1_000_000_000 } else { step.as_nanos() };
    let nanoseconds = u32::try_from(nanoseconds).expect("below a second");
    FileTime {
        seconds: time.seconds - time.seconds % seconds,
        nanoseconds: time.nanoseconds - time.nanoseconds % nanoseconds,
    }
}

fn times(accessed: SetTime, modified: SetTime) -> SetAttributes {
    SetAttributes { accessed, modified, ..SetAttributes::default() }
}

const THEN: FileTime = FileTime { seconds: 1_000_000_000, nanoseconds: 123_456_789 };
const LATER: FileTime = FileTime { seconds: 1_234_567_890, nanoseconds: 987_654_321 };

async fn times_can_be_set(world: &World<'_>) {
    let file = world.file("file").await;
    let directory = world.directory("directory").await;
    for object in [file, directory] {
        let changes = times(SetTime::To(THEN), SetTime::To(LATER));
        world.set(&object, changes).await.result.expect("the owner may");
        let attributes = world.attributes(&object).await;
        assert_eq!(attributes.accessed, kept(world, THEN));
        assert_eq!(attributes.modified, kept(world, LATER));
    }
}

async fn times_can_be_set_to_the_present(world: &World<'_>) {
    let file = world.file("file").await;
    let made = world.attributes(&file).await;
    let changes = times(SetTime::To(THEN), SetTime::To(THEN));
    world.set(&file, changes).await.result.expect("the owner may");
    world.pass_time();
    let changes = times(SetTime::Now, SetTime::Now);
    world.set(&file, changes).await.result.expect("the owner may");
    let attributes = world.attributes(&file).await;
    for (set, made) in [(attributes.accessed, made.accessed), (attributes.modified, made.modified)]
    {
        assert!(set > made && set != kept(world, THEN));
    }
}

async fn times_that_are_not_named_stay(world: &World<'_>) {
    let file = world.file("file").await;
    let both = times(SetTime::To(THEN), SetTime::To(THEN));
    world.set(&file, both).await.result.expect("the owner may");
    let changes = times(SetTime::Keep, SetTime::To(LATER));
    world.set(&file, changes).await.result.expect("the owner may");
    let attributes = world.attributes(&file).await;
    assert_eq!(attributes.accessed, kept(world, THEN));
    let changes = times(SetTime::To(LATER), SetTime::Keep);
    world.set(&file, changes).await.result.expect("the owner may");
    world.set_mode(&file, 0o600).await;
    assert_eq!(world.attributes(&file).await.modified, kept(world, LATER));
}

async fn setting_a_time_is_a_change(world: &World<'_>) {
    let file = world.file("file").await;
    let changes = times(SetTime::To(THEN), SetTime::Keep);
    let set = async { world.set(&file, changes).await.result.expect("the owner may") };
    assert_eq!(moves(world, &file, set).await, CHANGED);
}

async fn a_new_mode_is_a_change_but_no_modification(world: &World<'_>) {
    let file = world.file("file").await;
    assert_eq!(moves(world, &file, world.set_mode(&file, 0o600)).await, CHANGED);
}

async fn a_new_size_is_a_modification(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for length in [1, 5000, 0] {
        let set = async { world.set(&file, size(length)).await.result.expect("the owner may") };
        assert_eq!(moves(world, &file, set).await, BOTH, "to {length}");
    }
    world.put(&file, 0, b"abc").await;
    let cut = async {
        let made = world.create(world.place("file"), NewFile::Unchecked(size(0))).await;
        made.result.map(drop).expect("the owner may");
    };
    assert_eq!(moves(world, &file, cut).await, BOTH, "by CREATE");
}

async fn a_write_is_a_modification(world: &World<'_>) {
    let file = world.file("file").await;
    for offset in [0, 0, 100] {
        let write = world.put(&file, offset, b"abc");
        assert_eq!(moves(world, &file, write).await, BOTH, "at {offset}");
    }
}

async fn a_write_of_nothing_is_no_change(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for offset in [0, 3, 100] {
        assert_eq!(moves(world, &file, world.put(&file, offset, b"")).await, NEITHER);
    }
}

async fn a_read_is_no_change(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    assert_eq!(moves(world, &file, world.data(&file)).await, NEITHER);
    let top = world.top;
    assert_eq!(moves(world, &top, world.names(&top)).await, NEITHER);
}

async fn a_link_changes_the_object_alone(world: &World<'_>) {
    let file = world.file("file").await;
    let link = async { world.link(&file, world.place("second")).await.result.expect("it can be") };
    assert_eq!(moves(world, &file, link).await, CHANGED);
    let remove = async { world.remove(world.place("second")).await.result.expect("it is there") };
    assert_eq!(moves(world, &file, remove).await, CHANGED);
}

async fn names_modify_their_directory(world: &World<'_>) {
    let top = world.top;
    assert_eq!(moves(world, &top, world.file("file")).await, BOTH, "create");
    let file = world.find(world.place("file")).await.expect("it is there").object;
    assert_eq!(moves(world, &top, world.directory("directory")).await, BOTH, "make");
    let symlink = world.node("symlink", NewNode::Symlink(b"x"));
    assert_eq!(moves(world, &top, symlink).await, BOTH, "symlink");
    let link = async { world.link(&file, world.place("second")).await.result.expect("it can be") };
    assert_eq!(moves(world, &top, link).await, BOTH, "link");
    let remove = async { world.remove(world.place("second")).await.result.expect("it is there") };
    assert_eq!(moves(world, &top, remove).await, BOTH, "remove");
    let rmdir = async { world.rmdir(world.place("directory")).await.result.expect("it is there") };
    assert_eq!(moves(world, &top, rmdir).await, BOTH, "rmdir");
}

async fn renames_modify_both_directories(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    let from = below(&one, "file");
    world.create(from, new_file()).await.result.expect("it can be made");
    let before = world.attributes(&two).await;
    let rename = async { world.rename(from, below(&two, "file")).await.result.expect("it can be") };
    assert_eq!(moves(world, &one, rename).await, BOTH);
    assert_eq!(moved(&before, &world.attributes(&two).await), BOTH);
}

async fn a_changed_file_leaves_its_directory_alone(world: &World<'_>) {
    let file = world.file("file").await;
    let top = world.top;
    let change = async {
        world.put(&file, 0, b"abc").await;
        world.set(&file, mode(0o600)).await.result.expect("the owner may");
    };
    assert_eq!(moves(world, &top, change).await, NEITHER);
}
