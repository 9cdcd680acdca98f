//! Creating regular files.

use leasehold_base::units::FileTime;

use super::cases;
use super::world::{World, below, lasting, mode, new_file, raw_name, refused, size};
use crate::{FsError, NewFile, NewNode, ObjectId, Place, SUPERUSER, SetAttributes, SetTime, Wcc};

cases! {
    Nothing, "RFC 1813 3.3.8":
        a_guarded_create_makes_a_file
        a_guarded_create_stops_at_any_object
        an_unchecked_create_takes_a_file_that_is_there
        an_unchecked_create_sets_nothing_but_a_size
        an_unchecked_create_takes_only_files
        an_exclusive_create_can_be_repeated
        an_exclusive_create_stops_at_any_other_file
        an_exclusive_create_leaves_no_trace_in_the_times
        an_exclusive_create_sets_attributes
        a_file_is_made_with_its_attributes
        a_mode_that_is_not_given_is_the_owners_alone
        a_create_tells_of_the_directory
        files_are_made_in_directories_only
        no_file_is_made_in_a_removed_directory;
    Nothing, "Name":
        names_are_any_bytes
        no_name_is_longer_than_can_be;
}

fn unchecked(attributes: SetAttributes) -> NewFile {
    NewFile::Unchecked(attributes)
}

async fn a_guarded_create_makes_a_file(world: &World<'_>) {
    for (text, file) in [("guarded", new_file()), ("unchecked", unchecked(mode(0o644)))] {
        let made = world.create(world.place(text), file).await;
        let found = made.result.expect("the name is free");
        assert!(world.leads(world.place(text), &found.object).await);
        assert_eq!(lasting(found.attributes), lasting(world.attributes(&found.object).await));
        assert_eq!(found.attributes.mode.bits(), 0o644);
    }
}

/// Creates one object of each kind in the case's directory, and returns the kinds and the objects.
async fn all_kinds(world: &World<'_>) -> [(&'static str, ObjectId); 4] {
    [
        ("file", world.file_of("file", b"abc").await),
        ("directory", world.directory("directory").await),
        ("symlink", world.node("symlink", NewNode::Symlink(b"file")).await),
        ("fifo", world.node("fifo", NewNode::Fifo).await),
    ]
}

async fn a_guarded_create_stops_at_any_object(world: &World<'_>) {
    for (text, object) in all_kinds(world).await {
        let before = world.attributes(&object).await;
        let directory = world.attributes(&world.top).await;
        let attributes = SetAttributes { size: Some(0), ..mode(0o600) };
        let made = world.create(world.place(text), NewFile::Guarded(attributes)).await;
        refused(made.result, FsError::AlreadyExists);
        assert_eq!(lasting(world.attributes(&object).await), lasting(before));
        world.assert_wcc_kept(&made.wcc, &world.top, &directory).await;
    }
}

async fn an_unchecked_create_takes_a_file_that_is_there(world: &World<'_>) {
    let file = world.file_of("file", b"abc").await;
    let made = world.create(world.place("file"), unchecked(mode(0o600))).await;
    let found = made.result.expect("a file is there");
    assert!(world.same(&found.object, &file));
    assert_eq!(found.attributes.size, 3);
    assert_eq!(world.data(&file).await, b"abc");
    let made = world.create(world.place("file"), unchecked(size(1))).await;
    assert_eq!(made.result.expect("a file is there").attributes.size, 1);
    assert_eq!(world.data(&file).await, b"a");
    let made = world.create(world.place("file"), unchecked(size(0))).await;
    assert_eq!(made.result.expect("a file is there").attributes.size, 0);
}

async fn an_unchecked_create_sets_nothing_but_a_size(world: &World<'_>) {
    let file = world.file("file").await;
    let before = world.attributes(&file).await;
    let then = SetTime::To(FileTime { seconds: 1_000_000_000, nanoseconds: 0 });
    let attributes = SetAttributes { accessed: then, modified: then, ..mode(0o777) };
    let made = world.create(world.place("file"), unchecked(attributes)).await;
    made.result.expect("a file is there");
    let after = world.attributes(&file).await;
    assert_eq!(after.mode, before.mode);
    assert_eq!(after.modified, before.modified);
}

async fn an_unchecked_create_takes_only_files(world: &World<'_>) {
    let [_, others @ ..] = all_kinds(world).await;
    for (text, object) in others {
        let before = world.attributes(&object).await;
        for attributes in [mode(0o600), size(0)] {
            let made = world.create(world.place(text), unchecked(attributes)).await;
            refused(made.result, FsError::AlreadyExists);
        }
        assert_eq!(lasting(world.attributes(&object).await), lasting(before));
    }
}

