//! The program as a user runs it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A directory to serve, with a place for the state beside it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("data")).unwrap();
        Self(home)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = leasehold(&["serve", &self.path("data"), "--state"]);
        command.arg(self.path("state")).args(["--listen", "127.0.0.1:0"]).args(options);
        command
    }
}

fn leasehold(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.args(arguments).env_remove("LEASEHOLD_LOG");
    command
}

/// Runs a program that ends at once; its exit code, and what it wrote to stdout and stderr.
fn run(mut command: Command) -> (i32, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// A server that runs.
struct Serving {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Serving {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// The next line of what it says.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    /// Starts one with `--json`; what it says.
    fn with_json(home: &Home, options: &[&str]) -> (Self, serde_json::Value) {
        let serving = Self::start(home.command(&[&["--json"], options].concat()));
        let ready = serde_json::from_str(&serving.line()).unwrap();
        (serving, ready)
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "does not end");
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

fn address(ready: &serde_json::Value) -> SocketAddr {
    let address = &ready["addresses"][0];
    let port = u16::try_from(address["port"].as_u64().unwrap()).unwrap();
    SocketAddr::new(address["address"].as_str().unwrap().parse().unwrap(), port)
}

/// A call without a credential.
fn call(program: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let words = [7, 0, 2, program, 3, procedure, 0, 0, 0, 0];
    words
        .iter()
        .flat_map(|word: &u32| word.to_be_bytes())
        .chain(arguments.iter().copied())
        .collect()
}

/// The head of a reply with success.
fn success() -> Vec<u8> {
    [7, 1, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

fn over_stream(address: SocketAddr, call: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
    stream.write_all(&[&mark.to_be_bytes(), call].concat()).unwrap();
    let mut mark = [0; 4];
    stream.read_exact(&mut mark).unwrap();
    let mut reply = vec![0; (u32::from_be_bytes(mark) & 0x7fff_ffff) as usize];
    stream.read_exact(&mut reply).unwrap();
    reply
}

fn over_datagram(address: SocketAddr, call: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(address).unwrap();
    socket.send(call).unwrap();
    let mut reply = vec![0; 65_536];
    let length = socket.recv(&mut reply).unwrap();
    reply.truncate(length);
    reply
}

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;

/// The reply to MNT of `/`.
fn mount(address: SocketAddr) -> Vec<u8> {
    let reply = over_stream(address, &call(MOUNT, 1, b"\0\0\0\x01/\0\0\0"));
    assert!(reply.starts_with(&success()) && reply[24..28] == [0; 4], "refused: {reply:?}");
    reply
}

#[test]
fn says_when_it_can_be_mounted() {
    let home = Home::new();
    let mut serving = Serving::start(home.command(&["--durability", "memory", "--read-only"]));
    let first = serving.line();
    let port = first.rsplit(':').next().unwrap().to_owned();
    let data = fs::canonicalize(home.path("data")).unwrap();
    assert_eq!(
        first,
        format!(
            "Serving {} as /data, read-only (NFS 3 and 2, TCP and UDP) on 127.0.0.1:{port}",
            data.display()
        )
    );
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    assert_eq!(over_stream(address, &call(NFS, 0, &[])), success());
    assert_eq!(over_datagram(address, &call(NFS, 0, &[])), success());
    let rest: Vec<String> = (0..7).map(|_| serving.line()).collect();
    let rest = rest.join("\n");
    assert!(rest.contains(&format!("proto=tcp,port={port},mountport={port}")), "{rest}");
    assert!(rest.ends_with("Durability: memory. A crash of this machine loses changes."), "{rest}");
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
}

#[test]
fn says_so_as_one_line_of_json() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &["--name", "other"]);
    assert_eq!(ready["pid"], serving.child.id());
    assert_eq!(ready["durability"], "disk");
    assert_eq!(ready["exports"][0]["name"], "/other");
    assert_eq!(ready["addresses"][0]["transports"], serde_json::json!(["tcp", "udp"]));
    mount(address(&ready));
    assert_eq!(serving.end(Signal::INT).code(), Some(0));
    assert!(serving.lines.recv_timeout(PATIENCE).is_err(), "says nothing more");
}

#[test]
fn handles_survive_a_restart() {
    let home = Home::new();
    let replies: Vec<_> = (0..2)
        .map(|_| {
            let (mut serving, ready) = Serving::with_json(&home, &[]);
            let reply = mount(address(&ready));
            serving.end(Signal::TERM);
            reply
        })
        .collect();
    assert_eq!(replies[0], replies[1]);
    // With another key they are others.
    fs::remove_dir_all(home.path("state")).unwrap();
    let (_serving, ready) = Serving::with_json(&home, &[]);
    assert_ne!(mount(address(&ready)), replies[0]);
}

#[test]
fn a_connection_that_is_open_does_not_hold_up_the_end() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &[]);
    let mut idle = TcpStream::connect(address(&ready)).unwrap();
    idle.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(over_stream(address(&ready), &call(NFS, 0, &[])), success());
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn what_cannot_be_served_is_said() {
    let home = Home::new();
    fs::write(home.path("file"), "").unwrap();
    let serve = |path: &str| run(leasehold(&["serve", &home.path(path)]));
    let (code, out, err) = serve("none");
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.starts_with("leasehold: ") && err.contains("does not exist"), "{err}");
    let (code, _, err) = serve("file");
    assert!(code == 3 && err.contains("is not a directory"), "{err}");
    // Root may read anything.
    if !geteuid().is_root() {
        fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o000)).unwrap();
        let (code, _, err) = serve("data");
        assert!(code == 3 && err.contains("cannot be read by this user"), "{err}");
    }
}

