//! Permissions of users on each other's objects.

use bytes::Bytes;
use leasehold_base::groups::Groups;
use leasehold_base::units::{Cookie, FileTime};

use super::access::ALL as EVERY_ACCESS;
use super::cases;
use super::world::{UNLIMITED, World, below, mode, name, new_file, refused, size};
use crate::{
    Access, Caller, FsError, NewFile, NewNode, ObjectId, Place, ReadDone, SetAttributes, SetTime,
    Stability, Wanted, WriteDone,
};

cases! {
    Other, "RFC 1813 4.4":
        data_is_read_by_whom_the_mode_lets
        data_is_written_by_whom_the_mode_lets
        who_may_run_a_program_may_read_it
        a_group_has_the_rights_of_a_group
        access_tells_others_the_truth;
    OrdinaryOwner, "RFC 1813 4.4":
        an_owner_reads_and_writes_whatever_the_mode
        an_owner_searches_only_what_the_mode_lets;
    Other, "Store":
        names_are_found_by_whom_the_mode_lets
        directories_are_listed_by_whom_the_mode_lets
        entries_are_named_only_to_who_may_not_search
        names_are_made_by_whom_the_mode_lets
        names_are_removed_by_whom_the_mode_lets
        names_are_moved_by_whom_the_mode_lets
        a_sticky_directory_keeps_names_for_their_owners
        an_unchecked_create_of_another_cuts_only_what_it_may_write
        attributes_belong_to_the_owner
        writers_may_set_size_and_present_times;
    OrdinaryOwner, "Store::setattr":
        a_file_cannot_be_given_away
        an_owner_may_name_the_present_owner
        a_write_takes_set_user_id_away
        a_cut_takes_set_user_id_away;
    OtherWithObjects, "Store::create":
        what_others_make_is_theirs
        a_set_group_id_directory_gives_its_group
        a_moved_directory_must_be_writable;
    Superuser, "Store":
        the_superuser_may_all
        set_group_id_is_for_members;
}

async fn read(world: &World<'_>, caller: &Caller, object: &ObjectId) -> Result<ReadDone, FsError> {
    world.store.read(caller, object, 0, 100).await
}

async fn write(
    world: &World<'_>,
    caller: &Caller,
    object: &ObjectId,
) -> Result<WriteDone, FsError> {
    let data = Bytes::from_static(b"xyz");
    world.store.write(caller, object, 0, data, Stability::FileSync).await.result
}

async fn data_is_read_by_whom_the_mode_lets(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for (bits, may) in [(0o644, true), (0o004, true), (0o640, false), (0o662, false)] {
        world.set_mode(&file, bits).await;
        let done = read(world, world.other(), &file).await;
        if may {
            assert_eq!(&*done.expect("the mode lets").data, b"abc");
        } else {
            refused(done, FsError::Access);
        }
    }
}

async fn data_is_written_by_whom_the_mode_lets(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for (bits, may) in [(0o644, false), (0o660, false), (0o646, true), (0o602, true)] {
        world.put(&file, 0, b"abc").await;
        world.set_mode(&file, bits).await;
        let done = write(world, world.other(), &file).await;
        if may {
            done.expect("the mode lets");
        } else {
            refused(done, FsError::Access);
        }
        let expected = if may { b"xyz" } else { b"abc" };
        assert_eq!(world.data(&file).await, expected, "mode {bits:o}");
    }
}

async fn who_may_run_a_program_may_read_it(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.set_mode(&file, 0o711).await;
    let done = read(world, world.other(), &file).await;
    assert_eq!(&*done.expect("it is paged in with READ").data, b"abc");
    refused(write(world, world.other(), &file).await, FsError::Access);
}

async fn a_group_has_the_rights_of_a_group(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let groups = Groups::new(&[77, world.owner().gid]).expect("two groups fit");
    let member = Caller { groups, ..world.other().clone() };
    let primary = Caller { gid: world.owner().gid, ..world.other().clone() };
    for caller in [member, primary] {
        world.set_mode(&file, 0o640).await;
        read(world, &caller, &file).await.expect("the group may");
        refused(write(world, &caller, &file).await, FsError::Access);
        world.set_mode(&file, 0o660).await;
        write(world, &caller, &file).await.expect("the group may");
        // The mode bits for others permit the access, but they do not apply to a member of the
        // group.
        world.set_mode(&file, 0o606).await;
        refused(read(world, &caller, &file).await, FsError::Access);
    }
}

