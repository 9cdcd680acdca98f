//! Iods that return in the state of a backup.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::nfs::messages::{Handle, Status, write};
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::{iod, meta, try_mount};
use crate::support::{Home, Serving, TIMEOUT, address, leasehold, put, run, who};

const IODS: [&str; 3] = ["one", "two", "three"];

const LENGTH: u32 = 60_000;

/// Copies a directory of objects, over existing files.
fn copy(from: &Path, to: &Path) {
    let _ = fs::create_dir(to);
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Replaces a directory by a copy of a backup.
fn restore(home: &Home, name: &str) {
    let place = home.path(name);
    fs::rename(&place, home.path(&format!("{name}-present"))).unwrap();
    copy(Path::new(&home.path(&format!("{name}-backup"))), Path::new(&place));
}

/// Copies a backup into the present files, which keep their handles and owners.
pub(crate) fn restore_in_place(home: &Home, name: &str) {
    let backup = home.path(&format!("{name}-backup"));
    copy(Path::new(&backup), Path::new(&home.path(name)));
}

pub(crate) fn back_up(home: &Home, name: &str) {
    let backup = home.path(&format!("{name}-backup"));
    copy(Path::new(&home.path(name)), Path::new(&backup));
}

struct World {
    home: Home,
    iods: Vec<(Serving, u16)>,
    _serving: Serving,
    server: Mounted,
    _runtime: Runtime,
}

/// Returns the distinct bytes of a file, all of whose data must exist.
fn read(server: &Mounted, file: &Handle) -> Result<BTreeSet<u8>, Status> {
    let read = block_on(server.nfs.read(&who(), file, 0, LENGTH)).unwrap().done()?;
    assert_eq!(read.data.len(), LENGTH as usize);
    Ok(read.data.into_iter().collect())
}

fn all(byte: u8) -> Result<BTreeSet<u8>, Status> {
    Ok(BTreeSet::from([byte]))
}

fn bytes(byte: u8) -> Bytes {
    Bytes::from(vec![byte; LENGTH as usize])
}

impl World {
    fn new(more: &[&str]) -> Self {
        let (home, runtime) = (Home::new(), Runtime::start().unwrap());
        let iods: Vec<_> = IODS.map(|name| iod(&home, name, "key", 0)).into();
        let ports: Vec<u16> = iods.iter().map(|(_, port)| *port).collect();
        let serving = Serving::start(meta(&home, &ports, more));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
        Self { home, iods, _serving: serving, server, _runtime: runtime }
    }

    fn put(&self, name: &str, byte: u8) -> Handle {
        block_on(put(&self.server, name.as_bytes(), &bytes(byte)))
    }

    fn write(&self, file: &Handle, byte: u8) {
        let what = (bytes(byte), write::Stability::FileSync);
        let done = block_on(self.server.nfs.write(&who(), file, 0, what)).unwrap().done().unwrap();
        assert_eq!(done.count, LENGTH);
    }

    /// Returns the distinct bytes of a file.
    fn read(&self, file: &Handle) -> Result<BTreeSet<u8>, Status> {
        read(&self.server, file)
    }

    /// Ends an iod in order, so that it loses nothing by its end.
    fn end(&mut self, number: usize) {
        assert!(self.iods[number].0.end(Signal::TERM).success());
    }

    fn start(&mut self, number: usize) {
        self.iods[number] = iod(&self.home, IODS[number], "key", self.iods[number].1);
    }

    /// Makes a backup of an iod, which the next end of the iod restores.
    fn back_up(&mut self, number: usize) {
        self.end(number);
        back_up(&self.home, IODS[number]);
        self.start(number);
    }

    fn end_and_restore(&mut self, number: usize) {
        self.end(number);
        restore(&self.home, IODS[number]);
        self.start(number);
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

/// The number of an iod by the name of its directory: the first start numbers the iods in the order
/// of the options.
const TWO: usize = 1;

/// The iod returned old bytes, and NULs for a later file, with status 0, and `cluster status`
/// reported no fault.
#[test]
fn iod_from_a_backup_returns_no_old_bytes() {
    let mut world = World::new(&[]);
    let file = world.put("file", 1);
    world.back_up(TWO);
    world.write(&file, 2);
    let new = world.put("new", 3);
    assert_eq!(world.read(&file), all(2));
    world.end_and_restore(TWO);
    for file in [&file, &new] {
        assert_eq!(world.read(file), Err(Status::Io));
    }
    let told = world.wait(|told| told["iods"][TWO]["older_files"] == 2);
    let older: Vec<_> = (0..3).map(|number| told["iods"][number]["older"].clone()).collect();
    assert_eq!(older, [false, true, false]);
    let text = world.status_text();
    assert!(text.contains("OLDER than the metaserver's record"), "{text}");
    assert!(text.contains("2 files have no other copy and fail with EIO"), "{text}");
    // The command rejects an iod that is current.
    let data = world.home.path("data");
    let believe = |iod| {
        run(leasehold(&["cluster", "believe", &data, iod, "--state", &world.home.path("state")]))
    };
    let (code, _, said) = believe("0");
    assert!(code != 0 && said.contains("is accepted already"), "{said}");
    assert_ne!(believe("7").0, 0);
    // The test restores the iod's own data.
    world.end(TWO);
    fs::rename(world.home.path("two"), world.home.path("two-older")).unwrap();
    fs::rename(world.home.path("two-present"), world.home.path("two")).unwrap();
    world.start(TWO);
    assert_eq!((world.read(&file), world.read(&new)), (all(2), all(3)));
    world.wait(|told| told["iods"][TWO]["older"] == false);
    // The test restores the backup once more, and an administrator makes the metaserver accept it.
    world.end_and_restore(TWO);
    assert_eq!(world.read(&file), Err(Status::Io));
    let believe = ["cluster", "believe", &data, "1", "--state", &world.home.path("state")];
    let (code, said, error) = run(leasehold(&believe));
    assert!(code == 0 && said.contains("accepts the data of iod"), "{said}{error}");
    assert_eq!(world.read(&file), Ok(BTreeSet::from([1, 2])), "a part is old, as requested");
    world.wait(|told| told["iods"][TWO]["older"] == false);
}

#[test]
fn iod_from_a_backup_is_rebuilt_from_second_copies() {
    let mut world = World::new(&["--copies", "2"]);
    let file = world.put("file", 1);
    world.back_up(TWO);
    world.write(&file, 2);
    let new = world.put("new", 3);
    let are_right = |world: &World| {
        assert_eq!((world.read(&file), world.read(&new)), (all(2), all(3)));
    };
    // The metaserver has rebuilt the data that the iod missed.
    world.wait(|told| told["settled"] == true && told["behind"] == 0);
    are_right(&world);
    world.end_and_restore(TWO);
    are_right(&world);
    let log = world.wait(|told| {
        told["iods"][TWO]["older"] == false && told["settled"] == true && told["behind"] == 0
    });
    are_right(&world);
    assert_eq!(log["iods"][TWO]["away"], false);
    for lost in [0, 2] {
        assert!(world.iods[lost].0.end(Signal::KILL).code().is_none());
        are_right(&world);
        world.start(lost);
        world.wait(|told| told["settled"] == true && told["behind"] == 0);
    }
}

/// A metaserver that did not run during the restore detects the older state at its start, for a
/// local directory as for an iod.
#[test]
fn stripe_directory_from_a_backup_returns_no_old_bytes() {
    let (home, runtime) = (Home::new(), Runtime::start().unwrap());
    let serve = || {
        let [one, two] = ["one", "two"].map(|name| home.path(name));
        for place in [&one, &two] {
            let _ = fs::create_dir(place);
        }
        let words = ["--stripe", &one, "--stripe", &two, "--stripe-unit", "4"];
        let words = [&words[..], &["--stripe-inline", "4"]].concat();
        let (serving, ready) = Serving::with_json(&home, &words);
        let server = try_mount(&runtime, address(&ready).port(), "/data").unwrap();
        (serving, server)
    };
    let (mut serving, server) = serve();
    let file = block_on(put(&server, b"file", &bytes(1)));
    assert!(serving.end(Signal::TERM).success());
    back_up(&home, "one");
    let (mut serving, server) = serve();
    let what = (bytes(2), write::Stability::FileSync);
    block_on(server.nfs.write(&who(), &file, 0, what)).unwrap().done().unwrap();
    assert!(serving.end(Signal::TERM).success());
    restore(&home, "one");
    let (mut serving, server) = serve();
    assert_eq!(read(&server, &file), Err(Status::Io));
    assert!(serving.end(Signal::TERM).success());
    // Without the file of the rollback counters the metaserver accepts the stripes, like an earlier
    // version.
    let state = fs::read_dir(home.path("state")).unwrap().map(|entry| entry.unwrap().path());
    let is_of_turns = |path: &PathBuf| path.to_str().unwrap().contains("/turns-");
    let turns: Vec<PathBuf> = state.filter(is_of_turns).collect();
    assert_eq!(turns.len(), 1, "{turns:?}");
    fs::remove_file(&turns[0]).unwrap();
    let (_serving, server) = serve();
    assert_eq!(read(&server, &file), Ok(BTreeSet::from([1, 2])));
}
