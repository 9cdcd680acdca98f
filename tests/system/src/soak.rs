//! Metaservers whose iods are killed at random under load, for as long as one likes: mounts of ours
//! and, if wanted, the kernel's client, with programs that know each byte they wrote. Where several
//! metaservers serve one file system the mounts are spread over them, and they are killed, too.
//!
//! A cluster outlives many rounds. In each, programs work on new mounts while iods are killed and
//! started again; now and then one more iod comes, and one is left. Every other round ends with the
//! mounts killed: then what was synced must be there. At the end of the others it must be all. What
//! was found is compared past every cache, once behind its round and, of the last rounds, once more
//! at the end.

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

/// The program that works on files, and compares them.
const WORKER: &str = include_str!("soak/worker.py");

/// The mounts of a round, each with programs of its own. Terms are short, for who looks at what a
/// killed mount has left waits for the leases that it had.
const MOUNTS: [&str; 3] = ["cache=lease,term=5", "cache=lease,term=5", "cache=close-to-open"];

/// How it is looked at what they left: by a mount that goes to the iods itself, and by the metaserver.
const LOOKS: [&str; 2] = ["cache=lease,term=5", "cache=none"];

/// Programs of each mount.
const PROGRAMS: usize = 2;

/// Iods at first.
const IODS: usize = 3;

/// Longer than anything takes on a loaded machine; a mount of that age is cut off.
const LIMIT: Duration = Duration::from_hours(1);

/// A program takes a step far sooner, whatever iod it waits for.
const PATIENCE: Duration = Duration::from_mins(5);

/// An iod is away for less than this: for longer than a call waits for it, or for no time at all.
const AWAY_MS: u64 = 4000;

/// Longer than what lazy metaservers show may be old: two windows of a second.
const WINDOWS: Duration = Duration::from_secs(3);

/// So many rounds are kept until the end.
const KEPT_MAX: usize = 4;

/// One round in so many changes which iods there are, where that is wanted.
const CHANGE: u64 = 3;

/// What is done.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// How many copies there are of the data: one where there are several metaservers.
    pub copies: u16,
    /// How many metaservers serve the file system.
    pub peers: usize,
    /// Whether several of them are strict, or else lazy.
    pub strict: bool,
    /// Whether the kernel's client works on files, too.
    pub kernel: bool,
    /// Whether iods come and go: at one metaserver.
    pub changes: bool,
    /// How often one is killed in a round, or a metaserver of several.
    pub kills: u64,
    /// Where chance begins.
    pub seed: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Rounds.
    pub rounds: u64,
    /// Kills of iods and of metaservers.
    pub kills: u64,
    /// How often an iod came and another was left.
    pub changes: u64,
    /// Steps of programs.
    pub steps: u64,
    /// Files that were compared, and as often as they were.
    pub files: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Bytes that mounts wrote again, as a verifier had changed.
    pub rewritten_bytes: u64,
}

/// Runs rounds, until `goes_on` denies it for those that were done.
///
/// # Errors
/// What was lost, or what else went wrong, for people.
///
/// # Panics
/// If there can be no such cluster, or one of its programs does not get ready.
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

/// Has a program work in a folder of this machine, and then damages what it has left; whether that
/// is noticed.
///
/// # Panics
/// If the program does not work.
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

/// A directory that a program worked in, by its name, and what it is to hold.
struct Place {
    directory: String,
    state: PathBuf,
}

/// A cluster and what was done with it.
struct World {
    soak: Soak,
    served: Served,
    random: Random,
    /// The iods that have data, the oldest first, and those that are gone.
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

    /// A mount; those of each number are at another metaserver than those of the next.
    fn mounted(&self, number: usize, options: &str) -> Mounted {
        Mounted::of(&self.served.source(number), options, LIMIT)
    }

    /// One round, and what is wrong behind it.
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

    /// Keeps what a round has left, or the oldest in its place; what a killed mount has left may
    /// be anything, now that it was looked at.
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

    /// Compares what is in a directory with what is to be there.
    fn compare(&mut self, mounted: &Mounted, place: &Place) -> Result<(), String> {
        let Place { directory, state } = place;
        let (files, bytes) = compared(&mounted.path(directory), state)
            .map_err(|faults| format!("in {directory}:\n{faults}"))?;
        self.report.files += files;
        self.report.bytes += bytes;
        Ok(())
    }

    /// Kills iods and starts them again, amid the load.
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

    /// The same, with a guest that has the same file system mounted.
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

    /// Kills a metaserver of several, or an iod that has data, and starts it again, after a while.
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

    /// Where there are several it is as often one of them as an iod.
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

    /// One more iod comes and the oldest is left, for good once all that it had is elsewhere; the
    /// metaserver is killed each time it is told.
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

    /// The metaserver that is there alone.
    fn one(&mut self) -> &mut Cluster {
        match &mut self.served {
            Served::One(cluster) => cluster,
            Served::Several(..) => unreachable!("iods come and go at one metaserver"),
        }
    }
}

/// The programs of a round, and where they work.
#[derive(Default)]
struct Load {
    programs: Vec<Program>,
    places: Vec<Place>,
}

impl Load {
    fn steps(&self) -> u64 {
        self.programs.iter().map(|program| program.steps.load(Ordering::Relaxed)).sum()
    }

    /// Waits until so many more steps are done.
    fn grows(&mut self, more: u64) -> Result<(), String> {
        let (enough, start) = (self.steps() + more, Instant::now());
        while self.steps() < enough {
            if self.programs.iter_mut().any(|program| program.ended().is_some()) {
                return Err("a program noticed, and says so above".to_owned());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("the load stands still: {more} steps are not done"));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Waits until all have ended well.
    fn finish(&mut self) -> Result<(), String> {
        let start = Instant::now();
        for program in &mut self.programs {
            let ended = loop {
                match program.ended() {
                    Some(well) => break well,
                    None if start.elapsed() > PATIENCE => {
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

/// A program that works on files; killed when this is dropped. It is a process of its own: what a
/// process has open is closed in every child that it starts, and that waits for the mount.
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
        // It ends with the program.
        spawn(move || {
            for _ in lines.map_while(Result::ok) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { process, steps }
    }

    /// Whether it ended well, if it has ended.
    fn ended(&mut self) -> Option<bool> {
        self.process.try_wait().expect("it is our child").map(|status| status.success())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Compares what is in a folder with what is to be there: how many files, and their bytes; or what
/// is wrong.
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

/// Removes what a program has left.
fn remove(mounted: &Mounted, place: &Place) {
    output(Command::new("rm").arg("-r").arg(mounted.path(&place.directory)));
}

/// Ends a mount, which says so where the server refused any data.
fn end(mounted: &Mounted) -> Result<(), String> {
    match mounted.umount().success() {
        true => Ok(()),
        false => Err("a mount ends, and says that something is not saved".to_owned()),
    }
}

/// Makes a file that programs look for.
fn mark(path: &Path) -> Result<(), String> {
    fs::write(path, "").map_err(|error| format!("{}: {error}", path.display()))
}

fn rewritten(mounted: &Mounted) -> u64 {
    mounted.status()["rewritten_bytes"].as_u64().unwrap_or_default()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