#[test]
fn a_taken_address_is_said_with_what_to_do() {
    let home = Home::new();
    let stream = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for taken in [stream.local_addr().unwrap(), datagrams.local_addr().unwrap()] {
        let (code, out, err) = run(home.command(&["--listen", &taken.to_string()]));
        assert_eq!((code, out.as_str()), (4, ""));
        assert!(err.starts_with(&format!("leasehold: {taken} is taken")), "{err}");
        assert!(err.contains("--listen 127.0.0.1:0"), "{err}");
    }
    let (code, _, err) = run(home.command(&["--listen", "192.0.2.1:2049"]));
    assert!(code == 4 && err.contains("no address 192.0.2.1"), "{err}");
}

#[test]
fn a_state_that_cannot_be_kept_names_the_option() {
    let home = Home::new();
    let (code, _, err) = run(home.command(&["--state", "/proc/none"]));
    assert_eq!(code, 2, "an option given twice is wrong: {err}");
    let mut command = leasehold(&["serve", &home.path("data"), "--listen", "127.0.0.1:0"]);
    command.args(["--state", "/proc/none"]);
    let (code, _, err) = run(command);
    assert!(code == 5 && err.contains("/proc/none") && err.contains("--state DIR"), "{err}");
}

#[test]
fn wrong_options_are_said() {
    let home = Home::new();
    for wrong in [
        &["--listen", "nowhere"][..],
        &["--name", "a/b"],
        &["--name", ""],
        &["--threads", "0"],
        &["--log", "loud"],
        &["--durability", "tape"],
        &["--none"],
    ] {
        let (code, out, err) = run(home.command(wrong));
        assert_eq!((code, out.as_str()), (2, ""), "{wrong:?}: {err}");
        assert!(err.starts_with("leasehold: "), "{wrong:?}: {err}");
    }
}

#[test]
fn help_fits_a_screen() {
    for arguments in [&["--help"][..], &["serve", "-h"]] {
        let (code, out, err) = run(leasehold(arguments));
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.lines().count() <= 40, "{arguments:?}");
        assert!(out.lines().all(|line| line.len() <= 100), "{out}");
        assert!(out.contains("Exit codes:"), "{out}");
    }
}
