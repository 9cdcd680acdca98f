//! Metaservers whose I/O daemons are killed at random under load, for any duration: mounts by the
//! built client and optionally the kernel's client, with programs that record each byte they write.
//! If several metaservers serve one file system, the mounts are distributed over them, and the
//! metaservers are killed, too.
//!
//! A cluster is used for many rounds. In each round programs use new mounts while I/O daemons are
//! killed and restarted; occasionally one more I/O daemon is added, and one is drained. Every other
//! round ends with the mounts killed: then synced data must be present. At the end of the other
//! rounds all data must be present. Files are compared without any cache, once after their round
//! and, for the last rounds, again at the end.

mod served;

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::mem;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use leasehold_base::random::Random;

use crate::mounted::Mounted;
use crate::{Cluster, Guest, Link, Scratch, output};
use served::Served;

/// The program that writes files, and compares them.
const WORKER: &str = include_str!("soak/worker.py");

/// The mounts of a round, each with its own programs. Lease terms are short, because a reader after
/// a killed mount must wait for its leases.
const MOUNTS: [&str; 3] = ["cache=lease,term=5", "cache=lease,term=5", "cache=close-to-open"];

/// The mounts for the comparison: one with direct data access, and one through the metaserver.
const LOOKS: [&str; 2] = ["cache=lease,term=5", "cache=none"];

/// The number of programs of each mount.
const PROGRAMS: usize = 2;

/// The initial number of I/O daemons.
const IODS: usize = 3;

/// Longer than any operation takes on a loaded machine; an older mount is aborted.
const LIMIT: Duration = Duration::from_hours(1);

/// Longer than a step of a program takes, even if it waits for an I/O daemon.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The upper bound of an I/O daemon's downtime: longer than a call waits for it; the downtime may
/// also be zero.
const AWAY_MS: u64 = 4000;

/// Longer than the staleness bound of lazy metaservers: two windows of a second.
const WINDOWS: Duration = Duration::from_secs(3);

/// The number of rounds that are kept until the end.
const KEPT_MAX: usize = 4;

/// One round in this number changes the set of I/O daemons, if requested.
const CHANGE: u64 = 3;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// The number of copies of the data: one with several metaservers.
    pub copies: u16,
    /// The number of metaservers of the file system.
    pub peers: usize,
    /// True for strict metaservers, false for lazy ones.
    pub strict: bool,
    /// True if the kernel's client uses the files, too.
    pub kernel: bool,
    /// True if I/O daemons are added and drained, with one metaserver.
    pub changes: bool,
    /// The number of times that an I/O daemon or a metaserver is killed in a round.
    pub kills: u64,
    /// The seed.
    pub seed: u64,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Kills of iods and of metaservers.
    pub kills: u64,
    /// The number of times that an I/O daemon was added and another drained.
    pub changes: u64,
    /// Steps of programs.
    pub steps: u64,
    /// Compared files, counted at each comparison.
    pub files: u64,
    /// Compared bytes.
    pub bytes: u64,
    /// Bytes that mounts rewrote because a verifier had changed.
    pub rewritten_bytes: u64,
}

/// Runs rounds until `goes_on` returns false for the finished ones.
///
/// # Errors
/// A message on lost data or another fault.
///
/// # Panics
/// Panics if the cluster cannot be started, or one of its programs does not become ready.
pub fn run(soak: Soak, mut goes_on: impl FnMut(&Report) -> bool) -> Result<Report, String> {
    let mut world = World::new(soak);
    loop {
        world.round()?;
        world.report.rounds += 1;
        if !goes_on(&world.report) {
            break;
        }
    }
    let kept = mem::take(&mut world.kept);
    let mounted = world.mounted(0, "cache=none");
    kept.iter().flatten().try_for_each(|place| world.compare(&mounted, place))?;
    Ok(world.report)
}

