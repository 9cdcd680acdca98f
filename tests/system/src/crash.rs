//! Power cuts under load: a machine serves, workers change what it serves and remember what they
//! were told, its power is cut at a moment that nobody prepared for, and after the next boot all
//! that was promised must be there.
//!
//! What a run does comes from its seed. When exactly the power goes does not: the machine and this
//! process share processors with whatever else runs. So a run with the seed of one that found a
//! fault does the same work and is cut at nearly the same place.
//!
//! Each round ends in one of two ways. *Amid* the load: replies are on their way and calls half
//! done; sometimes the disk breaks first, and nothing may be called safe that it did not take. Or after a *volley*: the load stops, some workers do one operation of a chosen kind each,
//! all at once, and when the last reply is there the power goes. Nothing comes behind such an
//! operation that would carry it to the disk, so one that is not synced is lost.
//!
//! Where the data lies on iods, both are done to some of them as well, while the metaserver and its
//! clients go on: what was not synced there is then told by the verifier, and written again.

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

/// So many workers there are.
const WORKERS: usize = 6;

/// While iods are away, so many answers are waited for, as long as calls wait for an iod and more:
/// whoever needs them is told to come again.
const AWAY: (u64, Duration) = (40, Duration::from_secs(5));

/// When they are back, so many, and no longer than any load on this machine takes.
const BACK: (u64, Duration) = (100, Duration::from_mins(5));

/// What ends the work of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The power is cut amid the load.
    Cut,
    /// The power is cut when operations of these kinds, one a worker, have been answered.
    CutAfter(Vec<Kind>),
    /// The power of these iods is cut amid the load, which goes on, and for a while when they are
    /// back.
    CutIods(Vec<usize>),
    /// The power of these iods is cut when operations of these kinds, one a worker, have been
    /// answered.
    CutIodsAfter(Vec<usize>, Vec<Kind>),
    /// The disk breaks amid the load, and when nothing works any more the power is cut. Behind it
    /// there is another disk with all that was on the first.
    Break,
    /// The server is killed amid the load, and started again.
    Kill,
    /// The server is asked to end, and started again.
    End,
    /// The server is asked to end, and when it has the power is cut.
    EndAndCut,
}

impl Outage {
    /// Whether the power is cut.
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

    /// Whether what workers have asked for is answered before the server goes, if it does.
    const fn lets_finish(&self) -> bool {
        matches!(self, Self::CutAfter(_) | Self::CutIods(_) | Self::CutIodsAfter(..))
    }

    /// What workers do last, when the load has stopped.
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

/// One round: so many answers, and what comes then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Answers to all workers together.
    pub answers: u64,
    /// Whether the machine writes to its disk as soon as it can, unasked.
    pub is_eager: bool,
    /// What ends it.
    pub outage: Outage,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Operations that were answered.
    pub answers: u64,
    /// Power cuts.
    pub cuts: u64,
}

/// What went wrong.
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

/// The rounds of a seed, without end.
pub fn plan(seed: u64, file_system: FileSystem) -> impl Iterator<Item = Round> {
    let mut random = Random::from_seed(seed);
    // Where a change can be done by half, nobody may be waiting for one when the power goes.
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

/// The rounds of a seed where the data lies on iods, without end.
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

/// Half of the time one, else any of them.
fn some_iods(random: &mut Random) -> Vec<usize> {
    let first = usize::try_from(random.below(IODS as u64)).expect("there are few");
    let is_alone = random.one_in(2);
    (0..IODS).filter(|iod| *iod == first || (!is_alone && random.one_in(2))).collect()
}

/// What workers do last. Half of the time a single operation: nobody else's sync takes it along.
fn volley_kinds(random: &mut Random) -> Vec<Kind> {
    let workers = if random.one_in(2) { 1 } else { 1 + random.below(WORKERS as u64) };
    (0..workers).map(|_| Kind::draw(random)).collect()
}

/// Runs rounds on a new machine, and stops at the first that breaks a promise.
///
/// # Errors
/// Says what was broken.
///
/// # Panics
/// If there can be no such machine.
pub fn run(
    seed: u64,
    site: Site,
    rounds: impl IntoIterator<Item = Round>,
) -> Result<Report, Box<Failure>> {
    let mut random = Random::from_seed(seed);
    let mut machine = Machine::new(site);
    let mut workers = settle_in(&machine, &mut random);
    // What a server without its syncs left out by now would keep the next one from starting.
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

/// Makes what workers begin with.
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

/// One round, and what is wrong after it.
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
        // Else an iod may be cut off that has the only good copy.
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

/// The work of a round and the outage that ends it; answers what was wrong in the meantime, and
/// how many operations were answered. If nothing was, the server is there again.
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

/// How far the load of a round is.
struct Progress<'a, 'scope> {
    answers: &'a AtomicU64,
    running: &'a [ScopedJoinHandle<'scope, Option<Fault>>],
}

impl Progress<'_, '_> {
    /// Waits until so many operations were answered, or a worker has stopped; whether that is so in
    /// its time.
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

    /// Waits for so many answers more.
    fn grows(&self, (more, limit): (u64, Duration)) -> bool {
        self.reaches(self.answers.load(Ordering::Relaxed) + more, Some(limit))
    }
}

/// Cuts the power of iods amid the load and gives it back to them; answers what is wrong if the
/// load does not go on then.
fn cut_iods_amid(
    machine: &mut Machine,
    iods: &[usize],
    progress: &Progress<'_, '_>,
) -> Option<Fault> {
    machine.cut_iods(iods);
    // With one copy all that is done may need them.
    progress.grows(AWAY);
    machine.boot_iods(iods);
    let goes_on = progress.grows(BACK);
    (!goes_on).then(|| format!("iods {iods:?} are back, and the load stands still"))
}

/// Has come amid the load what ends it.
fn strike(machine: &mut Machine, outage: &Outage, breakers: &[Breaker]) {
    match outage {
        Outage::Kill => drop(machine.tell("end_server KILL")),
        Outage::End | Outage::EndAndCut => drop(machine.tell("end_server TERM")),
        Outage::Break => drop(machine.tell("turn_disk_to error")),
        Outage::Cut => drop(machine.cut()),
        // It came, and the load does not end by itself.
        Outage::CutAfter(_) | Outage::CutIods(_) | Outage::CutIodsAfter(..) => {}
    }
    if *outage != Outage::Break {
        breakers.iter().for_each(Breaker::end);
    }
}

/// Has the server, or its iods, there again.
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

/// What workers are to do: go on; go on until server or disk is gone; stop when they have an answer.
const GO_ON: u8 = 0;
const EXPECT_OUTAGE: u8 = 1;
const STOP: u8 = 2;

/// Does whatever comes until it is time to stop; answers what was wrong.
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

/// Has workers do one operation each, at once, and returns when the last is answered.
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

/// Writes down what was acknowledged; answers where.
fn write_log(seed: u64, workers: &[Worker]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("leasehold-crash-{seed}.log"));
    let log: String = workers.iter().map(|worker| worker.log.as_str()).collect();
    fs::write(&path, log).expect("the folder for temporary files can be written to");
    path
}
