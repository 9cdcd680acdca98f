//! Power cuts under load: a machine serves, workers change its files and record the replies, its
//! power is cut at an arbitrary moment, and after the next boot all guaranteed data must be
//! present.
//!
//! The seed of a run determines its operations. It does not determine the exact moment of a power
//! cut, because the machine and this process share processors with other programs. A second run
//! with a failing seed does the same work and is cut at nearly the same place.
//!
//! Each round ends in one of two ways. *Amid* the load: replies are in flight and calls half done;
//! sometimes the disk breaks first, and the server must not acknowledge data as stable that the
//! disk has rejected. Or after a *volley*: the load stops, some workers do one operation of a
//! chosen kind each, concurrently, and the power is cut after the last reply. No later operation
//! carries the effect of such an operation to the disk, so an unsynced operation is lost.
//!
//! If the data is on I/O daemons, some of them suffer both cases as well, while the metaserver and
//! its clients continue: clients detect lost unsynced data by the verifier, and write it again.

mod check;
mod content;
mod draw;
mod op;
mod tree;
mod worker;

use std::fmt;
use std::fs;
use std::iter;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use leasehold_base::random::Random;
use leasehold_wire::nfs3::{
    DirectoryArgs, Handle, Made, Name, Reply, SetAttributes, Wcc, create, mkdir,
};

pub use draw::Kind;

use crate::{Breaker, Client, FileSystem, IODS, Machine, Site};
use content::BLOCK_BYTES;
use tree::{PART_BLOCKS, Places};
use worker::{Fault, Stop, Worker};

/// The number of workers.
const WORKERS: usize = 6;

/// While I/O daemons are down, the load waits for this number of replies, at most for longer than
/// calls wait for an I/O daemon: a call that needs one receives a retry-later status.
const AWAY: (u64, Duration) = (40, Duration::from_secs(5));

/// After their return, it waits for this number, at most for longer than any load on this machine
/// takes.
const BACK: (u64, Duration) = (100, Duration::from_mins(5));

/// The end of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The power is cut during the load.
    Cut,
    /// The power is cut after the replies to operations of these kinds, one for each worker.
    CutAfter(Vec<Kind>),
    /// The power of these I/O daemons is cut during the load, which continues, for a while after
    /// they are back.
    CutIods(Vec<usize>),
    /// The power of these I/O daemons is cut after the replies to operations of these kinds, one
    /// for each worker.
    CutIodsAfter(Vec<usize>, Vec<Kind>),
    /// The disk breaks during the load, and the power is cut when no operation succeeds any more.
    /// Another disk with the same contents replaces it.
    Break,
    /// The server is killed during the load, and restarted.
    Kill,
    /// The server is asked to end, and restarted.
    End,
    /// The server is asked to end, and then the power is cut.
    EndAndCut,
}

impl Outage {
    /// Returns true if the power is cut.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        match self {
            Self::Cut
            | Self::CutAfter(_)
            | Self::CutIods(_)
            | Self::CutIodsAfter(..)
            | Self::Break
            | Self::EndAndCut => true,
            Self::Kill | Self::End => false,
        }
    }

    /// Returns true if the server replies to all requests of workers before it ends, if it ends.
    const fn lets_finish(&self) -> bool {
        matches!(self, Self::CutAfter(_) | Self::CutIods(_) | Self::CutIodsAfter(..))
    }

    /// Returns the last operations of the workers, after the load has stopped.
    fn volley(&self) -> Option<&[Kind]> {
        match self {
            Self::CutAfter(kinds) | Self::CutIodsAfter(_, kinds) => Some(kinds),
            Self::Cut
            | Self::CutIods(_)
            | Self::Break
            | Self::Kill
            | Self::End
            | Self::EndAndCut => None,
        }
    }
}

/// One round: a number of replies, and an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// The number of replies to all workers together.
    pub answers: u64,
    /// True if the machine writes to its disk as soon as possible, without a sync.
    pub is_eager: bool,
    /// The outage that ends the round.
    pub outage: Outage,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Operations with a reply.
    pub answers: u64,
    /// Power cuts.
    pub cuts: u64,
}

/// The failure of a run.
#[derive(Debug)]
pub struct Failure {
    seed: u64,
    site: Site,
    round: usize,
    plan: Round,
    faults: Vec<Fault>,
    log: PathBuf,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, site, round, plan, faults, log } = self;
        let Site { file_system, user, .. } = site;
        writeln!(f, "seed {seed} on {file_system:?} as user {user}, round {round}, {plan:?}:")?;
        faults.iter().try_for_each(|fault| writeln!(f, "  {fault}"))?;
        write!(f, "what was acknowledged is in {}", log.display())
    }
}

