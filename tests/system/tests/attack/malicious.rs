//! Malicious servers against `ls`, `cat`, `cp` and `mount`: the client ends with an error or with
//! the data that it could read, in bounded time and memory, and writes to no other place than its
//! target.

mod lies;

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_system_tests::{Scratch, built};

use lies::{Evil, Lie, SIZE};

/// Far longer than a client needs to detect a lie, even if a server is silent for the two seconds
/// of the client's timeout.
const LIMIT: Duration = Duration::from_secs(40);

/// The memory limit of a client, in KiB.
const MEMORY_MAX_KIB: u64 = 512 << 10;

/// The exit status of a client, and its output.
struct Ended {
    status: ExitStatus,
    said: String,
    memory_kib: u64,
}

/// Runs the built client, with a bound on time and memory.
fn run(words: &[&str]) -> Ended {
    let mut child = Command::new(built())
        .args(words)
        .env("LEASEHOLD_LOG", "warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut stderr = child.stderr.take().expect("standard error is a pipe");
    let said = std::thread::spawn(move || {
        let mut said = Vec::new();
        // A client that prints megabytes is a failure as well.
        let _ = (&mut stderr).take(1 << 20).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    });
    let (status, memory_kib) = wait(&mut child, words);
    Ended { status, said: said.join().expect("the reader does not panic"), memory_kib }
}

fn wait(child: &mut Child, words: &[&str]) -> (ExitStatus, u64) {
    let (start, mut memory_kib) = (Instant::now(), 0);
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let line = status.unwrap_or_default();
        let line = line.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        memory_kib = memory_kib.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().expect("it is our child") {
            return (status, memory_kib);
        }
        if start.elapsed() > LIMIT || memory_kib > MEMORY_MAX_KIB {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{words:?}: after {:?} it holds {memory_kib} KiB", start.elapsed());
        }
        sleep(Duration::from_millis(5));
    }
}

impl Ended {
    /// Asserts that the client ended by itself, without a panic.
    fn is_sound(&self, lie: Lie, words: &str) {
        let Self { status, said, memory_kib } = self;
        assert!(status.code().is_some(), "{lie:?}: {words} ended with {status}: {said}");
        assert!(!said.contains("panicked"), "{lie:?}: {words}: {said}");
        assert!(said.len() < 100_000, "{lie:?}: {words} says much: {}", &said[..1000]);
        assert!(*memory_kib <= MEMORY_MAX_KIB, "{lie:?}: {words} held {memory_kib} KiB");
    }
}

/// Lies that leave no way to read anything.
const HOPELESS: [Lie; 13] = [
    Lie::Garbage,
    Lie::Silence,
    Lie::ClosedConnection,
    Lie::ShortRecord,
    Lie::HugeMark,
    Lie::EmptyFragments,
    Lie::OtherXid,
    Lie::CallsInReply,
    Lie::CutReplies,
    Lie::UnknownStatus,
    Lie::LongHandle,
    Lie::LongList,
    Lie::UnknownType,
];

#[test]
fn ls_cat_and_cp_end_with_an_error_where_nothing_can_be_read() {
    all_at_once(&[&HOPELESS[..], &[Lie::FileAsRoot]].concat(), |lie| {
        let server = Evil::start(lie);
        let copy = Scratch::new("copy");
        let (url, to) = (server.url("data"), copy.path().display().to_string());
        for words in [
            &["ls", "--timeout", "2", "--long", &url][..],
            &["cat", "--timeout", "2", &server.url("data/file")],
            &["cp", "--timeout", "2", "--quiet", "--recursive", &url, &to],
        ] {
            let ended = run(words);
            ended.is_sound(lie, words[0]);
            if is_hopeless(lie, words[0]) {
                assert_eq!(ended.status.code(), Some(1), "{lie:?}: {words:?}: {}", ended.said);
                assert!(!ended.said.is_empty(), "{lie:?}: {words:?} gives no reason");
            }
        }
    });
}

/// Returns true if a command has nothing to read: `cat` reads the file independent of the listing.
fn is_hopeless(lie: Lie, command: &str) -> bool {
    lie != Lie::FileAsRoot && (lie != Lie::LongList || command != "cat")
}

/// Tries all lies concurrently, because a client mostly waits.
fn all_at_once(lies: &[Lie], attack: impl Fn(Lie) + Sync) {
    std::thread::scope(|scope| {
        for &lie in lies {
            let attack = &attack;
            scope.spawn(move || attack(lie));
        }
    });
}

