//! Stripes of removed files, whose iods are unreachable or crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{iod, iod_command, meta, started, try_mount};
use crate::repair::objects;
use crate::support::{Home, Serving, SmallDisk, address, leasehold, put, run, who};

const IODS: [&str; 3] = ["one", "two", "three"];

/// A bound for each wait. Each wait ends as soon as its condition holds.
const TIMEOUT: Duration = Duration::from_secs(90);

struct World {
    home: Home,
    runtime: Runtime,
    iods: Vec<Serving>,
    ports: Vec<u16>,
    serving: Serving,
    server: Mounted,
    options: Vec<&'static str>,
}

impl World {
    fn new(options: &[&'static str]) -> Self {
        let (home, runtime) = (Home::new(), Runtime::start().unwrap());
        let (iods, ports): (Vec<_>, Vec<_>) =
            IODS.iter().map(|name| iod(&home, name, "key", 0)).unzip();
        let options = options.to_vec();
        let (serving, server) = start(&home, &runtime, &ports, &options);
        Self { home, runtime, iods, ports, serving, server, options }
    }

    fn start(&mut self) {
        let (serving, server) = start(&self.home, &self.runtime, &self.ports, &self.options);
        (self.serving, self.server) = (serving, server);
    }

    fn start_iod(&mut self, number: usize) {
        self.iods[number] = iod(&self.home, IODS[number], "key", self.ports[number]).0;
    }

    fn put(&self, name: &str) {
        block_on(put(&self.server, name.as_bytes(), &Bytes::from(vec![7; 100_000])));
    }

    fn remove(&self, name: &str) {
        let who = who();
        let removed = self.server.nfs.remove(&who, &self.server.root, name.as_bytes());
        block_on(removed).unwrap().done().unwrap();
    }

    /// Returns the objects of all iods.
    fn objects(&self) -> Vec<PathBuf> {
        let of = |name: &&str| objects(Path::new(&self.home.path(name)));
        IODS.iter().flat_map(of).collect()
    }

    fn status(&self) -> Value {
        let status = ["cluster", "status", "--json", "--state", &self.home.path("state")];
        let (code, said, error) = run(leasehold(&status));
        assert_eq!(code, 0, "{error}");
        let mut told: Value = serde_json::from_str(&said).unwrap();
        told[0].take()
    }

    fn status_text(&self) -> String {
        run(leasehold(&["cluster", "status", "--state", &self.home.path("state")])).1
    }

    /// Waits until the status meets a condition.
    fn wait(&self, is_there: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + TIMEOUT;
        loop {
            let told = self.status();
            if is_there(&told) {
                return told;
            }
            assert!(Instant::now() < end, "{told}");
            sleep(Duration::from_millis(50));
        }
    }
}

fn start(home: &Home, runtime: &Runtime, ports: &[u16], options: &[&str]) -> (Serving, Mounted) {
    let serving = Serving::start(meta(home, ports, options));
    let ready = serde_json::from_str(&serving.line()).unwrap();
    let server = try_mount(runtime, address(&ready).port(), "/data").unwrap();
    (serving, server)
}

/// Files are removed while an iod is unreachable, and the metaserver is stopped before the iod
/// returns. The stripes of the files stayed on the iod, and the status reported no fault.
#[test]
fn missed_removals_are_completed_after_a_restart() {
    // No search may remove the stripes.
    let mut world = World::new(&["--copies", "2", "--scrub-after", "0"]);
    world.put("kept");
    let kept = world.objects().len();
    for number in 0..10 {
        world.put(&format!("removed {number}"));
    }
    assert!(world.iods[1].end(Signal::KILL).code().is_none());
    // The first call that needs the iod detects that the iod is unreachable.
    world.wait(|told| told["iods"][1]["away"] == true);
    let begun = Instant::now();
    for number in 0..10 {
        world.remove(&format!("removed {number}"));
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "each REMOVE waited for the iod");
    let told = world.wait(|told| told["waiting_removals"] != 0);
    assert_eq!(
        (&told["waiting_removals"], &told["iods"][1]["waiting_removals"]),
        (&20.into(), &20.into())
    );
    assert!(world.status_text().contains("20 stripes of removed files await removal"));
    assert!(world.serving.end(Signal::TERM).success());
    world.start();
    assert_eq!(world.status()["waiting_removals"], 20);
    assert_eq!(world.objects().len(), kept + 20);
    world.start_iod(1);
    world.wait(|told| told["waiting_removals"] == 0);
    assert_eq!(world.objects().len(), kept);
    assert!(world.serving.end(Signal::TERM).success());
}

/// An iod with a read-only file system replies, and counted as healthy. With two copies neither the
/// status nor the log named the iod, and the stripes of files that clients removed meanwhile
/// stayed.
#[test]
fn iod_with_read_only_file_system_is_reported_and_removes_its_stripes_later() {
    let mut world = World::new(&["--copies", "2", "--scrub-after", "0"]);
    world.put("kept");
    let kept = world.objects().len();
    world.put("removed");
    assert!(world.iods[1].end(Signal::KILL).code().is_none());
    let command = iod_command(&world.home, IODS[1], "key", world.ports[1]);
    let mut unshared = std::process::Command::new("unshare");
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && shift && exec \"$@\"";
    unshared.args(["--mount", "sh", "-c", script, "sh", &world.home.path(IODS[1])]);
    unshared.arg(command.get_program()).args(command.get_args());
    world.iods[1] = started(unshared).0;
    let told = world.wait(|told| told["iods"][1]["refuses"].is_string());
    assert_eq!(told["iods"][1]["refuses"], "its file system is read-only");
    assert!(told["iods"][0]["refuses"].is_null() && told["iods"][2]["refuses"].is_null());
    assert!(world.status_text().contains("rejects changes: its file system is read-only"));
    let mut check = leasehold(&["cluster", "check", "--cluster-key", &world.home.path("key")]);
    check.args(world.ports.iter().map(|port| format!("--iod=127.0.0.1:{port}")));
    let (code, said, error) = run(check);
    assert!(code != 0 && said.contains("its file system is read-only"), "{said}{error}");
    world.remove("removed");
    assert_eq!(world.wait(|told| told["waiting_removals"] != 0)["waiting_removals"], 2);
    assert!(world.iods[1].end(Signal::TERM).success());
    world.start_iod(1);
    world.wait(|told| told["waiting_removals"] == 0 && told["iods"][1]["refuses"].is_null());
    assert_eq!(world.objects().len(), kept);
    assert!(world.serving.end(Signal::TERM).success());
}

/// The processes of a cluster start with their earlier state, on disks without any free space.
#[test]
fn cluster_starts_on_full_disks_and_keeps_its_list_of_removals() {
    let (home, runtime) = (Home::new(), Runtime::start().unwrap());
    let disks = ["state", "state-one", "state-two"].map(|name| SmallDisk::at(home.path(name)));
    let start_iod = |name, port| iod(&home, name, "key", port);
    let (mut one, first) = start_iod("one", 0);
    let (mut two, second) = start_iod("two", 0);
    let (ports, options) = ([first, second], ["--copies", "2", "--scrub-after", "0"]);
    let (mut serving, server) = start(&home, &runtime, &ports, &options);
    let data = Bytes::from(vec![7; 100_000]);
    for name in ["first", "second"] {
        block_on(put(&server, name.as_bytes(), &data));
    }
    for part in [&mut one, &mut two, &mut serving] {
        part.end(Signal::KILL);
    }
    disks.iter().for_each(SmallDisk::fill);
    let ((_one, _), (mut two, _)) = (start_iod("one", first), start_iod("two", second));
    let (serving, server) = start(&home, &runtime, &ports, &options);
    let mut world = World {
        home,
        runtime,
        iods: Vec::new(),
        ports: ports.to_vec(),
        serving,
        server,
        options: options.to_vec(),
    };
    // The test unmounts a disk before it removes the mount point of the disk.
    let _disks = disks;
    world.put("third");
    two.end(Signal::KILL);
    world.wait(|told| told["iods"][1]["away"] == true);
    world.remove("first");
    let waiting = world.wait(|told| told["waiting_removals"] != 0)["waiting_removals"].clone();
    world.serving.end(Signal::KILL);
    world.start();
    assert_eq!(world.status()["waiting_removals"], waiting);
    let _two = iod(&world.home, "two", "key", second);
    world.wait(|told| told["waiting_removals"] == 0);
    assert!(world.serving.end(Signal::TERM).success());
}

/// A crash between a name and its objects leaves objects that belong to no file. The next start
/// searches for these objects; a start after an orderly end does not.
#[test]
fn stripes_left_by_a_crash_are_removed_in_the_background() {
    let mut world = World::new(&["--scrub-after", "1"]);
    for number in 0..6 {
        world.put(&format!("kept {number}"));
    }
    world.wait(|told| told["orphans_possible"] == false && told["orphans"] == 0);
    let kept = world.objects();
    assert!(world.serving.end(Signal::TERM).success());
    world.start();
    assert_eq!(world.status()["orphans_possible"], false, "the end was orderly");
    // The state after a crash: an object whose name comes from another start.
    let left: Vec<PathBuf> = kept.iter().take(3).map(|object| left_like(object)).collect();
    assert!(world.serving.end(Signal::KILL).code().is_none());
    world.start();
    assert!(world.status()["orphans_possible"] == true);
    assert!(world.status_text().contains("a search is pending"));
    world.wait(|told| told["orphans_possible"] == false && told["orphans"] == 0);
    assert!(left.iter().all(|object| !object.exists()));
    assert!(kept.iter().all(|object| object.exists()));
    assert!(world.serving.end(Signal::TERM).success());
}

/// A backup of the names lacks later files. The stripes of these files stay until an administrator
/// requests their removal.
#[test]
fn names_from_a_backup_cause_no_removal_in_the_background() {
    let mut world = World::new(&["--scrub-after", "1"]);
    for number in 0..6 {
        world.put(&format!("kept {number}"));
    }
    let (names, backup) = (world.home.path("data"), world.home.path("backup"));
    fs::create_dir(&backup).unwrap();
    for entry in fs::read_dir(&names).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), Path::new(&backup).join(entry.file_name())).unwrap();
    }
    let kept = world.objects().len();
    world.put("new");
    let all = world.objects().len();
    assert!(kept < all);
    assert!(world.serving.end(Signal::KILL).code().is_none());
    fs::rename(&names, world.home.path("lost")).unwrap();
    fs::rename(&backup, &names).unwrap();
    world.start();
    world.wait(|told| told["orphans"] == all - kept);
    // The objects stay after several searches, and after another start.
    sleep(Duration::from_secs(4));
    assert_eq!(world.objects().len(), all);
    assert!(world.serving.end(Signal::KILL).code().is_none());
    world.start();
    world.wait(|told| told["orphans"] == all - kept);
    sleep(Duration::from_secs(4));
    assert_eq!(world.objects().len(), all);
    let state = world.home.path("state");
    let (code, _, error) =
        run(leasehold(&["cluster", "repair", &names, "--remove", "--state", &state]));
    assert_eq!(code, 0, "{error}");
    assert_eq!(world.objects().len(), kept);
    assert!(world.serving.end(Signal::TERM).success());
}

/// Leaves a copy of an object under another name.
fn left_like(object: &Path) -> PathBuf {
    let name = object.file_name().unwrap().to_str().unwrap();
    let last = u8::from_str_radix(&name[30..], 16).unwrap() ^ 3;
    let left = object.with_file_name(format!("{}{last:02x}", &name[..30]));
    fs::copy(object, &left).unwrap();
    left
}
