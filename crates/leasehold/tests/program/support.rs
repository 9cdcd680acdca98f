//! A server that runs as a user runs it, and calls to it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_session::Credential;
use leasehold_session::nfs::messages::{Handle, SetAttributes, create, write};
use leasehold_shell::client::Mounted;
use rustix::process::{Pid, Signal, getegid, geteuid, kill_process};
use tempfile::TempDir;

pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// A directory to serve, with a place for the state beside it.
pub(crate) struct Home(pub(crate) TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self::within(std::env::temp_dir())
    }

    /// Creates a home on another file system.
    pub(crate) fn within(directory: impl AsRef<Path>) -> Self {
        let home = tempfile::tempdir_in(directory).unwrap();
        fs::create_dir(home.path().join("data")).unwrap();
        Self(home)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = leasehold(&["serve", &self.path("data"), "--state"]);
        command.arg(self.path("state")).args(["--listen", "127.0.0.1:0"]).args(options);
        command
    }
}

pub(crate) fn leasehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(arguments).env_remove("LEASEHOLD_LOG");
    command
}

/// Returns the same command with a directory mounted under a second name as well; requires root.
pub(crate) fn with_mounted(directory: &str, other: &str, command: &Command) -> Command {
    fs::create_dir(other).unwrap();
    let mut mounted = Command::new("unshare");
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    mounted.args(["--mount", "sh", "-c", script, "sh", directory, other]);
    mounted.arg(command.get_program()).args(command.get_args());
    mounted
}

/// A small disk mounted over a directory that only the owner may write; requires root.
pub(crate) struct SmallDisk(String);

impl SmallDisk {
    pub(crate) fn at(place: String) -> Self {
        fs::create_dir(&place).unwrap();
        let disk = Self(place);
        disk.mount("size=512k,mode=700");
        disk
    }

    fn mount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none", &self.0]);
        assert!(mount.status().unwrap().success());
    }

    /// Makes the disk reject changes, or accept them again.
    pub(crate) fn set_read_only(&self, is_read_only: bool) {
        self.mount(if is_read_only { "remount,ro" } else { "remount,rw" });
    }

    fn filler(&self) -> String {
        format!("{}/filler", self.0)
    }

    /// Fills the disk, to the last byte.
    pub(crate) fn fill(&self) {
        let mut filler = fs::File::create(self.filler()).unwrap();
        let error = loop {
            if let Err(error) = filler.write_all(&[1; 4096]) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull);
    }

    /// Frees the space.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy", &self.0]).status();
    }
}

/// Runs a program that ends by itself; returns its exit code, and its output on stdout and stderr.
pub(crate) fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns a port outside the system's range of ephemeral ports, for a server whose port must be
/// known before its start, or that restarts: otherwise the system could assign the port to another
/// socket, and a client could connect to itself.
pub(crate) fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % 8000).unwrap();
    loop {
        let port = 20_000 + (own + NEXT.fetch_add(1, Ordering::Relaxed) % 8000) % 8000;
        let at = ("127.0.0.1", port);
        if TcpListener::bind(at).is_ok() && UdpSocket::bind(at).is_ok() {
            return port;
        }
    }
}

/// A running server.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) lines: mpsc::Receiver<String>,
}

impl Serving {
    pub(crate) fn start(command: Command) -> Self {
        Self::logging(command, Stdio::null())
    }

    /// Starts a server with its log at `log`.
    pub(crate) fn logging(mut command: Command, log: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Returns the next line of its output.
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).unwrap()
    }

    /// Starts a server with `--json`; returns its ready message.
    pub(crate) fn with_json(home: &Home, options: &[&str]) -> (Self, serde_json::Value) {
        let serving = Self::start(home.command(&[&["--json"], options].concat()));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        (serving, ready)
    }

    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let end = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            thread::yield_now();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn address(ready: &serde_json::Value) -> SocketAddr {
    let address = &ready["addresses"][0];
    let port = u16::try_from(address["port"].as_u64().unwrap()).unwrap();
    SocketAddr::new(address["address"].as_str().unwrap().parse().unwrap(), port)
}