async fn access_tells_others_the_truth(world: &World<'_>) {
    let file = world.file("file").await;
    for (bits, read, change, execute) in
        [(0o644, true, false, false), (0o702, false, true, false), (0o711, false, false, true)]
    {
        world.set_mode(&file, bits).await;
        let granted = world.store.access(world.other(), &file, EVERY_ACCESS).await;
        let expected =
            Access { read, modify: change, extend: change, execute, ..Access::default() };
        assert_eq!(granted.expect("it is there").0, expected, "mode {bits:o}");
    }
    let granted = world.store.access(world.other(), &world.top, EVERY_ACCESS).await;
    let expected = Access { read: true, lookup: true, ..Access::default() };
    assert_eq!(granted.expect("it is there").0, expected);
}

async fn an_owner_reads_and_writes_whatever_the_mode(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    for bits in [0o000, 0o077] {
        world.set_mode(&file, bits).await;
        world.put(&file, 0, b"xyz").await;
        assert_eq!(world.data(&file).await, b"xyz");
        world.set(&file, size(0)).await.result.expect("the owner may");
        let cut = world.create(world.place("file"), NewFile::Unchecked(size(3))).await;
        cut.result.expect("the owner may");
    }
}

async fn an_owner_searches_only_what_the_mode_lets(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let inside = below(&directory, "file");
    world.create(inside, new_file()).await.result.expect("the name is free");
    world.set_mode(&directory, 0o600).await;
    refused(world.find(inside).await, FsError::Access);
    refused(world.store.parent(world.owner(), &directory).await, FsError::Access);
    refused(world.remove(inside).await.result, FsError::Access);
    world.set_mode(&directory, 0o300).await;
    world.find(inside).await.expect("it can be searched");
    let page = world.page(&directory, Cookie(0), UNLIMITED).await;
    refused(page, FsError::Access);
    world.set_mode(&directory, 0o500).await;
    refused(world.remove(inside).await.result, FsError::Access);
    world.set_mode(&directory, 0o700).await;
    world.remove(inside).await.result.expect("it is there");
}

async fn names_are_found_by_whom_the_mode_lets(world: &World<'_>) {
    let directory = world.directory("directory").await;
    world.create(below(&directory, "file"), new_file()).await.result.expect("the name is free");
    for (bits, may) in [(0o755, true), (0o701, true), (0o704, false), (0o770, false)] {
        world.set_mode(&directory, bits).await;
        for text in ["file", "nothing"] {
            let found = world.store.lookup(world.other(), &directory, name(text)).await;
            match (may, text) {
                (true, "file") => drop(found.expect("the mode lets")),
                (true, _) => refused(found, FsError::NotFound),
                (false, _) => refused(found, FsError::Access),
            }
        }
        let parent = world.store.parent(world.other(), &directory).await;
        assert_eq!(parent.is_ok(), may, "mode {bits:o}");
    }
}

async fn directories_are_listed_by_whom_the_mode_lets(world: &World<'_>) {
    let directory = world.directory("directory").await;
    world.create(below(&directory, "file"), new_file()).await.result.expect("the name is free");
    for (bits, may) in [(0o755, true), (0o704, true), (0o701, false), (0o770, false)] {
        world.set_mode(&directory, bits).await;
        for wanted in [Wanted::Names, Wanted::Everything] {
            let page =
                world.store.readdir(world.other(), &directory, Cookie(0), UNLIMITED, wanted).await;
            if may {
                assert_eq!(page.expect("the mode lets").entries.len(), 3, "mode {bits:o}");
            } else {
                refused(page, FsError::Access);
            }
        }
    }
}

