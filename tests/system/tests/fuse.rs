//! The session with the kernel's FUSE, under a stand-in for the files: what waits can be killed.

use std::fs;
use std::future::poll_fn;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_fuse::{
    Answer, Attributes, Entry, Errno, FileSystem, InFlight, Listing, ListingEntry, MountError,
    MountOptions, NodeId, Opened, Operation, Reply, Request, Session, mount, unmount,
};
use leasehold_system_tests::Scratch;

/// Longer than anything takes on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

const FILE: NodeId = NodeId(2);

/// A directory with one file, `file`, that can be made to wait and to panic.
#[derive(Default)]
struct Stand {
    content: Mutex<Vec<u8>>,
    held: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Stand {
    fn hold(&self) {
        self.held.store(true, Ordering::SeqCst);
    }

    fn release(&self) {
        self.held.store(false, Ordering::SeqCst);
        self.waiting.lock().expect("nobody panics with it").drain(..).for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|context| {
            let mut waiting = self.waiting.lock().expect("nobody panics with it");
            if !self.held.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn attributes(&self, node: NodeId) -> Attributes {
        let size = self.content.lock().expect("nobody panics with it").len() as u64;
        let (mode, size) = if node == NodeId::ROOT { (0o040_755, 4096) } else { (0o100_644, size) };
        let (links, block_bytes) = (1, 4096);
        Attributes { file: node.0 + 100, mode, size, links, block_bytes, ..Attributes::default() }
    }

    fn entry(&self, node: NodeId) -> Entry {
        Entry {
            node: Some(node),
            generation: 0,
            name_valid: Duration::ZERO,
            attributes_valid: LIMIT,
            attributes: self.attributes(node),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "what nobody asks for fails the test")]
    fn answer(&self, request: Request) -> Result<Reply, Errno> {
        match request.operation {
            Operation::Lookup { name } if name == b"file" => Ok(Reply::Entry(self.entry(FILE))),
            Operation::Lookup { name } if name == b"panics" => panic!("as asked"),
            Operation::Lookup { .. } => Err(Errno::NOENT),
            Operation::Getattr { .. } | Operation::Setattr(_) => {
                Ok(Reply::Attributes(self.attributes(request.node), LIMIT))
            }
            Operation::Open { .. } | Operation::Opendir => Ok(Reply::Opened(Opened::default())),
            Operation::Read { offset, size, .. } => {
                let content = self.content.lock().expect("nobody panics with it");
                let start = content.len().min(length(offset));
                let end = content.len().min(start + length(size.into()));
                Ok(Reply::Data(Bytes::copy_from_slice(&content[start..end])))
            }
            Operation::Write { offset, data, .. } => {
                let mut content = self.content.lock().expect("nobody panics with it");
                let start = length(offset);
                let end = start + data.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[start..end].copy_from_slice(&data);
                Ok(Reply::Written(u32::try_from(data.len()).expect("the kernel has a limit")))
            }
            Operation::Readdir { offset, size, plus, .. } => {
                let mut listing = Listing::new(size);
                if offset == 0 {
                    let entry = ListingEntry { name: b"file", file: 102, next: 1, mode: 0o100_644 };
                    listing.push(entry, plus.then_some(Some(&self.entry(FILE))));
                }
                Ok(listing.reply())
            }
            Operation::Flush { .. }
            | Operation::Fsync { .. }
            | Operation::Release { .. }
            | Operation::Releasedir { .. } => Ok(Reply::Done),
            other => panic!("nobody asks for {}", other.name()),
        }
    }
}

/// A position in a file that is held in memory.
fn length(of: u64) -> usize {
    usize::try_from(of).expect("the files are small")
}

impl FileSystem for Stand {
    fn call(self: Arc<Self>, request: Request) -> Answer {
        Box::pin(async move {
            // What only tells us something must not hang: nobody could be killed for it.
            if !matches!(
                request.operation,
                Operation::Release { .. } | Operation::Releasedir { .. }
            ) {
                self.pass().await;
            }
            self.answer(request)
        })
    }

    fn forget(&self, _: NodeId, _: u64) {}
}

/// A mount of a stand-in; unmounted when this is dropped.
struct Mounted {
    stand: Arc<Stand>,
    session: Session,
    folder: Scratch,
}

impl Mounted {
    fn new() -> Self {
        let folder = Scratch::new("fuse");
        let options = MountOptions { source: "stand-in".to_owned(), ..MountOptions::default() };
        let device = mount(folder.path(), &options).expect("root may mount");
        let stand = Arc::new(Stand::default());
        let session =
            Session::start(device, |_| Arc::clone(&stand)).expect("the kernel speaks FUSE");
        Self { stand, session, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn in_flight(&self) -> Vec<InFlight> {
        self.session.in_flight()
    }

    /// Waits until a request of this operation waits.
    fn wait_for(&self, operation: &str) {
        until(operation, || self.in_flight().iter().any(|request| request.operation == operation));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.stand.release();
        unmount(self.folder.path(), true).expect("it is mounted");
        // It ends when the last user of the mount has ended.
        self.session.wait(LIMIT);
    }
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waited too long: {what}");
        sleep(Duration::from_millis(2));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.expect("kill can be run").success());
}

/// How a process ends, which it must.
fn end_of(mut child: Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return status;
        }
        assert!(start.elapsed() < LIMIT, "a process does not end");
        sleep(Duration::from_millis(2));
    }
}

/// Programs that wait in an operation when it is held, and that operation. What needs an open file
/// opens it before the word `held`.
const WAITING: [(&str, &str); 7] = [
    ("held; stat($ARGV[0]);", "lookup"),
    ("$ARGV[0] =~ s/file$//; opendir(D, $ARGV[0]); held; readdir(D);", "readdir"),
    ("open(F, '<', $ARGV[0]); held; sysread(F, $b, 100);", "read"),
    ("open(F, '+<', $ARGV[0]); held; syswrite(F, 'x');", "write"),
    ("open(F, '+<', $ARGV[0]); held; close(F);", "flush"),
    ("open(F, '+<', $ARGV[0]); syswrite(F, 'x'); held; use IO::Handle; F->sync;", "fsync"),
    ("open(F, '+<', $ARGV[0]); held; truncate(F, 0);", "setattr"),
];

/// Starts a program; at its word `held` it says so and goes on when all is held.
fn held(mounted: &Mounted, program: &str) -> Child {
    let wait = "print \"ready\\n\"; sysread(STDIN, $x, 1)";
    let program = format!("$SIG{{USR1}} = sub {{ }}; $| = 1; {}", program.replace("held", wait));
    let mut perl = Command::new("perl");
    perl.arg("-e").arg(program).arg(mounted.path("file"));
    let mut child =
        perl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("perl is there");
    let mut line = [0; 6];
    child.stdout.as_mut().expect("it is a pipe").read_exact(&mut line).expect("perl runs");
    mounted.stand.hold();
    child.stdin.as_mut().expect("it is a pipe").write_all(b"x").expect("perl reads");
    child
}

#[test]
fn what_waits_can_be_killed() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    for (program, operation) in WAITING {
        let child = held(&mounted, program);
        mounted.wait_for(operation);
        signal(&child, "-KILL");
        assert_eq!(end_of(child).signal(), Some(9), "{program}");
        // Read-ahead, which no process waits for, is left until then.
        mounted.stand.release();
        until("nothing is left", || mounted.in_flight().is_empty());
    }
}

#[test]
fn who_is_killed_need_not_wait_for_the_files_it_had_open() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let child = held(&mounted, "open(F, '+<', $ARGV[0]); held; print \"again!\"; sleep(1000);");
    let mut child = child;
    let mut word = [0; 6];
    child.stdout.as_mut().expect("it is a pipe").read_exact(&mut word).expect("perl goes on");
    signal(&child, "-KILL");
    assert_eq!(end_of(child).signal(), Some(9));
}

