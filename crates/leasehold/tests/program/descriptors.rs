//! A server with a low limit of open files reports the limit, instead of only replying "try later".

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;

use crate::support::{Home, Serving, TIMEOUT, address, call_of_user, opaque, over, root, run};

const LOOKUP: u32 = 3;
const READ: u32 = 6;
const JUKEBOX: u32 = 10_008;

/// Returns the same command with a limit on descriptors.
fn limited(command: &Command, limit: u32) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n \"$1\" && shift && exec \"$@\"", "sh", &limit.to_string()]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

/// Such a server started, replied "try later" to every call, and logged nothing.
#[test]
fn server_does_not_start_with_too_few_descriptors() {
    let home = Home::new();
    let (code, _, said) = run(limited(&home.command(&["--threads", "2"]), 32));
    assert_eq!(code, 1, "{said}");
    let needed = said.split("needs ").nth(1).and_then(|text| text.split(' ').next());
    let needed = needed.unwrap_or_else(|| panic!("{said}"));
    assert!(said.contains("may open 32 files"), "{said}");
    assert!(said.contains(&format!("LimitNOFILE={needed}")), "{said}");
    // The number in the error suffices, apart from the descriptors that happen to be open at a
    // start.
    let enough = needed.parse::<u32>().unwrap() + 32;
    let command = home.command(&["--json", "--threads", "2"]);
    let serving = Serving::start(limited(&command, enough));
    let ready: Value = serde_json::from_str(&serving.line()).unwrap();
    root(address(&ready));
}

#[test]
fn server_without_descriptors_logs_the_limit() {
    let home = Home::new();
    for number in 0..10 {
        fs::write(home.path(&format!("data/{number}")), "").unwrap();
    }
    let log = File::create(home.path("log")).unwrap();
    let command = home.command(&["--json", "--http", "127.0.0.1:0"]);
    let serving = Serving::logging(command, log.into());
    let ready: Value = serde_json::from_str(&serving.line()).unwrap();
    let root = opaque(&root(address(&ready)));
    let mut stream = TcpStream::connect(address(&ready)).unwrap();
    let [first, second] = [1, 2].map(|number: u32| {
        let args = [&root[..], &opaque(number.to_string().as_bytes())].concat();
        let reply = over(&mut stream, &call_of_user(number, LOOKUP, &args));
        assert_eq!(reply[24..28], [0; 4], "{reply:?}");
        let length = u32::from_be_bytes(reply[28..32].try_into().unwrap());
        opaque(&reply[32..32 + length as usize])
    });
    let mut number = 2;
    // The first READ of a file needs a descriptor of the file.
    let mut read = |handle: &[u8]| {
        number += 1;
        let args = [handle, &0_u64.to_be_bytes(), &1_u32.to_be_bytes()].concat();
        let reply = over(&mut stream, &call_of_user(number, READ, &args));
        u32::from_be_bytes(reply[24..28].try_into().unwrap())
    };
    assert_eq!(read(&first), 0);
    let limit = |current| {
        let limit = Rlimit { current: Some(current), ..getrlimit(Resource::Nofile) };
        let process = Some(Pid::from_child(&serving.child));
        prlimit(process, Resource::Nofile, limit).unwrap()
    };
    let before = limit(1).current.unwrap();
    assert_eq!(read(&second), JUKEBOX);
    let end = Instant::now() + TIMEOUT;
    while !fs::read_to_string(home.path("log"))
        .unwrap()
        .contains("the limit on open files is reached")
    {
        assert!(Instant::now() < end, "the log has no message");
        thread::sleep(Duration::from_millis(50));
    }
    limit(before);
    assert_eq!(read(&second), 0, "the server serves the file once descriptors are free");
    let host = ready["http"].as_str().unwrap();
    let host = host.strip_prefix("http://").unwrap().trim_end_matches('/');
    let mut page = String::new();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    stream.read_to_string(&mut page).unwrap();
    let name = "leasehold_events_total{event=\"descriptors-lacked\"} ";
    let lacked = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    assert!(lacked.parse::<u64>().unwrap() >= 1, "{lacked}");
}
