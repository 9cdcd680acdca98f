//! A mount where users and programs expect a local file system, or the kernel's client: times,
//! permissions, positions in directories, options, and the end of a mount.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_system_tests::mounted::{Mounted, source, status};
use leasehold_system_tests::{Scratch, Server, built, output};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom, linkat, mkdirat, openat, seek, statat, symlinkat,
};

/// Longer than any operation takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// Waits until a condition holds.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A bug: `make` and `cargo build` considered files changed that they had built, because the times
/// of the files changed when the mount sent the written data.
#[test]
fn times_that_a_program_has_read_stay() {
    for options in ["writedelay=1", "cache=buffer,writedelay=1", "cache=close-to-open"] {
        let server = Server::start();
        let mounted = Mounted::new(&server, options, LIMIT);
        let mut file = File::create(mounted.path("file")).expect("there is room");
        file.write_all(b"text").expect("there is room");
        let shown = file.metadata().expect("it is there");
        let there = || fs::metadata(server.folder().join("file")).expect("it is there");
        until("the server has it", || there().len() == 4);
        until("all is safe", || mounted.status()["unsaved_bytes"] == 0);
        let times = |seen: &fs::Metadata| (seen.mtime(), seen.mtime_nsec());
        let changed = |seen: &fs::Metadata| (seen.ctime(), seen.ctime_nsec());
        until("the time is there", || times(&there()) == times(&shown));
        let seen = fs::metadata(mounted.path("file")).expect("it is there");
        assert_eq!((times(&seen), changed(&seen)), (times(&shown), changed(&shown)), "{options}");
        // An open by another user flushes the mode, which changes the server's change time.
        let mut other = Command::new("setpriv");
        let other = other.args(["--reuid=1000", "--regid=1000", "--clear-groups", "cat"]);
        output(other.arg(mounted.path("file")));
        let seen = fs::metadata(mounted.path("file")).expect("it is there");
        assert_eq!(changed(&seen), changed(&shown), "{options}");
    }
}

/// A bug: the kernel denied operations by mode bits that the server permits.
#[test]
fn the_server_checks_permissions() {
    const RULE: &str = "[[export]]\ndirectory = 'FOLDER/pub'\n[[export.client]]\nfrom = ['*']\n\
                        squash = 'all'\nanonuid = 568\nanongid = 568\n";
    let make = "mkdir -m 700 pub; cp /bin/true pub/run; chmod 711 pub/run; chown 568:568 pub";
    let server = Server::start_configured(make, RULE, "root:x:0:0::/:/bin/sh\n", "root:x:0:\n");
    let source = format!("127.0.0.1:{}:/pub", server.port());
    let user = |mounted: &Mounted, case: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-euc", case]);
        command.current_dir("/").env("M", mounted.folder());
        let done = command.output().expect("it is there");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        done.status.success().then_some(()).ok_or(said)
    };
    let mounted = Mounted::of(&source, "", LIMIT);
    let works = "touch $M/x; echo text >$M/x; test $(cat $M/x) = text; mkdir -m 700 $M/d
                 cd $M/d; test -w .; touch y; ls | grep y; cd ..; rm d/y; rmdir d; test ! -r run; ./run
                 ! cat run 2>/dev/null";
    assert_eq!(user(&mounted, works), Ok(()));
    // A lookup by one user shows no name to another user: here the server permits both users.
    assert_eq!(fs::read(mounted.path("x")).expect("root is the same user there"), b"text\n");
    drop(mounted);
    let mounted = Mounted::of(&source, "default_permissions", LIMIT);
    let refused = user(&mounted, "touch $M/x").expect_err("the kernel decides by mode bits");
    assert!(refused.contains("Permission denied"), "{refused}");
}

/// One user fills the kernel's cache with names of a directory that another user may not search.
#[test]
fn a_private_directory_is_searched_only_with_permission() {
    let server = Server::start();
    let mounted = Mounted::new(&server, "", LIMIT);
    let place = mounted.path("private");
    fs::create_dir(&place).expect("there is room");
    fs::write(place.join("open"), "text").expect("there is room");
    let mode = |bits| std::os::unix::fs::PermissionsExt::from_mode(bits);
    let stranger = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "cat"]);
        command.arg(place.join("open")).output().expect("it is there").status.success()
    };
    assert!(stranger(), "everybody may");
    for _ in 0..3 {
        fs::set_permissions(&place, mode(0o700)).expect("it is ours");
        fs::metadata(place.join("open")).expect("it is ours");
        assert!(!stranger(), "nobody else may search it");
        fs::set_permissions(&place, mode(0o755)).expect("it is ours");
        assert!(stranger(), "everybody may again");
    }
}

#[test]
fn unrepresentable_times_become_the_nearest_value() {
    let server = Server::start();
    let mounted = Mounted::new(&server, "", LIMIT);
    let place = mounted.folder().display();
    let case = format!(
        "touch -d 1965-01-01 {place}/old; touch -d 2200-01-01 {place}/new
         test $(stat -c %Y {place}/old) = 0; test $(stat -c %Y {place}/new) = 4294967295"
    );
    output(Command::new("sh").args(["-euc", &case]));
    let there = || fs::metadata(server.folder().join("old")).expect("it is there");
    until("the server has it", || there().mtime() == 0);
}

