//! A mount of the built client.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::spawn;
use std::time::Duration;
use std::{fs, str};

use crate::{Scratch, Server, built};

/// A mount of a server's export; gone, with its process, when this is dropped. No process that
/// serves a mount uses it.
pub struct Mounted {
    folder: Scratch,
    /// Ends the watch over the mount.
    _watch: Sender<()>,
}

impl Mounted {
    /// Mounts with options of `-o`. After `limit` the mount is cut off, so that nothing waits for
    /// it.
    ///
    /// # Panics
    /// If it cannot be mounted.
    #[must_use]
    pub fn new(server: &Server, options: &str, limit: Duration) -> Self {
        Self::of(&source(server), options, limit)
    }

    /// The same of `HOST:PORT:/EXPORT`.
    ///
    /// # Panics
    /// If it cannot be mounted.
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

    /// Where it is mounted.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file there.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the mount tells of itself.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn status(&self) -> serde_json::Value {
        status(self.folder.path()).expect("it is mounted")
    }

    /// Ends it as a user does.
    ///
    /// # Panics
    /// If the program cannot be run.
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

/// What a mount tells of itself; nothing where there is none.
#[must_use]
pub fn status(folder: &Path) -> Option<serde_json::Value> {
    let mut command = Command::new(built());
    let done = command.args(["status", "--json", "--mount"]).arg(folder).output();
    serde_json::from_str(str::from_utf8(&done.ok()?.stdout).ok()?).ok()
}

/// Ends a mount, if it still is one, and its process: with that the kernel ends all that waits.
/// By force, since a process that is killed while it has the kernel forget pages that are being read
/// from it does not end before they are.
fn cut_off(folder: &Path) {
    if let Some(told) = status(folder) {
        let _ = Command::new("kill").args(["-KILL", &told["pid"].to_string()]).output();
    }
    let _ = Command::new("umount").args(["--force", "--lazy"]).arg(folder).output();
}

/// What is mounted of a server.
#[must_use]
pub fn source(server: &Server) -> String {
    format!("127.0.0.1:{}:{}", server.port(), server.export())
}

/// Runs the command that mounts.
///
/// # Panics
/// If it cannot be run.
#[must_use]
pub fn mount(source: &str, folder: &Path, options: &str) -> Output {
    let mut command = Command::new(built());
    command.arg("mount").arg(source).arg(folder);
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    command.output().expect("it was built")
}

/// Whether the table of mounts has it.
///
/// # Panics
/// If there is no such table.
#[must_use]
pub fn is_mounted(folder: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").expect("it is there");
    let folder = folder.display().to_string();
    table.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(&folder) && words.next() == Some("fuse.leasehold")
    })
}
