//! Attacks on the NFS programs of a server: handles, credentials, names, calls and connections.

use std::fs::{self, Permissions};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use rustix::net::{AddressFamily, SocketType, bind, socket};

use leasehold_base::xdr::{Reader, decode_all};
use leasehold_system_tests::{Scratch, Server};
use leasehold_wire::nfs3::{
    self, DirectoryArgs, Handle, Name, SetAttributes, Status, create, getattr, lookup, mkdir, read,
    remove,
};
use leasehold_wire::rpc::{OpaqueAuth, ReplyStatus, flavor};
use leasehold_wire::{lease, mount, nfs2, nqnfs};

use crate::wire::{Connection, Numbers, Procedure, Stranger, address, encoded, find, root};

/// The number of calls in flight.
const BATCH: usize = 100;

#[test]
fn a_forged_handle_reaches_no_object() {
    let (server, other) = (Server::start(), Server::start());
    fs::write(server.folder().join("file"), "content").expect("there is room");
    let mut connection = Connection::to(address(&server));
    let root = root(address(&server));
    let file = find(&mut connection, root, "file");
    let genuine = file.as_bytes();
    // The handles are a true handle with each bit turned, and cut to each length; a handle of
    // another server; and random handles.
    let turned = (0..genuine.len() * 8).map(|bit| {
        let mut forged = genuine.to_vec();
        forged[bit / 8] ^= 1 << (bit % 8);
        forged
    });
    let cut = (0..genuine.len()).map(|length| genuine[..length].to_vec());
    let long = (genuine.len() + 1..=64).map(|length| {
        let mut forged = genuine.to_vec();
        forged.resize(length, 0);
        forged
    });
    let mut numbers = Numbers::new(0x5eed);
    let random: Vec<_> = (0..20_000)
        .map(|number| {
            let kept = if number % 2 == 0 { 0 } else { numbers.below(genuine.len()) };
            let rest = numbers.bytes(genuine.len() - kept);
            [&genuine[..kept], &rest].concat()
        })
        .collect();
    let foreign = crate::wire::root(address(&other)).as_bytes().to_vec();
    let forged: Vec<_> = turned
        .chain(cut)
        .chain(long)
        .chain(random)
        .chain([foreign])
        .filter(|it| it != genuine)
        .collect();
    assert!(forged.len() > 20_000);
    let mut refused = 0;
    for batch in forged.chunks(BATCH) {
        for forged in batch {
            let object = Handle::new(forged).expect("it is no longer than a handle may be");
            let args = encoded(&getattr::Args { object });
            assert!(connection.send(&Procedure::nfs3(getattr::NUMBER).by(0, &args)));
        }
        for forged in batch {
            let answer = connection.receive().expect("the server answers");
            let word = answer.word().expect("the arguments are well formed");
            let is_refused = [Status::BadHandle as u32, Status::Stale as u32].contains(&word);
            assert!(is_refused, "{forged:02x?}: {answer:?}");
            refused += 1;
        }
    }
    assert_eq!(refused, forged.len());
    let args = encoded(&getattr::Args { object: file });
    let answer = connection.call(&Procedure::nfs3(getattr::NUMBER).by(0, &args));
    assert_eq!(answer.and_then(|answer| answer.word()), Some(0), "the true handle is good");
}

/// Bodies of AUTH_SYS that are at an edge of the rule or beyond it. All bodies claim user 0.
fn credentials() -> Vec<(u32, Vec<u8>)> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let mut all: Vec<(u32, Vec<u8>)> = vec![
        (flavor::NONE, Vec::new()),
        (flavor::NONE, vec![0; 400]),
        (flavor::SHORT, vec![0; 24]),
        (6, vec![0; 20]),
        (u32::MAX, vec![0; 20]),
        (flavor::SYS, words(&[0, 0, u32::MAX, 0, 0])),
        (flavor::SYS, words(&[0, 0, u32::MAX - 1, 0, 0])),
        (flavor::SYS, words(&[0, 0, 0x8000_0000, 0, 0])),
        (flavor::SYS, words(&[0, 0, 0, u32::MAX, 0])),
        (flavor::SYS, words(&[0, 256, 0, 0, 0])),
        (flavor::SYS, words(&[0, u32::MAX, 0, 0, 0])),
        (flavor::SYS, words(&[0, 0, 0, 0, u32::MAX])),
        (flavor::SYS, words(&[0, 0, 0, 0, 0, 0])),
    ];
    for groups in 0..=24_u32 {
        for count in [groups.wrapping_sub(1), groups, groups + 1] {
            let mut body = vec![0, 0, 0, 0, count];
            body.resize(5 + groups as usize, 0);
            all.push((flavor::SYS, words(&body)));
        }
    }
    for length in (0..=40).chain([396, 400]) {
        all.push((flavor::SYS, vec![0; length]));
    }
    all
}

