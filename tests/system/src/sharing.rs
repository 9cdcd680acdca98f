//! Several mounts, the kernel's client, and a client without leases, which concurrently use the
//! same files.

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

/// The extent of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharing {
    /// The number of mounts.
    pub mounts: usize,
    /// The number of strict metaservers, which the mounts use in turn; zero for one server.
    pub metaservers: usize,
    /// True if the kernel's client mounts the files, too.
    pub kernel: bool,
    /// The number of operations of each mount.
    pub operations: usize,
    /// The number of times that the server is killed and restarted.
    pub kills: usize,
    /// The number of times that a mount is stopped for longer than the term of its leases. A
    /// program's write then counts after its sync.
    pub stops: usize,
    /// The seed.
    pub seed: u64,
}

/// Performs random operations on cells of a file and on names; prints operations and times.
const WORKER: &str = include_str!("sharing/worker.py");

/// The offsets of the cells: two are in one page.
const PLACES: [u64; 4] = [0, 16, 8192, 100_000];

/// The lease term of the mounts that are stopped.
const TERM: Duration = Duration::from_secs(2);

/// The mounted servers.
enum Served {
    One(Server),
    Group(Group, usize),
}

impl Served {
    /// Starts `metaservers` strict metaservers over I/O daemons, or one server.
    fn start(metaservers: usize) -> Self {
        match metaservers {
            0 => Self::One(Server::start()),
            count => Self::Group(Group::start(count, &["--strict"]), count),
        }
    }

    /// Returns the source of a mount.
    fn source(&self, mount: usize) -> String {
        match self {
            Self::One(server) => source(server),
            Self::Group(group, count) => group.source(mount % count),
        }
    }

    /// Returns the mount parameters for a guest.
    fn mount(&self) -> Mount {
        match self {
            Self::One(server) => server.mount(Version::V3),
            Self::Group(group, _) => group.mount(0, Version::V3),
        }
    }

    /// Returns the port for clients without leases.
    fn port(&self) -> u16 {
        match self {
            Self::One(server) => server.port(),
            Self::Group(group, count) => group.port(count - 1),
        }
    }

    /// Kills the next server, and restarts it.
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

/// A worker's report of an operation.
struct Line {
    told: String,
    begin: u64,
    end: u64,
}

/// All observations.
struct Seen {
    lines: Vec<Line>,
    /// The intervals in which the server was down.
    kills: Vec<Range<u64>>,
    /// The values of the cells that the client without leases read.
    read: Vec<(usize, Done)>,
}

/// Runs mounts and clients without leases on the same files, and checks that one order of all
/// operations explains all observations; returns the longest duration of an operation on a mount.
///
/// # Errors
/// A message on the observation that no order explains.
///
/// # Panics
/// Panics on any other failure.
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

/// Starts a worker on a mount.
fn begun(mounted: &Mounted, sharing: Sharing, seed: u64) -> Child {
    let mut python = Command::new("python3");
    python.args(["-c", WORKER]).arg(mounted.folder());
    python.args([seed.to_string(), sharing.operations.to_string()]);
    if sharing.stops > 0 {
        python.arg("safe");
    }
    python.stdout(Stdio::piped()).spawn().expect("it is there")
}

/// Parses a worker's output, with its times.
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

/// Kills the server during the work, and stops the last of the mounts; returns the times of the
/// kills.
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
            // Other mounts continue after its leases have expired.
            sleep(2 * TERM);
            signal("-CONT");
        }
    }
    kills
}

impl Seen {
    /// Returns the operations on each value.
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

/// Parses the value, the operation, and its possible earlier effect if the server was killed during
/// it: a change whose reply was not recorded in time runs again.
fn parsed(line: &Line) -> (String, Done, Option<What>) {
    let Line { told, begin, end } = line;
    let words: Vec<&str> = told.split(' ').collect();
    let [thing, how, value] = words[..] else { panic!("not a line: {told:?}") };
    let value = value.parse().expect("a number");
    let perhaps = |found| What::Perhaps(found, value);
    // The old value of a cell does not matter; a name exists or not.
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

/// Sets the flag when it is dropped, also by a panic: otherwise the threads that the test joins
/// would never end.
struct AtEnd<'a>(&'a AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the cells by plain calls of version 3, until the flag is set.
fn watch(address: SocketAddr, over: &AtomicBool) -> Vec<(usize, Done)> {
    let mut seen = Vec::new();
    while !over.load(Ordering::Relaxed) {
        // The server is killed and restarted.
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
        // A continuous reader would prevent all leases.
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

/// Reads the clock that the workers use.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanoseconds) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanoseconds
}
