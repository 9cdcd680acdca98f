//! The built server.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};
use std::{env, fs, process};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde::Deserialize;

use crate::disk::{Disk, FileSystem};
use crate::{Mount, Scratch, Version, output};

/// A server over its own folder, listening on 127.0.0.1; dropping this value stops it.
pub struct Server {
    folder: Scratch,
    state: Scratch,
    process: Child,
    ready: Ready,
    runner: Runner,
    options: Vec<String>,
    /// True if the folder has its own file system.
    is_mount: bool,
    /// The disk of the folder, if the folder has its own disk.
    _disk: Option<Disk>,
}

/// The user that runs the server.
enum Runner {
    Us,
    /// The user of the test, with a configuration file and artificial users and groups.
    Configured,
    /// An ordinary user, with a copy of the program in this folder.
    Other(Scratch),
}

/// An ordinary user, and its group.
const USER: u32 = 1000;

/// The message of the server when it accepts mounts.
#[derive(Deserialize)]
struct Ready {
    addresses: Vec<Address>,
    exports: Vec<Export>,
    pid: u32,
}

#[derive(Deserialize)]
struct Address {
    port: u16,
}

#[derive(Deserialize)]
struct Export {
    name: String,
}

impl Server {
    /// Starts a server over a new, empty folder.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server over a new, empty folder, with further options.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    #[must_use]
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_by(Runner::Us, options)
    }

    /// Starts a server over a new, empty folder with a capacity of `bytes`.
    ///
    /// # Panics
    /// Panics if it does not become ready, or without the permission to mount.
    #[must_use]
    pub fn start_with_room(bytes: u64) -> Self {
        let folder = Scratch::new("export");
        let size = format!("size={bytes}");
        output(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()));
        let mut server = Self::start_over(folder, Runner::Us, &["--durability", "memory"]);
        server.is_mount = true;
        server
    }

    /// Starts a server over a new folder on its own disk, of this kind and size.
    ///
    /// # Panics
    /// Panics if it does not become ready, or without the permission to mount.
    #[must_use]
    pub fn start_on_disk(kind: FileSystem, bytes: u64) -> Self {
        let (folder, disk) = (Scratch::new("export"), Disk::new(kind, bytes, &[]));
        let mut mount = Command::new("mount");
        output(mount.args(["-o", "loop"]).arg(disk.path()).arg(folder.path()));
        let mut server = Self::start_over(folder, Runner::Us, &["--durability", "memory"]);
        (server.is_mount, server._disk) = (true, Some(disk));
        server
    }

    /// Starts a server with a configuration file: `text`, in which `FOLDER` is a new, empty folder.
    /// Its machine has only the users and groups in these lines.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    #[must_use]
    pub fn start_configured(make: &str, text: &str, users: &str, groups: &str) -> Self {
        let (folder, state) = (Scratch::new("export"), Scratch::new("state"));
        output(Command::new("bash").args(["-euc", make]).current_dir(folder.path()));
        let etc = |name: &str, text: &str| {
            fs::write(state.path().join(name), text).expect("a new folder can be written to");
        };
        etc("passwd", users);
        etc("group", groups);
        configure(&folder, &state, text);
        let (process, ready) = launch(&Runner::Configured, &folder, &state, port(), &[]);
        let (runner, options) = (Runner::Configured, Vec::new());
        Self { folder, state, process, ready, runner, options, is_mount: false, _disk: None }
    }

    /// Reloads the server with another configuration; returns its message.
    ///
    /// # Panics
    /// Panics if the reload fails.
    pub fn reload(&self, text: &str) -> String {
        configure(&self.folder, &self.state, text);
        output(Command::new(built()).args(["reload", "--state"]).arg(self.state.path()))
    }

    /// Starts a server over a new, empty folder, run by an ordinary user who owns the folder.
    ///
    /// # Panics
    /// Panics if it does not become ready, or without root.
    #[must_use]
    pub fn start_by_ordinary_user() -> Self {
        let folder = Scratch::new("program");
        copy_built(folder.path());
        Self::start_by(Runner::Other(folder), &[])
    }

    fn start_by(runner: Runner, options: &[&str]) -> Self {
        Self::start_over(Scratch::new("export"), runner, options)
    }

    fn start_over(folder: Scratch, runner: Runner, options: &[&str]) -> Self {
        let state = Scratch::new("state");
        if let Runner::Other(_) = runner {
            for folder in [&folder, &state] {
                chown(folder.path(), Some(USER), Some(USER)).expect("root may");
            }
        }
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        let (process, ready) = launch(&runner, &folder, &state, port(), &options);
        Self { folder, state, process, ready, runner, options, is_mount: false, _disk: None }
    }

    /// Kills the server and restarts it, with the same folder and port.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    pub fn restart(&mut self) {
        self.stop();
        self.start_again();
    }

    /// Asks the server to end and restarts it, with the same folder and port.
    ///
    /// # Panics
    /// Panics if it ends with an error, or does not become ready.
    pub fn restart_in_peace(&mut self) {
        self.ask_to_end();
        self.start_again();
    }

    /// Stops the server: it sends no replies until it is killed and restarted.
    ///
    /// # Panics
    /// Panics if it has ended.
    pub fn pause(&mut self) {
        let process = Pid::from_child(&self.process);
        kill_process(process, Signal::STOP).expect("it runs");
        // A thread may still reply until the last thread is stopped.
        let told = waitpid(Some(process), WaitOptions::UNTRACED).expect("it is a child");
        assert!(told.is_some_and(|(_, status)| status.stopped()), "it goes on");
    }

    /// Hands the server's sockets over to a new process of the server; returns its message.
    ///
    /// # Panics
    /// Panics if the handover fails.
    pub fn hand_over(&mut self) -> String {
        output(Command::new(built()).args(["restart", "--state"]).arg(self.state.path()))
    }

    /// Returns the port of all its programs.
    ///
    /// # Panics
    /// Panics if its ready message contains no port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ready.addresses.first().expect("it listens somewhere").port
    }

    /// Returns the exported folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.ready.pid
    }

    /// Returns the resident memory of its process, in KiB.
    ///
    /// # Panics
    /// Panics if the process has ended.
    #[must_use]
    pub fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()));
        let status = status.expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        memory.expect("the kernel says how much memory a process holds")
    }

    /// Returns its state directory.
    #[must_use]
    pub fn state(&self) -> &Path {
        self.state.path()
    }

    /// Returns the name of the export: a path to the client.
    ///
    /// # Panics
    /// Panics if its ready message contains no name.
    #[must_use]
    pub fn export(&self) -> &str {
        &self.ready.exports.first().expect("it exports the folder").name
    }

    /// Returns the mount parameters for a guest.
    #[must_use]
    pub fn mount(&self, version: Version) -> Mount {
        Mount { port: Some(self.port()), export: self.export().to_owned(), version }
    }

    /// Returns the mount parameters for a guest that queries a portmapper for the ports.
    #[must_use]
    pub fn mount_by_portmapper(&self, version: Version) -> Mount {
        Mount { port: None, ..self.mount(version) }
    }

    /// Returns the libnfs URL of a path in the folder.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.url_of(&format!("{}{path}", self.export()))
    }

    /// Returns the libnfs URL of a path as clients mount it.
    #[must_use]
    pub fn url_of(&self, path: &str) -> String {
        let port = self.port();
        format!("nfs://127.0.0.1{path}?nfsport={port}&mountport={port}")
    }

    /// Asks the server to end, and waits for its end.
    ///
    /// # Panics
    /// Panics if it ends with an error.
    pub fn end(mut self) {
        self.ask_to_end();
    }

    fn start_again(&mut self) {
        let (port, options) = (self.port(), &self.options);
        (self.process, self.ready) = launch(&self.runner, &self.folder, &self.state, port, options);
    }

    fn ask_to_end(&mut self) {
        output(Command::new("kill").arg(self.process.id().to_string()));
        let status = self.process.wait().expect("it is our child");
        assert!(status.success(), "the server ended with {status}");
    }

    fn stop(&mut self) {
        // The process may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if self.is_mount {
            let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        }
    }
}

