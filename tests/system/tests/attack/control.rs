//! Attacks on the control socket and the state directory by an ordinary user of the machine.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use leasehold_system_tests::Server;

use crate::wire::TIMEOUT;

/// The line that the control socket sends in reply; empty if the socket closes.
fn say(server: &Server, line: &[u8]) -> String {
    let stream = UnixStream::connect(server.state().join("control")).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
    // The server may end the connection before the server has read the whole line.
    let _ = (&stream).write_all(line);
    let mut answer = String::new();
    let _ = BufReader::new(stream).read_line(&mut answer);
    answer
}

/// The output of a shell command that an ordinary user runs.
fn as_user(script: &str) -> std::process::Output {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script]);
    command.output().expect("setpriv belongs to util-linux")
}

#[test]
fn an_ordinary_user_reads_nothing_of_the_state() {
    let server = Server::start();
    let state = server.state();
    // The test opens the directory to all users, as a careless administrator might.
    fs::set_permissions(state, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    let names = fs::read_dir(state).expect("the folder is ours");
    let files: Vec<_> = names.map(|it| it.expect("it can be read").path()).collect();
    assert!(files.iter().any(|path| path.ends_with("handle-key")));
    assert!(files.iter().any(|path| path.ends_with("control")));
    for path in &files {
        let mode = fs::symlink_metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        let read = as_user(&format!("cat '{}'", path.display()));
        assert!(!read.status.success(), "{}", path.display());
    }
}

#[test]
fn the_control_socket_serves_only_its_owner() {
    let server = Server::start();
    let control = server.state().join("control");
    let status = b"{\"do\":\"status\"}\n";
    assert!(say(&server, status).contains("\"ok\""));
    // The test gives the socket away: the kernel still reports the user of the client.
    fs::set_permissions(server.state(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::set_permissions(&control, fs::Permissions::from_mode(0o666)).expect("it is ours");
    chown(&control, Some(65_534), Some(65_534)).expect("the tests run as root");
    let asked = as_user(&ask(&control));
    let told = String::from_utf8_lossy(&asked.stdout);
    assert!(told.trim_end().ends_with("b''"), "{told} {}", String::from_utf8_lossy(&asked.stderr));
    assert!(say(&server, status).contains("\"ok\""), "the owner is answered still");
}

/// Shell that asks for the status and prints the bytes that come.
fn ask(control: &Path) -> String {
    format!(
        "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(20)\n\
         s.connect('{}')\n\
         try: s.sendall(b'{{\\\"do\\\":\\\"status\\\"}}\\n')\n\
         except OSError: pass\n\
         try: print(s.recv(100))\n\
         except ConnectionError: print(b'')\"",
        control.display()
    )
}

#[test]
fn nonsense_on_the_control_socket_gets_an_error_or_nothing() {
    let server = Server::start();
    let before = server.pid();
    let deep = [&b"[".repeat(60_000)[..], b"\n"].concat();
    let long = [&b"x".repeat(10 << 20)[..], b"\n"].concat();
    let lines: [&[u8]; 8] = [
        b"\n",
        b"\0\n",
        b"\xff\xfe\n",
        b"{\"do\":\"forget\"}\n",
        b"{\"do\":\"forget\",\"client\":\"\"}\n",
        b"{\"do\":\"layout\",\"path\":\"/etc\",\"words\":\"\\u0000\"}\n",
        &deep,
        &long,
    ];
    for line in lines {
        let answer = say(&server, line);
        let is_refused = answer.is_empty() || answer.contains("\"error\"");
        assert!(is_refused, "{:?}: {answer}", &line[..line.len().min(80)]);
    }
    assert_eq!(server.pid(), before);
    assert!(say(&server, b"{\"do\":\"status\"}\n").contains("\"ok\""));
}

#[test]
fn silent_clients_of_the_control_socket_end_no_server() {
    let server = Server::start();
    let silent: Vec<_> = (0..40)
        .map(|_| UnixStream::connect(server.state().join("control")).expect("it listens"))
        .collect();
    // The server has seats for a few clients, and ends the stream of each further client.
    let refused = silent.iter().skip(30).filter(|stream| {
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket takes a timeout");
        (&mut &**stream).read(&mut [0; 1]).is_ok_and(|count| count == 0)
    });
    assert_eq!(refused.count(), 10);
    drop(silent);
    let end = std::time::Instant::now() + TIMEOUT;
    while !say(&server, b"{\"do\":\"status\"}\n").contains("\"ok\"") {
        assert!(std::time::Instant::now() < end, "no seat comes free");
    }
}
