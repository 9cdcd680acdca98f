//! Tests of each operation on nodes, for each caching policy, protocol version and kind of server.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_client::{
    Access, Bounds, Client, Credential, Error, FileType, Mode, NodeId, OpenHow, Options,
    SetAttributes, Status, Variant,
};
use leasehold_rig::{Cable, Faults, Manners, MemServer};
use leasehold_session::nfs::Version;
use leasehold_shell::client::{Target, block_on};
use leasehold_store_mem::{Config, MemStore};

use crate::support::{TIMEOUT, mounted, root, target, target_of, with_leases};

const VARIANTS: [Variant; 4] =
    [Variant::None, Variant::BufferCache, Variant::CloseToOpen, Variant::Lease];

fn client(server: &MemServer, version: Version, variant: Variant) -> Client {
    let stream = leasehold_session::Options::stream();
    client_of(&Target { version: Some(version), ..target_of(server, stream) }, variant)
}

fn client_of(target: &Target, variant: Variant) -> Client {
    let mounted = with_leases(mounted(target), variant == Variant::Lease, 1);
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
    assert_eq!(client.cached_bytes().1, 0, "no data is unsaved after an fsync");
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
    directories(client, who, folder).await;
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

/// If a program removes an open directory that is not empty, the removal must fail. A silly rename,
/// as for an open file, would hide the directory with all its contents.
async fn directories(client: &Client, who: &Credential, folder: NodeId) {
    let mode = Mode::from_bits(0o755);
    let empty = client.mkdir(who, (folder, b"empty"), mode).await.unwrap().node;
    let full = client.mkdir(who, (folder, b"full"), mode).await.unwrap().node;
    client.mkdir(who, (full, b"inside"), mode).await.unwrap();
    let opens = [
        client.open(who, empty, OpenHow::READ).await.unwrap(),
        client.open(who, full, OpenHow::READ).await.unwrap(),
    ];
    client.rename(who, (folder, b"empty"), (folder, b"full")).await.unwrap_err();
    client.remove(who, folder, b"full").await.unwrap_err();
    client.lookup(who, full, b"inside").await.unwrap();
    assert_eq!(client.lookup(who, folder, b"full").await.unwrap().node, full);
    client.rmdir(who, full, b"inside").await.unwrap();
    client.rename(who, (folder, b"empty"), (folder, b"full")).await.unwrap();
    assert_eq!(client.lookup(who, folder, b"full").await.unwrap().node, empty);
    for open in opens {
        client.release(open);
    }
    client.rmdir(who, folder, b"full").await.unwrap();
}

/// Tests files that lose their name while they are open.
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
    // If the file still has another name, the client must keep the file and its written data.
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
    twice_aside(client, who, folder).await;
    // The client removes the hidden name in the background, so the directory is not empty until
    // then.
    client.remove(who, folder, b"file").await.unwrap();
    let end = Instant::now() + TIMEOUT;
    while let Err(error) = client.rmdir(who, NodeId::ROOT, b"folder").await {
        assert!(Instant::now() < end, "a hidden name stays: {error}");
        std::thread::yield_now();
    }
}

/// An open file that loses two names must not get two silly renames. Otherwise the first hidden
/// name would stay on the server, and the client would drop data with the last name.
async fn twice_aside(client: &Client, who: &Credential, folder: NodeId) {
    let mode = (Mode::from_bits(0o600), true);
    let place = (folder, &b"one"[..]);
    let (file, open) = client.create(who, place, mode, OpenHow::READ_WRITE).await.unwrap();
    client.link(who, file.node, folder, b"two").await.unwrap();
    assert_eq!(client.getattr(who, file.node).await.unwrap().attributes.link_count, 2);
    client.remove(who, folder, b"one").await.unwrap();
    client.write(open, 0, Bytes::from_static(b"still here")).await.unwrap();
    assert_eq!(client.lookup(who, folder, b"two").await.unwrap().node, file.node);
    client.remove(who, folder, b"two").await.unwrap();
    assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes(), "still here");
    client.fsync(open).await.unwrap();
    assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes(), "still here");
    assert_eq!(client.getattr(who, file.node).await.unwrap().attributes.link_count, 0);
    client.release(open);
}

