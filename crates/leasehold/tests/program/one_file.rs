//! A cluster with one configuration file for all its machines. Here the machines are addresses of
//! the loopback, and each process mounts its own directory over the path in the file, which
//! requires root.

use std::fs;
use std::process::Command;

use bytes::Bytes;
use leasehold_session::Options;
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};
use rustix::process::{Signal, geteuid};

use crate::support::{Home, Serving, TIMEOUT, address, leasehold, port, put, run, who};

/// The addresses of iods and metaservers.
const IODS: [&str; 2] = ["127.0.0.11", "127.0.0.12"];
const METAS: [&str; 2] = ["127.0.0.21", "127.0.0.22"];

fn listed(hosts: &[&str], port: u16) -> String {
    let all: Vec<_> = hosts.iter().map(|host| format!("'{host}:{port}'")).collect();
    all.join(", ")
}

/// Writes a file with these tables, and paths below the home.
fn write(home: &Home, text: &str) -> String {
    let path = home.path("cluster.toml");
    fs::write(&path, text.replace("HOME", home.path("").trim_end_matches('/'))).unwrap();
    path
}

/// Returns a command of one machine, with the machine's directory mounted over the path in the
/// file.
fn of_machine(home: &Home, own: &str, name: &str, words: &[&str]) -> Command {
    fs::create_dir_all(home.path(own)).unwrap();
    fs::create_dir_all(home.path(name)).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(home.path(own), open).unwrap();
    let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
    let mut mounted = Command::new("unshare");
    mounted.args(["--mount", "sh", "-c", script, "sh", &home.path(own), &home.path(name)]);
    let command = leasehold(words);
    mounted.arg(command.get_program()).args(command.get_args()).env_remove("LEASEHOLD_LOG");
    mounted.args(["--state", &home.path(&format!("state-{own}")), "--json"]);
    mounted
}

#[test]
fn one_file_describes_a_cluster() {
    if !geteuid().is_root() {
        return;
    }
    let (home, port) = (Home::new(), port());
    let file = write(
        &home,
        &format!(
            "[server]\nlisten = ['{}:{port}']\nstate = 'HOME/state'\n\
             [iod]\ndirectory = 'HOME/stripes'\n\
             [[export]]\ndirectory = 'HOME/names'\nname = 'cluster'\ncluster-key = 'HOME/key'\n\
             iod = [{}]\npeer = [{}]\nstripe-unit = '4 KiB'\n\
             [[export.client]]\nfrom = ['*']\nsquash = 'none'\n",
            METAS[1],
            listed(&IODS, port),
            listed(&METAS, port),
        ),
    );
    let mut running = Vec::new();
    for host in IODS {
        let at = format!("{host}:{port}");
        let words = ["iod", "--config", &file, "--listen", &at];
        let serving = Serving::start(of_machine(&home, host, "stripes", &words));
        assert!(serving.line().contains(host));
        running.push(serving);
    }
    for (host, more) in METAS.iter().zip([&["--listen", &format!("{}:{port}", METAS[0])][..], &[]])
    {
        let words = [&["serve", "--config", &file][..], more].concat();
        let serving = Serving::start(of_machine(&home, host, "names", &words));
        assert!(serving.line().contains(host));
        running.push(serving);
    }
    let runtime = Runtime::start().unwrap();
    let servers = METAS.map(|host| {
        let options = Options::stream().impatient(TIMEOUT);
        let target = Target { port: Some(port), ..Target::new(host, b"/cluster", options) };
        block_on(mount(&runtime, &target, &who())).unwrap()
    });
    let data = Bytes::from(vec![7; 300_000]);
    let file_at_second = block_on(put(&servers[1], b"file", &data));
    let found = block_on(servers[0].nfs.lookup(&who(), &servers[0].root, b"file"));
    assert_eq!(found.unwrap().done().unwrap().object, file_at_second);
    assert_eq!(read(&servers[0], &file_at_second), data);
    for (number, host) in METAS.iter().enumerate() {
        let state = home.path(&format!("state-{host}"));
        let (_, told, _) = run(leasehold(&["cluster", "status", "--json", "--state", &state]));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told[0]["metaservers"][number]["this"], true, "{told}");
    }
    // An iod behaves as with the same settings on the command line.
    for host in IODS {
        assert!(fs::exists(home.path(&format!("{host}/leasehold-iod"))).unwrap());
    }
    let (code, said, error) = run(leasehold(&["check", "--config", &file]));
    assert_eq!(code, 0, "{error}");
    assert!(said.contains("metaserver 1 of 127.0.0.21"), "{said}");
    assert!(said.contains("(`leasehold iod --config`) store stripes in"), "{said}");
    assert!(running.iter_mut().rev().all(|serving| serving.end(Signal::TERM).success()));
}

