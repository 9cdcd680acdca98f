//! A Linux kernel of its own, to mount the server with the kernel's client, or to run the server
//! where its power can be cut.
//!
//! It is Debian's user-mode Linux, an ordinary process. Its root is this machine's file system under
//! an overlay in memory, so it has every program that this machine has and changes nothing.

use std::fs::{self, File};
use std::io::{PipeReader, Read as _, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use crate::{Link, Scratch};

/// Debian releases whose kernels are tried in turn: the first is new enough to run without tracing
/// each system call, which makes it several times as fast.
const RELEASES: [&str; 2] = ["sid", "trixie"];

/// The guest's memory; what it writes outside the mount lies there too.
const MEMORY: &str = "768M";

/// The room for the memory of all guests that may run at once.
const GUESTS_BYTES: u64 = 8 << 30;

/// What the system calls a file system in memory (`linux/magic.h`).
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// The address of every guest's network card: the machine then reaches the next guest on a link as
/// soon as the one before.
const MAC: &str = "02:00:00:00:00:01";

/// How often a running guest is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// The version of NFS that a guest speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 1094.
    V2,
    /// RFC 1813.
    V3,
}

impl Version {
    fn number(self) -> u8 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// What a guest mounts, from 127.0.0.1.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The server's port, for NFS and for MOUNT; without it the guest asks the portmapper.
    pub port: Option<u16>,
    /// The path that the server exports.
    pub export: String,
    /// The version to speak.
    pub version: Version,
}

impl Mount {
    /// The lines of shell that tell it to the guest.
    fn settings(&self) -> String {
        let Self { port, export, version } = self;
        let number = version.number();
        let ports = port.map(|port| format!("port={port},mountport={port},")).unwrap_or_default();
        let options =
            format!("vers={number},proto=tcp,{ports}mountproto=tcp,nolock,addr=127.0.0.1");
        format!("version={number}\nmount_source=127.0.0.1:{export}\nmount_options={options}\n")
    }
}

/// A running guest; killed when this is dropped.
pub struct Guest {
    kernel: Child,
    /// What the guest writes; it ends when the last process of the guest has.
    log: Option<JoinHandle<String>>,
    /// Outlives the kernel.
    _link: Arc<Link>,
    run: Scratch,
    until: Instant,
}

/// How a guest ended.
#[derive(Debug)]
pub struct Ended {
    /// The case's exit status; nothing if the guest ended before the case did.
    pub status: Option<i32>,
    /// What the kernel and the case wrote.
    pub log: String,
}

impl Guest {
    /// Boots a guest that runs `case`, lines of shell, in the root of the mount. After `limit` it
    /// is killed.
    ///
    /// # Panics
    /// If the guest cannot be started.
    #[must_use]
    pub fn boot(link: &Arc<Link>, mount: &Mount, case: &str, limit: Duration) -> Self {
        Self::start(link, &mount.settings(), case, &[], limit)
    }

    /// Boots a guest that mounts nothing and has disks, each an image in a file.
    pub(crate) fn boot_with_disks(
        link: &Arc<Link>,
        settings: &str,
        case: &str,
        disks: &[PathBuf],
        limit: Duration,
    ) -> Self {
        Self::start(link, settings, case, disks, limit)
    }

    fn start(
        link: &Arc<Link>,
        settings: &str,
        case: &str,
        disks: &[PathBuf],
        limit: Duration,
    ) -> Self {
        let parts = parts();
        let run = Scratch::new("guest");
        let exchange = run.path().join("exchange");
        fs::create_dir(&exchange).expect("a new folder can be written to");
        let files = [
            ("init.sh", include_str!("../guest/init.sh")),
            ("prelude.sh", include_str!("../guest/prelude.sh")),
            ("settings", settings),
            ("case.sh", case),
        ];
        for (name, text) in files {
            fs::write(exchange.join(name), text).expect("a new folder can be written to");
        }
        make_executable(&exchange.join("init.sh"));
        let (reader, writer) = pipe().expect("there are descriptors left");
        let also = writer.try_clone().expect("there are descriptors left");
        // Each link of the chain dies with the one before it, and the last, which is the first
        // process of a name space of its own, takes all the guest's processes with it.
        let chain = ["--pdeathsig", "KILL", "unshare", "--pid", "--fork", "--kill-child"];
        let kernel = Command::new("setpriv")
            .args(chain)
            .args(["env", "LD_LIBRARY_PATH=libc", "usr/bin/linux.uml"])
            .args(kernel_arguments(&parts, run.path(), link))
            .args((0..).zip(disks).map(|(number, disk)| format!("ubd{number}={}", disk.display())))
            .current_dir(&parts)
            .env("TMPDIR", memory_folder().unwrap_or(run.path()))
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(also)
            .spawn()
            .expect("setpriv can be run");
        let log = Some(thread::spawn(|| all_of(reader)));
        Self { kernel, log, _link: Arc::clone(link), run, until: Instant::now() + limit }
    }

