//! Attacks on MOUNT: paths that lead out of an export, and calls of a stranger.

use std::fs;
use std::os::unix::fs::symlink;

use leasehold_base::xdr::{Reader, decode_all};
use leasehold_system_tests::{Scratch, Server};
use leasehold_wire::mount;
use leasehold_wire::nfs3::{Handle, getattr};
use leasehold_wire::outcome::Outcome;

use crate::wire::{Connection, Procedure, Stranger, address, encoded};

/// A procedure of MOUNT version 3.
const fn mount3(number: u32) -> Procedure {
    Procedure { program: mount::PROGRAM, version: mount::VERSION_3, number }
}

/// Returns the handle that root receives for a path, if any.
fn mounted(connection: &mut Connection, path: &[u8]) -> Option<Handle> {
    let args = [&u32::try_from(path.len()).expect("a short path").to_be_bytes(), path].concat();
    let args = [&args[..], &vec![0; args.len().next_multiple_of(4) - args.len()]].concat();
    let answer = connection.call(&mount3(mount::mnt::NUMBER).by(0, &args));
    let answer = answer.expect("the server answers");
    let reply = decode_all::<mount::mnt::Reply>(&mut Reader::new(&answer.results)).ok()?;
    match reply {
        Outcome::Done(done) => Some(done.directory),
        Outcome::Failed(_) => None,
    }
}

#[test]
fn a_path_leads_to_nothing_outside_the_export() {
    let (server, outside) = (Server::start(), Scratch::new("outside"));
    fs::create_dir(outside.path().join("below")).expect("there is room");
    fs::create_dir(server.folder().join("inside")).expect("there is room");
    symlink(outside.path(), server.folder().join("out")).expect("there is room");
    symlink("..", server.folder().join("up")).expect("there is room");
    let mut connection = Connection::to(address(&server));
    let root = mounted(&mut connection, b"/").expect("the export is there");
    let inside = mounted(&mut connection, format!("{}/inside", server.export()).as_bytes());
    let inside = inside.expect("the directory is there");
    assert_ne!(root, inside);
    let export = server.export();
    let folder = server.folder().display();
    let paths = [
        "/etc".to_owned(),
        "/..".to_owned(),
        "/../etc".to_owned(),
        "..".to_owned(),
        format!("{export}/.."),
        format!("{export}/../.."),
        format!("{export}/inside/../../.."),
        format!("{export}/out"),
        format!("{export}/out/below"),
        format!("{export}/up"),
        format!("{export}/up/.."),
        format!("{folder}/.."),
        format!("{folder}/out"),
        format!("{export}x"),
        format!("{export}\0"),
        format!("{export}/inside\0/../.."),
        outside.path().display().to_string(),
        "/".repeat(1024),
        "../".repeat(300),
        format!("{export}/{}", "d/".repeat(400)),
        "a".repeat(1025),
        "a".repeat(60_000),
    ];
    for path in paths {
        let got = mounted(&mut connection, path.as_bytes());
        let is_own = got.is_none() || got == Some(root) || got == Some(inside);
        assert!(is_own, "{path:?} leads to {got:?}");
    }
}

#[test]
fn calls_of_a_stranger_change_nothing_for_others() {
    let server = Server::start();
    let stranger = Stranger::of(address(&server));
    let root = mounted(&mut Connection::to(address(&server)), b"/").expect("it is there");
    for (number, args) in [
        (mount::dump::NUMBER, Vec::new()),
        (mount::umnt::NUMBER, encoded(&mount::Path(b"/"))),
        (mount::umntall::NUMBER, Vec::new()),
        (mount::export::NUMBER, Vec::new()),
        (99, Vec::new()),
    ] {
        stranger.call(&mount3(number).by_nobody(&args));
    }
    let args = encoded(&getattr::Args { object: root });
    let mut connection = Connection::to(address(&server));
    let answer = connection.call(&Procedure::nfs3(getattr::NUMBER).by(0, &args));
    assert_eq!(answer.and_then(|answer| answer.word()), Some(0), "the root is good still");
}

/// A datagram proves no address: a stranger could have a list sent to any machine.
#[test]
fn a_datagram_returns_no_long_list() {
    let export = |number| format!("[[export]]\ndirectory = \"FOLDER/{number}\"\n");
    let text: String = (0..300).map(export).collect();
    let make = "for number in $(seq 0 299); do mkdir $number; done";
    let users = "root:x:0:0::/:/bin/sh\n";
    let server = Server::start_configured(make, &text, users, "root:x:0:\n");
    let stranger = Stranger::of(address(&server));
    let mut connection = Connection::to(address(&server));
    for _ in 0..50 {
        mounted(&mut connection, b"/0").expect("the export is there");
    }
    for number in [mount::dump::NUMBER, mount::export::NUMBER] {
        let call = mount3(number).by_nobody(&[]);
        let reply = stranger.reply(&call).expect("the server answers");
        assert!(reply.len() <= 256, "{number}: {} bytes", reply.len());
        let whole = connection.call(&call).expect("the server answers");
        assert!(number == mount::dump::NUMBER || whole.results.len() > 4000, "{number}");
    }
}

#[test]
fn a_server_without_udp_answers_no_datagram() {
    let server = Server::start_with(&["--udp", "false"]);
    let call = Procedure::nfs3(0).by_nobody(&[]);
    assert!(Connection::to(address(&server)).call(&call).is_some());
    // The port is free for other programs.
    std::net::UdpSocket::bind(address(&server)).expect("no socket of UDP has the port");
}
