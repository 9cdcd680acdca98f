//! A server with a write-ahead log on a separate device.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, geteuid, prlimit};

use crate::support::{
    Home, Serving, TIMEOUT, address, call_as, call_of_user, opaque, ordinary, over_stream, root,
    run, with_mounted,
};

fn with_log<'a>(home: &Home, path: &'a mut String) -> [&'a str; 4] {
    *path = home.path("log");
    ["--stable-log", path, "--stable-log-size", "8"]
}

#[test]
fn server_does_not_start_without_its_required_log() {
    let home = Home::new();
    let mut path = String::new();
    let options = with_log(&home, &mut path);
    let (mut serving, _) = Serving::with_json(&home, &options);
    serving.end(Signal::KILL);
    let note = fs::metadata(home.path("state/stable-log")).unwrap();
    assert_eq!(note.permissions().mode() & 0o777, 0o600);
    for other in [&[][..], &["--stable-log", &home.path("another")]] {
        let (code, _, said) = run(home.command(other));
        assert_eq!(code, 5);
        assert!(said.contains(&format!("start with --stable-log {}", options[1])), "{said}");
    }
    // Another file in its place is rejected too.
    fs::rename(options[1], home.path("kept")).unwrap();
    fs::write(options[1], "").unwrap();
    let (code, _, said) = run(home.command(&options));
    assert!(code == 5 && said.contains("to discard them, remove"), "{said}");
    fs::rename(home.path("kept"), options[1]).unwrap();
    let (mut serving, _) = Serving::with_json(&home, &options);
    assert!(serving.end(Signal::TERM).success());
    // The disk has all changes.
    let (mut serving, _) = Serving::with_json(&home, &[]);
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn log_in_an_empty_file_is_private() {
    let home = Home::new();
    let mut path = String::new();
    let options = with_log(&home, &mut path);
    fs::write(options[1], "").unwrap();
    fs::set_permissions(options[1], fs::Permissions::from_mode(0o644)).unwrap();
    let (mut serving, _) = Serving::with_json(&home, &options);
    assert!(serving.end(Signal::TERM).success());
    let mode = fs::metadata(options[1]).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The head of the log shows when the disk has all changes of the log, even without further calls.
#[test]
fn disk_soon_has_all_changes_of_the_log() {
    const MKDIR: u32 = 9;
    let home = Home::new();
    let mut path = String::new();
    let options = with_log(&home, &mut path);
    let (_serving, ready) = Serving::with_json(&home, &options);
    let head = || fs::read(options[1]).unwrap()[..8192].to_vec();
    let place = [opaque(&root(address(&ready))), opaque(b"made")].concat();
    let before = head();
    let reply =
        over_stream(address(&ready), &call_of_user(7, MKDIR, &[&place[..], &[0; 24]].concat()));
    assert_eq!(reply[24..28], [0; 4], "{reply:?}");
    let end = Instant::now() + Duration::from_secs(5) + TIMEOUT;
    while head() == before {
        assert!(Instant::now() < end, "the disk lags behind");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Limits the size of all files of a server, like a full device.
fn limit_files(serving: &Serving, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&serving.child)), Resource::Fsize, limit).unwrap();
}

/// The device of the log fails after an ordinary user has written. A thread that acted as that user
/// wrote the note that the log is out of date: the write failed, only the log reported it, and a
/// start in another boot replayed the log over newer data.
#[test]
fn log_whose_device_failed_is_void_after_writes_by_any_user() {
    const CREATE: u32 = 8;
    const WRITE: u32 = 7;
    let home = Home::new();
    fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o777)).unwrap();
    let mut path = String::new();
    let options = with_log(&home, &mut path);
    let (mut serving, ready) = Serving::with_json(&home, &options);
    let address = address(&ready);
    let place = [opaque(&root(address)), opaque(b"file")].concat();
    let unchecked_without_attributes = [0; 28];
    let args = [&place[..], &unchecked_without_attributes].concat();
    let reply = over_stream(address, &call_as(ordinary(), 7, CREATE, &args));
    assert_eq!(reply[24..32], [0, 0, 0, 0, 0, 0, 0, 1], "{reply:?}");
    let length = u32::from_be_bytes(reply[32..36].try_into().unwrap()) as usize;
    let file = reply[32..36 + length].to_vec();
    let write = |byte: u8| {
        // The WRITE has one byte, at offset 0, and requests FILE_SYNC.
        let args = [&file[..], &[0; 8], &[0, 0, 0, 1], &[0, 0, 0, 2], &opaque(&[byte])].concat();
        // The calls reach every event loop, so that each loop last acted as the user.
        let statuses = (0..16).map(|xid| {
            let reply = over_stream(address, &call_as(ordinary(), 100 + xid, WRITE, &args));
            u32::from_be_bytes(reply[24..28].try_into().unwrap())
        });
        statuses.collect::<BTreeSet<_>>()
    };
    let note = || fs::read(home.path("state/stable-log")).unwrap();
    assert_eq!(write(b'1'), [0].into());
    assert!(note().starts_with(b"in use "));

    // Neither the log nor the note can be written: the server acknowledges no WRITE as stable.
    limit_files(&serving, Some(8));
    assert_eq!(write(b'2'), [5].into(), "a start in another boot would undo it");
    assert!(note().starts_with(b"in use "));
    // The note can be written, and marks the log as void.
    limit_files(&serving, Some(1000));
    assert_eq!(write(b'3'), [0].into());
    assert!(note().starts_with(b"void "));
    let owner = fs::metadata(home.path("state/stable-log")).unwrap().uid();
    assert_eq!(owner, geteuid().as_raw());
    serving.end(Signal::KILL);
    let (mut serving, _) = Serving::with_json(&home, &options);
    assert_eq!(fs::read(home.path("data/file")).unwrap(), b"3");
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn file_that_is_not_a_log_is_not_overwritten() {
    let home = Home::new();
    let mut path = String::new();
    let options = with_log(&home, &mut path);
    let text = "something dear ".repeat(1000);
    fs::write(options[1], &text).unwrap();
    let (code, _, said) = run(home.command(&options));
    assert_eq!((code, fs::read_to_string(options[1]).unwrap()), (5, text));
    assert!(said.contains("it contains other data"), "{said}");
}

