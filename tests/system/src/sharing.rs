//! Several mounts, the kernel's client, and a client without leases, that work on the same files at
//! once.

mod kernel;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::ops::Range;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name, Reply, lookup, read};

use self::kernel::Kernel;
use crate::history::{Done, What, explained};
use crate::mounted::{Mounted, source};
use crate::{Client, Group, Lost, Mount, Server, Version, output};

/// How much is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharing {
    /// How many mounts there are.
    pub mounts: usize,
    /// How many strict metaservers there are, each mount being of the next; none for one server.
    pub metaservers: usize,
    /// Whether the kernel's client has the files mounted, too.
    pub kernel: bool,
    /// What each mount does.
    pub operations: usize,
    /// How often the server is killed meanwhile, and started again.
    pub kills: usize,
    /// How often a mount stands still meanwhile, for longer than the term of its leases. What a
    /// program writes counts when it is synced then.
    pub stops: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// Works on cells of a file and on names, by random; says what was done, and when.
const WORKER: &str = include_str!("sharing/worker.py");

/// Where the cells lie: two in one page.
const PLACES: [u64; 4] = [0, 16, 8192, 100_000];

/// The term of the leases of mounts that stand still.
const TERM: Duration = Duration::from_secs(2);

/// What is mounted.
enum Served {
    One(Server),
    Group(Group, usize),
}

impl Served {
    /// Starts so many strict metaservers over iods, or one server.
    fn start(metaservers: usize) -> Self {
        match metaservers {
            0 => Self::One(Server::start()),
            count => Self::Group(Group::start(count, &["--strict"]), count),
        }
    }

    /// What a mount mounts.
    fn source(&self, mount: usize) -> String {
        match self {
            Self::One(server) => source(server),
            Self::Group(group, count) => group.source(mount % count),
        }
    }

    /// What a guest mounts.
    fn mount(&self) -> Mount {
        match self {
            Self::One(server) => server.mount(Version::V3),
            Self::Group(group, _) => group.mount(0, Version::V3),
        }
    }

    /// Where plain clients go.
    fn port(&self) -> u16 {
        match self {
            Self::One(server) => server.port(),
            Self::Group(group, count) => group.port(count - 1),
        }
    }

    /// Kills the next, and starts it again.
    fn restart(&mut self, round: usize) {
        match self {
            Self::One(server) => server.restart(),
            Self::Group(group, count) => {
                group.kill(round % *count);
                group.start_again(round % *count);
            }
        }
    }
}

/// What a worker says of an operation.
struct Line {
    told: String,
    begin: u64,
    end: u64,
}

/// What was seen of it all.
struct Seen {
    lines: Vec<Line>,
    /// When the server was killed, and when it was there again.
    kills: Vec<Range<u64>>,
    /// What the client without leases read of the cells.
    read: Vec<(usize, Done)>,
}

/// Has mounts and clients without leases work on the same files, and finds whether one order of
/// all that they did explains what each saw; says how long the longest thing took that a mount did.
///
/// # Errors
/// What no order explains, for people.
///
/// # Panics
/// If anything fails that may not.
pub fn run(sharing: Sharing, limit: Duration) -> Result<Duration, String> {
    let mut served = Served::start(sharing.metaservers);
    let mut options = "cache=lease".to_owned();
    if sharing.stops > 0 {
        options += &format!(",term={}", TERM.as_secs());
    }
    let mounts: Vec<Mounted> =
        (0..sharing.mounts).map(|at| Mounted::of(&served.source(at), &options, limit)).collect();
    let first = mounts.first().expect("there is one");
    fs::write(first.path("cells"), vec![b'0'; 200_000]).expect("there is room");
    let last = sharing.seed + u64::try_from(mounts.len()).expect("they are few");
    let kernel = sharing.kernel.then(|| Kernel::join(&served.mount(), last, limit));
    let workers: Vec<Child> = mounts
        .iter()
        .zip(sharing.seed..)
        .map(|(mount, seed)| begun(mount, sharing, seed))
        .collect();
    let over = AtomicBool::new(false);
    let address = SocketAddr::from(([127, 0, 0, 1], served.port()));
    let seen = scope(|threads| {
        let end = AtEnd(&over);
        let plain = threads.spawn(|| watch(address, &over));
        let kernel = kernel.map(|kernel| threads.spawn(|| kernel.work(&over)));
        let told: Vec<_> = workers
            .into_iter()
            .map(|worker| threads.spawn(|| worker.wait_with_output().expect("it is our child")))
            .collect();
        let is_over = || told.iter().all(ScopedJoinHandle::is_finished);
        let kills = disturb(&mut served, &mounts, sharing, is_over);
        let told = told.into_iter().map(|told| told.join().expect("it waits"));
        let mut lines: Vec<Line> = told.flat_map(|done| lines(&done)).collect();
        drop(end);
        lines.extend(kernel.into_iter().flat_map(|kernel| kernel.join().expect("it works")));
        Seen { lines, kills, read: plain.join().expect("it reads") }
    });
    let took = seen.lines.iter().map(|line| line.end - line.begin).max().unwrap_or_default();
    for (thing, history) in &seen.histories() {
        explained(history, 0).map_err(|done| format!("{thing}: {done:?} of {history:#?}"))?;
    }
    Ok(Duration::from_nanos(took))
}

