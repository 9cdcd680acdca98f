//! The session with the kernel's FUSE, under a stand-in for the files: what waits can be killed.

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

/// Longer than anything takes on a loaded machine.
const LIMIT: Duration = Duration::from_mins(2);

/// A mount of a stand-in, which is a process of its own and ends with this.
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

    /// From now on every operation waits.
    fn hold(&self) {
        assert_eq!(self.order("hold"), "done");
    }

    fn release(&self) {
        assert_eq!(self.order("release"), "done");
    }

    /// The operations that wait.
    fn waiting(&self) -> Vec<String> {
        self.order("waiting").split_whitespace().map(str::to_owned).collect()
    }

    /// Waits until a request of this operation waits.
    fn wait_for(&self, operation: &str) {
        until(operation, || self.waiting().iter().any(|waiting| waiting == operation));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Gone already, where it failed. With its process the connection ends for all who wait.
        let _ = unmount(self.folder.path(), true);
        let _ = self.process.kill();
        let _ = self.process.wait();
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
    mounted.hold();
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
        mounted.release();
        until("nothing is left", || mounted.waiting().is_empty());
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
    mounted.release();
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
    mounted.release();
    assert_eq!(end_of(child).code(), Some(0));

    // The kernel tells of the first signal only; the one that kills comes after it.
    let child = held(&mounted, program);
    mounted.wait_for("lookup");
    signal(&child, "-USR1");
    signal(&child, "-KILL");
    assert_eq!(end_of(child).signal(), Some(9));

    // One that ends the program is as good as SIGKILL.
    mounted.release();
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
fn many_wait_and_all_are_answered() {
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
    // Look-ups of one name wait for each other in the kernel; one is enough to see that all wait.
    mounted.wait_for("lookup");
    mounted.release();
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