/// Returns the rounds of a seed, without end.
pub fn plan(seed: u64, file_system: FileSystem) -> impl Iterator<Item = Round> {
    let mut random = Random::from_seed(seed);
    // If the file system can leave a change half done, no call may be in flight at the power cut.
    let may_cut = file_system.is_atomic();
    iter::from_fn(move || {
        let outage = match random.below(10) {
            0..3 if may_cut => Outage::Cut,
            3 if may_cut => Outage::Break,
            4 if may_cut => Outage::EndAndCut,
            5 => Outage::End,
            6 => Outage::Kill,
            _ => Outage::CutAfter(volley_kinds(&mut random)),
        };
        let is_eager = random.one_in(3);
        Some(Round { answers: 50 + random.below(950), is_eager, outage })
    })
}

/// Returns the rounds of a seed for data on I/O daemons, without end.
pub fn plan_of_iods(seed: u64, file_system: FileSystem) -> impl Iterator<Item = Round> {
    let mut random = Random::from_seed(seed);
    let may_cut = file_system.is_atomic();
    iter::from_fn(move || {
        let outage = match random.below(10) {
            0..3 if may_cut => Outage::CutIods(some_iods(&mut random)),
            3 if may_cut => Outage::Cut,
            4 => Outage::Kill,
            5 => Outage::CutAfter(volley_kinds(&mut random)),
            _ => Outage::CutIodsAfter(some_iods(&mut random), volley_kinds(&mut random)),
        };
        let is_eager = random.one_in(3);
        Some(Round { answers: 50 + random.below(450), is_eager, outage })
    })
}

/// Returns one I/O daemon for half of the calls, otherwise a random set.
fn some_iods(random: &mut Random) -> Vec<usize> {
    let first = usize::try_from(random.below(IODS as u64)).expect("there are few");
    let is_alone = random.one_in(2);
    (0..IODS).filter(|iod| *iod == first || (!is_alone && random.one_in(2))).collect()
}

/// Returns the last operations of workers. Half of the time a single operation, so that no other
/// operation's sync includes it.
fn volley_kinds(random: &mut Random) -> Vec<Kind> {
    let workers = if random.one_in(2) { 1 } else { 1 + random.below(WORKERS as u64) };
    (0..workers).map(|_| Kind::draw(random)).collect()
}

/// Runs rounds on a new machine, and stops at the first broken guarantee.
///
/// # Errors
/// The broken guarantee.
///
/// # Panics
/// Panics if the machine cannot be started.
pub fn run(
    seed: u64,
    site: Site,
    rounds: impl IntoIterator<Item = Round>,
) -> Result<Report, Box<Failure>> {
    let mut random = Random::from_seed(seed);
    let mut machine = Machine::new(site);
    let mut workers = settle_in(&machine, &mut random);
    // Syncs, because the state that a server without syncs has not written so far could prevent its
    // restart.
    machine.tell("sync");
    let mut report = Report::default();
    for (number, plan) in rounds.into_iter().enumerate() {
        let faults = round(&mut machine, &mut workers, &plan, &mut report);
        if !faults.is_empty() {
            let log = write_log(seed, &workers);
            return Err(Box::new(Failure { seed, site, round: number, plan, faults, log }));
        }
        for worker in &mut workers {
            worker.note(&format!("-- all is well after round {number}"));
        }
    }
    Ok(report)
}

/// Creates the initial files of the workers.
fn settle_in(machine: &Machine, random: &mut Random) -> Vec<Worker> {
    let mut client = Client::connect(machine.address(), 0).expect("the machine is on");
    let root = client.mount().expect("the machine is on");
    let common = make_directory(&mut client, root, "common");
    let size = Some((WORKERS * PART_BLOCKS * BLOCK_BYTES) as u64);
    let place = DirectoryArgs { directory: root, name: Name(b"shared") };
    let how = create::How::Guarded(SetAttributes { size, ..SetAttributes::default() });
    let args = create::Args { place, how };
    let shared = made(&client.call(create::NUMBER, &args).expect("the machine is on"));
    (0..WORKERS)
        .map(|number| {
            let own = make_directory(&mut client, root, &format!("worker-{number}"));
            let places = Places { own, common, shared };
            Worker::new(number, *machine.site(), places, random.fork())
        })
        .collect()
}

