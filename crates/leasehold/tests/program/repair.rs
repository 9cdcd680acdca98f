//! Stripes that belong to no file, while a metaserver serves the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use bytes::Bytes;
use leasehold_session::nfs::messages::{Handle, SetAttributes, write};
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::Signal;

use crate::cluster::{iod, meta, try_mount};
use crate::support::{Home, Serving, address, leasehold, put, run, who};

/// The expected contents of files, by name.
type Written = BTreeMap<String, Bytes>;

/// A cluster with files.
struct World {
    home: Home,
    runtime: Runtime,
    iods: Vec<Serving>,
    ports: Vec<u16>,
    serving: Serving,
    port: u16,
    written: Written,
}

const IODS: [&str; 3] = ["one", "two", "three"];

impl World {
    fn new() -> Self {
        let (home, runtime) = (Home::new(), Runtime::start().unwrap());
        let (iods, ports): (Vec<_>, Vec<_>) =
            IODS.iter().map(|name| iod(&home, name, "key", 0)).unzip();
        let (serving, port) = start(&home, &ports);
        let mut world = Self { home, runtime, iods, ports, serving, port, written: Written::new() };
        let server = world.mounted();
        for number in 0..6 {
            let (name, data) = (format!("kept {number}"), bytes(number, 100_000));
            block_on(put(&server, name.as_bytes(), &data));
            world.written.insert(name, data);
        }
        block_on(put(&server, b"small", &bytes(9, 9)));
        world.written.insert("small".to_owned(), bytes(9, 9));
        world
    }

    /// Restarts the metaserver.
    fn restart(&mut self) {
        assert!(self.serving.end(Signal::TERM).success());
        (self.serving, self.port) = start(&self.home, &self.ports);
    }

    fn mounted(&self) -> Mounted {
        try_mount(&self.runtime, self.port, "/data").unwrap()
    }

    /// Leaves `count` objects on each iod, with names as of another start, or of a future file.
    fn leave(&self, count: u8) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for iod in IODS {
            let folder = PathBuf::from(self.home.path(iod));
            let model = objects(&folder).pop().unwrap();
            let name = model.file_name().unwrap().to_str().unwrap();
            let byte = |at: usize| u8::from_str_radix(&name[at..at + 2], 16).unwrap();
            for number in 0..count {
                let other = match number % 2 {
                    0 => format!("{}{:02x}", &name[..30], byte(30) ^ (number + 1)),
                    _ => format!("{:02x}{}", byte(0) ^ (number | 0x80), &name[2..]),
                };
                let place = folder.join(&other[..2]);
                fs::create_dir_all(&place).unwrap();
                fs::copy(&model, place.join(&other)).unwrap();
                left.push(place.join(other));
            }
        }
        left
    }

    /// Returns the report on each iod.
    fn repair(&self, more: &[&str]) -> Result<Vec<String>, String> {
        let (data, state) = (self.home.path("data"), self.home.path("state"));
        let mut repair = leasehold(&["cluster", "repair", &data, "--state", &state]);
        repair.args(more);
        let (code, said, error) = run(repair);
        match code {
            0 => Ok(said.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect()),
            _ => Err(error),
        }
    }

    fn check(&self, more: &Written) {
        let server = self.mounted();
        for (name, data) in self.written.iter().chain(more) {
            assert!(read(&server, name, data.len()) == *data, "{name}");
        }
    }
}

fn start(home: &Home, ports: &[u16]) -> (Serving, u16) {
    let serving = Serving::start(meta(home, ports, &[]));
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, address(&ready).port())
}

fn bytes(seed: u32, count: u32) -> Bytes {
    (0..count).map(|at| (at.wrapping_mul(31) ^ at >> 9 ^ seed).to_le_bytes()[0]).collect()
}

fn found(server: &Mounted, directory: &Handle, name: &str) -> Handle {
    let found = block_on(server.nfs.lookup(&who(), directory, name.as_bytes())).unwrap();
    found.done().unwrap().object
}

/// Reads a whole file, which may lie in a directory.
fn read(server: &Mounted, path: &str, length: usize) -> Vec<u8> {
    let file = path.split('/').fold(server.root, |above, name| found(server, &above, name));
    let mut whole = Vec::new();
    loop {
        let count = u32::try_from(length + 1 - whole.len()).unwrap();
        let read = block_on(server.nfs.read(&who(), &file, whole.len() as u64, count));
        let read = read.unwrap().done().unwrap();
        whole.extend_from_slice(&read.data);
        if read.end {
            return whole;
        }
    }
}

/// Returns the objects of an iod.
pub(crate) fn objects(folder: &Path) -> Vec<PathBuf> {
    let of = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let places = of(folder).into_iter().filter(|path| path.is_dir());
    places.flat_map(|place| of(&place)).collect()
}