/// Runs a program in a folder of this machine, and then damages its files; returns true if the
/// comparison detects the damage.
///
/// # Panics
/// Panics if the program fails.
pub fn is_noticed(damage: impl FnOnce(&Path)) -> bool {
    let (folder, states) = (Scratch::new("local"), Scratch::new("soak"));
    let [state, over] = ["state", "over"].map(|name| states.path().join(name));
    let mut load = Load::default();
    load.programs.push(Program::start(folder.path(), 1, &state, &over));
    let done = load.grows(300).and_then(|()| mark(&over)).and_then(|()| load.finish());
    done.expect("a local disk is sound");
    damage(folder.path());
    compared(folder.path(), &state).is_err()
}

/// The directory of a program, by its name, and its expected contents.
struct Place {
    directory: String,
    state: PathBuf,
}

/// A cluster and its history.
struct World {
    soak: Soak,
    served: Served,
    random: Random,
    /// The I/O daemons with data, the oldest first, and the removed ones.
    used: VecDeque<usize>,
    lost: Vec<usize>,
    kept: VecDeque<Vec<Place>>,
    report: Report,
    scratch: Scratch,
}

impl World {
    fn new(soak: Soak) -> Self {
        Self {
            soak,
            served: Served::start(&soak, IODS),
            random: Random::from_seed(soak.seed),
            used: (0..IODS).collect(),
            lost: Vec::new(),
            kept: VecDeque::new(),
            report: Report::default(),
            scratch: Scratch::new("soak"),
        }
    }

    /// Mounts the file system; mounts with successive numbers use successive metaservers.
    fn mounted(&self, number: usize, options: &str) -> Mounted {
        Mounted::of(&self.served.source(number), options, LIMIT)
    }

    /// Runs one round, and checks its results.
    fn round(&mut self) -> Result<(), String> {
        let round = self.report.rounds;
        let over = self.scratch.path().join(format!("over-{round}"));
        let mounts: Vec<Mounted> =
            (0..).zip(MOUNTS).map(|(number, options)| self.mounted(number, options)).collect();
        let mut load = Load::default();
        for (number, mounted) in (0..).zip(mounts.iter().flat_map(|it| [it; PROGRAMS])) {
            let directory = format!("round-{round}-{number}");
            let folder = mounted.path(&directory);
            fs::create_dir(&folder).map_err(|error| format!("{directory}: {error}"))?;
            let state = self.scratch.path().join(&directory);
            let seed = self.soak.seed + round * 16 + number;
            load.programs.push(Program::start(&folder, seed, &state, &over));
            load.places.push(Place { directory, state });
        }
        match self.soak.kernel {
            true => self.disturb_with_guest(&mut load)?,
            false => self.disturb(&mut load)?,
        }
        let is_killed = round % 2 == 1;
        if is_killed {
            mark(&over.with_extension("killed"))?;
            self.report.rewritten_bytes += mounts.iter().map(rewritten).sum::<u64>();
            drop(mounts);
            load.finish()?;
        } else {
            mark(&over)?;
            load.finish()?;
            for mounted in mounts {
                self.report.rewritten_bytes += rewritten(&mounted);
                end(&mounted)?;
            }
        }
        self.report.steps += load.steps();
        if self.soak.peers > 1 && !self.soak.strict {
            sleep(WINDOWS);
        }
        for (number, options) in (0..).zip(LOOKS) {
            let mounted = self.mounted(number, options);
            load.places.iter().try_for_each(|place| self.compare(&mounted, place))?;
            end(&mounted)?;
        }
        self.keep(load.places, is_killed)
    }

    /// Keeps the files of a round, or compares and removes the oldest instead; after the first
    /// comparison the files of a killed mount have no fixed contents any more.
    fn keep(&mut self, places: Vec<Place>, is_killed: bool) -> Result<(), String> {
        let mounted = self.mounted(0, "cache=none");
        if is_killed {
            places.iter().for_each(|place| remove(&mounted, place));
            return Ok(());
        }
        self.kept.push_back(places);
        if self.kept.len() > KEPT_MAX {
            for place in self.kept.pop_front().unwrap_or_default() {
                self.compare(&mounted, &place)?;
                remove(&mounted, &place);
            }
        }
        Ok(())
    }

