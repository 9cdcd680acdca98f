//! A directory of a single metaserver, and of one of several: neither can be served as the other,
//! and a rejected attempt changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use leasehold_shell::client::{Runtime, block_on};
use rustix::process::Signal;

use crate::cluster::{iod, meta, try_mount};
use crate::support::{Home, Serving, address, leasehold, port, put, run, who};

/// Returns the contents of a directory: the names, and the contents of files.
fn held(directory: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![Path::new(directory).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, is_folder) = (entry.path(), entry.file_type().unwrap().is_dir());
            let content = if is_folder { Vec::new() } else { fs::read(&path).unwrap() };
            found.insert(path.to_str().unwrap().to_owned(), content);
            if is_folder {
                folders.push(path);
            }
        }
    }
    found
}

/// Returns the error of a command that must fail; a command that serves is ended.
fn refused(command: &Command) -> String {
    let mut bounded = Command::new("timeout");
    bounded.arg("30").arg(command.get_program()).args(command.get_args());
    let (code, _, said) = run(bounded);
    assert_eq!(code, 3, "{said}");
    said
}

/// With the iods of the volume the server started, and showed no files to its clients.
#[test]
fn directory_of_one_metaserver_is_not_served_by_several() {
    let home = Home::new();
    let (_one, first) = iod(&home, "one", "key", 0);
    let (_two, second) = iod(&home, "two", "key", 0);
    let (ports, runtime) = ([first, second], Runtime::start().unwrap());
    let served = |more: &[&str]| {
        let serving = Serving::start(meta(&home, &ports, more));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        (serving, try_mount(&runtime, address(&ready).port(), "/data").unwrap())
    };
    let (mut serving, server) = served(&[]);
    let data = Bytes::from(vec![7; 300_000]);
    let file = block_on(put(&server, b"large", &data));
    assert!(serving.end(Signal::TERM).success());

    let (own, other) = (format!("127.0.0.1:{}", port()), format!("127.0.0.1:{}", port()));
    let peers = ["--peer", &own, "--peer", &other, "--number", "0"];
    let kept = ["data", "one", "two"].map(|name| (home.path(name), held(&home.path(name))));
    fs::rename(home.path("state"), home.path("state-before")).unwrap();
    let said = refused(&meta(&home, &ports, &peers));
    let is_told = said.contains("would hide") && said.contains("continue without --peer");
    assert!(is_told && said.contains("large"), "{said}");
    assert!(kept.iter().all(|(path, before)| held(path) == *before), "a file has changed");
    assert!(!fs::exists(home.path("state")).unwrap());
    // The configuration file gives the same error.
    let (data_path, key, state) = (home.path("data"), home.path("key"), home.path("state"));
    let text = format!(
        "[server]\nlisten = ['{own}']\nstate = '{state}'\n[[export]]\ndirectory = '{data_path}'\n\
         cluster-key = '{key}'\niod = ['127.0.0.1:{first}', '127.0.0.1:{second}']\n\
         peer = ['{own}', '{other}']\nnumber = 0\n"
    );
    fs::write(home.path("cluster.toml"), text).unwrap();
    for command in ["serve", "check"] {
        let said = refused(&leasehold(&[command, "--config", &home.path("cluster.toml")]));
        assert!(said.contains("would hide"), "{command}: {said}");
    }
    assert!(kept.iter().all(|(path, before)| held(path) == *before), "a file has changed");

    fs::rename(home.path("state-before"), home.path("state")).unwrap();
    let (_serving, server) = served(&[]);
    let found = block_on(server.nfs.lookup(&who(), &server.root, b"large")).unwrap();
    assert_eq!(found.done().unwrap().object, file);
    let read = block_on(server.nfs.read(&who(), &file, 0, 300_000)).unwrap().done().unwrap();
    assert_eq!(read.data, data);
}

#[test]
fn directory_of_several_metaservers_is_not_served_by_one() {
    let home = Home::new();
    let (_one, first) = iod(&home, "one", "key", 0);
    let own = format!("127.0.0.1:{}", port());
    let mut serving = Serving::start(meta(&home, &[first], &["--peer", &own, "--number", "0"]));
    serving.line();
    assert!(serving.end(Signal::TERM).success());
    assert!(fs::exists(home.path("data/leasehold-metafiles")).unwrap());
    fs::create_dir(home.path("stripes")).unwrap();
    fs::rename(home.path("state"), home.path("state-before")).unwrap();
    let kept = ["data", "one", "stripes"].map(|name| (home.path(name), held(&home.path(name))));
    for command in [
        meta(&home, &[first], &[]),
        home.command(&[]),
        home.command(&["--stripe", &home.path("stripes")]),
        leasehold(&["iod", &home.path("data"), "--cluster-key", &home.path("key")]),
    ] {
        let said = refused(&command);
        assert!(said.contains("with `meta --peer`"), "{said}");
        assert!(kept.iter().all(|(path, before)| held(path) == *before), "a file has changed");
        assert!(!fs::exists(home.path("state")).unwrap());
    }
    // A client's file of this name is an ordinary file.
    fs::create_dir(home.path("files")).unwrap();
    fs::write(home.path("files/leasehold-metafiles"), "leasehold records 1\n").unwrap();
    let mut command = leasehold(&["serve", &home.path("files"), "--listen", "127.0.0.1:0"]);
    command.args(["--state", &home.path("state")]);
    let mut serving = Serving::start(command);
    serving.line();
    assert!(serving.end(Signal::TERM).success());
}