async fn entries_are_named_only_to_who_may_not_search(world: &World<'_>) {
    let directory = world.directory("directory").await;
    world.create(below(&directory, "file"), new_file()).await.result.expect("the name is free");
    world.set_mode(&directory, 0o704).await;
    let (other, everything) = (world.other(), Wanted::Everything);
    let page = world.store.readdir(other, &directory, Cookie(0), UNLIMITED, everything).await;
    let page = page.expect("the mode lets");
    let entry = page.entries.iter().find(|entry| entry.name == b"file").expect("it is named");
    assert_eq!((entry.object, entry.attributes), (None, None));
}

async fn names_are_made_by_whom_the_mode_lets(world: &World<'_>) {
    let file = world.file("file").await;
    let other = world.other();
    for bits in [0o755, 0o754, 0o752, 0o770] {
        world.set_mode(&world.top, bits).await;
        for new in [new_file(), NewFile::Unchecked(mode(0o644)), NewFile::exclusive([7; 8])] {
            let made = world.store.create(other, world.place("new"), &new).await;
            refused(made.result, FsError::Access);
        }
        for node in [NewNode::Directory, NewNode::Symlink(b"x"), NewNode::Fifo] {
            let made = world.store.make(other, world.place("new"), &node, &mode(0o644)).await;
            refused(made.result, FsError::Access);
        }
        // Some systems permit only the owner of an object to add names to it, and check this before
        // the permissions of the directory.
        kept_for_owners(world.store.link(other, &file, world.place("new")).await.result);
    }
    world.set_mode(&world.top, 0o753).await;
    let made = world.store.create(other, world.place("new"), &new_file()).await;
    made.result.expect("the mode lets");
}

async fn names_are_removed_by_whom_the_mode_lets(world: &World<'_>) {
    world.file("file").await;
    world.directory("directory").await;
    let other = world.other();
    for bits in [0o755, 0o752, 0o770] {
        world.set_mode(&world.top, bits).await;
        refused(world.store.remove(other, world.place("file")).await.result, FsError::Access);
        refused(world.store.rmdir(other, world.place("directory")).await.result, FsError::Access);
    }
    world.set_mode(&world.top, 0o777).await;
    let removed = world.store.remove(other, world.place("file")).await;
    removed.result.expect("the directory's mode lets");
    let removed = world.store.rmdir(other, world.place("directory")).await;
    removed.result.expect("the directory's mode lets");
}

async fn names_are_moved_by_whom_the_mode_lets(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    let (from, to) = (below(&one, "file"), below(&two, "file"));
    world.create(from, new_file()).await.result.expect("the name is free");
    for (bits_one, bits_two) in [(0o755, 0o777), (0o777, 0o755), (0o776, 0o777), (0o777, 0o772)] {
        world.set_mode(&one, bits_one).await;
        world.set_mode(&two, bits_two).await;
        let renamed = world.store.rename(world.other(), from, to).await;
        refused(renamed.result, FsError::Access);
    }
    world.set_mode(&two, 0o777).await;
    world.set_mode(&one, 0o777).await;
    let renamed = world.store.rename(world.other(), from, to).await;
    renamed.result.expect("both modes let");
}

/// POSIX leaves the choice between the two errors to the system.
#[track_caller]
fn kept_for_owners<T: core::fmt::Debug>(result: Result<T, FsError>) {
    let error = result.expect_err("only the owner may");
    assert!(matches!(error, FsError::Access | FsError::NotOwner), "{error}");
}

async fn a_sticky_directory_keeps_names_for_their_owners(world: &World<'_>) {
    world.file("file").await;
    world.directory("directory").await;
    world.set_mode(&world.top, 0o1777).await;
    let other = world.other();
    kept_for_owners(world.store.remove(other, world.place("file")).await.result);
    kept_for_owners(world.store.rmdir(other, world.place("directory")).await.result);
    let renamed = world.store.rename(other, world.place("file"), world.place("x")).await;
    kept_for_owners(renamed.result);
    if world.subject.acts_as_caller {
        let made = world.store.create(other, world.place("theirs"), &new_file()).await;
        made.result.expect("anyone may make names");
        let renamed = world.store.rename(other, world.place("theirs"), world.place("file")).await;
        kept_for_owners(renamed.result);
        let removed = world.store.remove(other, world.place("theirs")).await;
        removed.result.expect("it is theirs");
    }
    world.remove(world.place("file")).await.result.expect("the owner may");
}