async fn an_exclusive_create_can_be_repeated(world: &World<'_>) {
    let verifier = NewFile::exclusive(*b"verifier");
    let first = world.create(world.place("file"), verifier).await.result;
    let first = first.expect("the name is free");
    for _ in 0..2 {
        let again = world.create(world.place("file"), verifier).await.result;
        let again = again.expect("it is the same call once more");
        assert!(world.same(&again.object, &first.object));
    }
    assert_eq!(first.attributes.size, 0);
    let other = world.create(world.place("other"), verifier).await.result;
    let other = other.expect("another name is free").object;
    assert!(!world.same(&other, &first.object));
}

async fn an_exclusive_create_stops_at_any_other_file(world: &World<'_>) {
    let first = world.create(world.place("new"), NewFile::exclusive(*b"verifier")).await;
    first.result.expect("the name is free");
    for text in ["new", "file", "directory", "symlink", "fifo"] {
        if text == "file" {
            all_kinds(world).await;
        }
        for verifier in [*b"VERIFIER", [0; 8], *b"verifie\0"] {
            let made = world.create(world.place(text), NewFile::exclusive(verifier)).await;
            refused(made.result, FsError::AlreadyExists);
        }
    }
}

async fn an_exclusive_create_leaves_no_trace_in_the_times(world: &World<'_>) {
    let plain = world.file("plain").await;
    let made = world.create(world.place("file"), NewFile::exclusive([0xab; 8])).await;
    let found = made.result.expect("the name is free");
    world.create(world.place("file"), NewFile::exclusive([0xab; 8])).await.result.expect("again");
    let plain = world.attributes(&plain).await;
    let file = world.attributes(&found.object).await;
    for time in [file.accessed, file.modified, file.changed] {
        let apart = (time.seconds - plain.modified.seconds).abs();
        assert!(apart < 3600, "{time:?} is not the present");
    }
}

async fn a_file_is_made_with_its_attributes(world: &World<'_>) {
    let then = FileTime { seconds: 1_000_000_000, nanoseconds: 0 };
    let attributes = SetAttributes {
        size: Some(5000),
        accessed: SetTime::To(then),
        modified: SetTime::To(then),
        uid: Some(world.owner().uid),
        gid: Some(world.owner().gid),
        ..mode(0o640)
    };
    for (text, new) in
        [("guarded", NewFile::Guarded(attributes)), ("unchecked", unchecked(attributes))]
    {
        let made = world.create(world.place(text), new).await.result;
        let found = made.expect("the name is free");
        let truth = world.attributes(&found.object).await;
        assert_eq!(lasting(found.attributes), lasting(truth));
        assert_eq!((truth.mode.bits(), truth.size), (0o640, 5000));
        assert_eq!((truth.modified, truth.accessed), (then, then));
        assert_eq!(world.data(&found.object).await, [0; 5000]);
    }
}

/// The creation of a file as `EXCLUSIVE4_1` (RFC 8881 18.16.3). The owner may not write the file
/// with this mode.
async fn an_exclusive_create_sets_attributes(world: &World<'_>) {
    let then = FileTime { seconds: 1_000_000_000, nanoseconds: 0 };
    let attributes = SetAttributes {
        size: Some(0),
        accessed: SetTime::To(then),
        modified: SetTime::To(then),
        uid: Some(world.owner().uid),
        gid: Some(world.owner().gid),
        ..mode(0o440)
    };
    let verifier = *b"verifier";
    let new = NewFile::Exclusive { verifier, attributes };
    let found = world.create(world.place("file"), new).await.result.expect("the name is free");
    let truth = world.attributes(&found.object).await;
    assert_eq!(lasting(found.attributes), lasting(truth));
    assert_eq!((truth.mode.bits(), truth.modified), (0o440, then));
    // A retry changes nothing, even if its attributes differ.
    for attributes in [attributes, mode(0o777)] {
        let new = NewFile::Exclusive { verifier, attributes };
        let again = world.create(world.place("file"), new).await.result.expect("it is a retry");
        assert!(world.same(&again.object, &found.object));
        assert_eq!(lasting(again.attributes), lasting(truth));
    }
    let other = NewFile::Exclusive { verifier: *b"VERIFIER", attributes };
    refused(world.create(world.place("file"), other).await.result, FsError::AlreadyExists);
    let given = SetAttributes { uid: Some(world.owner().uid.wrapping_add(1)), ..mode(0o600) };
    if world.owner().uid != SUPERUSER {
        let new = NewFile::Exclusive { verifier, attributes: given };
        refused(world.create(world.place("given"), new).await.result, FsError::NotOwner);
        refused(world.find(world.place("given")).await, FsError::NotFound);
    }
}