/// Executing a program closes descriptors while the kernel keeps everybody from the process' `stat`.
/// The session read that, waited for the request it was to look into, and nothing could be killed.
#[test]
fn a_program_that_is_being_started_stops_nobody() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let executes = held(&mounted, "open(F, '+<', $ARGV[0]); held; exec('true');");
    mounted.wait_for("flush");
    let other = Command::new("stat").arg(mounted.path("file")).stdout(Stdio::null()).spawn();
    let other = other.expect("stat is there");
    mounted.wait_for("lookup");
    signal(&other, "-KILL");
    assert_eq!(end_of(other).signal(), Some(9));
    mounted.stand.release();
    assert_eq!(end_of(executes).code(), Some(0));
}

#[test]
fn a_signal_that_is_handled_interrupts_nothing() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let program = "held; exit(stat($ARGV[0]) ? 0 : 1);";

    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-USR1");
    mounted.stand.release();
    assert_eq!(end_of(child).code(), Some(0));

    // The kernel tells of the first signal only; the one that kills comes after it.
    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-USR1");
    signal(&child, "-KILL");
    assert_eq!(end_of(child).signal(), Some(9));

    // One that ends the program is as good as SIGKILL.
    mounted.stand.release();
    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-TERM");
    assert_eq!(end_of(child).signal(), Some(15));
}

#[test]
fn data_goes_there_and_back() {
    let mounted = Mounted::new();
    let content: Vec<u8> =
        (0u32..1_000_003).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(mounted.path("file"), &content).expect("the stand-in takes it");
    assert!(*mounted.stand.content.lock().expect("nobody panics with it") == content);
    assert!(fs::read(mounted.path("file")).expect("it is there") == content);
    let names: Vec<_> = fs::read_dir(mounted.folder.path())
        .expect("it is a directory")
        .map(|entry| entry.expect("it can be listed").file_name())
        .collect();
    assert_eq!(names, ["file"]);
    let number = fs::metadata(mounted.path("file")).expect("it is there").ino();
    assert_eq!(number, 102, "apart from the number of the node");
}

#[test]
fn a_panic_is_an_error_of_one_operation() {
    let mounted = Mounted::new();
    let error = fs::metadata(mounted.path("panics")).expect_err("it panics");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    let error = fs::metadata(mounted.path("none")).expect_err("there is no such name");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(fs::metadata(mounted.path("file")).is_ok());
}

#[test]
fn many_wait_and_all_are_answered() {
    let mounted = Mounted::new();
    let path = mounted.path("file");
    fs::metadata(&path).expect("it is there");
    mounted.stand.hold();
    let readers: Vec<JoinHandle<bool>> = (0..50)
        .map(|_| {
            let path = path.clone();
            spawn(move || fs::metadata(path).is_ok())
        })
        .collect();
    // Look-ups of one name wait for each other in the kernel; one is enough to see that all wait.
    mounted.wait_for("lookup");
    mounted.stand.release();
    for reader in readers {
        assert!(reader.join().expect("it did not panic"));
    }
}

#[test]
fn what_cannot_be_mounted_on_is_said() {
    let folder = Scratch::new("fuse");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("our own folder can be written to");
    let none = folder.path().join("none");
    for path in [&file, &none] {
        let error = mount(path, &MountOptions::default()).expect_err("it is no directory");
        assert!(matches!(error, MountError::Directory(_)), "{error}");
    }
}
