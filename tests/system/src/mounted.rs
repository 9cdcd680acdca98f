//! A mount by the built client.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::spawn;
use std::time::Duration;
use std::{fs, str};

use crate::{Scratch, Server, built};

/// A mount of a server's export; dropping this value ends it with its process. No process uses a
/// mount that it serves itself.
pub struct Mounted {
    folder: Scratch,
    /// Ends the watch over the mount.
    _watch: Sender<()>,
}

impl Mounted {
    /// Mounts with options of `-o`. After `limit` the mount is aborted, so that no process waits
    /// for it.
    ///
    /// # Panics
    /// Panics if the mount fails.
    #[must_use]
    pub fn new(server: &Server, options: &str, limit: Duration) -> Self {
        Self::of(&source(server), options, limit)
    }

    /// Mounts a source `HOST:PORT:/EXPORT`, with the same limit.
    ///
    /// # Panics
    /// Panics if the mount fails.
    #[must_use]
    pub fn of(source: &str, options: &str, limit: Duration) -> Self {
        let folder = Scratch::new("mount");
        let done = mount(source, folder.path(), options);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(is_mounted(folder.path()), "it stands when the command returns");
        let (watch, end) = channel();
        let watched = folder.path().to_owned();
        spawn(move || {
            if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                cut_off(&watched);
            }
        });
        Self { folder, _watch: watch }
    }

    /// Returns the mount point.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a file on the mount.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the status that the mount reports.
    ///
    /// # Panics
    /// Panics if the mount reports no status.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        status(self.folder.path()).expect("it is mounted")
    }

    /// Unmounts as a user does.
    ///
    /// # Panics
    /// Panics if the program cannot be run.
    #[must_use]
    pub fn umount(&self) -> ExitStatus {
        let status = Command::new(built()).arg("umount").arg(self.folder.path()).status();
        status.expect("it was built")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        cut_off(self.folder.path());
    }
}

/// Returns the status that a mount reports, or `None` without a mount.
#[must_use]
pub fn status(folder: &Path) -> Option<serde_json::Value> {
    let mut command = Command::new(built());
    let done = command.args(["status", "--json", "--mount"]).arg(folder).output();
    serde_json::from_str(str::from_utf8(&done.ok()?.stdout).ok()?).ok()
}

/// Aborts a mount, if it still exists, and its process; then the kernel ends all waiting requests.
/// Uses force, because a killed process that invalidates pages with pending reads does not end
/// before the reads end.
fn cut_off(folder: &Path) {
    if let Some(told) = status(folder) {
        let _ = Command::new("kill").args(["-KILL", &told["pid"].to_string()]).output();
    }
    let _ = Command::new("umount").args(["--force", "--lazy"]).arg(folder).output();
}

/// Returns the mount source of a server.
#[must_use]
pub fn source(server: &Server) -> String {
    format!("127.0.0.1:{}:{}", server.port(), server.export())
}

/// Runs the mount command.
///
/// # Panics
/// Panics if it cannot be run.
#[must_use]
pub fn mount(source: &str, folder: &Path, options: &str) -> Output {
    let mut command = Command::new(built());
    command.arg("mount").arg(source).arg(folder);
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    command.output().expect("it was built")
}

/// Returns true if the mount table contains the folder.
///
/// # Panics
/// Panics if the mount table cannot be read.
#[must_use]
pub fn is_mounted(folder: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").expect("it is there");
    let folder = folder.display().to_string();
    table.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(&folder) && words.next() == Some("fuse.leasehold")
    })
}