/// The client has looked up a name and found that it does not exist. If the name is then created in
/// another case, it must be visible.
#[test]
fn without_case_sensitivity_no_absence_is_cached() {
    for variant in [Variant::BufferCache, Variant::CloseToOpen, Variant::Lease] {
        for case_insensitive in [false, true] {
            let server = MemServer::start(Manners::Full);
            let stream = leasehold_session::Options::stream();
            let found = mounted(&target_of(&server, stream));
            let found = with_leases(found, variant == Variant::Lease, 1);
            let bounds = Bounds { case_insensitive, ..found.bounds };
            let options = Options { variant, ..Options::new(FileTime::default, 1) };
            let who = &root();
            let client = Client::new(found.nfs, found.root, bounds, who, options);
            let client = block_on(client).unwrap();
            let new = (NodeId::ROOT, &b"new"[..]);
            let new = block_on(client.mkdir(who, new, Mode::from_bits(0o755))).unwrap().node;
            for directory in [NodeId::ROOT, new] {
                let ask = || drop(block_on(client.lookup(who, directory, b"none")).unwrap_err());
                ask();
                let before = client.nfs().session().counters().calls;
                ask();
                let asked = client.nfs().session().counters().calls > before;
                assert_eq!(asked, case_insensitive, "{variant:?}");
                let named_for = client.named_for(directory, b"none", None);
                assert_eq!(named_for.is_zero(), case_insensitive, "{variant:?}");
            }
        }
    }
}

/// The client must report a refusal of data that occurs before any fsync or close, or after all
/// programs have closed the file.
#[test]
fn an_unreported_refusal_stays_recorded() {
    for is_told in [false, true] {
        let room = Config { capacity_bytes: 64 << 10, ..Config::default() };
        let (any, store) = (([127, 0, 0, 1], 0).into(), Arc::new(MemStore::new(room)));
        let server = MemServer::start_over(any, store, Manners::Full).unwrap();
        let found = mounted(&target_of(&server, leasehold_session::Options::stream()));
        let (variant, write_delay) = (Variant::BufferCache, Duration::from_millis(20));
        let options = Options { variant, write_delay, ..Options::new(FileTime::default, 1) };
        let (who, mode) = (&root(), (Mode::from_bits(0o600), true));
        let client = Client::new(found.nfs, found.root, found.bounds, who, options);
        let client = block_on(client).unwrap();
        let place = (NodeId::ROOT, &b"file"[..]);
        let made = block_on(client.create(who, place, mode, OpenHow::READ_WRITE));
        let (file, open) = made.unwrap();
        block_on(client.write(open, 0, vec![7; 1 << 20].into())).unwrap();
        if is_told {
            block_on(client.fsync(open)).unwrap_err();
        }
        client.release(open);
        client.forget(file.node, 1);
        let end = Instant::now() + TIMEOUT;
        while client.cached_bytes().1 > 0 || client.counters().refused_bytes == 0 {
            assert!(Instant::now() < end, "the data is not refused in the background");
            std::thread::sleep(Duration::from_millis(1));
        }
        block_on(client.sync());
        assert_eq!(client.has_refused_untold(), !is_told);
    }
}

/// The method by which a file loses its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    Remove,
    /// The program renames another file to the name.
    Rename,
    /// The program removes the name while the file is open.
    WhileOpen,
}

/// The round-trip time to the server.
const ROUND_TRIP: Duration = Duration::from_millis(50);

