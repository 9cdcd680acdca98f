//! The session with the kernel's FUSE over a test file system: blocked processes can be killed.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use leasehold_fuse::{Errno, MountError, MountOptions, mount, unmount};
use leasehold_system_tests::Scratch;

/// Longer than any operation takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// A mount of the test file system, a separate process that ends with this value.
struct Mounted {
    folder: Scratch,
    process: Child,
    orders: ChildStdin,
    answers: RefCell<BufReader<ChildStdout>>,
}

impl Mounted {
    fn new() -> Self {
        let folder = Scratch::new("fuse");
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold-stand-in"));
        command.arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("it was built");
        let orders = process.stdin.take().expect("it is a pipe");
        let answers = BufReader::new(process.stdout.take().expect("it is a pipe"));
        let mounted = Self { folder, process, orders, answers: RefCell::new(answers) };
        assert_eq!(mounted.answer(), "ready");
        mounted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn answer(&self) -> String {
        let mut line = String::new();
        self.answers.borrow_mut().read_line(&mut line).expect("it is a pipe");
        line.trim_end().to_owned()
    }

    fn order(&self, order: &str) -> String {
        writeln!(&self.orders, "{order}").expect("it listens");
        self.answer()
    }

    /// Makes every operation block from now on.
    fn hold(&self) {
        assert_eq!(self.order("hold"), "done");
    }

    fn release(&self) {
        assert_eq!(self.order("release"), "done");
    }

    /// Returns the blocked operations.
    fn waiting(&self) -> Vec<String> {
        self.order("waiting").split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until a request of this operation is blocked.
    fn wait_for(&self, operation: &str) {
        until(operation, || self.waiting().iter().any(|waiting| waiting == operation));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The mount may have ended after a failure. The end of its process closes the connection
        // for all blocked processes.
        let _ = unmount(self.folder.path(), true);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until a condition holds.
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

/// Returns the exit status of a process, which must end.
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

/// Programs that block in an operation, and the operation. A program that needs an open file opens
/// it before it prints `held`.
const WAITING: [(&str, &str); 7] = [
    ("held; stat($ARGV[0]);", "lookup"),
    ("$ARGV[0] =~ s/file$//; opendir(D, $ARGV[0]); held; readdir(D);", "readdir"),
    ("open(F, '<', $ARGV[0]); held; sysread(F, $b, 100);", "read"),
    ("open(F, '+<', $ARGV[0]); held; syswrite(F, 'x');", "write"),
    ("open(F, '+<', $ARGV[0]); held; close(F);", "flush"),
    ("open(F, '+<', $ARGV[0]); syswrite(F, 'x'); held; use IO::Handle; F->sync;", "fsync"),
    ("open(F, '+<', $ARGV[0]); held; truncate(F, 0);", "setattr"),
];

/// Starts a program; at `held` it prints a line and continues after operations block.
fn held(mounted: &Mounted, program: &str) -> Child {
    let wait = "print \"ready\\n\"; sysread(STDIN, $x, 1)";
    let program = format!("$SIG{{USR1}} = sub {{ }}; $| = 1; {}", program.replace("held", wait));
    let mut perl = Command::new("perl");
    perl.arg("-e").arg(program).arg(mounted.path("file"));
    let mut child =
        perl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("perl is there");
    let mut line = [0; 6];
    child.stdout.as_mut().expect("it is a pipe").read_exact(&mut line).expect("perl runs");
    mounted.hold();
    child.stdin.as_mut().expect("it is a pipe").write_all(b"x").expect("perl reads");
    child
}

#[test]
fn blocked_processes_can_be_killed() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    for (program, operation) in WAITING {
        let child = held(&mounted, program);
        mounted.wait_for(operation);
        signal(&child, "-KILL");
        assert_eq!(end_of(child).signal(), Some(9), "{program}");
        // Read-ahead without a waiting process remains until then.
        mounted.release();
        until("nothing is left", || mounted.waiting().is_empty());
    }
}

#[test]
fn a_killed_process_does_not_wait_for_its_open_files() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let child = held(&mounted, "open(F, '+<', $ARGV[0]); held; print \"again!\"; sleep(1000);");
    let mut child = child;
    let mut word = [0; 6];
    child.stdout.as_mut().expect("it is a pipe").read_exact(&mut word).expect("perl goes on");
    signal(&child, "-KILL");
    assert_eq!(end_of(child).signal(), Some(9));
}

/// A bug: exec closes descriptors while the kernel locks the process' `stat`. The session read
/// `stat`, waited for the request that it had to examine, and blocked all processes.
#[test]
fn exec_of_a_program_blocks_no_other_process() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let executes = held(&mounted, "open(F, '+<', $ARGV[0]); held; exec('true');");
    mounted.wait_for("flush");
    let other = Command::new("stat").arg(mounted.path("file")).stdout(Stdio::null()).spawn();
    let other = other.expect("stat is there");
    mounted.wait_for("lookup");
    signal(&other, "-KILL");
    assert_eq!(end_of(other).signal(), Some(9));
    mounted.release();
    assert_eq!(end_of(executes).code(), Some(0));
}

#[test]
fn a_handled_signal_interrupts_no_request() {
    let mounted = Mounted::new();
    fs::write(mounted.path("file"), "content").expect("the stand-in takes it");
    let program = "held; exit(stat($ARGV[0]) ? 0 : 1);";

    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-USR1");
    mounted.release();
    assert_eq!(end_of(child).code(), Some(0));

    // The kernel notifies the session of the first signal only; the fatal one follows it.
    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-USR1");
    signal(&child, "-KILL");
    assert_eq!(end_of(child).signal(), Some(9));

    // A fatal signal has the same effect as SIGKILL.
    mounted.release();
    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-TERM");
    assert_eq!(end_of(child).signal(), Some(15));
}

#[test]
fn data_round_trip() {
    let mounted = Mounted::new();
    let content: Vec<u8> =
        (0u32..1_000_003).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(mounted.path("file"), &content).expect("the stand-in takes it");
    let saved = Scratch::new("saved");
    let saved = saved.path().join("content");
    assert_eq!(mounted.order(&format!("save {}", saved.display())), "done");
    assert!(fs::read(saved).expect("it is there") == content);
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
fn many_requests_wait_and_all_receive_replies() {
    let mounted = Mounted::new();
    let path = mounted.path("file");
    fs::metadata(&path).expect("it is there");
    mounted.hold();
    let readers: Vec<JoinHandle<bool>> = (0..50)
        .map(|_| {
            let path = path.clone();
            spawn(move || fs::metadata(path).is_ok())
        })
        .collect();
    // Lookups of one name wait for each other in the kernel; one blocked lookup suffices.
    mounted.wait_for("lookup");
    mounted.release();
    for reader in readers {
        assert!(reader.join().expect("it did not panic"));
    }
}

#[test]
fn an_unsuitable_mount_point_is_reported() {
    let folder = Scratch::new("fuse");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("our own folder can be written to");
    let none = folder.path().join("none");
    for path in [&file, &none] {
        let error = mount(path, &MountOptions::default()).expect_err("it is no directory");
        assert!(matches!(error, MountError::Directory(_)), "{error}");
    }
}
