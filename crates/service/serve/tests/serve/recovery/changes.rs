//! The change attribute is one number in all results, and each change increases it. The tests of
//! `leasehold_core::changes` cover clocks with coarse steps, which the store in memory does not have.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_wire::nfs4::compound::{Args, Results};
use leasehold_wire::nfs4::{
    Attribute, Bitmap, CookieVerifier, Handle, Name, Stability, Stateid, readdir, rename, write,
};

use super::World;
use super::client::{Client, change, change_in, to};

/// Returns the change attribute of an object.
fn change_of(world: &mut World, client: &mut Client, object: Args<'_>) -> u64 {
    let reply = client.run(world, &[object, change()]);
    let Results::GetAttributes(found) = reply.last() else { panic!("another result") };
    change_in(&found.done().expect("the object exists"))
}

const fn root() -> Args<'static> {
    Args::PutRootHandle(())
}

fn write(world: &mut World, client: &mut Client, (stateid, handle): (Stateid, &Handle)) {
    let data = Bytes::from_static(b"data");
    let write = write::Args { stateid, offset: 0, stability: Stability::FileSync, data };
    let reply = client.run(world, &[to(handle), Args::Write(write)]);
    assert_eq!(reply.status(), Ok(()));
}

fn begin(world: &mut World) -> Client {
    let mut laptop = Client::begin(world, b"laptop", 1);
    laptop.complete(world).expect("the client has nothing to reclaim");
    laptop
}

#[test]
fn each_change_of_a_file_has_its_own_number() {
    let mut world = World::new();
    let mut laptop = begin(&mut world);
    let (open, handle) = laptop.open(&mut world, b"file").expect("the file is new");
    let mut last = change_of(&mut world, &mut laptop, to(&handle));
    for _ in 0..3 {
        write(&mut world, &mut laptop, (open, &handle));
        let next = change_of(&mut world, &mut laptop, to(&handle));
        assert!(next > last);
        assert_eq!(change_of(&mut world, &mut laptop, to(&handle)), next, "nothing has changed");
        last = next;
    }
}

#[test]
fn a_directory_has_one_number_in_all_results() {
    let mut world = World::new();
    let mut laptop = begin(&mut world);
    laptop.open(&mut world, b"a").expect("the file is new");
    let before = change_of(&mut world, &mut laptop, root());
    let renaming = Args::Rename(rename::Args { from: Name(b"a"), to: Name(b"b") });
    let reply = laptop.run(&mut world, &[root(), Args::SaveHandle(()), renaming]);
    let Results::Rename(renamed) = reply.last() else { panic!("another result") };
    let renamed = renamed.done().expect("the name exists");
    assert_eq!(renamed.from, renamed.to, "a rename within a directory is one change");
    assert!(renamed.from.atomic);
    assert_eq!(renamed.from.before.0, before);
    assert_eq!(renamed.from.after.0, change_of(&mut world, &mut laptop, root()));
}

#[test]
fn readdir_and_getattr_have_one_number() {
    let mut world = World::new();
    let mut laptop = begin(&mut world);
    let (open, handle) = laptop.open(&mut world, b"file").expect("the file is new");
    write(&mut world, &mut laptop, (open, &handle));
    write(&mut world, &mut laptop, (open, &handle));
    let listing = Args::ReadDirectory(readdir::Args {
        cookie: Cookie(0),
        verifier: CookieVerifier([0; 8]),
        names_count: 1000,
        count: 4000,
        requested: Bitmap::of(&[Attribute::Change]),
    });
    let reply = laptop.run(&mut world, &[root(), listing]);
    let Results::ReadDirectory(listed) = reply.last() else { panic!("another result") };
    let listed = listed.done().expect("the directory exists");
    let entry = listed.entries.0.first().expect("the directory has one file");
    let number = change_of(&mut world, &mut laptop, to(&handle));
    assert_eq!(change_in(&entry.attributes), number);
}