async fn a_mode_that_is_not_given_is_the_owners_alone(world: &World<'_>) {
    for (text, new) in [
        ("guarded", NewFile::Guarded(SetAttributes::default())),
        ("unchecked", unchecked(SetAttributes::default())),
        ("exclusive", NewFile::exclusive([7; 8])),
    ] {
        let made = world.create(world.place(text), new).await.result;
        assert_eq!(made.expect("the name is free").attributes.mode.bits(), 0o600, "{text}");
    }
    let (place, default) = (world.place("directory"), SetAttributes::default());
    let made = world.store.make(world.owner(), place, &NewNode::Directory, &default).await;
    assert_eq!(made.result.expect("the name is free").attributes.mode.bits(), 0o700);
}

async fn a_create_tells_of_the_directory(world: &World<'_>) {
    for (text, new) in [
        ("guarded", new_file()),
        ("unchecked", unchecked(mode(0o644))),
        ("exclusive", NewFile::exclusive([7; 8])),
    ] {
        let before = world.attributes(&world.top).await;
        let made = world.create(world.place(text), new).await;
        made.result.expect("the name is free");
        world.assert_wcc(&made.wcc, &world.top, &before).await;
    }
}

async fn files_are_made_in_directories_only(world: &World<'_>) {
    let [(_, file), _, (_, symlink), (_, fifo)] = all_kinds(world).await;
    for object in [file, symlink, fifo] {
        for new in [new_file(), unchecked(mode(0o644)), NewFile::exclusive([7; 8])] {
            let made = world.create(below(&object, "x"), new).await;
            refused(made.result, FsError::NotDirectory);
        }
    }
}

async fn no_file_is_made_in_a_removed_directory(world: &World<'_>) {
    let gone = world.gone_directory("directory").await;
    for new in [new_file(), unchecked(mode(0o644)), NewFile::exclusive([7; 8])] {
        let made = world.create(below(&gone, "x"), new).await;
        refused(made.result, FsError::Stale);
        assert_eq!(made.wcc, Wcc::default());
    }
}

async fn names_are_any_bytes(world: &World<'_>) {
    let longest = [b'n'; 255];
    let mut names: Vec<&[u8]> = vec![
        b" ",
        b" leading",
        b"trailing ",
        b"two words",
        b"back\\slash",
        b"new\nline",
        b"tab\t",
        b"...",
        b"-rf",
        b"*?[\"'$`",
        b"\xff\xfe",
        b"caf\xe9",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        b"con",
        b"name",
        b"NAME",
        &longest,
    ];
    let mut objects = Vec::new();
    for bytes in &names {
        let place = Place { directory: world.top, name: raw_name(bytes) };
        let made = world.create(place, new_file()).await.result;
        objects.push((place, made.expect("any name but dots will do").object));
    }
    for (place, object) in &objects {
        assert!(world.leads(*place, object).await, "{place:?}");
    }
    names.sort_unstable();
    assert_eq!(world.names(&world.top).await, names);
    for (place, _) in objects {
        world.remove(place).await.result.expect("it is there");
    }
    assert!(world.names(&world.top).await.is_empty());
}

async fn no_name_is_longer_than_can_be(world: &World<'_>) {
    let file = world.file("file").await;
    for length in [256, 4096] {
        let long = vec![b'n'; length];
        let place = Place { directory: world.top, name: raw_name(&long) };
        for new in [new_file(), unchecked(mode(0o644)), NewFile::exclusive([7; 8])] {
            refused(world.create(place, new).await.result, FsError::NameTooLong);
        }
        for node in [NewNode::Directory, NewNode::Symlink(b"x"), NewNode::Fifo] {
            refused(world.make(place, node).await.result, FsError::NameTooLong);
        }
        refused(world.link(&file, place).await.result, FsError::NameTooLong);
        refused(world.remove(place).await.result, FsError::NameTooLong);
        refused(world.rmdir(place).await.result, FsError::NameTooLong);
        let renamed = world.rename(world.place("file"), place).await;
        refused(renamed.result, FsError::NameTooLong);
        let renamed = world.rename(place, world.place("other")).await;
        refused(renamed.result, FsError::NameTooLong);
    }
    assert_eq!(world.names(&world.top).await, [b"file"]);
}
