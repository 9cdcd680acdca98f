//! `--stripe`: the contents of the directories, and rejected directories.

use std::fs;

use bytes::Bytes;
use leasehold_session::Options;
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};
use rustix::process::Signal;

use crate::support::{Home, Serving, TIMEOUT, address, leasehold, put, run, who};

fn stripes(home: &Home, names: &[&str]) -> Vec<String> {
    names.iter().flat_map(|name| ["--stripe".to_owned(), home.path(name)]).collect()
}

fn serve(home: &Home, names: &[&str]) -> (Serving, serde_json::Value) {
    let words = stripes(home, names);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Serving::with_json(home, &[&words[..], &["--stripe-unit", "4"]].concat())
}

/// Returns the error of a server with these directories.
fn refused(home: &Home, names: &[&str]) -> String {
    let words = stripes(home, names);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (code, _, said) = run(home.command(&words));
    assert!(code == 2 || code == 3, "{code}: {said}");
    said
}

fn home() -> Home {
    let home = Home::new();
    for name in ["one", "two", "three"] {
        fs::create_dir(home.path(name)).unwrap();
    }
    home
}

/// Returns the number of files below a directory, and their total bytes.
fn held(directory: &str) -> (usize, u64) {
    let mut found = (0, 0);
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (count, bytes) = match entry.metadata().unwrap() {
            below if below.is_dir() => held(entry.path().to_str().unwrap()),
            file => (1, file.len()),
        };
        found = (found.0 + count, found.1 + bytes);
    }
    found
}

fn mounted(runtime: &Runtime, ready: &serde_json::Value) -> Mounted {
    let at = address(ready);
    let options = Options::stream().impatient(TIMEOUT);
    let target =
        Target { port: Some(at.port()), ..Target::new(&at.ip().to_string(), b"/data", options) };
    block_on(mount(runtime, &target, &who())).unwrap()
}

#[test]
fn data_is_spread_and_found_again_in_any_order() {
    let home = home();
    let data: Bytes = (0..200_000_u32).flat_map(u32::to_be_bytes).collect();
    let runtime = Runtime::start().unwrap();
    let (mut serving, ready) = serve(&home, &["one", "two", "three"]);
    let file = block_on(put(&mounted(&runtime, &ready), b"file", &data));
    assert!(serving.end(Signal::TERM).success());
    for name in ["one", "two", "three"] {
        let (files, bytes) = held(&home.path(name));
        assert!(files == 3 && bytes > 250_000, "{name}: {files} files of {bytes} bytes");
    }
    let metafile = fs::read(home.path("data/file")).unwrap();
    assert!(metafile.starts_with(b"leasehold stripes 1\n"));
    // The directories have their numbers.
    let (mut serving, ready) = serve(&home, &["three", "one", "two"]);
    let server = mounted(&runtime, &ready);
    let length = u32::try_from(data.len()).unwrap();
    let read = block_on(server.nfs.read(&who(), &file, 0, length)).unwrap().done().unwrap();
    assert_eq!(read.data, data, "the data read is the data written");
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn conflicting_directories_are_rejected() {
    let home = home();
    let (mut serving, _) = serve(&home, &["one", "two"]);
    assert!(serving.end(Signal::TERM).success());
    assert!(refused(&home, &["two"]).contains("is not named: name all"));
    assert!(refused(&home, &["two", "three"]).contains("is not named: name all"));
    fs::write(home.path("three/something"), "dear").unwrap();
    assert!(refused(&home, &["three"]).contains("files that are not stripes"));
    assert!(refused(&home, &["one", "one"]).contains("contain one another"));
    fs::create_dir(home.path("data/inside")).unwrap();
    assert!(refused(&home, &["data/inside"]).contains("contain one another"));
    let mut log = leasehold(&["serve", &home.path("data"), "--stable-log", "log"]);
    log.args(["--stripe", &home.path("one")]);
    let (code, _, said) = run(log);
    assert!(code == 2 && said.contains("--stable-log"), "{said}");
    assert_eq!(fs::read_to_string(home.path("three/something")).unwrap(), "dear");
}

#[test]
fn existing_files_are_not_hidden() {
    let home = home();
    fs::write(home.path("data/file"), "dear").unwrap();
    assert!(refused(&home, &["one"]).contains("must be empty"));
    assert_eq!(fs::read_dir(home.path("one")).unwrap().count(), 0, "nothing is created");
}

/// Stripes that belong to no file are found in local directories as on iods.
#[test]
fn stripes_that_belong_to_no_file_are_removed_from_disks() {
    let home = home();
    let runtime = Runtime::start().unwrap();
    let (mut serving, ready) = serve(&home, &["one", "two"]);
    let server = mounted(&runtime, &ready);
    let data = Bytes::from(vec![7; 300_000]);
    for name in [&b"lost"[..], b"kept"] {
        block_on(put(&server, name, &data));
    }
    fs::remove_file(home.path("data/lost")).unwrap();
    let (data, state) = (home.path("data"), home.path("state"));
    let repair = |more: &[&str]| {
        let words = ["cluster", "repair", &data, "--state", &state];
        let (code, said, error) = run(leasehold(&[&words[..], more].concat()));
        assert_eq!(code, 0, "{error}");
        said
    };
    let before = held(&home.path("one")).0 + held(&home.path("two")).0;
    assert!(repair(&[]).contains("1 of 2 objects belong to no file"));
    assert_eq!(repair(&["--remove"]).matches(" bytes, removed").count(), 2);
    assert_eq!(held(&home.path("one")).0 + held(&home.path("two")).0, before - 2);
    assert_eq!(repair(&[]).matches("0 of 1 objects belong to no file").count(), 2);
    assert!(serving.end(Signal::TERM).success());
}