/// A bug: programs of 32 bits have 31 bits for a position, and listed no names.
#[test]
fn positions_in_a_directory_fit_programs_of_32_bits() {
    let server = Server::start();
    let mounted = Mounted::new(&server, "", LIMIT);
    for name in 0..3000 {
        fs::write(server.folder().join(format!("{name}")), "").expect("there is room");
    }
    let opened = File::open(mounted.folder()).expect("it is there");
    let mut room = Vec::with_capacity(8192);
    let mut listing = RawDir::new(&opened, room.spare_capacity_mut());
    let mut places = Vec::new();
    while let Some(entry) = listing.next() {
        let entry = entry.expect("it can be listed");
        places.push((entry.next_entry_cookie(), entry.file_name().to_owned()));
    }
    assert_eq!(places.len(), 3002);
    let most = places.iter().map(|(place, _)| *place).max();
    assert!(most < Some(1 << 31), "{most:?}");
    // Each position leads back to its place in the listing.
    for at in [5, 1500, 0] {
        seek(&opened, SeekFrom::Start(places[at].0)).expect("it is told");
        let mut room = Vec::with_capacity(8192);
        let mut listing = RawDir::new(&opened, room.spare_capacity_mut());
        let next = listing.next().expect("there are more").expect("it can be listed");
        assert_eq!(next.file_name(), &*places[at + 1].1);
    }
}

#[test]
fn an_open_removed_directory_behaves_like_a_local_one() {
    let server = Server::start();
    for options in ["", "default_permissions", "cache=close-to-open"] {
        let mounted = Mounted::new(&server, options, LIMIT);
        let mut errors = Vec::new();
        for place in [mounted.path("gone"), Scratch::new("local").path().join("gone")] {
            fs::create_dir_all(&place).expect("there is room");
            let opened = File::open(&place).expect("it is there");
            fs::remove_dir(&place).expect("it is empty");
            let made = OFlags::CREATE | OFlags::RDWR;
            let mut room = Vec::with_capacity(4096);
            let mut listing = RawDir::new(&opened, room.spare_capacity_mut());
            let listed = listing.next().map(|entry| entry.map(drop));
            errors.push((
                openat(&opened, "x", made, Mode::RUSR).map(drop),
                mkdirat(&opened, "x", Mode::RWXU),
                symlinkat("a", &opened, "x"),
                linkat(CWD, "/etc/passwd", &opened, "x", AtFlags::empty()).map_err(drop),
                statat(&opened, "x", AtFlags::empty()).map(drop),
                listed,
                rustix::fs::fstat(&opened).map(|seen| seen.st_nlink),
            ));
        }
        assert_eq!(errors[0], errors[1], "{options}");
    }
}

/// A bug: a user could not end a mount that was detached while its server was down.
#[test]
fn a_detached_mount_ends_on_request() {
    let mut server = Server::start();
    let (folder, logs) = (Scratch::new("mount"), Scratch::new("logs"));
    let log = logs.path().join("log");
    let mut command = Command::new(built());
    command.arg("mount").arg("--log-file").arg(&log).arg(source(&server)).arg(folder.path());
    output(&mut command);
    let pid = status(folder.path()).expect("it is mounted")["pid"].to_string();
    let process = Path::new("/proc").join(&pid);
    fs::write(folder.path().join("file"), "text").expect("there is room");
    server.pause();
    output(Command::new(built()).args(["umount", "--lazy"]).arg(folder.path()));
    assert!(process.exists(), "it has something to be saved");
    output(Command::new("kill").arg(&pid));
    until("it has ended", || !process.exists());
    let said = fs::read_to_string(&log).expect("it is there");
    assert!(said.contains("it was unmounted"), "{said}");
    assert!(said.contains("SIGTERM of process"), "{said}");
    assert!(said.contains("written data is lost"), "{said}");
    server.restart();
}

/// `mount -fav` mounts nothing; an existing mount becomes read-only, and writable again.
#[test]
fn mount_supports_dry_runs_and_remounts() {
    let (server, folder, sbin) = (Server::start(), Scratch::new("mount"), Scratch::new("sbin"));
    for name in ["mount.leasehold", "mount.fuse.leasehold"] {
        std::os::unix::fs::symlink(built(), sbin.path().join(name)).expect("there is room");
    }
    let (sbin, folder) = (sbin.path().display(), folder.path().display());
    let case = format!(
        "mount -t overlay overlay -o lowerdir={sbin}:/usr/sbin /usr/sbin
         mount -f -t leasehold -o noatime,nodiratime,lock {source} {folder}
         ! mountpoint -q {folder}
         ! mount -f -t leasehold -o qqq {source} {folder}
         mount -t leasehold -o nosuid {source} {folder}
         touch {folder}/file
         mount -o remount,ro {folder}
         grep ' {folder} fuse.leasehold ro,nosuid' /proc/self/mounts
         ! touch {folder}/file
         mount -o remount,rw {folder}
         touch {folder}/file
         umount {folder}",
        source = source(&server)
    );
    output(Command::new("unshare").args(["--mount", "sh", "-e", "-c", &case]));
}