async fn an_unchecked_create_of_another_cuts_only_what_it_may_write(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let create = async |new| {
        let made = world.store.create(world.other(), world.place("file"), &new).await;
        made.result.map(|found| found.attributes.size)
    };
    assert_eq!(create(NewFile::Unchecked(mode(0o777))).await, Ok(3));
    refused(create(NewFile::Unchecked(size(0))).await, FsError::Access);
    world.set_mode(&file, 0o666).await;
    assert_eq!(create(NewFile::Unchecked(size(0))).await, Ok(0));
}

async fn attributes_belong_to_the_owner(world: &World<'_>) {
    let file = world.file("file").await;
    world.set_mode(&file, 0o666).await;
    let before = world.attributes(&file).await;
    let then = SetTime::To(FileTime { seconds: 1_000_000_000, nanoseconds: 0 });
    let none = SetAttributes::default();
    for changes in [
        mode(0o777),
        SetAttributes { uid: Some(world.other().uid), ..none },
        SetAttributes { uid: Some(before.uid), ..none },
        SetAttributes { gid: Some(before.gid), ..none },
        SetAttributes { gid: Some(world.other().gid), ..none },
        SetAttributes { modified: then, ..none },
        SetAttributes { accessed: then, modified: SetTime::Now, ..none },
        SetAttributes { size: Some(0), ..mode(0o777) },
    ] {
        let changed = world.store.setattr(world.other(), &file, &changes, None).await;
        refused(changed.result, FsError::NotOwner);
    }
    assert_eq!(world.attributes(&file).await.changed, before.changed);
}

async fn writers_may_set_size_and_present_times(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let present = SetAttributes {
        accessed: SetTime::Now,
        modified: SetTime::Now,
        ..SetAttributes::default()
    };
    for changes in [size(1), present] {
        world.set_mode(&file, 0o664).await;
        let changed = world.store.setattr(world.other(), &file, &changes, None).await;
        refused(changed.result, FsError::Access);
        world.set_mode(&file, 0o662).await;
        let changed = world.store.setattr(world.other(), &file, &changes, None).await;
        changed.result.expect("the mode lets");
    }
    assert_eq!(world.attributes(&file).await.size, 1);
}

async fn a_file_cannot_be_given_away(world: &World<'_>) {
    let file = world.file("file").await;
    let none = SetAttributes::default();
    for changes in
        [SetAttributes { uid: Some(4321), ..none }, SetAttributes { gid: Some(4321), ..none }]
    {
        refused(world.set(&file, changes).await.result, FsError::NotOwner);
        let made = world.create(world.place("new"), NewFile::Guarded(changes)).await;
        refused(made.result, FsError::NotOwner);
    }
    assert_eq!(world.names(&world.top).await, [b"file"]);
}

async fn an_owner_may_name_the_present_owner(world: &World<'_>) {
    let file = world.file("file").await;
    let (uid, gid) = (Some(world.owner().uid), Some(world.owner().gid));
    let changes = SetAttributes { uid, gid, ..SetAttributes::default() };
    world.set(&file, changes).await.result.expect("it changes nothing");
    if let Some(&group) = world.owner().groups.as_slice().first() {
        world.set_mode(&file, 0o4755).await;
        let changes = SetAttributes { gid: Some(group), ..SetAttributes::default() };
        world.set(&file, changes).await.result.expect("the owner is in the group");
        let attributes = world.attributes(&file).await;
        assert_eq!((attributes.gid, attributes.mode.bits()), (group, 0o755));
    }
}

async fn a_write_takes_set_user_id_away(world: &World<'_>) {
    let file = world.file("file").await;
    for (bits, left) in [(0o4755, 0o755), (0o6755, 0o755), (0o4700, 0o700)] {
        world.set_mode(&file, bits).await;
        assert_eq!(world.attributes(&file).await.mode.bits(), bits);
        world.put(&file, 0, b"abc").await;
        assert_eq!(world.attributes(&file).await.mode.bits(), left);
    }
}

