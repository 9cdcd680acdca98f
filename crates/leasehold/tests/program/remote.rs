//! `leasehold ls`, `cat`, `stat` and `cp` without a mount, against servers with different
//! behaviour.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use leasehold_rig::{Cable, Cut, EXPORT, Faults, Manners, MemServer};
use tempfile::TempDir;

use crate::support::{Home, Serving, TIMEOUT, address, leasehold, run};

fn url(server: SocketAddr, path: &str) -> String {
    format!("nfs://{server}/{EXPORT}{path}")
}

/// Runs a command that must succeed; returns its output.
fn done(arguments: &[&str]) -> String {
    let (code, said, complaints) = run(leasehold(arguments));
    assert_eq!(code, 0, "{arguments:?}: {complaints}");
    said
}

/// Runs a command that must fail; returns its error.
fn fails(arguments: &[&str]) -> String {
    let (code, _, complaints) = run(leasehold(arguments));
    assert_ne!(code, 0, "{arguments:?}");
    complaints
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns bytes that differ from place to place.
fn pattern(length: u32) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0]).collect()
}

/// Creates a tree with large and small files, an empty file, a link, and names of all kinds.
fn tree(large: u32) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let tree = home.path().join("tree");
    fs::create_dir_all(tree.join("folder/empty folder")).unwrap();
    fs::write(tree.join("large"), pattern(large)).unwrap();
    fs::write(tree.join("folder/empty"), b"").unwrap();
    for number in 0..40 {
        fs::write(tree.join(format!("folder/file %{number}")), format!("{number}\n")).unwrap();
    }
    symlink("folder/file %7", tree.join("link")).unwrap();
    home
}

fn assert_same(one: &Path, other: &Path) {
    let (mut pairs, mut seen) = (vec![(one.to_owned(), other.to_owned())], 0);
    while let Some((one, other)) = pairs.pop() {
        seen += 1;
        let kind = fs::symlink_metadata(&one).unwrap().file_type();
        assert_eq!(kind, fs::symlink_metadata(&other).unwrap().file_type(), "{}", one.display());
        if kind.is_symlink() {
            assert_eq!(fs::read_link(&one).unwrap(), fs::read_link(&other).unwrap());
        } else if kind.is_dir() {
            let names = |path: &Path| {
                let entries = fs::read_dir(path).unwrap().map(|it| it.unwrap().file_name());
                entries.collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(names(&one), names(&other), "{}", one.display());
            pairs.extend(names(&one).iter().map(|name| (one.join(name), other.join(name))));
        } else {
            assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap(), "{}", one.display());
        }
    }
    assert!(seen > 40);
}

/// Runs all commands against one server.
fn everything(server: SocketAddr, large: u32, options: &[&str]) {
    let home = tree(large);
    let here = home.path().join("tree");
    let with = |arguments: &[&str]| done(&[arguments, options].concat());
    let top = url(server, "");
    with(&["cp", "-r", text(&here), &top]);
    assert_eq!(with(&["ls", &top]), "tree\n");
    assert_eq!(with(&["ls", &url(server, "/tree")]), "folder\nlarge\nlink\n");
    let back = home.path().join("back");
    let said = with(&["cp", "-r", "--json", &url(server, "/tree"), text(&back)]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["files"], &said["directories"], &said["symlinks"]),
        (&42.into(), &3.into(), &1.into())
    );
    assert_same(&here, &back);

    // Through a link, and with a name whose bytes must be escaped.
    assert_eq!(with(&["cat", &url(server, "/tree/link")]), "7\n");
    assert_eq!(with(&["cat", &url(server, "/tree/folder/file%20%257")]), "7\n");
    assert_eq!(with(&["cat", &url(server, "/tree/folder/empty")]), "");
    let stat = with(&["stat", "--json", &url(server, "/tree/link")]);
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!((&stat["type"], &stat["target"]), (&"symlink".into(), &"folder/file %7".into()));
    let list = with(&["ls", "--json", &url(server, "/tree")]);
    let list: Vec<serde_json::Value> =
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&list[1]["name"], &list[1]["size"]), (&"large".into(), &large.into()));

    // On the server, over an existing file, and onto itself.
    with(&["cp", &url(server, "/tree/folder/file%20%251"), &url(server, "/tree/folder/empty")]);
    with(&[
        "cp",
        &url(server, "/tree/folder/file%20%252"),
        &url(server, "/tree/folder/file%20%2511"),
    ]);
    assert_eq!(with(&["cat", &url(server, "/tree/folder/file%20%2511")]), "2\n");
    let file = url(server, "/tree/link");
    let itself = url(server, "/tree/folder/file%20%257");
    let complaint = fails(&[&["cp", &file, &itself], options].concat());
    assert!(complaint.contains("the same file"), "{complaint}");
    assert_eq!(with(&["cat", &file]), "7\n", "and nothing is lost");
    let complaint = fails(
        &[&["cp", "-r", &url(server, "/tree"), &url(server, "/tree/folder")], options].concat(),
    );
    assert!(complaint.contains("into itself"), "{complaint}");
}