fn make_directory(client: &mut Client, directory: Handle, name: &str) -> Handle {
    let place = DirectoryArgs { directory, name: Name(name.as_bytes()) };
    let attributes = SetAttributes { mode: Some(0o755), ..SetAttributes::default() };
    let args = mkdir::Args { place, attributes };
    made(&client.call(mkdir::NUMBER, &args).expect("the machine is on"))
}

fn made(reply: &Reply<Made, Wcc>) -> Handle {
    match reply {
        Reply::Done(made) => made.object.expect("this server tells what it made"),
        Reply::Failed(status, _) => panic!("a new server makes nothing: {status:?}"),
    }
}

/// Runs one round, and returns the faults after it.
fn round(
    machine: &mut Machine,
    workers: &mut [Worker],
    plan: &Round,
    report: &mut Report,
) -> Vec<Fault> {
    let writeback = if plan.is_eager { "10" } else { "500" };
    machine.tell(&format!("echo {writeback} >/proc/sys/vm/dirty_writeback_centisecs"));
    machine.tell(&format!("echo {writeback} >/proc/sys/vm/dirty_expire_centisecs"));
    if machine.site().copies > 1 {
        // Otherwise an I/O daemon with the only good copy may be cut off.
        machine.wait_until_settled();
    }
    let server = machine.address();
    let breakers: Vec<Breaker> = workers
        .iter_mut()
        .map(|worker| worker.connect(server).expect("the machine is on"))
        .collect();
    let (faults, answers) = load(machine, workers, plan, &breakers);
    report.answers += answers;
    report.cuts += u64::from(plan.outage.is_cut());
    if !faults.is_empty() {
        return faults;
    }
    for worker in workers.iter_mut() {
        worker.connect(server).expect("the machine is on");
    }
    let checks = thread::scope(|scope| {
        let running: Vec<_> =
            workers.iter_mut().map(|worker| scope.spawn(|| worker.check())).collect();
        let ended = running.into_iter().map(|check| check.join().expect("checks do not panic"));
        ended.collect::<Vec<_>>()
    });
    checks
        .into_iter()
        .enumerate()
        .flat_map(|(number, check)| {
            let faults = check.unwrap_or_else(|_| vec!["the server is gone".to_owned()]);
            faults.into_iter().map(move |fault| format!("worker {number}: {fault}"))
        })
        .collect()
}

/// Runs the work of a round and its outage; returns the faults during the load, and the number of
/// operations with a reply. If there are no faults, the server is running again.
fn load(
    machine: &mut Machine,
    workers: &mut [Worker],
    plan: &Round,
    breakers: &[Breaker],
) -> (Vec<Fault>, u64) {
    let (answers, phase) = (AtomicU64::new(0), AtomicU8::new(GO_ON));
    let mut faults: Vec<Fault> = thread::scope(|scope| {
        let (answers, phase) = (&answers, &phase);
        let running: Vec<_> = workers
            .iter_mut()
            .map(|worker| scope.spawn(move || work(worker, answers, phase)))
            .collect();
        let progress = Progress { answers, running: &running };
        progress.reaches(plan.answers, None);
        let stuck = match &plan.outage {
            Outage::CutIods(iods) => cut_iods_amid(machine, iods, &progress),
            Outage::Cut
            | Outage::CutAfter(_)
            | Outage::CutIodsAfter(..)
            | Outage::Break
            | Outage::Kill
            | Outage::End
            | Outage::EndAndCut => None,
        };
        if plan.outage.lets_finish() && stuck.is_none() {
            phase.store(STOP, Ordering::SeqCst);
        } else {
            phase.store(EXPECT_OUTAGE, Ordering::SeqCst);
            strike(machine, &plan.outage, breakers);
        }
        let ended = running.into_iter().filter_map(|worker| worker.join().expect("no panic"));
        stuck.into_iter().chain(ended).collect()
    });
    if let (Some(kinds), true) = (plan.outage.volley(), faults.is_empty()) {
        faults = volley(workers, kinds);
        match &plan.outage {
            Outage::CutIodsAfter(iods, _) => machine.cut_iods(iods),
            Outage::Cut
            | Outage::CutAfter(_)
            | Outage::CutIods(_)
            | Outage::Break
            | Outage::Kill
            | Outage::End
            | Outage::EndAndCut => drop(machine.cut()),
        }
    }
    if faults.is_empty() {
        recover(machine, &plan.outage);
    }
    (faults, answers.load(Ordering::Relaxed))
}