    /// The folder that is shared with the guest.
    pub(crate) fn exchange(&self) -> PathBuf {
        self.run.path().join("exchange")
    }

    /// Whether the guest has ended, or has not in its time.
    pub(crate) fn is_over(&mut self) -> bool {
        self.kernel.try_wait().expect("it is our child").is_some() || Instant::now() > self.until
    }

    /// Ends the guest as a power cut would: at once, with all that lay in its memory. Answers what
    /// it wrote.
    pub(crate) fn kill(mut self) -> String {
        self.end()
    }

    /// Waits until the guest has ended. When the case asks for something (`request` in the
    /// prelude), `serve` is called with the word, and the case goes on after it returns.
    ///
    /// # Panics
    /// If the folder that is shared with the guest cannot be used.
    #[must_use]
    pub fn wait(mut self, mut serve: impl FnMut(&str)) -> Ended {
        let exchange = self.exchange();
        let request = exchange.join("request");
        while !self.is_over() {
            if let Ok(word) = fs::read_to_string(&request) {
                serve(word.trim());
                fs::remove_file(&request).expect("the guest leaves its request to us");
            }
            sleep(GLANCE);
        }
        let late = self.kernel.try_wait().expect("it is our child").is_none();
        let mut log = self.end();
        if late {
            log.push_str("the guest was not done in time\n");
        }
        let status = text(&exchange.join("status")).trim().parse().ok().filter(|_| !late);
        Ended { status, log }
    }

    /// Kills what still runs, and waits until nothing does: only then the disk is nobody's.
    fn end(&mut self) -> String {
        // It may have ended by itself.
        let _ = self.kernel.kill();
        let _ = self.kernel.wait();
        let log = self.log.take().map(JoinHandle::join);
        log.transpose().expect("to read a pipe does not panic").unwrap_or_default()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.end();
    }
}

/// All that comes out of a pipe until nobody can write to it any more.
fn all_of(mut pipe: PipeReader) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is missing in a message, no more.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Ended {
    /// Fails the test unless the case succeeded.
    ///
    /// # Panics
    /// If it did not; the message is all that the guest wrote.
    #[track_caller]
    pub fn expect_success(&self) {
        assert_eq!(self.status, Some(0), "the guest wrote:\n{}", self.log);
    }
}

fn kernel_arguments(parts: &Path, run: &Path, link: &Link) -> Vec<String> {
    let (parts, run) = (parts.display(), run.display());
    let fixed = ["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "seccomp=auto"];
    let consoles = ["con=null", "con0=null,fd:1", "ssl=null", "umid=guest", "quiet", "panic=-1"];
    let own = [
        format!("mem={MEMORY}"),
        format!("init={run}/exchange/init.sh"),
        format!("uml_dir={run}/"),
        format!("vec0:transport=tap,ifname={},depth=128,gro=1,mac={MAC}", link.device()),
        format!("guest_parts={parts}"),
        format!("guest_run={run}"),
        format!("guest_address={}", link.address()),
    ];
    fixed.into_iter().chain(consoles).map(str::to_owned).chain(own).collect()
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).expect("our own file's mode can be changed");
}

/// A file's text; nothing if it is not there.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The folder of what a guest is made of; it is fetched once and kept beside what cargo builds.
///
/// # Panics
/// If it is not there and cannot be fetched.
pub(crate) fn parts() -> PathBuf {
    static PARTS: OnceLock<PathBuf> = OnceLock::new();
    PARTS.get_or_init(fetch).clone()
}

fn fetch() -> PathBuf {
    let target = crate::server::target_folder();
    let folder = target.join("guest");
    let lock = File::create(target.join("guest.lock")).expect("the build folder can be written to");
    lock.lock().expect("files can be locked");
    if folder.is_dir() {
        return folder;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/guest/fetch.sh");
    let mut complaints = String::new();
    for release in RELEASES {
        let done = Command::new("bash").arg(script).arg(&folder).arg(release).output();
        let done = done.expect("bash can be run");
        if done.status.success() {
            return folder;
        }
        complaints.push_str(&String::from_utf8_lossy(&done.stderr));
    }
    panic!("the guest's kernel cannot be fetched:\n{complaints}");
}

/// Where the system keeps files in memory, if a guest has room there and may run them: it maps a file
/// as its memory, and on a disk all that it changes is written there beside what servers sync.
fn memory_folder() -> Option<&'static Path> {
    let folder = Path::new("/dev/shm");
    let is_in_memory = statfs(folder).is_ok_and(|known| i128::from(known.f_type) == TMPFS_MAGIC);
    let known = statvfs(folder).ok().filter(|_| is_in_memory)?;
    let runs = !known.f_flag.contains(StatVfsMountFlags::NOEXEC);
    (runs && known.f_bavail * known.f_frsize > GUESTS_BYTES).then_some(folder)
}