/// Creates files, lets them outgrow their metafiles, renames them and their directories, and
/// removes some, until `is_enough` is set. Returns the remaining files.
fn use_files(server: &Mounted, is_enough: &AtomicBool) -> Written {
    let (nfs, who, root) = (&server.nfs, who(), server.root);
    let usual = SetAttributes::default();
    let made = block_on(nfs.mkdir(&who, &root, b"to", &usual)).unwrap().done().unwrap();
    let mut folder = ("to".to_owned(), made.object.unwrap());
    let mut written = Written::new();
    let mut round = 0;
    while !is_enough.load(Ordering::Relaxed) || round < 12 {
        let name = format!("new {round}");
        let data = bytes(round, 30_000 + 7 * round);
        let file = block_on(put(server, name.as_bytes(), &data.slice(..100)));
        let what = (data.slice(100..), write::Stability::Unstable);
        block_on(nfs.write(&who, &file, 100, what)).unwrap().done().unwrap();
        if round % 4 == 0 {
            block_on(nfs.remove(&who, &root, name.as_bytes())).unwrap().done().unwrap();
        } else {
            let (from, to) = ((&root, name.as_bytes()), (&folder.1, name.as_bytes()));
            block_on(nfs.rename(&who, from, to)).unwrap().done().unwrap();
            written.insert(name, data);
        }
        let other = format!("to {round}");
        let (from, to) = ((&root, folder.0.as_bytes()), (&root, other.as_bytes()));
        block_on(nfs.rename(&who, from, to)).unwrap().done().unwrap();
        folder.0 = other;
        round += 1;
    }
    let place = folder.0;
    written.into_iter().map(|(name, data)| (format!("{place}/{name}"), data)).collect()
}

/// Stripes left by crashes are found and removed while a client uses files, all of which exist
/// afterwards.
#[test]
fn stripes_that_belong_to_no_file_are_removed_while_files_are_used() {
    let mut world = World::new();
    let left = world.leave(4);
    world.restart();
    let server = world.mounted();
    let is_enough = AtomicBool::new(false);
    let used = thread::scope(|scope| {
        let user = scope.spawn(|| use_files(&server, &is_enough));
        let said = world.repair(&[]).unwrap();
        assert_eq!(said.len(), 3);
        for line in &said {
            assert!(line.contains("belong to no file") && line.ends_with(" --remove"), "{said:?}");
        }
        assert!(left.iter().all(|object| object.exists()), "the removal was not requested");
        for round in 0..3 {
            let said = world.repair(&["--remove"]).unwrap();
            let are_removed = said.iter().all(|line| line.ends_with(" bytes, removed"));
            assert!(are_removed || round > 0, "{said:?}");
            assert!(!left.iter().any(|object| object.exists()), "{said:?}");
        }
        is_enough.store(true, Ordering::Relaxed);
        user.join().unwrap()
    });
    world.check(&used);
    let said = world.repair(&[]).unwrap();
    assert!(said.iter().all(|line| line.starts_with("0 of ")), "{said:?}");
    // A metaserver without earlier knowledge finds the same.
    world.restart();
    world.check(&used);
    assert_eq!(world.repair(&["--remove"]).unwrap(), said);
    world.check(&used);
    assert!(world.serving.end(Signal::TERM).success());
}

#[test]
fn suspicious_removal_requires_a_further_option() {
    let mut world = World::new();
    let left = world.leave(12);
    let refused = world.repair(&["--remove"]).unwrap_err();
    assert!(
        refused.contains("36 of all 54 objects") && refused.contains("--even-most"),
        "{refused}"
    );
    assert!(left.iter().all(|object| object.exists()));
    assert!(world.repair(&[]).unwrap().iter().all(|line| line.ends_with("--even-most")));
    // An unreachable iod keeps its objects.
    assert!(world.iods[2].end(Signal::KILL).code().is_none());
    let said = world.repair(&["--remove", "--even-most"]).unwrap();
    assert!(said[0].ends_with("removed") && said[1].ends_with("removed"), "{said:?}");
    assert_eq!(said[2], "unreachable, not searched");
    let (gone, kept) = left.split_at(24);
    assert!(!gone.iter().any(|object| object.exists()) && kept.iter().all(|it| it.exists()));
    world.iods[2] = iod(&world.home, "three", "key", world.ports[2]).0;
    world.restart();
    assert!(world.repair(&["--remove", "--even-most"]).unwrap()[2].ends_with("removed"));
    assert!(!left.iter().any(|object| object.exists()));
    world.check(&Written::new());
    // An unreadable metafile may have any object.
    fs::write(world.home.path("data/stranger"), "no metafile").unwrap();
    let refused = world.repair(&["--remove"]).unwrap_err();
    assert!(refused.contains("stranger") && refused.contains("nothing was removed"), "{refused}");
    assert!(world.serving.end(Signal::TERM).success());
}
