//! Clients find announced servers by name; each test has a network of its own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_discovery::{Found, browse, resolve};
use leasehold_system_tests::{Scratch, Server, built, on_own_network, output};

/// Returns the output of the program.
fn said(words: &[&str]) -> String {
    output(Command::new(built()).args(words))
}

#[test]
fn a_server_is_found_by_its_name() {
    on_own_network("a_server_is_found_by_its_name", || {
        output(Command::new("ip").args(["link", "set", "lo", "multicast", "on"]));
        // A name that this machine cannot resolve otherwise.
        output(Command::new("hostname").arg("leasehold-box.example"));
        let quiet = Server::start();
        let server = Server::start_with(&["--announce"]);
        fs::write(server.folder().join("file"), "text").expect("there is room");
        let found = (0..20).find_map(|_| {
            let found = said(&["find", "--json", "--wait", "1"]);
            (!found.is_empty()).then_some(found)
        });
        let found = found.expect("it is announced");
        let one: serde_json::Value = serde_json::from_str(&found).expect("one line");
        assert_eq!(one["server"], "leasehold-box");
        assert_eq!(one["path"], server.export());
        assert_eq!(one["addresses"][0], format!("127.0.0.1:{}", server.port()));
        drop(quiet);
        let url = format!("nfs://leasehold-box{}/file", server.export());
        assert_eq!(said(&["cat", &url]), "text");
        server.end();
        assert_eq!(said(&["find", "--json", "--wait", "1"]), "", "it says goodbye");
    });
}

#[test]
fn announcements_follow_a_reload() {
    on_own_network("announcements_follow_a_reload", || {
        output(Command::new("ip").args(["link", "set", "lo", "multicast", "on"]));
        let exports = |names: &[&str]| {
            let one = |name| format!("[[export]]\nname = '/{name}'\ndirectory = 'FOLDER/{name}'\n");
            let exports: String = names.iter().map(one).collect();
            format!("[server]\nannounce = true\n{exports}")
        };
        let paths = || {
            let found = said(&["find", "--json", "--wait", "1"]);
            let path = |line| {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON")["path"].clone()
            };
            let mut paths: Vec<_> = found.lines().map(path).collect();
            paths.sort_by_key(ToString::to_string);
            paths
        };
        let followed = |wanted: &[&str]| (0..20).any(|_| paths() == wanted);
        let make = "mkdir one two three";
        let server = Server::start_configured(make, &exports(&["one", "two"]), "", "");
        assert!(followed(&["/one", "/two"]), "{:?}", paths());
        server.reload(&exports(&["two", "three"]));
        assert!(followed(&["/three", "/two"]), "{:?}", paths());
    });
}

/// A program; dropping this value ends it.
struct Running(Child);

impl Running {
    /// Starts a program, and waits until it is ready.
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(built());
        command.args(words).arg("--json").stdout(Stdio::piped());
        let mut running = Self(command.spawn().expect("the program was built"));
        let out = running.0.stdout.take().expect("it was asked for");
        let ready = BufReader::new(out).lines().next();
        assert!(ready.is_some_and(|line| line.is_ok()), "{words:?} does not get ready");
        running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was started here");
    }
}

/// Starts two metaservers of one volume, on ports 2049 and 2050, and their I/O daemon.
fn several(folder: &Scratch) -> [Running; 3] {
    let path = |name: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(&path).expect("there is room");
        path.to_str().expect("our own name").to_owned()
    };
    let key = format!("{}/key", path("keys"));
    let part = |words: &[&str], name: &str| {
        let (directory, state) = (path(name), path(&format!("state-{name}")));
        let more = [&directory, "--state", &state, "--cluster-key", &key];
        Running::start(&[&words[..1], &more, &words[1..]].concat())
    };
    let iod = part(&["iod", "--listen", "127.0.0.1:4000"], "iod");
    let meta = |number: &str, listen: &str| {
        output(Command::new("hostname").arg(format!("box{number}")));
        let several = ["--peer", "127.0.0.1:2049", "--peer", "127.0.0.1:2050", "--number", number];
        let words = ["meta", "--iod", "127.0.0.1:4000", "--listen", listen, "--announce"];
        let name = ["--name", "files"];
        part(&[&words[..], &several, &name].concat(), &format!("names{number}"))
    };
    let first = meta("0", "127.0.0.1:2049");
    [iod, first, meta("1", "127.0.0.1:2050")]
}

#[test]
fn the_least_busy_of_several_is_found() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    on_own_network("the_least_busy_of_several_is_found", || {
        output(Command::new("ip").args(["link", "set", "lo", "multicast", "on"]));
        let folder = Scratch::new("several");
        let _running = several(&folder);
        let connect = || TcpStream::connect("127.0.0.1:2049").expect("it listens");
        let _held: Vec<_> = (0..20).map(|_| connect()).collect();
        let port = |found: &Found| found.addresses[0].port();
        // The load changes with the machine: the test examines a choice only if the load did not
        // change meanwhile.
        let looked_at = (0..15).any(|_| {
            let before = browse(TIMEOUT).expect("there is a network");
            let taken = resolve("files", TIMEOUT).expect("there is a network");
            let after = browse(TIMEOUT).expect("there is a network");
            let connections = |one: &Found| one.load.expect("it is one of two").connections;
            let is_told = before.iter().any(|one| port(one) == 2049 && connections(one) >= 20);
            if before.len() < 2 || before != after || !is_told {
                return false;
            }
            let taken = taken.expect("one of both answers");
            let least = before.iter().map(|one| one.load).min().expect("there are two");
            assert_eq!(taken.load, least, "{before:?}");
            true
        });
        assert!(looked_at, "{:?}", browse(TIMEOUT));
        assert_eq!(said(&["ls", "nfs://files/files/"]), "");
    });
}