/// Returns a call without a credential.
pub(crate) fn call(program: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let words = [7, 0, 2, program, 3, procedure, 0, 0, 0, 0];
    words
        .iter()
        .flat_map(|word: &u32| word.to_be_bytes())
        .chain(arguments.iter().copied())
        .collect()
}

/// Returns a call of version 3 by this user.
pub(crate) fn call_of_user(xid: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    call_as((geteuid().as_raw(), getegid().as_raw()), xid, procedure, arguments)
}

/// Returns an ordinary user and group for a server of root, which trusts root's processes; this
/// user for a server of an ordinary user.
pub(crate) fn ordinary() -> (u32, u32) {
    if geteuid().is_root() { (4242, 4242) } else { (geteuid().as_raw(), getegid().as_raw()) }
}

/// Returns a call of version 3 by a user and a group.
pub(crate) fn call_as(
    (user, group): (u32, u32),
    xid: u32,
    procedure: u32,
    arguments: &[u8],
) -> Vec<u8> {
    // AUTH_SYS: stamp, no machine name, user, group, no more groups; then no verifier.
    let words = [xid, 0, 2, NFS, 3, procedure, 1, 20, 0, 0, user, group, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).chain(arguments.iter().copied()).collect()
}

/// Returns bytes with their length before them.
pub(crate) fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut opaque = [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat();
    opaque.resize(opaque.len().next_multiple_of(4), 0);
    opaque
}

/// Returns the head of a successful reply.
pub(crate) fn success() -> Vec<u8> {
    [7, 1, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

pub(crate) fn over_stream(address: SocketAddr, call: &[u8]) -> Vec<u8> {
    over(&mut TcpStream::connect(address).unwrap(), call)
}

/// Sends a call over an open stream; returns the next reply.
pub(crate) fn over(stream: &mut TcpStream, call: &[u8]) -> Vec<u8> {
    send(stream, call);
    read_reply(stream)
}

/// Reads the next reply on a stream.
pub(crate) fn read_reply(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

/// Sends a call without waiting for its reply.
pub(crate) fn send(stream: &mut TcpStream, call: &[u8]) {
    let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
    stream.write_all(&[&mark.to_be_bytes(), call].concat()).unwrap();
}

pub(crate) fn over_datagram(address: SocketAddr, call: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    answered_to(&socket, address, call)
}

/// Returns the reply to a datagram from this socket.
pub(crate) fn answered_to(socket: &UdpSocket, address: SocketAddr, call: &[u8]) -> Vec<u8> {
    socket.send_to(call, address).unwrap();
    let mut reply = vec![0; 65_536];
    let (length, from) = socket.recv_from(&mut reply).unwrap();
    assert_eq!(from, address);
    reply.truncate(length);
    reply
}

pub(crate) const NFS: u32 = 100_003;
pub(crate) const MOUNT: u32 = 100_005;

/// Returns the reply to MNT of `/`.
pub(crate) fn mount(address: SocketAddr) -> Vec<u8> {
    let reply = over_stream(address, &call(MOUNT, 1, b"\0\0\0\x01/\0\0\0"));
    assert!(reply.starts_with(&success()) && reply[24..28] == [0; 4], "refused: {reply:?}");
    reply
}

/// Returns the handle of the root.
pub(crate) fn root(address: SocketAddr) -> Vec<u8> {
    mount(address)[32..64].to_vec()
}

/// Returns the credential of calls: the user that runs the test.
pub(crate) fn who() -> Credential {
    Credential::system("here", geteuid().as_raw(), getegid().as_raw(), &[])
}

/// Creates a file with data that is on stable storage.
pub(crate) async fn put(server: &Mounted, name: &[u8], data: &Bytes) -> Handle {
    let how = create::How::Guarded(SetAttributes { mode: Some(0o644), ..Default::default() });
    let made = server.nfs.create(&who(), &server.root, name, how).await.unwrap().done().unwrap();
    let file = made.object.unwrap();
    let what = (data.clone(), write::Stability::FileSync);
    let done = server.nfs.write(&who(), &file, 0, what).await.unwrap().done().unwrap();
    assert_eq!(done.count as usize, data.len());
    file
}
