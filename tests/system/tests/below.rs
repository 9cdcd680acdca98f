//! File systems that are mounted below an export, under the Linux kernel's client and our mount.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_system_tests::mounted::Mounted;
use leasehold_system_tests::{Guest, Link, Scratch, Server, Version, output};

/// Longer than any case takes; the limit ends a test with a hanging guest.
const LIMIT: Duration = Duration::from_mins(5);

/// A tmpfs, and the place below an export where it is also mounted at times.
struct Below {
    kept: Scratch,
    place: PathBuf,
}

impl Below {
    fn new(server: &Server, name: &str) -> Self {
        let (kept, place) = (Scratch::new("kept"), server.folder().join(name));
        fs::create_dir(&place).expect("there is room");
        output(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(kept.path()));
        let below = Self { kept, place };
        below.mount();
        below
    }

    fn mount(&self) {
        output(Command::new("mount").arg("--bind").arg(self.kept.path()).arg(&self.place));
    }

    /// Unmounts, after the server has closed unused files.
    fn unmount(&self) {
        let start = Instant::now();
        while !umount(&[], &self.place) {
            assert!(start.elapsed() < LIMIT, "the server holds the mount");
            sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        umount(&["--lazy"], &self.place);
        umount(&["--lazy"], self.kept.path());
    }
}

fn umount(options: &[&str], place: &Path) -> bool {
    let done = Command::new("umount").arg("-q").args(options).arg(place).output();
    done.expect("it is there").status.success()
}

#[test]
fn the_kernels_client_enters_mounts_below_an_export() {
    let server = Server::start_with(&["--cross"]);
    let below = Below::new(&server, "one");
    let case = include_str!("../cases/below.sh");
    let guest = Guest::boot(&Arc::new(Link::new()), &server.mount(Version::V3), case, LIMIT);
    guest
        .wait(|request| match request {
            "unmount" => below.unmount(),
            "mount" => below.mount(),
            other => panic!("no such request: {other}"),
        })
        .expect_success();
    assert_eq!(fs::read(below.kept.path().join("file")).expect("it is there"), b"text\nmore\n");
    assert_eq!(fs::read_dir(&below.place).expect("it is there").count(), 2);
}

/// A bug: `ls -l` showed `?????????`.
#[test]
fn an_uncrossed_mount_is_an_empty_directory() {
    let server = Server::start();
    let below = Below::new(&server, "one");
    fs::write(below.kept.path().join("file"), "text").expect("there is room");
    let case = r#"
        ls -l >/run/list
        same "$(awk '$NF == "one" { print $1, $3 }' /run/list)" "dr-xr-xr-x root"
        same "$(names one)" ""
        refuse touch one/new
        refuse rmdir one
        same "$(find . -mindepth 1)" ./one
    "#;
    let guest = Guest::boot(&Arc::new(Link::new()), &server.mount(Version::V3), case, LIMIT);
    guest.wait(|request| panic!("no such request: {request}")).expect_success();
}

#[test]
fn our_mount_enters_mounts_below_an_export() {
    let server = Server::start_with(&["--cross"]);
    let [below, other] = ["one", "other"].map(|name| Below::new(&server, name));
    for below in [&below, &other] {
        fs::write(below.kept.path().join("file"), "text").expect("there is room");
    }
    let number = |path: &Path| fs::metadata(path).expect("it is there").ino();
    let both = [&below, &other].map(|below| number(&below.kept.path().join("file")));
    assert_eq!(both[0], both[1], "a new tmpfs begins with one number");
    let mounted = Mounted::new(&server, "", LIMIT);
    let both = ["one/file", "other/file"].map(|name| number(&mounted.path(name)));
    assert_ne!(both[0], both[1], "programs would take them for one file");
    assert_eq!(fs::read(mounted.path("one/file")).expect("it is there"), b"text");
    fs::write(mounted.path("one/new"), "new").expect("there is room");
    fs::write(mounted.path("above"), "above").expect("there is room");
    assert!(fs::hard_link(mounted.path("one/new"), mounted.path("link")).is_err());
    drop(mounted);
    assert_eq!(fs::read(below.kept.path().join("new")).expect("it is there"), b"new");
}