/// If a WRITE arrives after the call that removes its file, the server refuses the WRITE. No
/// program has lost data, so the client must not report a loss.
#[test]
fn a_write_after_the_removal_of_its_file_counts_as_no_loss() {
    let server = MemServer::start(Manners::Full);
    let faults = Faults { round_trip: ROUND_TRIP, ..Faults::default() };
    let cable = Cable::lay(([127, 0, 0, 1], 0).into(), server.address(), faults).unwrap();
    let far = target(cable.address(), leasehold_session::Options::stream());
    let (who, mode) = (&root(), (Mode::from_bits(0o600), true));
    let (file, other) = ((NodeId::ROOT, &b"file"[..]), (NodeId::ROOT, &b"other"[..]));
    let ways = [Removal::Remove, Removal::Rename, Removal::WhileOpen];
    let variants = [Variant::BufferCache, Variant::Lease];
    for (variant, way) in variants.into_iter().flat_map(|one| ways.map(|way| (one, way))) {
        let client = client_of(&far, variant);
        block_on(async {
            let (_, open) = client.create(who, other, mode, OpenHow::READ_WRITE).await.unwrap();
            client.release(open);
            let (_, open) = client.create(who, file, mode, OpenHow::READ_WRITE).await.unwrap();
            client.write(open, 0, vec![7; 100].into()).await.unwrap();
            if way != Removal::WhileOpen {
                client.release(open);
            }
            // The server runs calls of one connection that need not wait in their order, so the
            // WRITE runs after the removal.
            match way {
                Removal::Remove => {
                    join(client.remove(who, file.0, file.1), client.sync()).await.0.unwrap();
                }
                Removal::Rename => {
                    join(client.rename(who, other, file), client.sync()).await.0.unwrap();
                }
                Removal::WhileOpen => {
                    // The program closes the file during the silly rename, so the client removes
                    // the hidden name immediately after the rename.
                    let remove = async {
                        client.remove(who, file.0, file.1).await.unwrap();
                        client.sync().await;
                    };
                    let release = async {
                        client.nfs().session().sleep(ROUND_TRIP * 3 / 2).await;
                        client.release(open);
                    };
                    join(remove, release).await;
                }
            }
            let end = Instant::now() + TIMEOUT;
            while client.nfs().session().open_calls() > 0 {
                assert!(Instant::now() < end, "calls do not end");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(client.counters().refused_bytes, 0, "{variant:?} {way:?}");
            assert!(!client.has_refused_untold(), "{variant:?} {way:?}");
            assert_eq!(client.cached_bytes().1, 0);
            let left = if way == Removal::Rename { file } else { other };
            client.remove(who, left.0, left.1).await.unwrap();
        });
    }
}

/// A client must not continue to read ahead for a file whose node it has dropped.
#[test]
fn a_file_that_was_read_in_part_can_be_forgotten() {
    let server = MemServer::start(Manners::Full);
    let who = &root();
    let place = (NodeId::ROOT, &b"file"[..]);
    let stream = leasehold_session::Options::stream();
    let maker = client(&server, Version::V3, Variant::None);
    for variant in VARIANTS {
        let mounted =
            with_leases(mounted(&target_of(&server, stream)), variant == Variant::Lease, 1);
        let usual = Options::new(FileTime::default, 1);
        let options = Options { variant, read_bytes_max: 4096, ..usual };
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, who, options);
        block_on(async {
            let client = client.await.unwrap();
            let wanted = (Mode::from_bits(0o600), false);
            let (_, made) = maker.create(who, place, wanted, OpenHow::READ_WRITE).await.unwrap();
            maker.write(made, 0, Bytes::from(vec![7; 500_000])).await.unwrap();
            maker.release(made);
            let found = client.lookup(who, place.0, place.1).await.unwrap();
            let open = client.open(who, found.node, OpenHow::READ).await.unwrap();
            for number in 0..2 {
                let read = client.read(open, number * 4096, 4096).await.unwrap();
                assert_eq!(read.len(), 4096);
            }
            client.release(open);
            client.remove(who, place.0, place.1).await.unwrap();
            client.forget(found.node, 1);
            let gone = client.getattr(who, found.node).await.map(drop);
            assert_eq!(gone, Err(Error::Failed(Status::Stale)), "{variant:?}");
            assert_eq!(client.cached_bytes(), (0, 0), "{variant:?}");
        });
    }
}

