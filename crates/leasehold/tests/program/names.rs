//! `leasehold names`, `serve --bind-at`, and clients that find a server by them.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Home, Serving, address, leasehold, run};

/// A name that no resolver knows (RFC 2606).
const NAME: &str = "files.invalid";

/// Starts a database, and returns its address.
fn database() -> (Serving, String) {
    let names = Serving::start(leasehold(&["names", "--listen", "127.0.0.1:0"]));
    let line = names.line();
    let at = line.strip_prefix("Serving the names of servers on ").unwrap().to_owned();
    (names, at)
}

/// Returns the entries of a database.
fn found(at: &str) -> Vec<Value> {
    let (code, out, err) = run(leasehold(&["find", "--json", "--at", at]));
    assert_eq!(code, 0, "{err}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns a `leasehold` command that queries a database for names.
fn asking(at: &str, words: &[&str]) -> Command {
    let mut command = leasehold(words);
    command.env("LEASEHOLD_NAMES", at);
    command
}

#[test]
fn server_is_found_by_its_registered_name() {
    let (mut names, at) = database();
    assert_eq!(found(&at), [] as [Value; 0]);
    let home = Home::new();
    fs::write(home.path("data/file"), "text").unwrap();
    let bind_at = format!("--bind-at={NAME}@{at}");
    let (mut serving, ready) = Serving::with_json(&home, &[&bind_at]);
    let first = found(&at);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0]["server"], NAME);
    assert_eq!(first[0]["addresses"][0], address(&ready).to_string());
    assert_eq!(first[0]["identifier"].as_str().unwrap().len(), 32);
    let (code, out, err) = run(asking(&at, &["cat", &format!("nfs://{NAME}/data/file")]));
    assert_eq!((code, &*out), (0, "text"), "{err}");
    let (code, out, err) = run(asking(&at, &["ls", &format!("nfs://{NAME}/data")]));
    assert_eq!((code, &*out), (0, "file\n"), "{err}");

    // Another server cannot register the name while the first exists, and serves meanwhile.
    let other_home = Home::new();
    let log = fs::File::create(other_home.path("log")).unwrap();
    let options = ["--json", &bind_at];
    let mut other = Serving::logging(other_home.command(&options), Stdio::from(log));
    other.line();
    let log = fs::read_to_string(other_home.path("log")).unwrap();
    assert!(log.contains("not bound to its name: another server has the name"), "{log}");
    assert_eq!(found(&at), first);
    assert_eq!(other.end(Signal::TERM).code(), Some(0));
    assert_eq!(found(&at), first, "only the owner removes the entry");

    // A killed server is recognized by its identifier, at any address.
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let (mut serving, ready) = Serving::with_json(&home, &[&bind_at]);
    let again = found(&at);
    assert_eq!(again[0]["identifier"], first[0]["identifier"]);
    assert_eq!(again[0]["addresses"][0], address(&ready).to_string());
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
    assert_eq!(found(&at), [] as [Value; 0]);
    assert_eq!(names.end(Signal::TERM).code(), Some(0));
}

#[test]
fn server_serves_without_its_database() {
    let (mut names, at) = database();
    assert_eq!(names.end(Signal::TERM).code(), Some(0));
    let home = Home::new();
    let (mut serving, _) = Serving::with_json(&home, &[&format!("--bind-at={NAME}@{at}")]);
    let (code, _, err) = run(leasehold(&["find", "--at", &at]));
    assert!(code == 1 && err.contains(&format!("cannot query {at}")), "{err}");
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
    let (code, _, err) = run(home.command(&["--bind-at=a b@host"]));
    assert!(code == 2 && err.contains("a name has 1 to 255 letters"), "{err}");
}
