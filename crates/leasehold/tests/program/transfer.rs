//! `leasehold cp` with unusual sources: streams, holes, devices, and names that are not UTF-8.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use leasehold_rig::{EXPORT, Manners, MemServer};

use crate::support::{Home, Serving, address, leasehold, run};

fn url(server: &MemServer, path: &str) -> String {
    format!("nfs://{}/{EXPORT}{path}", server.address())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn named_stream_is_copied_to_its_end() {
    let server = MemServer::start(Manners::Full);
    // The last length exceeds the data that the copy holds at once, and is not a multiple of a
    // unit.
    for length in [0, 4, 70_000_001] {
        let content: Vec<u8> = (0..length).map(|at: u32| at.to_le_bytes()[1]).collect();
        let there = url(&server, "/stream");
        let mut copying = leasehold(&["cp", "--json", "/dev/stdin", &there]);
        let copying = copying.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut copying = copying.spawn().unwrap();
        copying.stdin.take().unwrap().write_all(&content).unwrap();
        let done = copying.wait_with_output().unwrap();
        assert!(done.status.success());
        let said: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!((&said["files"], &said["bytes"]), (&1.into(), &length.into()));
        let back = leasehold(&["cat", &there]).output().unwrap();
        assert!(back.status.success() && back.stdout == content);
    }
    // In a directory the copy has the name of the stream.
    let words = ["cp", "/dev/stdin", &url(&server, "")];
    let (code, _, complaint) = run(leasehold(&words));
    assert_eq!(code, 0, "{complaint}");
    let (_, names, _) = run(leasehold(&["ls", &url(&server, "")]));
    assert_eq!(names, "stdin\nstream\n");
}

#[test]
fn skipped_object_fails_the_copy() {
    let server = MemServer::start(Manners::Full);
    let home = tempfile::tempdir().unwrap();
    let here = home.path().join("tree");
    fs::create_dir(&here).unwrap();
    fs::write(here.join("file"), "content").unwrap();
    let pipe = Command::new("mkfifo").arg(here.join("pipe")).status().unwrap();
    assert!(pipe.success());
    let (code, said, complaint) =
        run(leasehold(&["cp", "-r", "--json", text(&here), &url(&server, "")]));
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("pipe: skipped"), "{complaint}");
    assert!(complaint.contains("1 objects were not copied"), "{complaint}");
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["skipped"], &said["files"]), (&1.into(), &1.into()));
}

#[test]
fn mode_is_kept_without_set_id_bits() {
    let server = MemServer::start(Manners::Full);
    let home = tempfile::tempdir().unwrap();
    let here = home.path().join("tree");
    fs::create_dir(&here).unwrap();
    fs::write(here.join("program"), "").unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    mode(&here.join("program"), 0o6755).unwrap();
    mode(&here, 0o3777).unwrap();
    let back = home.path().join("back");
    for words in [
        ["cp", "-rp", text(&here), &url(&server, "/tree")],
        ["cp", "-rp", &url(&server, "/tree"), text(&back)],
    ] {
        let (code, _, complaint) = run(leasehold(&words));
        assert_eq!(code, 0, "{complaint}");
    }
    let kept = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!(kept(&back), 0o3777);
    assert_eq!(kept(&back.join("program")), 0o755);
}

#[test]
fn command_line_name_need_not_be_utf8() {
    let server = MemServer::start(Manners::Full);
    let home = tempfile::tempdir().unwrap();
    let odd = OsStr::from_bytes(b"odd \xff name");
    fs::write(home.path().join(odd), "content").unwrap();
    let mut copy = leasehold(&["cp"]);
    copy.arg(home.path().join(odd)).arg(url(&server, ""));
    let (code, _, complaint) = run(copy);
    assert_eq!(code, 0, "{complaint}");
    let mut cat = leasehold(&["cat"]);
    let there = [url(&server, "/").as_bytes(), odd.as_bytes()].concat();
    cat.arg(OsStr::from_bytes(&there));
    assert_eq!(run(cat).1, "content");
    let mut back = leasehold(&["cp"]);
    let other = OsStr::from_bytes(b"\xfe");
    back.arg(OsStr::from_bytes(&there)).arg(home.path().join(other));
    assert_eq!(run(back).0, 0);
    assert_eq!(fs::read(home.path().join(other)).unwrap(), b"content");
}

#[test]
fn holes_of_a_file_are_holes_of_its_copy() {
    let home = Home::new();
    let (_serving, ready) = Serving::with_json(&home, &["--insecure"]);
    let at = format!("nfs://{}/data", address(&ready));
    let size = 64 << 20;
    for (name, parts) in [
        ("middle", vec![(20 << 20, &b"data"[..])]),
        ("ends", vec![(0, &b"first"[..]), (size - 4, b"last")]),
        ("empty", vec![]),
    ] {
        let here = home.path(name);
        let file = File::create(&here).unwrap();
        file.set_len(size).unwrap();
        for (place, data) in parts {
            file.write_all_at(data, place).unwrap();
        }
        let back = home.path(&format!("{name} back"));
        for words in [["cp", &here, &at], ["cp", &format!("{at}/{name}"), &back]] {
            let (code, _, complaint) = run(leasehold(&words));
            assert_eq!(code, 0, "{complaint}");
        }
        let original = fs::read(&here).unwrap();
        for copy in [home.path(&format!("data/{name}")), back] {
            let known = fs::metadata(&copy).unwrap();
            assert_eq!(known.len(), size, "{copy}");
            assert!(known.blocks() * 512 <= 4 << 20, "{copy} takes {} blocks", known.blocks());
            assert!(fs::read(&copy).unwrap() == original, "{copy}");
        }
    }
}