/// Returns a port outside of the range from which the system assigns ports. Otherwise the system
/// could assign the port to another program while the server is down, and a client could then
/// connect to itself.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(process::id() % 8000).expect("it is below 8000");
    loop {
        let port = 20_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed) % 8000) % 8000;
        let at = ("127.0.0.1", port);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return port;
        }
    }
}

/// Starts the program and waits for the line with its address.
fn launch(
    runner: &Runner,
    folder: &Scratch,
    state: &Scratch,
    port: u16,
    options: &[String],
) -> (Child, Ready) {
    let served = [OsStr::new("serve"), folder.path().as_os_str()];
    let mut command = match runner {
        Runner::Us => command_of(&built(), &served),
        Runner::Configured => {
            let mut command = Command::new("unshare");
            command.args(["--mount", "bash", "-euc", WITH_USERS, "bash"]).arg(built());
            command.args(["serve", "--config"]).arg(state.path().join(CONFIGURATION));
            command.current_dir(state.path());
            command
        }
        Runner::Other(program) => {
            let mut command = command_of(&program.path().join("leasehold"), &served);
            command.uid(USER).gid(USER);
            command
        }
    };
    let mut process = command
        .args(["--listen", &format!("127.0.0.1:{port}"), "--json", "--log", "warn", "--state"])
        .arg(state.path())
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let stdout = process.stdout.take().expect("standard output is a pipe");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("a pipe can be read");
    let ready = serde_json::from_str(&line);
    (process, ready.unwrap_or_else(|error| panic!("not ready: {error}: it wrote {line:?}")))
}