    /// Compares a directory with its expected contents.
    fn compare(&mut self, mounted: &Mounted, place: &Place) -> Result<(), String> {
        let Place { directory, state } = place;
        let (files, bytes) = compared(&mounted.path(directory), state)
            .map_err(|faults| format!("in {directory}:\n{faults}"))?;
        self.report.files += files;
        self.report.bytes += bytes;
        Ok(())
    }

    /// Kills I/O daemons and restarts them, during the load.
    fn disturb(&mut self, load: &mut Load) -> Result<(), String> {
        let has_changes = self.soak.changes && self.soak.peers < 2;
        let changes = has_changes && self.report.rounds % CHANGE == CHANGE - 1;
        for kill in 0..self.soak.kills {
            if changes && kill == self.soak.kills / 2 {
                self.change(load)?;
            } else {
                self.kill_one(load)?;
            }
        }
        load.grows(50)
    }

    /// Kills I/O daemons, with a guest that mounts the same file system.
    fn disturb_with_guest(&mut self, load: &mut Load) -> Result<(), String> {
        let (case, link) = (include_str!("../cases/iods.sh"), Arc::new(Link::new()));
        let guest = Guest::boot(&link, &self.served.mount(), case, LIMIT);
        let mut done = Err("the guest asks for nothing".to_owned());
        let ended = guest.wait(|request| {
            assert_eq!(request, "iods", "no such request");
            done = self.disturb(load);
        });
        match ended.status {
            Some(0) => done,
            _ => Err(format!("{done:?}; the guest wrote:\n{}", ended.log)),
        }
    }

    /// Kills a metaserver of several, or an I/O daemon with data, and restarts it after a pause.
    fn kill_one(&mut self, load: &mut Load) -> Result<(), String> {
        load.grows(10 + self.random.below(150))?;
        if self.kill_metaserver() {
            return Ok(());
        }
        let count = u64::try_from(self.used.len()).expect("they are few");
        let at = usize::try_from(self.random.below(count)).expect("they are few");
        let iod = self.used[at];
        self.served.kill_iod(iod);
        if self.random.one_in(2) {
            sleep(Duration::from_millis(self.random.below(AWAY_MS)));
        }
        self.served.start_iod(iod);
        self.report.kills += 1;
        if self.random.one_in(2) {
            self.served.wait_until_settled();
        }
        Ok(())
    }

    /// With several metaservers the victim is a metaserver in half of the cases.
    fn kill_metaserver(&mut self) -> bool {
        let Served::Several(group, count) = &mut self.served else { return false };
        if self.random.one_in(2) {
            return false;
        }
        let count = u64::try_from(*count).expect("they are few");
        let one = usize::try_from(self.random.below(count)).expect("they are few");
        group.kill(one);
        if self.random.one_in(2) {
            sleep(Duration::from_millis(self.random.below(AWAY_MS)));
        }
        group.start_again(one);
        self.report.kills += 1;
        true
    }

    /// Adds one more I/O daemon and drains the oldest, permanently after all its data has moved;
    /// the metaserver is killed at each change.
    fn change(&mut self, load: &mut Load) -> Result<(), String> {
        load.grows(20)?;
        let new = self.used.len() + self.lost.len();
        self.one().add_iod();
        let old = self.used.pop_front().expect("some are always used");
        self.used.push_back(new);
        self.restart_meta(Some(old));
        self.kill_one(load)?;
        self.served.wait_until_settled();
        self.served.kill_iod(old);
        self.lost.push(old);
        self.restart_meta(None);
        self.report.changes += 1;
        load.grows(20)
    }

    fn restart_meta(&mut self, drained: Option<usize>) {
        let lost = self.lost.iter().map(|iod| ("--lost", *iod));
        let words = drained.map(|iod| ("--drain", iod)).into_iter().chain(lost);
        let words: Vec<String> =
            words.flat_map(|(option, iod)| [option.to_owned(), iod.to_string()]).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let lost = self.lost.clone();
        self.one().restart_meta(&words, &lost);
    }