#[test]
fn log_within_reach_of_clients_is_rejected() {
    let home = Home::new();
    let inside = home.path("data/log");
    let (code, _, said) = run(home.command(&["--stable-log", &inside]));
    assert!(code == 2 && said.contains("lies in the served directory"), "{said}");
    // Through a link to a file in the directory, and through a dangling link.
    let link = home.path("link");
    symlink(&inside, &link).unwrap();
    let (code, _, said) = run(home.command(&["--stable-log", &link]));
    assert!(code == 5 && said.contains("cannot use the log"), "{said}");
    assert!(!Path::new(&inside).exists());
    fs::write(&inside, "").unwrap();
    let (code, _, said) = run(home.command(&["--stable-log", &link]));
    assert!(code == 2 && said.contains("lies in the served directory"), "{said}");
    fs::hard_link(&inside, home.path("second")).unwrap();
    let (code, _, said) = run(home.command(&["--stable-log", &home.path("second")]));
    assert!(code == 5 && said.contains("several names"), "{said}");
    assert_eq!(fs::read(&inside).unwrap(), b"");
    if geteuid().is_root() {
        let other = home.path("other");
        let serve = home.command(&["--stable-log", &format!("{other}/log")]);
        let (code, _, said) = run(with_mounted(&home.path("data"), &other, &serve));
        assert!(code == 2 && said.contains("lies in the served directory"), "{said}");
    }
    let (code, _, said) =
        run(home.command(&["--stable-log", &home.path("log"), "--durability", "memory"]));
    assert!(code == 2 && said.contains("choose one"), "{said}");
}
