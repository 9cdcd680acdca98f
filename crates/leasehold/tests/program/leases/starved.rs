//! Clients that starve, or that starve others: the list of clients cannot be written, and silent
//! clients return no lease.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_wire::lease::{Answer, Caller, ClientName, Kind, Terms, hello, leases};
use leasehold_wire::list::UpTo;
use leasehold_wire::nfs3::{DirectoryArgs, Handle, Name, SetAttributes, Status, create, write};
use rustix::process::geteuid;

use super::{Holder, file, plain_as, results, served, start_with};
use crate::support::{Home, TIMEOUT, ordinary, root};

/// The term of the leases that the silent clients request.
const TERM: Duration = Duration::from_secs(3);

/// The longest time that an owner may wait: a lease that is held when the owner's call arrives may
/// last for one term; the rest is for a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(3 * TERM.as_secs());

/// The wait of a plain client before it repeats a call.
const PAUSE: Duration = Duration::from_millis(500);

/// The number of silent clients.
const SILENT: u8 = 3;

/// A mount hung in its first operation if the disk of the state directory was full, and continued
/// to hang after space was freed.
#[test]
fn operation_runs_without_a_lease_until_the_list_of_clients_can_be_written() {
    let home = served();
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    // A file cannot replace a directory.
    fs::remove_file(home.path("state/leases")).unwrap();
    fs::create_dir(home.path("state/leases")).unwrap();
    let mut holder = Holder::connect(address);
    holder.hello();
    let begun = Instant::now();
    loop {
        match holder.wanted(file, Kind::Read) {
            Answer::Done(done) => break assert_eq!(done.results.held.0.len(), 0),
            // Calls from before the first HELLO may still run.
            Answer::Later => assert!(begun.elapsed() < TIMEOUT, "the operation hangs"),
            answer @ (Answer::Epoch(_)
            | Answer::Instance(_)
            | Answer::Unknown
            | Answer::Late(_)) => panic!("{answer:?}"),
        }
    }
    fs::remove_dir(home.path("state/leases")).unwrap();
    holder.cachable(file, Kind::Read);
}

/// A client that takes leases and never replies to a recall.
struct Silent {
    client: [u8; 16],
    holder: Holder,
}

impl Silent {
    fn connect(address: SocketAddr, number: u8) -> Self {
        let (client, mut holder) = ([number; 16], Holder::connect(address));
        let args = hello::Args { client, instance: 1, name: ClientName(b"silent") };
        let answer: hello::Reply = holder.call(hello::NUMBER, &args);
        let Answer::Done(done) = answer else { panic!("{answer:?}") };
        holder.epoch = done.results.epoch;
        Self { client, holder }
    }

    /// Requests a short lease for reading. Returns true if the server grants it, and `None` if the
    /// server postpones its decision.
    fn takes(&mut self, object: Handle) -> Option<bool> {
        let term_ms = u32::try_from(TERM.as_millis()).unwrap();
        let terms = Terms { kind: Kind::Read, term_ms, opportune: false, space: 0 };
        let args = leases::Args {
            caller: Caller { client: self.client, ..self.holder.caller() },
            wanted: UpTo(vec![leases::Wanted { object, terms, reclaim: false }]),
            returned: UpTo(Vec::new()),
            progress: leases::Progress::Recovered,
        };
        self.holder.send_call_as(stranger(), leases::NUMBER, &args);
        let reply = loop {
            let message = self.holder.receive();
            // The server sends its recalls on the same connection.
            if message[4..8] == [0, 0, 0, 1] {
                break message;
            }
        };
        match results::<leases::Reply>(&reply) {
            Answer::Done(done) => Some(!done.results.held.0.is_empty()),
            Answer::Later => None,
            answer @ (Answer::Epoch(_)
            | Answer::Instance(_)
            | Answer::Unknown
            | Answer::Late(_)) => panic!("{answer:?}"),
        }
    }
}

/// The user and the group of the silent clients: different from the owner, if the server can act as
/// several users.
fn stranger() -> (u32, u32) {
    if geteuid().is_root() { (4343, 4343) } else { ordinary() }
}

/// Ends the silent clients, also when the test panics: otherwise the scope would wait for them
/// until the test is killed.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The numbers of decisions on leases for silent clients, and of grants.
#[derive(Default)]
struct Siege {
    decided: AtomicU32,
    granted: AtomicU32,
}