fn read(server: &Mounted, file: &leasehold_session::nfs::messages::Handle) -> Bytes {
    block_on(server.nfs.read(&who(), file, 0, 300_000)).unwrap().done().unwrap().data
}

/// An iod learns its address from the file.
#[test]
fn iod_serves_at_its_address_in_the_file() {
    let (home, port) = (Home::new(), port());
    fs::create_dir(home.path("stripes")).unwrap();
    let text = format!(
        "[server]\nlisten = ['127.0.0.1:1']\n[iod]\ndirectory = 'HOME/stripes'\n\
         [[export]]\ndirectory = '/no/such/directory'\ncluster-key = 'HOME/key'\n\
         iod = ['192.0.2.1:{port}', '127.0.0.11:{port}']\n"
    );
    let file = write(&home, &text);
    let state = home.path("state");
    let iod = |more: &[&str]| {
        let mut command = leasehold(&["iod", "--config", &file, "--state", &state, "--json"]);
        command.args(more);
        command
    };
    let mut serving = Serving::start(iod(&[]));
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    assert_eq!(address(&ready).to_string(), format!("127.0.0.11:{port}"));
    assert!(ready.get("mount").is_none(), "an iod has no mount commands: {ready}");
    let check = ["cluster", "check", "--cluster-key", &home.path("key"), "--iod"];
    let at = format!("127.0.0.11:{port}");
    let (code, said, error) = run(leasehold(&[&check[..], &[&at]].concat()));
    assert!(code == 0 && said.contains(&at), "{said}{error}");
    assert!(serving.end(Signal::TERM).success());
    // The command line overrides the file.
    fs::create_dir(home.path("other")).unwrap();
    let (other, key) = (home.path("other"), home.path("other-key"));
    let more = [&*other, "--cluster-key", &key, "--listen", "127.0.0.1:0"];
    let mut serving = Serving::start(iod(&more));
    let said = serving.line();
    assert!(said.contains(&other) && said.contains("127.0.0.1"), "{said}");
    assert!(fs::exists(&key).unwrap());
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn incomplete_iod_file_is_rejected() {
    let home = Home::new();
    fs::create_dir(home.path("stripes")).unwrap();
    let iod = "[iod]\ndirectory = 'HOME/stripes'\n";
    let export = "[[export]]\ndirectory = 'HOME/data'\n";
    let over = |iods: &str| format!("{iod}{export}cluster-key = 'HOME/key'\niod = [{iods}]\n");
    let own = "'127.0.0.11:1'";
    for (text, told) in [
        (
            over("'127.0.0.11:1', '127.0.0.12:1'"),
            "cluster.toml:6:8: this machine has the addresses",
        ),
        (over("'203.0.113.1:1'"), "cluster.toml:6:8: no `iod` has an address of this machine"),
        (over(&format!("{own}, 'nfs://127.0.0.12/x', 'a/b'")), "cluster.toml:6:46: give HOST"),
        (over("'nfs://127.0.0.12/x'"), "does not describe a cluster: name all iods"),
        (over(own).replace(iod, ""), "names no directory for an iod: add [iod]"),
        (over(own).replace("stripes", "none"), "cluster.toml:2:13: "),
        (over(own).replace("stripes", "data/below"), "contain one another"),
        (over(own).replace("cluster-key = 'HOME/key'\n", ""), "its export has no cluster key"),
        (over(own).replace("HOME/key", "HOME/stripes/key"), "lies in the served directory"),
        (over(own).replace("[iod]", "[iod]\nstate = 'HOME/state'"), "unknown option `state`"),
        (over(own).replace("directory = 'HOME/stripes'\n", ""), "missing option `directory`"),
        (format!("{iod}{export}"), "does not describe a cluster: name all iods"),
    ] {
        fs::create_dir_all(home.path("data/below")).unwrap();
        let file = write(&home, &text);
        let (code, _, said) =
            run(leasehold(&["iod", "--config", &file, "--state", &home.path("state")]));
        assert!((code == 2 || code == 5) && said.contains(told), "{code}: {said}for:\n{text}");
    }
    // A server rejects the file as well.
    let file = write(&home, &format!("{iod}{export}"));
    for command in ["serve", "check"] {
        let (code, _, said) = run(leasehold(&[command, "--config", &file]));
        assert!(
            code == 2 && said.contains("cluster.toml:1:1: an iod belongs to"),
            "{code}: {said}"
        );
    }
    let (code, _, said) = run(leasehold(&["iod"]));
    assert!(code == 2 && said.contains("--config"), "{code}: {said}");
}