#[test]
fn works_with_our_server() {
    let home = Home::new();
    let (_serving, ready) = Serving::with_json(&home, &["--insecure"]);
    everything(address(&ready), 3_000_000, &[]);
}

#[test]
fn works_with_minimal_servers() {
    let stingy = MemServer::start(Manners::Stingy);
    everything(stingy.address(), 3000, &[]);
    let old = MemServer::start(Manners::Version2Only);
    everything(old.address(), 300_000, &[]);
}

#[test]
fn works_over_udp_and_over_several_connections() {
    let server = MemServer::start(Manners::Full);
    everything(server.address(), 300_000, &["--udp"]);
    let server = MemServer::start(Manners::Full);
    everything(server.address(), 3_000_000, &["--connections", "3", "--in-flight", "2"]);
}

/// The server loses uncommitted data, as in a restart: the copy writes the data again.
#[test]
fn data_lost_by_a_restart_is_rewritten() {
    let server = MemServer::start(Manners::Full);
    // Slow enough that most data is still to be sent when the server loses the first part.
    let faults = Faults { round_trip: Duration::from_millis(40), ..Faults::default() };
    let cable = Cable::lay("127.0.0.1:0".parse().unwrap(), server.address(), faults).unwrap();
    let home = tempfile::tempdir().unwrap();
    let here = home.path().join("file");
    fs::write(&here, pattern(32 << 20)).unwrap();
    let there = url(cable.address(), "/file");
    let mut copying = leasehold(&["cp", "--json", "--in-flight", "1", text(&here), &there]);
    let copying = copying.stdout(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + TIMEOUT;
    while cable.counters().bytes < 4 << 20 {
        assert!(Instant::now() < end, "nothing is copied");
        std::thread::sleep(Duration::from_millis(1));
    }
    cable.cut(Cut::Both);
    server.store().crash();
    cable.mend();
    let output = copying.wait_with_output().unwrap();
    assert!(output.status.success());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(said["bytes_written_again"].as_u64().unwrap() > 0, "{said}");
    assert_eq!(said["bytes"], 32 << 20);
    let back = home.path().join("back");
    done(&["cp", &url(server.address(), "/file"), text(&back)]);
    assert!(fs::read(&here).unwrap() == fs::read(&back).unwrap());
}

#[test]
fn modes_and_times_are_kept_on_request() {
    let server = MemServer::start(Manners::Full);
    let home = tree(1000);
    let here = home.path().join("tree");
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = fs::FileTimes::new().set_modified(old).set_accessed(old);
    for path in ["large", "folder"] {
        fs::File::open(here.join(path)).unwrap().set_times(times).unwrap();
    }
    done(&["cp", "-rp", text(&here), &url(server.address(), "/kept")]);
    let back = home.path().join("back");
    done(&["cp", "-rp", &url(server.address(), "/kept"), text(&back)]);
    for path in ["large", "folder"] {
        let (one, other) = (fs::metadata(here.join(path)), fs::metadata(back.join(path)));
        let known =
            |it: std::io::Result<fs::Metadata>| it.map(|it| (it.mode(), it.mtime())).unwrap();
        let (one, other) = (known(one), known(other));
        assert_eq!(one, other, "{path}");
        assert_eq!(one.1, 1_000_000_000);
    }
}

#[test]
fn errors_are_reported() {
    let server = MemServer::start(Manners::Full);
    let at = server.address();
    let complaint = fails(&["cat", &url(at, "/nothing")]);
    assert!(complaint.contains("/data/nothing: no such file or directory"), "{complaint}");
    assert!(fails(&["cat", &url(at, "")]).contains("is a directory"));
    assert!(fails(&["cp", &url(at, ""), "/tmp"]).contains("--recursive"));
    assert!(fails(&["cp", "a", "b"]).contains("one side of a copy must be on a server"));
    assert!(fails(&["ls", "http://host/"]).contains("it does not begin with nfs://"));
    let complaint = fails(&["ls", "--nfs-version", "2", &format!("nfs://{at}/other")]);
    assert!(complaint.contains("no such file or directory"), "{complaint}");
    drop(server);
    let complaint = fails(&["ls", &url(at, "")]);
    assert!(complaint.contains("refused"), "{complaint}");
}