async fn a_cut_takes_set_user_id_away(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    world.set_mode(&file, 0o6755).await;
    world.set(&file, size(1)).await.result.expect("the owner may");
    assert_eq!(world.attributes(&file).await.mode.bits(), 0o755);
}

async fn what_others_make_is_theirs(world: &World<'_>) {
    world.set_mode(&world.top, 0o777).await;
    let other = world.other();
    let file = world.store.create(other, world.place("file"), &new_file()).await;
    let exclusive = NewFile::exclusive([7; 8]);
    let exclusive = world.store.create(other, world.place("exclusive"), &exclusive).await;
    let symlink = NewNode::Symlink(b"x");
    let symlink = world.store.make(other, world.place("symlink"), &symlink, &mode(0o777)).await;
    let fifo = world.store.make(other, world.place("fifo"), &NewNode::Fifo, &mode(0o600)).await;
    for made in [file, exclusive, symlink, fifo] {
        let attributes = made.result.expect("anyone may").attributes;
        assert_eq!((attributes.uid, attributes.gid), (other.uid, other.gid));
    }
}

async fn a_set_group_id_directory_gives_its_group(world: &World<'_>) {
    let directory = world.directory("directory").await;
    world.set_mode(&directory, 0o2777).await;
    let gid = world.attributes(&directory).await.gid;
    let other = world.other();
    let file = below(&directory, "file");
    let file = world.store.create(other, file, &new_file()).await.result.expect("anyone may");
    assert_eq!((file.attributes.uid, file.attributes.gid), (other.uid, gid));
    let inner = Place { directory, name: name("inner") };
    let inner = world.store.make(other, inner, &NewNode::Directory, &mode(0o755)).await;
    let attributes = inner.result.expect("anyone may").attributes;
    assert_eq!((attributes.gid, attributes.mode.bits()), (gid, 0o2755));
}

async fn a_moved_directory_must_be_writable(world: &World<'_>) {
    let [one, two] = [world.directory("one").await, world.directory("two").await];
    let (from, to) = (below(&one, "moved"), below(&two, "moved"));
    let moved = world.make(from, NewNode::Directory).await.result.expect("the name is free");
    world.set_mode(&one, 0o777).await;
    world.set_mode(&two, 0o777).await;
    let renamed = world.store.rename(world.other(), from, to).await;
    refused(renamed.result, FsError::Access);
    world.set_mode(&moved.object, 0o777).await;
    let renamed = world.store.rename(world.other(), from, to).await;
    renamed.result.expect("its `..` may be changed");
}

async fn the_superuser_may_all(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let superuser = world.superuser();
    world.set_mode(&file, 0o000).await;
    world.set_mode(&world.top, 0o000).await;
    assert_eq!(&*read(world, superuser, &file).await.expect("all").data, b"abc");
    write(world, superuser, &file).await.expect("all");
    let granted = world.store.access(superuser, &file, EVERY_ACCESS).await.expect("all").0;
    assert!(granted.read && granted.modify && !granted.execute, "no user may run the file");
    world.store.setattr(superuser, &file, &mode(0o600), None).await.result.expect("all");
    world.store.lookup(superuser, &world.top, name("file")).await.expect("all");
    world.store.remove(superuser, world.place("file")).await.result.expect("all");
    world.set_mode(&world.top, 0o755).await;
}

async fn set_group_id_is_for_members(world: &World<'_>) {
    let file = world.file("file").await;
    let changes = SetAttributes { gid: Some(4321), ..SetAttributes::default() };
    let changed = world.store.setattr(world.superuser(), &file, &changes, None).await;
    changed.result.expect("the superuser may");
    world.set_mode(&file, 0o2755).await;
    assert_eq!(world.attributes(&file).await.mode.bits(), 0o755);
    let changed = world.store.setattr(world.superuser(), &file, &mode(0o2755), None).await;
    changed.result.expect("the superuser may");
    assert_eq!(world.attributes(&file).await.mode.bits(), 0o2755);
}
