//! Several mounts, and a client without leases, that work on the same files at once.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{ScopedJoinHandle, scope, sleep};
use std::time::Duration;

use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name, Reply, lookup, read};

use crate::history::{Done, What, explained};
use crate::mounted::Mounted;
use crate::{Client, Lost, Server};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    /// How many mounts there are.
    pub mounts: usize,
    /// What each does.
    pub operations: usize,
    /// How often the server is killed meanwhile, and started again.
    pub kills: usize,
    /// Where chance begins.
    pub seed: u64,
}

/// Works on cells of a file and on names, by random; says what was done, and when.
const WORKER: &str = "
import os, random, sys, time
folder, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
PLACES = [0, 16, 8192, 100000]
now = time.monotonic_ns
chance = random.Random(seed)
cells = folder + '/cells'
fd = os.open(cells, os.O_RDWR)
for number in range(count):
    at, way = chance.randrange(4), chance.randrange(10)
    if way == 9:
        os.close(fd)
        fd = os.open(cells, os.O_RDWR)
    value = seed * 1000000 + number + 1
    name = '%s/name%d' % (folder, at)
    begin = now()
    try:
        if way < 3:
            os.pwrite(fd, b'%016d' % value, PLACES[at])
            did = 'cell', 'made', value
        elif way < 6 or way == 9:
            did = 'cell', 'saw', int(os.pread(fd, 16, PLACES[at]))
        elif way == 6:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            did = 'name', 'turned', 1
        elif way == 7:
            os.unlink(name)
            did = 'name', 'turned', 0
        else:
            did = 'name', 'saw', int(os.path.exists(name))
    except FileExistsError:
        did = 'name', 'found', 1
    except FileNotFoundError:
        did = 'name', 'found', 0
    print(did[0] + str(at), did[1], did[2], begin, now())
os.close(fd)
";

/// Where the cells lie: two in one page.
const PLACES: [u64; 4] = [0, 16, 8192, 100_000];

/// Has mounts and a client without leases work on the same files, and finds whether one order of
/// all that they did explains what each saw.
///
/// # Errors
/// What no order explains, for people.
///
/// # Panics
/// If anything fails that may not.
pub fn run(sharing: Sharing, limit: Duration) -> Result<(), String> {
    let mut server = Server::start();
    let mounts: Vec<Mounted> =
        (0..sharing.mounts).map(|_| Mounted::new(&server, "cache=lease", limit)).collect();
    let first = mounts.first().expect("there is one");
    fs::write(first.path("cells"), vec![b'0'; 200_000]).expect("there is room");
    let numbers = sharing.seed..;
    let workers: Vec<Child> = mounts
        .iter()
        .zip(numbers)
        .map(|(mounted, seed)| {
            let mut python = Command::new("python3");
            python.args(["-c", WORKER]).arg(mounted.folder());
            python.args([seed.to_string(), sharing.operations.to_string()]);
            python.stdout(Stdio::piped()).spawn().expect("it is there")
        })
        .collect();
    let (over, address) = (AtomicBool::new(false), address(&server));
    let (kills, told, read) = scope(|threads| {
        let end = AtEnd(&over);
        let plain = threads.spawn(|| watch(address, &over));
        let told: Vec<_> = workers
            .into_iter()
            .map(|worker| threads.spawn(|| worker.wait_with_output().expect("it is our child")))
            .collect();
        let mut kills = Vec::new();
        for _ in 0..sharing.kills {
            let replies = |mounted: &Mounted| mounted.status()["calls"]["replies"].as_u64();
            let before = replies(first);
            while replies(first) == before && !told.iter().all(ScopedJoinHandle::is_finished) {
                sleep(Duration::from_millis(5));
            }
            let begin = now();
            server.restart();
            kills.push(begin..now());
        }
        let told: Vec<_> = told.into_iter().map(|told| told.join().expect("it waits")).collect();
        drop(end);
        (kills, told, plain.join().expect("it reads"))
    });
    let mut histories: BTreeMap<String, Vec<Done>> = BTreeMap::new();
    for done in told {
        assert!(done.status.success(), "a worker ended with {}", done.status);
        for line in String::from_utf8_lossy(&done.stdout).lines() {
            let (thing, done, before) = parsed(line);
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
    }
    for (at, done) in read {
        histories.entry(format!("cell{at}")).or_default().push(done);
    }
    for (thing, history) in &histories {
        explained(history, 0).map_err(|done| format!("{thing}: {done:?} of {history:#?}"))?;
    }
    Ok(())
}

fn address(server: &Server) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}

/// What was worked on, what was done, and what may have been done before if the server was killed
/// meanwhile: a change whose reply was not noted in time runs again.
fn parsed(line: &str) -> (String, Done, Option<What>) {
    let words: Vec<&str> = line.split(' ').collect();
    let [thing, how, value, begin, end] = words[..] else { panic!("not a line: {line:?}") };
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let value = number(value);
    let (what, before) = match how {
        "made" => (What::Made(value), Some(What::Perhaps(None, value))),
        "turned" => (What::Turned(1 - value, value), Some(What::Perhaps(Some(1 - value), value))),
        "found" => (What::Saw(value), Some(What::Perhaps(Some(1 - value), value))),
        _ => (What::Saw(value), None),
    };
    (thing.to_owned(), Done { begin: number(begin), end: number(end), what }, before)
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