    /// Returns the only metaserver.
    fn one(&mut self) -> &mut Cluster {
        match &mut self.served {
            Served::One(cluster) => cluster,
            Served::Several(..) => unreachable!("iods come and go at one metaserver"),
        }
    }
}

/// The programs of a round, and their directories.
#[derive(Default)]
struct Load {
    programs: Vec<Program>,
    places: Vec<Place>,
}

impl Load {
    fn steps(&self) -> u64 {
        self.programs.iter().map(|program| program.steps.load(Ordering::Relaxed)).sum()
    }

    /// Waits for this number of further steps.
    fn grows(&mut self, more: u64) -> Result<(), String> {
        let (enough, start) = (self.steps() + more, Instant::now());
        while self.steps() < enough {
            if self.programs.iter_mut().any(|program| program.ended().is_some()) {
                return Err("a program noticed, and says so above".to_owned());
            }
            if start.elapsed() > TIMEOUT {
                return Err(format!("the load stands still: {more} steps are not done"));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits until all programs have ended successfully.
    fn finish(&mut self) -> Result<(), String> {
        let start = Instant::now();
        for program in &mut self.programs {
            let ended = loop {
                match program.ended() {
                    Some(well) => break well,
                    None if start.elapsed() > TIMEOUT => {
                        return Err("a program does not end".to_owned());
                    }
                    None => sleep(Duration::from_millis(2)),
                }
            };
            if !ended {
                return Err("a program noticed, and says so above".to_owned());
            }
        }
        Ok(())
    }
}

/// A program that uses files; dropping this value kills it. It is a separate process: each child
/// closes the descriptors of its parent, and such a close would wait for the mount.
struct Program {
    process: Child,
    steps: Arc<AtomicU64>,
}

impl Program {
    fn start(folder: &Path, seed: u64, state: &Path, over: &Path) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", WORKER, "work"]).arg(folder).arg(seed.to_string()).args([state, over]);
        let mut process = python.stdout(Stdio::piped()).spawn().expect("it is there");
        let lines = BufReader::new(process.stdout.take().expect("it is a pipe")).lines();
        let steps = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&steps);
        // The thread ends with the program.
        spawn(move || {
            for _ in lines.map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { process, steps }
    }

    /// Returns the success of the program, or `None` while it runs.
    fn ended(&mut self) -> Option<bool> {
        self.process.try_wait().expect("it is our child").map(|status| status.success())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Compares a folder with its expected contents; returns the number of files and bytes, or an
/// error.
fn compared(folder: &Path, state: &Path) -> Result<(u64, u64), String> {
    let mut python = Command::new("python3");
    let done = python.args(["-c", WORKER, "check"]).args([folder, state]).output();
    let done = done.map_err(|error| format!("python3: {error}"))?;
    let [said, faults] = [done.stdout, done.stderr].map(|bytes| text(&bytes));
    if !done.status.success() {
        return Err(faults);
    }
    let mut numbers = said.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.next().zip(numbers.next()).ok_or_else(|| format!("it says {said:?}"))
}

/// Removes the files of a program.
fn remove(mounted: &Mounted, place: &Place) {
    output(Command::new("rm").arg("-r").arg(mounted.path(&place.directory)));
}

/// Unmounts; the mount reports an error if the server rejected data.
fn end(mounted: &Mounted) -> Result<(), String> {
    match mounted.umount().success() {
        true => Ok(()),
        false => Err("a mount ends, and says that something is not saved".to_owned()),
    }
}

/// Creates a file for which programs look.
fn mark(path: &Path) -> Result<(), String> {
    fs::write(path, "").map_err(|error| format!("{}: {error}", path.display()))
}

fn rewritten(mounted: &Mounted) -> u64 {
    mounted.status()["rewritten_bytes"].as_u64().unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