/// Starts what works on a mount.
fn begun(mounted: &Mounted, sharing: Sharing, seed: u64) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", WORKER]).arg(mounted.folder());
    python.args([seed.to_string(), sharing.operations.to_string()]);
    if sharing.stops > 0 {
        python.arg("safe");
    }
    python.stdout(Stdio::piped()).spawn().expect("it is there")
}

/// What a worker said, with the times that it told.
fn lines(done: &Output) -> Vec<Line> {
    assert!(done.status.success(), "a worker ended with {}", done.status);
    let line = |line: &str| {
        let (told, end) = line.rsplit_once(' ')?;
        let (told, begin) = told.rsplit_once(' ')?;
        Some(Line { told: told.to_owned(), begin: begin.parse().ok()?, end: end.parse().ok()? })
    };
    let text = String::from_utf8_lossy(&done.stdout);
    text.lines().map(|text| line(text).unwrap_or_else(|| panic!("not a line: {text:?}"))).collect()
}

/// Kills the server amid the work, and has the last of the mounts stand still; says when the kills
/// were.
fn disturb(
    served: &mut Served,
    mounts: &[Mounted],
    sharing: Sharing,
    is_over: impl Fn() -> bool,
) -> Vec<Range<u64>> {
    let at = |place: usize| mounts[place].status();
    let replies = || at(0)["calls"]["replies"].as_u64();
    let pid = at(mounts.len() - 1)["pid"].to_string();
    let signal = |name: &str| output(Command::new("kill").args([name, &pid]));
    let mut kills = Vec::new();
    for round in 0..sharing.kills.max(sharing.stops) {
        let before = replies();
        while replies() == before && !is_over() {
            sleep(Duration::from_millis(5));
        }
        let stands = round < sharing.stops;
        if stands {
            signal("-STOP");
        }
        if round < sharing.kills {
            let begin = now();
            served.restart(round);
            kills.push(begin..now());
        }
        if stands {
            // Others get on meanwhile, once its leases are out.
            sleep(2 * TERM);
            signal("-CONT");
        }
    }
    kills
}

impl Seen {
    /// What was done to each thing.
    fn histories(self) -> BTreeMap<String, Vec<Done>> {
        let Self { lines, kills, read } = self;
        let mut histories: BTreeMap<String, Vec<Done>> = BTreeMap::new();
        for line in lines {
            let (thing, done, before) = parsed(&line);
            let history = histories.entry(thing).or_default();
            history.push(done);
            for kill in kills.iter().filter(|kill| kill.start < done.end && done.begin < kill.end) {
                history.extend(before.map(|what| Done {
                    end: done.end.min(kill.end),
                    what,
                    ..done
                }));
            }
        }
        for (at, done) in read {
            histories.entry(format!("cell{at}")).or_default().push(done);
        }
        histories
    }
}

/// What was worked on, what was done, and what may have been done before if the server was killed
/// meanwhile: a change whose reply was not noted in time runs again.
fn parsed(line: &Line) -> (String, Done, Option<What>) {
    let Line { told, begin, end } = line;
    let words: Vec<&str> = told.split(' ').collect();
    let [thing, how, value] = words[..] else { panic!("not a line: {told:?}") };
    let value = value.parse().expect("a number");
    let perhaps = |found| What::Perhaps(found, value);
    // What a cell had before does not matter; a name is there or not.
    let changed = perhaps(thing.starts_with("name").then(|| 1 - value));
    let (what, before) = match how {
        "made" => (What::Made(value), Some(changed)),
        "turned" => (What::Turned(1 - value, value), Some(changed)),
        "found" => (What::Saw(value), Some(changed)),
        "lost" => (changed, Some(changed)),
        _ => (What::Saw(value), None),
    };
    (thing.to_owned(), Done { begin: *begin, end: *end, what }, before)
}

/// Says that all is over when this is dropped, also by who panics: else the threads never end that
/// are waited for then.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the cells by plain calls of version 3, until all is over.
fn watch(address: SocketAddr, over: &AtomicBool) -> Vec<(usize, Done)> {
    let mut seen = Vec::new();
    while !over.load(Ordering::Relaxed) {
        // It is killed and started again.
        let _ = watch_once(address, over, &mut seen);
        sleep(Duration::from_millis(5));
    }
    seen
}

fn watch_once(
    address: SocketAddr,
    over: &AtomicBool,
    seen: &mut Vec<(usize, Done)>,
) -> Result<(), Lost> {
    let mut client = Client::connect(address, 0)?;
    let root = client.mount()?;
    let cells = find(&mut client, root)?;
    for (at, offset) in PLACES.into_iter().enumerate().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let begin = now();
        let args = read::Args { file: cells, offset, count: 16 };
        if let Reply::Done(done) = client.call::<read::Reply>(read::NUMBER, &args)? {
            let text = String::from_utf8_lossy(&done.data).into_owned();
            let value = text.parse().expect("a cell is a number");
            seen.push((at, Done { begin, end: now(), what: What::Saw(value) }));
        }
        // Who reads all the time leaves nobody a lease.
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn find(client: &mut Client, directory: Handle) -> Result<Handle, Lost> {
    let args = DirectoryArgs { directory, name: Name(b"cells") };
    match client.call::<lookup::Reply>(lookup::NUMBER, &args)? {
        Reply::Done(found) => Ok(found.object),
        Reply::Failed(status, _) => panic!("cells: {status:?}"),
    }
}

/// The clock that the workers read.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
