//! Tests of operations by paths, as a program uses them.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{
    Client, Error, FileType, Mode, OpenHow, Options, SetAttributes, Status, User, Variant,
};
use leasehold_rig::{Manners, MemServer};
use leasehold_shell::client::{Target, block_on};
use leasehold_store_mem::{Config, MemStore};

use crate::support::{mounted, root, target_of, with_leases};

const MODE: Mode = Mode::from_bits(0o700);

pub(crate) fn user(server: &MemServer, variant: Variant, seed: u64) -> User {
    user_of(&target_of(server, leasehold_session::Options::stream()), variant, seed)
}

pub(crate) fn user_of(target: &Target, variant: Variant, seed: u64) -> User {
    let mounted = with_leases(mounted(target), variant == Variant::Lease, seed);
    let options = Options { variant, ..Options::new(FileTime::default, seed) };
    let who = root();
    let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options);
    block_on(client).unwrap().user(root())
}

const fn failed<T>(status: Status) -> Result<T, Error> {
    Err(Error::Failed(status))
}

/// Checks that the future can run on any thread, as programs need it.
fn sent<F: Future + Send>(future: F) -> F {
    future
}

async fn everything(user: &User) {
    user.create_directory(b"/a", MODE).await.unwrap();
    user.create_directory(b"a/b/", MODE).await.unwrap();
    user.write(b"a/b/file", MODE, Bytes::from_static(b"first and long")).await.unwrap();
    user.write(b"//a/./b/../b/file", MODE, Bytes::from_static(b"second")).await.unwrap();
    assert_eq!(user.read(b"a/b/file").await.unwrap(), "second");
    assert_eq!(user.open(b"a/c", OpenHow::READ).await.map(drop), failed(Status::NotFound));

    user.symlink(b"../b/file", b"a/b/link").await.unwrap();
    user.symlink(b"b", b"a/also").await.unwrap();
    assert_eq!(user.read(b"a/also/link").await.unwrap(), "second");
    assert_eq!(user.read_link(b"a/b/link").await.unwrap(), "../b/file");
    assert_eq!(user.attributes(b"a/b/link").await.unwrap().file_type, FileType::Symlink);
    user.symlink(b"circle", b"circle").await.unwrap();
    assert_eq!(user.read(b"circle").await, failed(Status::Invalid));
    user.symlink(b"/etc/passwd", b"outside").await.unwrap();
    assert_eq!(user.read(b"outside").await, failed(Status::NotFound));

    user.link(b"a/b/file", b"a/other").await.unwrap();
    assert_eq!(user.attributes(b"a/other").await.unwrap().link_count, 2);
    let file = user.open(b"a/other", OpenHow::READ_WRITE).await.unwrap();
    file.write_at(6, Bytes::from_static(b" time")).await.unwrap();
    user.remove(b"a/other").await.unwrap();
    user.rename(b"a/b/file", b"a/moved").await.unwrap();
    file.sync().await.unwrap();
    assert_eq!(file.attributes().await.unwrap().size, 11);
    assert_eq!(file.read_at(7, 100).await.unwrap().into_bytes(), "time");
    file.close().await.unwrap();
    assert_eq!(user.read(b"a/moved").await.unwrap(), "second time");

    let set = SetAttributes { mode: Some(Mode::from_bits(0o400)), ..SetAttributes::default() };
    let attributes = user.set_attributes(b"a/moved", &set).await.unwrap();
    assert_eq!(attributes.mode, Mode::from_bits(0o400));
    for with_attributes in [false, true] {
        let mut listed = user.list(b"a", with_attributes).await.unwrap();
        listed.sort_by(|one, other| one.name.cmp(&other.name));
        let names: Vec<&[u8]> = listed.iter().map(|listed| &listed.name[..]).collect();
        assert_eq!(names, [&b"also"[..], b"b", b"moved"]);
        assert!(listed.iter().all(|listed| listed.attributes.is_some() == with_attributes));
    }
    user.remove(b"a/b/link").await.unwrap();
    user.remove_directory(b"a/b").await.unwrap();
    assert_eq!(user.remove_directory(b"..").await, failed(Status::Invalid));
    assert!(user.space().await.unwrap().bytes > 0);
}

#[test]
fn programs_use_paths() {
    for variant in [Variant::None, Variant::BufferCache, Variant::CloseToOpen, Variant::Lease] {
        let server = MemServer::start(Manners::Full);
        block_on(sent(everything(&user(&server, variant, 1))));
    }
}

#[test]
fn replaced_objects_are_looked_up_again() {
    let server = MemServer::start(Manners::Full);
    let (one, other) =
        (user(&server, Variant::CloseToOpen, 1), user(&server, Variant::CloseToOpen, 2));
    block_on(async {
        one.create_directory(b"a", MODE).await.unwrap();
        one.write(b"a/file", MODE, Bytes::from_static(b"old")).await.unwrap();
        assert_eq!(other.read(b"a/file").await.unwrap(), "old");
        // Replace both the directory and the file by new ones, while the client still trusts the
        // old names.
        one.remove(b"a/file").await.unwrap();
        one.remove_directory(b"a").await.unwrap();
        one.create_directory(b"a", MODE).await.unwrap();
        one.write(b"a/file", MODE, Bytes::from_static(b"new")).await.unwrap();
        assert_eq!(other.read(b"a/file").await.unwrap(), "new");
        // The client must not show the removed file by its old name.
        one.remove(b"a/file").await.unwrap();
        assert_eq!(other.read(b"a/file").await, failed(Status::NotFound));
    });
}

#[test]
fn an_open_after_a_close_sees_the_written_data() {
    let server = MemServer::start(Manners::Full);
    let (one, other) =
        (user(&server, Variant::CloseToOpen, 1), user(&server, Variant::CloseToOpen, 2));
    block_on(async {
        for number in 0..20 {
            let text = Bytes::from(format!("the {number}th"));
            let file = one.create(b"file", MODE, false).await.unwrap();
            file.set_size(0).await.unwrap();
            file.write_at(0, text.clone()).await.unwrap();
            file.close().await.unwrap();
            assert_eq!(other.read(b"file").await.unwrap(), text);
        }
    });
}

/// A full server refuses data that the client had accepted. Each program that has the file open
/// must get exactly one error.
#[test]
fn a_late_failure_is_reported_once() {
    let config = Config { capacity_bytes: 1 << 20, ..Config::default() };
    let any = "127.0.0.1:0".parse().unwrap();
    let store = Arc::new(MemStore::new(config));
    let server = MemServer::start_over(any, store, Manners::Full).unwrap();
    let user = user(&server, Variant::CloseToOpen, 1);
    block_on(async {
        let file = user.create(b"file", MODE, true).await.unwrap();
        let also = user.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(0, Bytes::from(vec![1; 4 << 20])).await.unwrap();
        assert_eq!(file.sync().await, failed(Status::NoSpace));
        assert_eq!(file.sync().await, Ok(()));
        file.write_at(0, Bytes::from_static(b"fits")).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(also.close().await, failed(Status::NoSpace));

        let after = user.open(b"file", OpenHow::READ).await.unwrap();
        assert_eq!(after.close().await, Ok(()), "an earlier failure does not concern this program");
        assert_eq!(&user.read(b"file").await.unwrap()[..4], b"fits");
    });
}
