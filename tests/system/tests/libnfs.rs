//! The tools of libnfs, a client in user space that shares nothing with the kernel's.

use std::fs;
use std::path::Path;
use std::process::Command;

use leasehold_system_tests::{Scratch, Server, output, program};

/// Long enough for several requests, and no multiple of anything.
const LENGTH: usize = 5_000_011;

/// Bytes that do not repeat in any short distance.
fn content() -> Vec<u8> {
    (0u32..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(LENGTH).collect()
}

/// Runs one of the tools, which end well or fail the test.
fn tool(name: &str, arguments: &[&str]) -> String {
    output(Command::new("timeout").arg("60").arg(program(name)).args(arguments))
}

/// Whether a tool says that it failed: some only print it and end well.
fn is_refused(name: &str, argument: &str) -> bool {
    let mut command = Command::new("timeout");
    let done = command.arg("60").arg(program(name)).arg(argument).output();
    let done = done.expect("timeout can be run");
    assert_ne!(done.status.code(), Some(124), "{name} got no answer");
    !done.status.success() || !done.stderr.is_empty()
}

#[test]
fn a_folder_is_listed_with_each_name_once() {
    let server = Server::start();
    let mut expected = Vec::new();
    for number in 0..1500 {
        let name = format!("file-{number}");
        fs::write(server.folder().join(&name), &name).expect("the export can be written to");
        expected.push(format!("{} {name}", name.len()));
    }
    fs::create_dir(server.folder().join("folder")).expect("the export can be written to");
    fs::write(server.folder().join("folder/inner"), "x").expect("the export can be written to");
    expected.push("1 folder/inner".to_owned());

    let listing = tool("nfs-ls", &["-R", &server.url("")]);
    let files = listing.lines().filter(|line| line.starts_with('-'));
    // Mode, links, owner, group, size, name.
    let mut found: Vec<String> =
        files.map(|line| line.split_whitespace().skip(4).collect::<Vec<_>>().join(" ")).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn a_file_is_read() {
    let server = Server::start();
    fs::write(server.folder().join("file"), content()).expect("the export can be written to");
    let out = Command::new(program("nfs-cat")).arg(server.url("/file")).output();
    assert!(out.expect("nfs-cat can be run").stdout == content(), "the file was read wrongly");
}

#[test]
fn a_file_is_copied_there_and_back() {
    let (server, here) = (Server::start(), Scratch::new("local"));
    let local = |name: &str| here.path().join(name).to_str().expect("our own name").to_owned();
    fs::write(local("out"), content()).expect("our own folder can be written to");

    tool("nfs-cp", &[&local("out"), &server.url("/copy")]);
    assert!(read(&server.folder().join("copy")) == content(), "the file was written wrongly");
    tool("nfs-cp", &[&server.url("/copy"), &local("back")]);
    assert!(read(Path::new(&local("back"))) == content(), "the copy was read wrongly");
}

#[test]
fn what_is_not_there_is_refused() {
    let server = Server::start();
    assert!(is_refused("nfs-cat", &server.url("/none")));
    assert!(is_refused("nfs-ls", &server.url("-that-is-not-exported")));
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the file is there")
}