#[test]
fn a_copy_writes_nothing_outside_its_destination() {
    let server = Evil::start(Lie::NamesThatClimb);
    let folder = Scratch::new("copies");
    let to = folder.path().join("below/to");
    fs::create_dir_all(&to).expect("there is room");
    let destination = to.display().to_string();
    let words =
        ["cp", "--timeout", "2", "--quiet", "--recursive", &server.url("data"), &destination];
    let ended = run(&words);
    ended.is_sound(Lie::NamesThatClimb, "cp");
    assert_eq!(names(folder.path()), ["below"]);
    assert_eq!(names(&folder.path().join("below")), ["to"]);
    assert_eq!(names(&to), ["data"]);
    assert_eq!(names(&to.join("data")), ["honest"], "{}", ended.said);
    assert!(!Path::new("/escaped").exists());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let mut names: Vec<_> = entries
        .map(|it| it.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_copy_takes_no_more_data_than_it_asked_for() {
    for lie in [Lie::MoreDataThanAsked, Lie::OtherCount, Lie::HugeSize] {
        let server = Evil::start(lie);
        let copy = Scratch::new("copy");
        let to = copy.path().join("file");
        let destination = to.display().to_string();
        let words = ["cp", "--timeout", "2", "--quiet", &server.url("data/file"), &destination];
        let ended = run(&words);
        ended.is_sound(lie, "cp");
        assert!(ended.status.success(), "{lie:?}: {}", ended.said);
        let copied = fs::read(&to).expect("it was copied");
        let other = copied.iter().position(|byte| *byte != b'e');
        assert_eq!((copied.len(), other), (SIZE, None), "{lie:?}: {}", ended.said);
    }
}

#[test]
fn an_endless_listing_is_abandoned() {
    all_at_once(&[Lie::EndlessNames, Lie::CircularListing], |lie| {
        let server = Evil::start(lie);
        let copy = Scratch::new("copy");
        let (url, to) = (server.url("data"), copy.path().display().to_string());
        for words in [
            &["ls", "--timeout", "2", &url][..],
            &["cp", "--timeout", "2", "--quiet", "--recursive", &url, &to],
        ] {
            let ended = run(words);
            ended.is_sound(lie, words[0]);
            assert_eq!(ended.status.code(), Some(1), "{lie:?}: {words:?}: {}", ended.said);
            assert!(
                ended.said.contains("listing does not end"),
                "{lie:?}: {words:?}: {}",
                ended.said
            );
        }
    });
}

#[test]
fn an_endless_tree_is_abandoned() {
    all_at_once(&[Lie::DirectoryInItself, Lie::DirectoriesWithoutEnd], |lie| {
        let server = Evil::start(lie);
        let copy = Scratch::new("copy");
        let to = copy.path().display().to_string();
        let words = ["cp", "--timeout", "2", "--quiet", "--recursive", &server.url("data"), &to];
        let ended = run(&words);
        ended.is_sound(lie, "cp");
        assert_eq!(ended.status.code(), Some(1), "{lie:?}: {}", ended.said);
        // The paths of the copy may meet a limit of this machine first.
        let reasons = ["the directory lies within itself", "File name too long"];
        let is_told = reasons.iter().any(|reason| ended.said.contains(reason));
        assert!(is_told, "{lie:?}: {}", ended.said);
    });
}

#[test]
fn a_mount_of_a_malicious_server_fails_or_ends_on_demand() {
    let further = [Lie::FileAsRoot, Lie::NamesThatClimb, Lie::MoreDataThanAsked, Lie::OtherCount];
    let all = [&HOPELESS[..], &further].concat();
    all_at_once(&all, |lie| {
        let server = Evil::start(lie);
        let folder = Scratch::new("mount");
        let at = folder.path().display().to_string();
        let source = format!("127.0.0.1:{}:/data", server.port());
        let options = format!("soft,timeo=10,retrans=1,retry=0,port={}", server.port());
        let ended = run(&["mount", &source, &at, "-o", &options]);
        ended.is_sound(lie, "mount");
        if ended.status.success() {
            // Programs get errors or names; none of them hangs for good.
            let mut walk = Command::new("timeout");
            walk.args(["--signal=KILL", "30", "find", &at, "-maxdepth", "2", "-ls"]);
            let walked = walk.output().expect("find belongs to every machine");
            assert!(walked.status.code().is_some(), "{lie:?}: {:?}", walked.status);
            let unmounted = run(&["umount", "--lazy", &at]);
            assert!(unmounted.status.success(), "{lie:?}: {}", unmounted.said);
        }
        let table = fs::read_to_string("/proc/self/mounts").expect("the kernel has a table");
        assert!(!table.contains(&at), "{lie:?}: the mount is left");
    });
}