/// The configuration's name in the state directory.
const CONFIGURATION: &str = "leasehold.toml";

/// Runs a program with the files of this folder as the machine's users and groups.
const WITH_USERS: &str =
    r#"mount --bind passwd /etc/passwd; mount --bind group /etc/group; exec "$@""#;

fn command_of(program: &Path, words: &[&OsStr]) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    command
}

/// Writes the configuration, and replaces `FOLDER` by the folder.
fn configure(folder: &Scratch, state: &Scratch, text: &str) {
    let text = text.replace("FOLDER", &folder.path().to_string_lossy());
    fs::write(state.path().join(CONFIGURATION), text).expect("our own folder can be written to");
}

/// Copies the program to a folder, to be run there.
///
/// A separate process writes it: if this process wrote it, a child that another thread starts could
/// inherit the writable descriptor for a moment, and no process could execute the file.
///
/// # Panics
/// Panics if the disk is full.
pub fn copy_built(folder: &Path) {
    let copied = Command::new("cp").arg(built()).arg(folder.join("leasehold")).status();
    assert!(copied.expect("cp is installed").success(), "there is room");
}

/// Returns the program, built from the same source and with the same profile as this test.
///
/// # Panics
/// Panics if the build fails.
#[must_use]
pub fn built() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("leasehold")).clone()
}

/// Returns the program of the test harness, built like the server.
///
/// # Panics
/// See [`built`].
#[must_use]
pub fn built_rig() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("leasehold-rig")).clone()
}

/// Returns the folder of the examples of the shell, built like the server.
///
/// # Panics
/// See [`built`].
#[must_use]
pub fn built_examples() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build_all(&["leasehold-shell", "--examples"]).join("examples")).clone()
}

/// Builds the program of a package with the same name.
fn build(package: &str) -> PathBuf {
    build_all(&[package]).join(package)
}

/// Builds targets of a package, and returns the folder of programs.
fn build_all(wanted: &[&str]) -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--package"]).args(wanted);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo can be run").success(), "{wanted:?} cannot be built");
    profile_folder()
}

/// Returns cargo's output folder for this profile: it contains the programs, and the tests in
/// `deps`.
fn profile_folder() -> PathBuf {
    let running = env::current_exe().expect("a running program has a path");
    let folder = running.parent().expect("cargo puts programs in folders");
    let above = folder.parent().filter(|_| folder.ends_with("deps"));
    above.unwrap_or(folder).to_owned()
}

/// Returns cargo's target folder.
pub(crate) fn target_folder() -> PathBuf {
    let folder = profile_folder().parent().map(Path::to_owned);
    folder.expect("a profile's folder lies in the target folder")
}