#[test]
fn a_credential_from_a_high_port_opens_no_file_of_root() {
    let server = Server::start();
    let secret = server.folder().join("secret");
    fs::write(&secret, "secret").expect("there is room");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("the file is ours");
    let root = root(address(&server));
    let file = find(&mut Connection::to(address(&server)), root, "secret");
    let stranger = Stranger::of(address(&server));
    let args = encoded(&read::Args { file, offset: 0, count: 6 });
    let mut denied = 0;
    for (flavor, body) in credentials() {
        let credential = OpaqueAuth { flavor, body: &body };
        let call = Procedure::nfs3(read::NUMBER).with(credential, &args);
        let answer = stranger.call(&call);
        if answer.status == ReplyStatus::Success {
            assert_eq!(answer.word(), Some(Status::Access as u32), "{flavor} {body:02x?}");
            denied += 1;
        } else {
            let is_refused = matches!(answer.status, ReplyStatus::AuthError(_));
            assert!(is_refused, "{flavor} {body:02x?}: {answer:?}");
        }
        assert!(!answer.results.windows(6).any(|six| six == b"secret"));
    }
    assert!(denied > 20, "well-formed credentials get as far as the file's mode");
    // A body above 400 bytes ends the call's head early: the server refuses the credential.
    let long = OpaqueAuth { flavor: flavor::SYS, body: &[0; 404] };
    let answer = stranger.call(&Procedure::nfs3(read::NUMBER).with(long, &args));
    assert!(matches!(answer.status, ReplyStatus::AuthError(_)), "{answer:?}");
}

/// Names that try to be more than a name.
fn names() -> Vec<Vec<u8>> {
    let plain: [&[u8]; 14] = [
        b"",
        b"..",
        b".",
        b"../",
        b"../secret",
        b"/",
        b"/etc/passwd",
        b"inside/../..",
        b"a/b",
        b"a\0b",
        b"\0",
        b"inside\0/..",
        b"./file",
        b"file/",
    ];
    let long = [256, 1024, 4096, 65_000].map(|length| vec![b'n'; length]);
    let deep = [b"../".repeat(80), b"inside/".repeat(30)];
    plain.iter().map(|name| name.to_vec()).chain(long).chain(deep).collect()
}

#[test]
fn a_name_leads_to_nothing_outside_its_directory() {
    let (server, outside) = (Server::start(), Scratch::new("outside"));
    fs::write(outside.path().join("secret"), "secret").expect("there is room");
    fs::create_dir(server.folder().join("inside")).expect("there is room");
    symlink(outside.path(), server.folder().join("out")).expect("there is room");
    let root = root(address(&server));
    let mut connection = Connection::to(address(&server));
    let before = listing(server.folder());
    let plain = SetAttributes { mode: Some(0o644), ..SetAttributes::default() };
    for name in names() {
        let place = DirectoryArgs { directory: root, name: Name(&name) };
        let calls = [
            (lookup::NUMBER, encoded(&place)),
            (remove::NUMBER, encoded(&place)),
            (create::NUMBER, encoded(&create::Args { place, how: create::How::Unchecked(plain) })),
            (mkdir::NUMBER, encoded(&mkdir::Args { place, attributes: plain })),
        ];
        for (number, args) in calls {
            let answer = connection.call(&Procedure::nfs3(number).by(0, &args));
            let answer = answer.expect("the server answers");
            let is_own = number == lookup::NUMBER && found(&answer.results) == Some(root);
            let is_refused = answer.word() != Some(0);
            assert!(is_own || is_refused, "{number} {:?}", String::from_utf8_lossy(&name));
        }
    }
    assert_eq!(listing(server.folder()), before, "no name made or removed an entry");
    // A symbolic link is an object of its own: the server follows none.
    let link = find(&mut connection, root, "out");
    let below = DirectoryArgs { directory: link, name: Name(b"secret") };
    for (number, args) in [
        (lookup::NUMBER, encoded(&below)),
        (read::NUMBER, encoded(&read::Args { file: link, offset: 0, count: 100 })),
    ] {
        let answer = connection.call(&Procedure::nfs3(number).by(0, &args));
        assert_ne!(answer.and_then(|answer| answer.word()), Some(0), "{number}");
    }
}