impl Siege {
    /// Runs the part of an owner while silent clients alternately request leases on an object.
    fn during(address: SocketAddr, object: Handle, owner: impl FnOnce(&Self)) {
        let (ends, siege) = (AtomicBool::new(false), Self::default());
        thread::scope(|scope| {
            let _ends = Ends(&ends);
            for number in 1..=SILENT {
                let (ends, siege) = (&ends, &siege);
                scope.spawn(move || {
                    let mut silent = Silent::connect(address, number);
                    while !ends.load(Ordering::Relaxed) {
                        if let Some(is_granted) = silent.takes(object) {
                            siege.granted.fetch_add(is_granted.into(), Ordering::Relaxed);
                            siege.decided.fetch_add(1, Ordering::Relaxed);
                        }
                        thread::sleep(TERM / 6);
                    }
                });
            }
            owner(&siege);
        });
    }

    /// Waits until the number of decisions or grants reaches the number of silent clients.
    fn wait_for(count: &AtomicU32) {
        let begun = Instant::now();
        while count.load(Ordering::Relaxed) < SILENT.into() {
            assert!(begun.elapsed() < TIMEOUT, "the silent clients do not reach the server");
            thread::sleep(TERM / 60);
        }
    }
}

/// Repeats a call of the owner until the server runs it, and returns the time.
fn wait_of<T>(call: impl Fn() -> Result<T, Status>) -> Duration {
    let begun = Instant::now();
    loop {
        match call() {
            Ok(_) => return begun.elapsed(),
            Err(Status::Jukebox) => thread::sleep(PAUSE),
            Err(status) => panic!("{status:?}"),
        }
        assert!(begun.elapsed() < WAIT_MAX, "the owner waits for more than one term");
    }
}

fn write_by_owner(address: SocketAddr, file: Handle) -> Result<write::Done, Status> {
    let stability = write::Stability::FileSync;
    let args =
        write::Args { file, offset: 0, count: 3, stability, data: Bytes::from_static(b"new") };
    plain_as::<write::Reply>(ordinary(), address, write::NUMBER, &args).done()
}

fn create_by_owner(address: SocketAddr, directory: Handle) -> Result<create::Done, Status> {
    let place = DirectoryArgs { directory, name: Name(b"made") };
    let args = create::Args { place, how: create::How::Unchecked(SetAttributes::default()) };
    plain_as::<create::Reply>(ordinary(), address, create::NUMBER, &args).done()
}

/// Creates a directory with a file, both owned by an ordinary user.
fn owned(mode: u32) -> Home {
    let home = served();
    fs::set_permissions(home.path("data/file"), fs::Permissions::from_mode(mode)).unwrap();
    if geteuid().is_root() {
        let (user, group) = ordinary();
        chown(home.path("data/file"), Some(user), Some(group)).unwrap();
        chown(home.path("data"), Some(user), Some(group)).unwrap();
    }
    home
}

/// Three clients alternately took a short lease and returned none, and the owner of the file could
/// never write.
#[test]
fn owner_writes_while_silent_clients_alternate_leases() {
    let home = owned(0o644);
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    Siege::during(address, file, |siege| {
        Siege::wait_for(&siege.granted);
        let waits = [(); 3].map(|()| wait_of(|| write_by_owner(address, file)));
        assert!(waits.iter().sum::<Duration>() < WAIT_MAX, "{waits:?}");
    });
    assert_eq!(fs::read_to_string(home.path("data/file")).unwrap(), "new");
}

#[test]
fn owner_changes_a_directory_while_silent_clients_alternate_leases() {
    let home = owned(0o644);
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let directory = Handle::new(&root(address)).unwrap();
    Siege::during(address, directory, |siege| {
        Siege::wait_for(&siege.granted);
        let waits = [(); 3].map(|()| wait_of(|| create_by_owner(address, directory)));
        assert!(waits.iter().sum::<Duration>() < WAIT_MAX, "{waits:?}");
    });
    assert!(fs::exists(home.path("data/made")).unwrap());
}

/// Silent clients of another user who may not read the file prevented the owner from writing.
#[test]
fn owner_of_a_private_file_waits_for_no_client_of_another_user() {
    if !geteuid().is_root() {
        return;
    }
    let home = owned(0o600);
    let (_serving, address) = start_with(&home, &["--no-local-coherence"]);
    let file = file(address);
    Siege::during(address, file, |siege| {
        Siege::wait_for(&siege.decided);
        // A reply JUKEBOX would mean that the owner waits.
        write_by_owner(address, file).unwrap();
        assert_eq!(siege.granted.load(Ordering::Relaxed), 0);
    });
    assert_eq!(fs::read_to_string(home.path("data/file")).unwrap(), "new");
}
