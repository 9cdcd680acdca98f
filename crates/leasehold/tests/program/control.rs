//! The requests of an administrator to a running server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::support::{Home, Serving, leasehold, run};

/// Sends a line over the control socket, and returns the reply.
fn say(home: &Home, line: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(home.path("state/control")).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[test]
fn request_gets_a_reply_or_an_error() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &[]);
    assert_eq!(say(&home, "{\"do\":\"status\"}\n")["ok"]["pid"], ready["pid"]);
    for line in ["{\"do\":\"dance\"}\n", "status\n", "\n"] {
        let answer = say(&home, line);
        assert!(answer["error"].as_str().unwrap().contains("unknown request"), "{line}: {answer}");
    }
    assert!(serving.end(Signal::TERM).success());
    let state = home.path("state");
    let (code, _, error) = run(leasehold(&["status", "--state", &state]));
    assert!(code == 1 && error.contains("no server replies") && error.contains("--state"));
}