/// The progress of the load of a round.
struct Progress<'a, 'scope> {
    answers: &'a AtomicU64,
    running: &'a [ScopedJoinHandle<'scope, Option<Fault>>],
}

impl Progress<'_, '_> {
    /// Waits for this number of replies, or until a worker has stopped; returns false after a
    /// timeout.
    fn reaches(&self, answers: u64, limit: Option<Duration>) -> bool {
        let start = Instant::now();
        while self.answers.load(Ordering::Relaxed) < answers
            && !self.running.iter().any(ScopedJoinHandle::is_finished)
        {
            if limit.is_some_and(|limit| start.elapsed() > limit) {
                return false;
            }
            thread::sleep(Duration::from_micros(200));
        }
        true
    }

    /// Waits for this number of further replies.
    fn grows(&self, (more, limit): (u64, Duration)) -> bool {
        self.reaches(self.answers.load(Ordering::Relaxed) + more, Some(limit))
    }
}

/// Cuts the power of I/O daemons during the load and restores it; returns a fault if the load does
/// not continue.
fn cut_iods_amid(
    machine: &mut Machine,
    iods: &[usize],
    progress: &Progress<'_, '_>,
) -> Option<Fault> {
    machine.cut_iods(iods);
    // With one copy every operation may need them.
    progress.grows(AWAY);
    machine.boot_iods(iods);
    let goes_on = progress.grows(BACK);
    (!goes_on).then(|| format!("iods {iods:?} are back, and the load stands still"))
}

/// Triggers the outage during the load.
fn strike(machine: &mut Machine, outage: &Outage, breakers: &[Breaker]) {
    match outage {
        Outage::Kill => drop(machine.tell("end_server KILL")),
        Outage::End | Outage::EndAndCut => drop(machine.tell("end_server TERM")),
        Outage::Break => drop(machine.tell("turn_disk_to error")),
        Outage::Cut => drop(machine.cut()),
        // The outage has happened, and the load continues.
        Outage::CutAfter(_) | Outage::CutIods(_) | Outage::CutIodsAfter(..) => {}
    }
    if *outage != Outage::Break {
        breakers.iter().for_each(Breaker::end);
    }
}

/// Restarts the server, or its I/O daemons.
fn recover(machine: &mut Machine, outage: &Outage) {
    match outage {
        Outage::Cut | Outage::CutAfter(_) => machine.boot(),
        Outage::CutIods(_) => {}
        Outage::CutIodsAfter(iods, _) => machine.boot_iods(iods),
        Outage::Kill | Outage::End => drop(machine.tell("start_server")),
        Outage::Break | Outage::EndAndCut => {
            machine.cut();
            machine.boot();
        }
    }
}

/// The phases of workers: continue; continue until server or disk fails; stop after the next reply.
const GO_ON: u8 = 0;
const EXPECT_OUTAGE: u8 = 1;
const STOP: u8 = 2;

/// Does random operations until the phase ends them; returns the faults.
fn work(worker: &mut Worker, answers: &AtomicU64, phase: &AtomicU8) -> Option<Fault> {
    while phase.load(Ordering::SeqCst) != STOP {
        match worker.step() {
            Ok(()) => {
                answers.fetch_add(1, Ordering::Relaxed);
            }
            Err(Stop::Lost | Stop::Broken(_)) if phase.load(Ordering::SeqCst) == EXPECT_OUTAGE => {
                return None;
            }
            Err(stop) => return Some(format!("worker {}: {stop:?}", worker.number)),
        }
    }
    None
}

/// Has each worker do one operation concurrently, and returns after the last reply.
fn volley(workers: &mut [Worker], kinds: &[Kind]) -> Vec<Fault> {
    let ready = Barrier::new(kinds.len());
    thread::scope(|scope| {
        let ready = &ready;
        let running: Vec<_> = workers
            .iter_mut()
            .zip(kinds)
            .map(|(worker, kind)| {
                scope.spawn(move || {
                    let op = worker.prepare(*kind);
                    ready.wait();
                    op.and_then(|op| worker.perform(&op))
                })
            })
            .collect();
        let ended = running.into_iter().map(|worker| worker.join().expect("no panic"));
        ended.filter_map(|done| done.err().map(|stop| format!("{stop:?}"))).collect()
    })
}

/// Writes the log of acknowledged operations to a file; returns its path.
fn write_log(seed: u64, workers: &[Worker]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("leasehold-crash-{seed}.log"));
    let log: String = workers.iter().map(|worker| worker.log.as_str()).collect();
    fs::write(&path, log).expect("the folder for temporary files can be written to");
    path
}
