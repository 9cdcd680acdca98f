//! A server that executes another program in the same process, and inherited sockets.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::process::Signal;

use crate::support::{
    Home, MOUNT, NFS, Serving, TIMEOUT, address, call, call_of_user, leasehold, mount, opaque,
    over_datagram, over_stream, port, root, run, success,
};

const MKDIR: u32 = 9;

/// Restarts the server of a home, and returns the report of the command.
fn restart(home: &Home) -> serde_json::Value {
    let (code, out, error) = run(leasehold(&["restart", "--json", "--state", &home.path("state")]));
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

/// Returns a MKDIR of a name in the root, which succeeds once.
fn mkdir(xid: u32, root: &[u8], name: &str) -> Vec<u8> {
    // No attributes are set.
    let attributes = vec![0; 4 * 6];
    call_of_user(xid, MKDIR, &[opaque(root), opaque(name.as_bytes()), attributes].concat())
}

#[test]
fn restart_keeps_process_sockets_and_replies() {
    let home = Home::new();
    // The port is not assigned to another process after its end.
    let listen = format!("127.0.0.1:{}", port());
    let mut command = leasehold(&["serve", &home.path("data"), "--state", &home.path("state")]);
    command.args(["--listen", &listen, "--http", "127.0.0.1:0", "--json"]);
    let mut serving = Serving::start(command);
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    let address = address(&ready);
    let http: std::net::SocketAddr =
        ready["http"].as_str().unwrap()["http://".len()..].trim_end_matches('/').parse().unwrap();
    let root = root(address);
    let ask = |xid, name: &str| over_stream(address, &mkdir(xid, &root, name));
    let first = ask(100, "once");
    assert_eq!(first[24..28], [0; 4], "{first:?}");
    for round in 0..3 {
        let mut open = TcpStream::connect(address).unwrap();
        open.set_read_timeout(Some(TIMEOUT)).unwrap();
        let told = restart(&home);
        assert_eq!(told["pid"], ready["pid"]);
        assert!(told["program"].as_str().unwrap().starts_with("leasehold "), "{told}");
        // A connection closes, so that its client notices and connects to the same socket.
        assert_eq!(open.read(&mut [0]).unwrap(), 0);
        // Handles stay valid, and a retransmitted call does not run again.
        assert_eq!(ask(100, "once"), first, "round {round}");
        let again = ask(200 + round, "once");
        assert_eq!(again[24..28], 17_u32.to_be_bytes(), "the directory exists: {again:?}");
        assert!(over_datagram(address, &call(NFS, 0, b"")).starts_with(&success()));
        mount(address);
        let mut page = TcpStream::connect(http).unwrap();
        std::io::Write::write_all(&mut page, b"GET /live.json HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        page.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    assert!(serving.end(Signal::TERM).success());
    TcpStream::connect(address).expect_err("nobody listens");
}

/// Several signals in a row: none of them ends the server.
#[test]
fn signal_restarts_as_the_command_does() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &[]);
    let address = address(&ready);
    for _ in 0..20 {
        let process = rustix::process::Pid::from_child(&serving.child);
        rustix::process::kill_process(process, Signal::USR2).unwrap();
        // A datagram waits, while a connection may be closed.
        assert!(over_datagram(address, &call(NFS, 0, b"")).starts_with(&success()));
    }
    // The last restart may still be in progress.
    let end = Instant::now() + TIMEOUT;
    while run(leasehold(&["restart", "--state", &home.path("state")])).0 != 0 {
        assert!(Instant::now() < end, "the server does not serve again");
    }
    mount(address);
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn broken_program_does_not_replace_the_server() {
    let home = Home::new();
    // A private name, so that the test can replace the program.
    let program = home.path("leasehold");
    symlink(env!("CARGO_BIN_EXE_leasehold"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(home.command(&["--json"]).get_args()).stderr(Stdio::null());
    let mut serving = Serving::start(command);
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    let address = address(&ready);
    // Another process writes the file: a file that this process has open for writing could be
    // inherited by any program that it starts at that moment, and could not be executed.
    let put = |text: &str| {
        let script = "printf %s \"$1\" >\"$2\" && chmod +x \"$2\" && mv \"$2\" \"$3\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh", text, &home.path("new"), &program]);
        assert!(shell.status().unwrap().success());
    };
    for (text, complaint) in [
        ("#!/bin/sh\necho broken >&2\nexit 1\n", "broken"),
        ("#!/bin/sh\necho something else\n", "another program"),
        ("no program", "cannot run"),
    ] {
        put(text);
        let (code, _, error) = run(leasehold(&["restart", "--state", &home.path("state")]));
        assert!(code == 1 && error.contains(complaint), "{code}: {error}");
        mount(address);
    }
    // The program that exists now follows.
    let real = env!("CARGO_BIN_EXE_leasehold");
    put(&format!("#!/bin/sh\ntouch {}\nexec {real} \"$@\"\n", home.path("seen")));
    assert_eq!(restart(&home)["pid"], ready["pid"]);
    assert!(fs::exists(home.path("seen")).unwrap());
    mount(address);
    assert!(serving.end(Signal::TERM).success());
}

/// Returns a command with sockets as systemd passes them: from number 3 on.
fn given(sockets: &[i32], command: &Command) -> Command {
    let moves: Vec<_> = (3..).zip(sockets).map(|(to, from)| format!("exec {to}<&{from}")).collect();
    let count = sockets.len();
    let script =
        format!("{}; export LISTEN_PID=$$ LISTEN_FDS={count}; exec \"$@\"", moves.join("; "));
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, "bash"]).arg(command.get_program()).args(command.get_args());
    shell
}