/// The object that a LOOKUP found.
fn found(results: &bytes::Bytes) -> Option<Handle> {
    let reply: lookup::Reply = decode_all(&mut Reader::new(results)).ok()?;
    match reply {
        nfs3::Reply::Done(found) => Some(found.object),
        nfs3::Reply::Failed(..) => None,
    }
}

fn listing(folder: &std::path::Path) -> Vec<std::ffi::OsString> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries.map(|it| it.expect("it can be read").file_name()).collect();
    names.sort();
    names
}

#[test]
fn the_server_still_replies_after_malformed_calls() {
    let server = Server::start();
    fs::write(server.folder().join("file"), "content").expect("there is room");
    let root = root(address(&server));
    let file = find(&mut Connection::to(address(&server)), root, "file");
    let before = server.pid();
    let mut numbers = Numbers::new(0xbad);
    let programs = [
        (nfs3::PROGRAM, 3, 22),
        (nfs2::PROGRAM, 2, 18),
        (mount::PROGRAM, 3, 6),
        (mount::PROGRAM, 1, 8),
        (lease::PROGRAM, lease::VERSION, 27),
        (nqnfs::PROGRAM, nqnfs::VERSION, 24),
        (100_000, 2, 6),
        (0xffff_ffff, 0, 1),
    ];
    let mut connection = Connection::to(address(&server));
    let (mut sent, mut answered, mut closed) = (0, 0, 0);
    for (program, version, count) in programs {
        // One procedure beyond the last, too.
        for number in 0..=count {
            let procedure = Procedure { program, version, number };
            for _ in 0..60 {
                // A true handle before the nonsense gets the call further.
                let handle = encoded(&getattr::Args { object: file });
                let kept = if numbers.below(2) == 0 { 0 } else { numbers.below(handle.len() + 1) };
                let length = numbers.below(300);
                let nonsense = numbers.bytes(length);
                let mut message = procedure.by(1000, &[&handle[..kept], &nonsense].concat());
                if numbers.below(4) == 0 {
                    let end = numbers.below(message.len());
                    message.truncate(end);
                }
                if numbers.below(4) == 0 && !message.is_empty() {
                    let at = numbers.below(message.len());
                    message[at] ^= 1 << numbers.below(8);
                }
                sent += 1;
                assert!(
                    connection.send(&message) || {
                        closed += 1;
                        true
                    }
                );
                if sent % 50 == 0 {
                    // The server replies to the calls that it can; then the stranger reconnects.
                    answered += drain(&mut connection, address(&server));
                    connection = Connection::to(address(&server));
                }
            }
        }
    }
    assert!(sent > 6000 && answered > sent / 3, "{answered} of {sent}, {closed} closed");
    assert_eq!(server.pid(), before);
    assert!(fs::read(server.folder().join("file")).is_ok());
    let args = encoded(&getattr::Args { object: root });
    let answer = Connection::to(address(&server)).call(&Procedure::nfs3(1).by(0, &args));
    assert_eq!(answer.and_then(|answer| answer.word()), Some(0));
}

/// Counts replies until the one to a last NULL, or until the connection ends.
fn drain(connection: &mut Connection, server: SocketAddr) -> usize {
    connection.send(&Procedure::nfs3(0).by_nobody(&[]));
    let _ = connection.0.shutdown(std::net::Shutdown::Write);
    let mut count = 0;
    while connection.receive().is_some() {
        count += 1;
    }
    let alive = Connection::to(server).call(&Procedure::nfs3(0).by_nobody(&[]));
    assert!(alive.is_some(), "the server answers others");
    count
}

#[test]
fn idle_connections_leave_room_for_others() {
    let server = Server::start();
    let _idle: Vec<_> = (0..800).map(|number| connect(address(&server), number)).collect();
    let answer = Connection::to(address(&server)).call(&Procedure::nfs3(0).by_nobody(&[]));
    assert!(answer.is_some_and(|answer| answer.status == ReplyStatus::Success));
    let held = server.resident_kib() >> 10;
    assert!(held <= 64, "the server holds {held} MiB for idle connections");
}

/// A connection from one of several addresses, each of which has a share of the connections.
fn connect(server: SocketAddr, number: u16) -> TcpStream {
    let from = Ipv4Addr::new(127, 88, 0, u8::try_from(number % 200 + 1).expect("it fits a byte"));
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("the machine has descriptors");
    bind(&socket, &SocketAddr::from((from, 0))).expect("the loopback has the address");
    rustix::net::connect(&socket, &server).expect("the server listens");
    TcpStream::from(socket)
}
