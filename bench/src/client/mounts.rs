//! The measured mounts, each a separate process that ends with the measurement.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::disk::run;
use crate::servers::ours;

/// A mount; dropping this value ends it.
pub(crate) struct Mount {
    process: Child,
    folder: TempDir,
}

/// The time limit for a mount to start.
const LIMIT: Duration = Duration::from_secs(20);

impl Mount {
    /// Mounts a server with our client.
    pub(crate) fn ours(server: SocketAddr, options: &str) -> io::Result<Self> {
        let mut command = Command::new(ours()?);
        command.args(["mount", "--foreground", "-o", options]);
        Self::start(command.arg(format!("127.0.0.1:{}:/", server.port())))
    }

    /// Mounts with sshfs, over a connection without ssh to the server that ssh would start.
    pub(crate) fn sshfs(server: SocketAddr, directory: &Path) -> io::Result<Self> {
        let mut command = Command::new("sshfs");
        let port = format!("directport={}", server.port());
        command.args(["-f", "-o", &port]);
        Self::start(command.arg(format!("127.0.0.1:{}", directory.display())))
    }

    /// Mounts a WebDAV server with rclone, which sends written data several seconds after a close.
    pub(crate) fn rclone(server: SocketAddr, _: &Path) -> io::Result<Self> {
        let mut command = Command::new("rclone");
        command.args(["mount", "--config", "/dev/null", "--vfs-cache-mode", "writes"]);
        let url = format!("http://{server}");
        command.args(["--webdav-vendor", "other", "--webdav-url", &url, ":webdav:"]);
        Self::start(&mut command)
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let process = command.arg(folder.path()).stdin(Stdio::null()).spawn()?;
        let mount = Self { process, folder };
        let place = format!(" {} ", mount.path().display());
        let start = Instant::now();
        while !fs::read_to_string("/proc/self/mounts")?.contains(&place) {
            if start.elapsed() > LIMIT {
                return Err(io::Error::other(format!("{command:?} does not mount")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(mount)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the status that our mount reports.
    pub(crate) fn status(&self) -> io::Result<Value> {
        let mut command = Command::new(ours()?);
        let done = command.args(["status", "--json", "--mount"]).arg(self.path()).output()?;
        Ok(serde_json::from_slice(&done.stdout)?)
    }

    /// Unmounts as a user does: written data is then at the server.
    pub(crate) fn end(mut self) -> io::Result<()> {
        run(Command::new("umount").arg(self.folder.path()))?;
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended: {status}"))) }
    }

    /// Makes rclone reread directories, which it otherwise does after minutes, until it finds a
    /// file: a SIGHUP requests this, with a delay.
    pub(crate) fn look_again(&self, file: &Path) -> io::Result<()> {
        let start = Instant::now();
        loop {
            run(Command::new("kill").args(["-HUP", &self.process.id().to_string()]))?;
            thread::sleep(Duration::from_millis(50));
            if file.exists() {
                return Ok(());
            }
            if start.elapsed() > LIMIT {
                return Err(io::Error::other("rclone does not see a new file"));
            }
        }
    }

    /// Returns the processor time of its process so far.
    pub(crate) fn processor(&self) -> io::Result<Duration> {
        const TICKS: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id()))?;
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let words: Vec<u64> =
            behind.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        // The state is not a number: user and system time are the 11th and 12th numbers.
        let ticks = words.get(10).zip(words.get(11)).map(|(user, system)| user + system);
        let ticks = ticks.ok_or_else(|| io::Error::other("a process has no times"))?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut umount = Command::new("umount");
        umount.arg("-l").arg(self.folder.path()).stderr(Stdio::null());
        // The end of the process closes the connection, even for waiting requests.
        drop(umount.status());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Serves files like `sftp-server` to each client, until the process ends.
pub(crate) fn sftp() -> io::Result<SocketAddr> {
    let program = PathBuf::from("/usr/lib/openssh/sftp-server");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.set_nodelay(true);
            let Ok(also) = stream.try_clone() else { continue };
            let (input, output) = (OwnedFd::from(stream), OwnedFd::from(also));
            if let Ok(mut process) = Command::new(&program).stdin(input).stdout(output).spawn() {
                thread::spawn(move || process.wait());
            }
        }
    });
    Ok(address)
}

/// rclone's server of WebDAV; dropping this value ends it.
pub(crate) struct Webdav {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Webdav {
    /// Serves a directory.
    pub(crate) fn serve(directory: &Path) -> io::Result<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new("rclone");
        // The server must immediately see files that other programs add.
        command.args(["serve", "webdav", "--config", "/dev/null", "--quiet"]);
        command.args(["--dir-cache-time", "0s", "--addr"]);
        let process = command.arg(address.to_string()).arg(directory).spawn()?;
        let webdav = Self { process, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if start.elapsed() > LIMIT {
                return Err(io::Error::other("rclone does not serve"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(webdav)
    }
}

impl Drop for Webdav {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
