//! A guest with its own Linux kernel, which mounts the server with the kernel's client, or runs the
//! server on a machine whose power can be cut.
//!
//! It is Debian's user-mode Linux, an ordinary process. Its root is this machine's file system
//! under an overlay in memory, so it has all programs of this machine and cannot change them.

use std::fs::{self, File};
use std::io::{PipeReader, Read as _, pipe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};

use crate::{Link, Scratch};

/// Debian releases whose kernels are tried in turn: the first is new enough to run without a trace
/// of each system call, which makes it several times as fast.
const RELEASES: [&str; 2] = ["sid", "trixie"];

/// The guest's memory, which also contains all files outside of the mount.
const MEMORY: &str = "768M";

/// The memory for all concurrent guests.
const GUESTS_BYTES: u64 = 8 << 30;

/// The magic number of a file system in memory (`linux/magic.h`).
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// The address of every guest's network card, so that the machine reaches the next guest on a link
/// without a delay.
const MAC: &str = "02:00:00:00:00:01";

/// The poll interval of a running guest.
const GLANCE: Duration = Duration::from_millis(10);

/// The version of NFS that a guest uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// RFC 1094.
    V2,
    /// RFC 1813.
    V3,
    /// RFC 8881.
    V41,
    /// RFC 7862.
    V42,
}

impl Version {
    /// Returns the version as the kernel's client names it.
    fn name(self) -> &'static str {
        match self {
            Self::V2 => "2",
            Self::V3 => "3",
            Self::V41 => "4.1",
            Self::V42 => "4.2",
        }
    }

    /// Returns true if the version has no separate program for mounts and locks.
    #[must_use]
    pub fn has_sessions(self) -> bool {
        matches!(self, Self::V41 | Self::V42)
    }
}

/// The mount of a guest, from 127.0.0.1.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The server's port, for NFS and for MOUNT; `None` lets the guest use the portmapper.
    pub port: Option<u16>,
    /// The path that the server exports.
    pub export: String,
    /// The version.
    pub version: Version,
}

impl Mount {
    /// Returns the mount as lines of shell for the guest.
    fn settings(&self) -> String {
        let Self { port, export, version } = self;
        let name = version.name();
        // Cases compare the number.
        let number = &name[..1];
        let (own, mounts) = if version.has_sessions() {
            ("clientaddr=127.0.0.1,", String::new())
        } else {
            let port = port.map(|port| format!("mountport={port},")).unwrap_or_default();
            ("nolock,", format!("{port}mountproto=tcp,"))
        };
        let port = port.map(|port| format!("port={port},")).unwrap_or_default();
        let options = format!("vers={name},proto=tcp,{port}{mounts}{own}addr=127.0.0.1");
        format!("version={number}\nmount_source=127.0.0.1:{export}\nmount_options={options}\n")
    }
}

/// A running guest; dropping this value kills it.
pub struct Guest {
    kernel: Child,
    /// The output of the guest; it ends with the last process of the guest.
    log: Option<JoinHandle<String>>,
    /// Outlives the kernel.
    _link: Arc<Link>,
    run: Scratch,
    until: Instant,
}

/// The result of a guest.
#[derive(Debug)]
pub struct Ended {
    /// The case's exit status; `None` if the guest ended before the case.
    pub status: Option<i32>,
    /// The output of the kernel and the case.
    pub log: String,
}

impl Guest {
    /// Boots a guest that runs `case`, lines of shell, in the root of the mount. The guest is
    /// killed after `limit`.
    ///
    /// # Panics
    /// Panics if the guest cannot be started.
    #[must_use]
    pub fn boot(link: &Arc<Link>, mount: &Mount, case: &str, limit: Duration) -> Self {
        Self::start(link, &mount.settings(), case, &[], limit)
    }

    /// Boots a guest without a mount that has disks, each an image in a file.
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
        // Each process of the chain is killed with its parent. The last one is the first process of
        // a new PID namespace, so its end kills all processes of the guest.
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

    /// Returns the folder that is shared with the guest.
    pub(crate) fn exchange(&self) -> PathBuf {
        self.run.path().join("exchange")
    }

    /// Returns true if the guest has ended, or exceeded its time limit.
    pub(crate) fn is_over(&mut self) -> bool {
        self.kernel.try_wait().expect("it is our child").is_some() || Instant::now() > self.until
    }

    /// Ends the guest like a power cut: immediately, with the loss of its memory. Returns its
    /// output.
    pub(crate) fn kill(mut self) -> String {
        self.end()
    }

    /// Waits until the guest has ended. When the case sends a request (`request` in the prelude),
    /// calls `serve` with the text, and the case continues after it returns.
    ///
    /// # Panics
    /// Panics if the folder that is shared with the guest cannot be used.
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

    /// Kills all remaining processes and waits for their end, so that no process uses the disk.
    fn end(&mut self) -> String {
        // The process may have ended.
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

/// Reads a pipe until all writers have closed it.
fn all_of(mut pipe: PipeReader) -> String {
    let mut bytes = Vec::new();
    // Unreadable output is only missing from a message.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Ended {
    /// Fails the test unless the case succeeded.
    ///
    /// # Panics
    /// Panics with the output of the guest if the case failed.
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

/// Returns a file's text, or an empty text if the file does not exist.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Returns the folder with the parts of a guest; it is fetched once and kept in cargo's target
/// folder.
///
/// # Panics
/// Panics if it does not exist and cannot be fetched.
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

/// Returns a folder in memory with enough room for a guest and permission to execute: the guest
/// maps a file as its memory, and on a disk all its changes would be written next to the servers'
/// syncs.
fn memory_folder() -> Option<&'static Path> {
    let folder = Path::new("/dev/shm");
    let is_in_memory = statfs(folder).is_ok_and(|known| i128::from(known.f_type) == TMPFS_MAGIC);
    let known = statvfs(folder).ok().filter(|_| is_in_memory)?;
    let runs = !known.f_flag.contains(StatVfsMountFlags::NOEXEC);
    (runs && known.f_bavail * known.f_frsize > GUESTS_BYTES).then_some(folder)
}
