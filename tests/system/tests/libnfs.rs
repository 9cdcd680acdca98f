//! The tools of libnfs, a user-space client that shares no code with the kernel's.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use leasehold_system_tests::{Scratch, Server, output, program};

/// Long enough for several requests, and a multiple of no block size.
const LENGTH: usize = 5_000_011;

/// Returns bytes without short periods.
fn content() -> Vec<u8> {
    (0u32..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(LENGTH).collect()
}

/// Runs one of the tools, which must succeed.
fn tool(name: &str, arguments: &[&str]) -> String {
    output(Command::new("timeout").arg("180").arg(program(name)).args(arguments))
}

/// Returns true if a tool reports a failure: some print it and exit with zero.
fn is_refused(name: &str, argument: &str) -> bool {
    let mut command = Command::new("timeout");
    let done = command.arg("180").arg(program(name)).arg(argument).output();
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

/// Each of several exports has its own rules, as with the kernel's client (`exports`).
#[test]
fn each_export_is_served_by_its_rules() {
    let rule = |folder: &str, from: &str, rule: &str| {
        format!(
            "[[export]]\ndirectory = 'FOLDER/{folder}'\n\
             [[export.client]]\nfrom = ['{from}']\n{rule}\n"
        )
    };
    let (here, far) = ("127.0.0.0/8", "192.0.2.0/24");
    let rules = [
        rule("plain", here, "squash = 'none'"),
        rule("squashed", here, ""),
        rule("public", here, "squash = 'all'\nanonuid = 7001\nanongid = 7002"),
        rule("mapped", here, "uid-map = [{ from = '1000-1999', to = '8000-8999' }]"),
        rule("read-only", here, "read-only = true"),
        rule("far", far, ""),
    ];
    let folders = "mkdir -m 777 plain squashed public mapped read-only far";
    let server = Server::start_configured(folders, &rules.concat(), "root:x:0:0::/:/bin/sh\n", "");
    let local = Scratch::new("local");
    let file = local.path().join("file");
    fs::write(&file, "text").expect("our own folder can be written to");
    let file = file.to_str().expect("our own name");
    for (export, uid, owner) in [
        ("plain", 0, 0),
        ("plain", 1001, 1001),
        ("squashed", 0, 65_534),
        ("squashed", 1001, 1001),
        ("public", 0, 7001),
        ("public", 1001, 7001),
        ("mapped", 1001, 8001),
        ("mapped", 2001, 2001),
    ] {
        let path = format!("/{export}/of-{uid}");
        let url = format!("{}&uid={uid}&gid={uid}", server.url_of(&path));
        tool("nfs-cp", &[file, &url]);
        let made = fs::metadata(server.folder().join(&path[1..])).expect("it is made");
        assert_eq!(made.uid(), owner, "{path}");
    }
    let refused = |path: &str| {
        let mut command = Command::new("timeout");
        let command = command.arg("180").arg(program("nfs-cp")).args([file, &server.url_of(path)]);
        let done = command.output().expect("timeout can be run");
        assert_ne!(done.status.code(), Some(124), "nfs-cp got no answer");
        !server.folder().join(&path[1..]).exists()
    };
    assert!(refused("/read-only/file") && refused("/far/file"));
    assert!(is_refused("nfs-ls", &server.url_of("/far")));
    assert!(!is_refused("nfs-ls", &server.url_of("/read-only")));
}

#[test]
fn missing_files_are_reported() {
    let server = Server::start();
    assert!(is_refused("nfs-cat", &server.url("/none")));
    assert!(is_refused("nfs-ls", &server.url("-that-is-not-exported")));
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the file is there")
}