/// Makes a descriptor inheritable, at a number that does not collide.
fn inherited(descriptor: &impl std::os::fd::AsFd, number: i32) -> std::os::fd::OwnedFd {
    let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, number).unwrap();
    rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
    copy
}

#[test]
fn sockets_of_systemd_are_used() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let datagrams = UdpSocket::bind(address).unwrap();
    let told = UnixDatagram::bind(home.path("notify")).unwrap();
    told.set_read_timeout(Some(TIMEOUT)).unwrap();
    let (one, two) = (inherited(&listener, 20), inherited(&datagrams, 21));
    // The requests arrive before the server serves: both wait.
    let early = UdpSocket::bind("127.0.0.1:0").unwrap();
    early.set_read_timeout(Some(TIMEOUT)).unwrap();
    early.send_to(&call(NFS, 0, b""), address).unwrap();
    let mut command = leasehold(&["serve", &home.path("data"), "--state"]);
    command.arg(home.path("state")).arg("--json");
    let mut command = given(&[one.as_raw_fd(), two.as_raw_fd()], &command);
    command.env("NOTIFY_SOCKET", home.path("notify")).env("WATCHDOG_USEC", "300000");
    let mut serving = Serving::start(command);
    drop((listener, datagrams, one, two));
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    assert_eq!(crate::support::address(&ready), address);
    let mut reply = [0; 64];
    early.recv_from(&mut reply).unwrap();
    assert!(reply.starts_with(&success()));
    assert!(over_stream(address, &call(MOUNT, 0, b"")).starts_with(&success()));
    // The test receives notifications at once, like systemd: the server waits if too many are
    // unread.
    let (tell, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = [0; 256];
        while let Ok(length) = told.recv(&mut text) {
            if tell.send(String::from_utf8_lossy(&text[..length]).into_owned()).is_err() {
                return;
            }
        }
    });
    let hears = |wanted: &str| loop {
        let text = heard.recv_timeout(TIMEOUT).unwrap();
        if text.starts_with(wanted) {
            return text;
        }
    };
    assert!(hears("READY=1").contains(&format!("MAINPID={}", ready["pid"])));
    hears("WATCHDOG=1");
    restart(&home);
    hears("RELOADING=1");
    hears("READY=1");
    hears("WATCHDOG=1");
    mount(address);
    assert!(serving.end(Signal::TERM).success());
    hears("STOPPING=1");
}

#[test]
fn useless_socket_is_rejected() {
    let home = Home::new();
    let file = fs::File::open("/dev/null").unwrap();
    let file = inherited(&file, 20);
    let (code, _, error) = run(given(&[file.as_raw_fd()], &home.command(&[])));
    assert!(code == 4 && error.contains("descriptor 3 is no socket"), "{code}: {error}");
}
