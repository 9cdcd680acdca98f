//! Each operation on nodes, for each variant, version and kind of server.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_client::{
    Access, Client, Credential, Error, FileType, Mode, NodeId, OpenHow, Options, SetAttributes,
    Status, Variant,
};
use leasehold_rig::{Manners, MemServer};
use leasehold_session::nfs::Version;
use leasehold_shell::client::{Target, block_on};

use crate::support::{mounted, root, target_of, with_leases};

const VARIANTS: [Variant; 4] =
    [Variant::None, Variant::BufferCache, Variant::CloseToOpen, Variant::Lease];

fn client(server: &MemServer, version: Version, variant: Variant) -> Client {
    let stream = leasehold_session::Options::stream();
    let target = Target { version: Some(version), ..target_of(server, stream) };
    let mounted = with_leases(mounted(&target), variant == Variant::Lease, 1);
    let options = Options { variant, ..Options::new(FileTime::default, 1) };
    block_on(Client::new(mounted.nfs, mounted.root, mounted.bounds, &root(), options)).unwrap()
}

async fn everything(client: &Client, sizes: usize) {
    let who = &root();
    let top = NodeId::ROOT;
    let folder = client.mkdir(who, (top, b"folder"), Mode::from_bits(0o755)).await.unwrap();
    assert_eq!(folder.attributes.file_type, FileType::Directory);
    let mode = Mode::from_bits(0o640);
    let how = OpenHow::READ_WRITE;
    let place = (folder.node, &b"file"[..]);
    let (file, open) = client.create(who, place, (mode, true), how).await.unwrap();
    assert_eq!((file.attributes.mode, file.attributes.size), (mode, 0));
    let again = client.create(who, place, (mode, true), how).await;
    assert_eq!(again.map(drop), Err(Error::Failed(Status::AlreadyExists)));

    let data: Bytes = (0..sizes).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect();
    client.write(open, 5, data.clone()).await.unwrap();
    assert_eq!(client.getattr(who, file.node).await.unwrap().attributes.size, sizes as u64 + 5);
    let more = u32::try_from(sizes).unwrap() + 100;
    let read = client.read(open, 0, more).await.unwrap().into_bytes();
    assert_eq!((&read[..5], &read[5..]), (&[0; 5][..], &data[..]));
    client.fsync(open).await.unwrap();
    assert_eq!(client.cached_bytes().1, 0, "nothing is unsaved after an fsync");
    let read = client.read(open, 0, more).await.unwrap().into_bytes();
    assert_eq!((&read[..5], &read[5..]), (&[0; 5][..], &data[..]));
    let cut = SetAttributes { size: Some(3), ..SetAttributes::default() };
    assert_eq!(client.setattr(who, file.node, &cut).await.unwrap().attributes.size, 3);
    let longer = SetAttributes { size: Some(10), ..SetAttributes::default() };
    assert_eq!(client.setattr(who, file.node, &longer).await.unwrap().attributes.size, 10);
    assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes()[..], [0; 10]);
    client.flush(open).await.unwrap();
    client.release(open);

    names(client, who, folder.node, file.node).await;
    aside(client, who, folder.node).await;
}

async fn names(client: &Client, who: &Credential, folder: NodeId, file: NodeId) {
    let link = client.link(who, file, folder, b"link").await.unwrap();
    assert_eq!((link.node, link.attributes.link_count), (file, 2));
    client.rename(who, (folder, b"link"), (folder, b"other")).await.unwrap();
    let gone = client.lookup(who, folder, b"link").await;
    assert_eq!(gone.map(drop), Err(Error::Failed(Status::NotFound)));
    assert_eq!(client.lookup(who, folder, b"other").await.unwrap().node, file);
    let symlink = client.symlink(who, (folder, b"symlink"), b"else/where").await.unwrap();
    assert_eq!(client.readlink(who, symlink.node).await.unwrap(), &b"else/where"[..]);

    let listing = client.open(who, folder, OpenHow::READ).await.unwrap();
    let mut seen = Vec::new();
    let mut cookie = Cookie(0);
    loop {
        let part = client.readdir(listing, cookie, true).await.unwrap();
        seen.extend(part.entries.iter().map(|entry| entry.name.clone()));
        if part.end {
            break;
        }
        cookie = part.entries.last().unwrap().cookie;
    }
    client.release(listing);
    seen.sort();
    assert_eq!(seen, [".", "..", "file", "other", "symlink"]);

    let wanted = Access { read: true, modify: true, ..Access::default() };
    assert_eq!(client.access(who, file, wanted).await.unwrap(), wanted);
    assert!(client.statfs(who, folder).await.unwrap().bytes > 0);
    client.remove(who, folder, b"symlink").await.unwrap();
    client.remove(who, folder, b"other").await.unwrap();
    assert_eq!(client.getattr(who, file).await.unwrap().attributes.link_count, 1);
}

/// Files that lose their name while they are open.
async fn aside(client: &Client, who: &Credential, folder: NodeId) {
    let found = client.lookup(who, folder, b"file").await.unwrap();
    let open = client.open(who, found.node, OpenHow::READ_WRITE).await.unwrap();
    client.write(open, 0, Bytes::from_static(b"still here")).await.unwrap();
    client.remove(who, folder, b"file").await.unwrap();
    assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes(), "still here");
    assert_eq!(client.getattr(who, found.node).await.unwrap().attributes.link_count, 0);
    let mode = (Mode::from_bits(0o600), false);
    let place = (folder, &b"file"[..]);
    let (new, second) = client.create(who, place, mode, OpenHow::READ_WRITE).await.unwrap();
    assert_ne!(new.node, found.node);
    let (_, third) = client.create(who, (folder, b"third"), mode, OpenHow::READ).await.unwrap();
    client.release(third);
    client.rename(who, (folder, b"third"), (folder, b"file")).await.unwrap();
    client.write(second, 0, Bytes::from_static(b"over it")).await.unwrap();
    client.fsync(second).await.unwrap();
    assert_eq!(client.read(second, 0, 100).await.unwrap().into_bytes(), "over it");
    client.release(open);
    client.release(second);
    // What has another name is not gone, and neither is what was written to it.
    let (kept, open) =
        client.create(who, (folder, b"kept"), mode, OpenHow::READ_WRITE).await.unwrap();
    client.write(open, 0, Bytes::from_static(b"kept")).await.unwrap();
    client.link(who, kept.node, folder, b"link").await.unwrap();
    client.remove(who, folder, b"kept").await.unwrap();
    client.release(open);
    client.sync().await;
    let link = client.lookup(who, folder, b"link").await.unwrap();
    let open = client.open(who, link.node, OpenHow::READ).await.unwrap();
    assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes(), "kept");
    client.release(open);
    client.remove(who, folder, b"link").await.unwrap();
    // What was put aside goes without anybody waiting.
    client.remove(who, folder, b"file").await.unwrap();
    while client.rmdir(who, NodeId::ROOT, b"folder").await.is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn every_variant_of_version_3() {
    for variant in VARIANTS {
        let server = MemServer::start(Manners::Full);
        block_on(everything(&client(&server, Version::V3, variant), 3_000_000));
    }
}

#[test]
fn every_variant_of_version_2() {
    for variant in VARIANTS {
        let server = MemServer::start(Manners::Version2Only);
        block_on(everything(&client(&server, Version::V2, variant), 300_000));
    }
}

#[test]
fn a_server_that_does_the_least() {
    for variant in [Variant::None, Variant::BufferCache, Variant::CloseToOpen] {
        let server = MemServer::start(Manners::Stingy);
        block_on(everything(&client(&server, Version::V3, variant), 2000));
    }
}
