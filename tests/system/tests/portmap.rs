//! Clients without a port: they query our own portmapper, or Debian's rpcbind, for the server's
//! port. Each test has its own network, where port 111 is free.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_system_tests::{
    Guest, Link, Scratch, Server, Version, add_address, built, on_own_network, output, program,
};

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_mins(3);

macro_rules! alone {
    ($(fn $name:ident() $body:block)*) => {
        $(#[test] fn $name() { on_own_network(stringify!($name), || $body); })*
    };
}

alone! {
    fn our_list_is_read_by_rpcinfo() {
        let server = Server::start_with(&["--portmap"]);
        assert_eq!(listed("127.0.0.1"), [&own_entries(111)[..], &entries(server.port())].concat());
        let short = rpcinfo(&["-s", "127.0.0.1"]);
        assert!(short.contains(" 100005  3,2,1     udp,tcp "), "{short}");
        for network in ["tcp", "udp"] {
            let asked = rpcinfo(&["-T", network, "127.0.0.1", "100003"]);
            let ready = [2, 3].map(|version| format!("program 100003 version {version} ready"));
            assert!(ready.iter().all(|line| asked.contains(line)), "{asked}");
        }
        let list = rpcinfo(&["-l", "127.0.0.1", "100003", "3"]);
        assert!(list.contains("inet/tcp/cots_ord") && list.contains("inet/udp/clts"), "{list}");
        let statistics = rpcinfo(&["-m", "127.0.0.1"]);
        assert!(statistics.contains("RPCBIND (version 4) statistics"), "{statistics}");
    }

    fn our_list_is_read_from_another_address() {
        // The server considers this address another machine, which receives lists by TCP only.
        add_address("192.0.2.1");
        let server = Server::start_with(&["--portmap=0.0.0.0:111", "--listen=192.0.2.1:2050"]);
        assert_eq!(
            listed("192.0.2.1"),
            [&own_entries(111)[..], &entries(2050)].concat(),
            "not what is on the loopback"
        );
        for network in ["tcp", "udp"] {
            let asked = rpcinfo(&["-T", network, "192.0.2.1", "100005", "3"]);
            assert!(asked.contains("program 100005 version 3 ready"), "{asked}");
        }
        assert!(showmount("192.0.2.1").contains(server.export()));
    }

    fn both_families_are_told() {
        let _server = Server::start_with(&["--portmap", "--listen=[::1]:2050"]);
        let short = rpcinfo(&["-s", "::1"]);
        let nfs = short.lines().find(|line| line.contains(" 100003 ")).expect("it is listed");
        let networks = nfs.split_whitespace().nth(2).expect("networks are listed").split(',');
        assert_eq!(networks.collect::<BTreeSet<_>>(), ["tcp", "tcp6", "udp", "udp6"].into());
        for network in ["tcp6", "udp6"] {
            let asked = rpcinfo(&["-T", network, "::1", "100003", "3"]);
            assert!(asked.contains("program 100003 version 3 ready"), "{asked}");
        }
        assert_eq!(listed("127.0.0.1").iter().filter(|entry| entry.3 == 2050).count(), 0);
    }

    fn our_portmapper_passes_the_tester() {
        let server = Server::start_with(&["--portmap"]);
        let url = format!("nfs://127.0.0.1{}", server.export());
        let groups = ["--strict", "--group", "portmap", "--group", "mount"];
        let mut command = Command::new("timeout");
        let told = output(command.arg("180").arg(built()).arg("conform").arg(url).args(groups));
        assert!(told.contains(" passed, 2 skipped"), "{told}");
    }

    fn tools_need_no_port() {
        let server = Server::start_with(&["--portmap"]);
        find_without_port(&server);
    }

    fn the_kernel_s_client_needs_no_port() {
        let server = Server::start_with(&["--portmap"]);
        let link = Arc::new(Link::new());
        for version in [Version::V2, Version::V3] {
            let mount = server.mount_by_portmapper(version);
            let case = "echo hello >found; remount; same \"$(cat found)\" hello";
            let guest = Guest::boot(&link, &mount, case, LIMIT);
            guest.wait(|request| panic!("no such request: {request}")).expect_success();
        }
        assert_eq!(read(&server.folder().join("found")), "hello\n");
    }

    fn rpcbind_tells_of_us_until_we_end() {
        let rpcbind = Rpcbind::start();
        let server = Server::start_with(&["--register"]);
        assert_eq!(listed("127.0.0.1"), [&own_entries(111)[..], &entries(server.port())].concat());
        find_without_port(&server);
        server.end();
        assert_eq!(listed("127.0.0.1"), own_entries(111));
        drop(rpcbind);
    }

    fn who_was_killed_may_come_back() {
        let _rpcbind = Rpcbind::start();
        let mut server = Server::start_with(&["--register"]);
        server.restart();
        find_without_port(&server);
        server.end();
        assert_eq!(listed("127.0.0.1"), own_entries(111));
    }

    fn what_rpcbind_has_of_others_is_left_alone() {
        let _rpcbind = Rpcbind::start();
        let first = Server::start_with(&["--register"]);
        let (status, complaint) = refused("--register");
        assert_eq!(status, Some(4));
        let [high, low] = first.port().to_be_bytes();
        let holder = format!("already, at 127.0.0.1.{high}.{low} of superuser: stop the server");
        assert!(complaint.contains(&holder), "{complaint}");
        assert_eq!(listed("127.0.0.1"), [&own_entries(111)[..], &entries(first.port())].concat());
    }

    fn who_cannot_tell_clients_says_so() {
        let (status, complaint) = refused("--register");
        assert_eq!(status, Some(4));
        assert!(complaint.contains("start rpcbind, or use --portmap instead"), "{complaint}");
        let _rpcbind = Rpcbind::start();
        let (status, complaint) = refused("--portmap");
        assert_eq!(status, Some(4));
        assert!(complaint.contains("127.0.0.1:111 is in use, perhaps by rpcbind"), "{complaint}");
    }
}

/// Debian's rpcbind; dropping this value kills it.
struct Rpcbind(Child);

impl Rpcbind {
    fn start() -> Self {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(program("rpcbind"))
            .args(["-w", "-f"])
            .stdin(Stdio::null())
            .spawn()
            .expect("setpriv can be run");
        let until = Instant::now() + LIMIT;
        let ready = || {
            Path::new("/run/rpcbind.sock").exists() && TcpStream::connect("127.0.0.1:111").is_ok()
        };
        while !ready() {
            assert!(Instant::now() < until, "rpcbind does not start");
            sleep(Duration::from_millis(5));
        }
        Self(child)
    }
}

impl Drop for Rpcbind {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line of `rpcinfo -p`: program, version, protocol, port.
type Listed = (u32, u32, &'static str, u16);

fn both(program: u32, version: u32, port: u16) -> [Listed; 2] {
    ["tcp", "udp"].map(|protocol| (program, version, protocol, port))
}

/// Returns the entries of a server.
fn entries(port: u16) -> Vec<Listed> {
    // NFS, MOUNT, NQNFS, and that of leases.
    let programs = [
        (100_003, 2),
        (100_003, 3),
        (100_005, 1),
        (100_005, 2),
        (100_005, 3),
        (300_105, 3),
        (536_996_446, 1),
    ];
    programs.map(|(program, version)| both(program, version, port)).concat()
}

/// Returns the entries of a portmapper.
fn own_entries(port: u16) -> Vec<Listed> {
    [2, 3, 4].map(|version| both(100_000, version, port)).concat()
}

/// Returns the list of `rpcinfo -p`, in order.
fn listed(host: &str) -> Vec<Listed> {
    let listing = rpcinfo(&["-p", host]);
    let mut listed: Vec<Listed> = listing.lines().skip(1).map(entry).collect();
    listed.sort_unstable();
    listed
}

fn entry(line: &str) -> Listed {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| fields[at].parse().expect("rpcinfo lists numbers");
    let protocol = if fields[2] == "tcp" { "tcp" } else { "udp" };
    assert_eq!(fields[2], protocol);
    (number(0), number(1), protocol, fields[3].parse().expect("rpcinfo lists ports"))
}

fn rpcinfo(words: &[&str]) -> String {
    output(Command::new("timeout").arg("30").arg(program("rpcinfo")).args(words))
}

fn showmount(host: &str) -> String {
    output(Command::new("timeout").arg("30").arg(program("showmount")).args(["-e", host]))
}

/// Finds the server with tools by its host alone.
fn find_without_port(server: &Server) {
    fs::write(server.folder().join("file"), "content").expect("the export can be written to");
    let export = server.export();
    assert!(showmount("127.0.0.1").contains(export));
    let url = format!("nfs://127.0.0.1{export}/file");
    let mut command = Command::new("timeout");
    assert_eq!(output(command.arg("30").arg(program("nfs-cat")).arg(url)), "content");
}

/// Returns the exit code and the error output of a server that cannot start.
fn refused(option: &str) -> (Option<i32>, String) {
    let (folder, state) = (Scratch::new("export"), Scratch::new("state"));
    let mut command = Command::new("timeout");
    command.arg("30").arg(built()).arg("serve").arg(folder.path()).arg("--state");
    let done = command.arg(state.path()).args(["--listen", "127.0.0.1:0", option]).output();
    let done = done.expect("timeout can be run");
    (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the file is there")
}