/// With close-to-open consistency each open sends a call. A small file needs few other calls: its
/// only WRITE is stable, so no COMMIT follows, and the replies contain the attributes and the
/// access rights of the creator.
#[test]
fn a_small_file_takes_five_calls() {
    const LONG: Duration = Duration::from_secs(86_400);
    let (server, who) = (MemServer::start(Manners::Full), &root());
    let mounted = mounted(&target_of(&server, leasehold_session::Options::stream()));
    let options = Options {
        variant: Variant::CloseToOpen,
        file_trust: (LONG, LONG),
        directory_trust: (LONG, LONG),
        write_delay: LONG,
        ..Options::new(FileTime::default, 1)
    };
    let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, who, options);
    block_on(async {
        let client = client.await.unwrap();
        let calls = || client.nfs().session().counters().calls;
        for name in [&b"a"[..], b"b", b"c"] {
            let (before, place) = (calls(), (NodeId::ROOT, name));
            let absent = client.lookup(who, place.0, name).await.map(drop);
            assert_eq!(absent, Err(Error::Failed(Status::NotFound)));
            let wanted = (Mode::from_bits(0o600), false);
            let made = client.create(who, place, wanted, OpenHow::READ_WRITE).await;
            let (found, open) = made.unwrap();
            client.write(open, 0, Bytes::from_static(b"small")).await.unwrap();
            client.flush(open).await.unwrap();
            client.release(open);
            assert_eq!(calls() - before, 3, "LOOKUP, CREATE and WRITE");
            let open = client.open(who, found.node, OpenHow::READ).await.unwrap();
            assert_eq!(client.getattr(who, found.node).await.unwrap().attributes.size, 5);
            assert_eq!(client.read(open, 0, 100).await.unwrap().into_bytes(), "small");
            client.release(open);
            client.remove(who, place.0, name).await.unwrap();
            client.forget(found.node, 1);
            assert_eq!(calls() - before, 5, "ACCESS and REMOVE");
        }
    });
}

async fn names_at_top(client: &Client) -> Vec<Vec<u8>> {
    let open = client.open(&root(), NodeId::ROOT, OpenHow::READ).await.unwrap();
    let listing = client.readdir(open, Cookie(0), false).await.unwrap();
    client.release(open);
    listing.entries.into_iter().map(|entry| entry.name.to_vec()).collect()
}

/// If an `rm` or `mv` is killed during its silly rename, no hidden name may stay for the lifetime
/// of the client, and a killed `mv` may leave no other name.
#[test]
fn a_program_killed_during_a_silly_rename_leaves_no_name() {
    let server = MemServer::start(Manners::Full);
    let faults = Faults { round_trip: Duration::from_millis(10), ..Faults::default() };
    let cable = Cable::lay(([127, 0, 0, 1], 0).into(), server.address(), faults).unwrap();
    let far = target(cable.address(), leasehold_session::Options::stream());
    let far = client_of(&far, Variant::CloseToOpen);
    let near = client(&server, Version::V3, Variant::None);
    let who = &root();
    let mode = (Mode::from_bits(0o600), true);
    for moment in (0..80).step_by(5).map(Duration::from_millis) {
        for renames in [false, true] {
            block_on(async {
                let place = (NodeId::ROOT, &b"file"[..]);
                let (_, open) = far.create(who, place, mode, OpenHow::READ_WRITE).await.unwrap();
                if renames {
                    let place = (NodeId::ROOT, &b"new"[..]);
                    let made = far.create(who, place, mode, OpenHow::READ).await.unwrap();
                    far.release(made.1);
                    kill(far.rename(who, place, (NodeId::ROOT, b"file")), moment);
                } else {
                    kill(far.remove(who, NodeId::ROOT, b"file"), moment);
                }
                far.release(open);
                let end = Instant::now() + TIMEOUT;
                loop {
                    let ended = || far.nfs().session().open_calls() == 0;
                    let before = ended();
                    let names = names_at_top(&near).await;
                    let aside = names.iter().any(|name| name.starts_with(b".nfs"));
                    let file = names.iter().any(|name| name == b"file");
                    let is_right = !aside && (!renames || file);
                    if before && is_right && names == names_at_top(&near).await && ended() {
                        break;
                    }
                    // Retry for a while, because the client removes the hidden name in the
                    // background. A name that stays is a fault.
                    let what = format!("killed after {moment:?}, renames: {renames}, {names:?}");
                    assert!(Instant::now() < end, "{what}");
                }
                for name in [&b"file"[..], b"new"] {
                    let _ = far.remove(who, NodeId::ROOT, name).await;
                }
            });
        }
    }
}

/// Runs a future for a short time, and then drops it, as if its program was killed.
fn kill<T>(work: impl Future<Output = T>, after: Duration) {
    let (end, mut work) = (Instant::now() + after, pin!(work));
    while work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        if Instant::now() >= end {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
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
