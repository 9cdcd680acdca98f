use std::fs;
use std::net::Ipv4Addr;

use leasehold_cluster::{Group, IodAddress};
use leasehold_store_replica::Order;
use tempfile::TempDir;

use super::*;

/// A directory with the directories `data` and `more`, and a configuration file with this text.
fn home(text: &str) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("there is room");
    for name in ["data", "more"] {
        fs::create_dir(home.path().join(name)).expect("there is room");
    }
    let file = home.path().join("leasehold.toml");
    let state = home.path().join("state");
    let text = text.replace("HOME", &home.path().to_string_lossy());
    let text = text.replace("STATE", &format!("state = {:?}", state.to_string_lossy()));
    fs::write(&file, text).expect("there is room");
    (home, file)
}

fn read(text: &str) -> Result<Plan, String> {
    let (_home, file) = home(text);
    Plan::read(&file, &Server::default()).map_err(|error| {
        let shown = file.to_string_lossy().into_owned();
        error.to_string().replace(&shown, "FILE")
    })
}

#[test]
fn file_defines_exports_and_rules() {
    let plan = read(
        "[server]\nSTATE\nlisten = ['127.0.0.1:0', '[::1]:0']\nportmap = '127.0.0.1:0'\n\
         [limits]\ntransfer-size = '64 KiB'\n\
         [[export]]\ndirectory = 'HOME/data'\nname = 'other'\n\
         [[export.client]]\nfrom = ['10.0.0.0/8', '::1', 'localhost']\nsquash = 'all'\n\
         anonuid = 'root'\nuid-map = [{ from = '5-9', to = 1 }, { from = '20-29', to = '40-49' }]\n\
         groups = 'server'\ninsecure = true\n\
         [[export]]\ndirectory = 'HOME/more'\nread-only = true\n",
    );
    let plan = plan.expect("it is well formed");
    assert_eq!((plan.listen().len(), plan.transfer_bytes_max), (2, 64 << 10));
    assert!(matches!(plan.server.portmap(), Some(Some(_))));
    let names: Vec<_> = plan.exports.iter().map(|export| &*export.name).collect();
    assert_eq!(names, ["/other", "/more"]);
    let may = |at: usize| grant(&plan.exports[at].rules[0], plan.exports[at].read_only);
    assert_eq!(
        may(0),
        "may read and change, all users as user 0 group 65534, users by a map of 5-9 to 1, 20-29 \
         to 40 and on, groups from this machine's list, trusted from any port"
    );
    assert_eq!(may(1), "may read, client root as the anonymous user");
    let everybody = Access::new(plan.exports[1].rules.clone());
    assert!(everybody.has(Ipv4Addr::new(192, 0, 2, 1).into()));
}

#[test]
fn names_of_hosts_are_looked_up() {
    let mut plan = read(
        "[server]\nSTATE\n[[export]]\ndirectory = 'HOME/data'\n\
         [[export.client]]\nfrom = ['localhost', 'no-such-host.invalid']\n",
    )
    .expect("it is well formed");
    let has =
        |plan: &Plan| Access::new(plan.exports[0].rules.clone()).has(Ipv4Addr::LOCALHOST.into());
    assert!(!has(&plan), "not yet");
    let unknown = plan.look_up();
    assert!(has(&plan));
    assert!(unknown.len() == 1 && unknown[0].starts_with("no-such-host.invalid: "), "{unknown:?}");
}

#[test]
fn fault_is_reported_with_its_line() {
    let export = "[[export]]\ndirectory = 'HOME/data'\n";
    let client = format!("{export}[[export.client]]\n");
    for (text, told) in [
        (
            "[server]\nthread = 1\n".to_owned(),
            "FILE:2:1: unknown option `thread`, expected one of `",
        ),
        ("[server\n".to_owned(), "FILE:1:8: "),
        (format!("{export}colour = 1\n"), "FILE:3:1: unknown option `colour`"),
        ("[[export]]\nname = 'x'\n".to_owned(), "FILE:1:1: missing option `directory`"),
        ("[[export]]\ndirectory = 'HOME/none'\n".to_owned(), "FILE:2:13: "),
        (format!("{export}name = 'a/b'\n"), "FILE:3:8: "),
        (
            format!("{client}from = ['10.0.0.1/8']\n"),
            "bits set beyond its prefix: write 10.0.0.0/8",
        ),
        (
            format!("{client}from = ['*', '10.0.0.0/99']\n"),
            "FILE:4:14: 10.0.0.0/99 is not a network",
        ),
        (format!("{client}from = ['10.0.0']\n"), "FILE:4:9: \"10.0.0\" is not an address"),
        (format!("{client}squash = 'root'\n"), "missing option `from`"),
        (format!("{client}from = ['*']\nsquash = 'some'\n"), "FILE:5:10: unknown value `some`"),
        (format!("{client}from = ['*']\nanonuid = 'nosuchuser'\n"), "no user \"nosuchuser\""),
        (format!("{client}from = ['*']\nanonuid = '1-2'\n"), "FILE:5:11: is a range"),
        (
            format!("{client}from = ['*']\nuid-map = [{{ from = '1-3', to = '5-6' }}]\n"),
            "FILE:5:12: both ranges must have the same length",
        ),
        (
            format!(
                "{client}from = ['*']\nuid-map = [{{from='1-3', to=5}}, {{from='3-4', to=6}}]\n"
            ),
            "1-3 and 3-4 overlap",
        ),
        (format!("{client}from = []\n"), "FILE:4:8: names no client"),
        (format!("{client}from = '*'\n"), "FILE:4:8: invalid type: string \"*\", expected a list"),
        (format!("{client}from = ['*']\nanonuid = -1\n"), "FILE:5:11: expected a number up to"),
        (format!("{client}from = ['*']\nanongid = 4294967295\n"), "FILE:5:11: 4294967295 is not"),
        (format!("[server]\nlisten = ['127.0.0.1']\n{export}"), "FILE:2:11: not an address with"),
        (format!("{export}{export}"), "FILE:3:1: another export has this name"),
        (format!("{export}name = 'a'\n{export}name = 'b'\n"), "another export has this directory"),
        ("[server]\nSTATE\n".to_owned(), "serves nothing: add [[export]]"),
        (format!("[limits]\ntransfer-size = '2 MiB'\n{export}"), "transfer-size must be 4 KiB to"),
        (format!("[limits]\nconnections = 0\n{export}"), "FILE:2:15: must be at least 1"),
        (format!("[server]\nlog = 'loud'\n{export}"), "\"loud\" is not one of off,"),
        (format!("[server]\nstate = 'HOME/data/state'\n{export}"), "lies in the served directory"),
    ] {
        let error = read(&text).expect_err("it is wrong");
        assert!(error.contains(told), "{error}\nfor:\n{text}");
    }
}

#[test]
fn command_line_overrides_file() {
    let (_home, file) = home(
        "[server]\nSTATE\nlisten = ['127.0.0.1:1']\nthreads = 7\nregister = true\n\
         [[export]]\ndirectory = 'HOME/data'\n",
    );
    let said = Server {
        listen: vec!["127.0.0.1:2".parse().expect("an address")],
        portmap: Some(Portmap::Usual),
        ..Server::default()
    };
    let plan = Plan::read(&file, &said).expect("it is well formed");
    assert_eq!(plan.listen()[0].port(), 2);
    assert_eq!(plan.server.threads().map(usize::from), Some(7));
    assert_eq!((plan.server.portmap(), plan.server.register), (Some(None), false));
}

#[test]
fn differences_are_listed_by_line() {
    let (_home, file) = home(
        "[server]\nSTATE\n[[export]]\ndirectory = 'HOME/data'\n\
         [[export.client]]\nfrom = ['10.0.0.0/8']\n",
    );
    let facts = || Facts::of(&Plan::read(&file, &Server::default()).expect("it is well formed"));
    let before = facts();
    assert_eq!(before.difference(&facts()), Difference::default());
    let text = fs::read_to_string(&file).expect("is there");
    let more = "squash = 'none'\n[[export.client]]\nfrom = ['*']\nread-only = true\n";
    fs::write(&file, format!("{text}{more}").replace("[[export]]", "threads = 3\n[[export]]"))
        .expect("there is room");
    let difference = before.difference(&facts());
    assert_eq!(difference.after_restart, ["threads: default -> 3"]);
    assert_eq!(
        difference.changes,
        [
            "export /data, rule 1: 10.0.0.0/8 may read and change, client root as the anonymous \
             user -> 10.0.0.0/8 may read and change, client root as root here",
            "export /data, rule 2: new, * may read, client root as the anonymous user"
        ]
    );
    let kept = before.reloaded(&facts());
    assert_eq!(kept.difference(&facts()).after_restart, difference.after_restart);
    assert_eq!(kept.difference(&facts()).changes, [] as [&str; 0]);
}

#[test]
fn stripes_of_served_directory_change_after_restart() {
    let export = "[[export]]\ndirectory = 'HOME/data'\nstripe = ['HOME/more']\n";
    let (_home, file) = home(&format!("[server]\nSTATE\n{export}"));
    let facts = || Facts::of(&Plan::read(&file, &Server::default()).expect("it is well formed"));
    let before = facts();
    let text = fs::read_to_string(&file).expect("is there");
    fs::write(&file, format!("{text}stripe-unit = '64 KiB'\n")).expect("there is room");
    let difference = before.difference(&facts());
    assert_eq!(difference.changes, [] as [&str; 0]);
    assert_eq!(difference.after_restart.len(), 1, "{:?}", difference.after_restart);
}

/// An export over iods, on four lines.
const OVER_IODS: &str = "[[export]]\ndirectory = 'HOME/data'\niod = ['a:1', 'b:1']\n\
                         cluster-key = 'HOME/key'\n";

/// The metaservers of the export, on one line.
const PEERS: &str = "peer = ['a:2049', 'b:2049']\n";

#[test]
fn file_determines_own_metaserver_number() {
    let group = |more: &str| {
        let plan = read(&format!("{OVER_IODS}{PEERS}number = 1\n{more}[server]\nSTATE\n"));
        let mut exports = plan.expect("it is well formed").exports.into_iter();
        exports.next().and_then(|export| export.layout.group).expect("it is one of several")
    };
    let peer = |text: &str| text.parse::<IodAddress>().expect("it is an address");
    let peers = vec![peer("a:2049"), peer("b:2049")];
    let (strict, search, window_s) = (false, Order::Constant, 3);
    let usual = Group { peers, me: 1, without: Vec::new(), strict, search, window_s };
    assert_eq!(group(""), usual);
    assert_eq!(group("strict = false\n"), usual);
    assert_eq!(group("strict = true\n"), Group { strict: true, ..usual.clone() });
    let other = group("without = [0]\nsearch = 'tree'\nlazy-window = 9\n");
    let (without, search, window_s) = (vec![0], Order::Tree, 9);
    assert_eq!(other, Group { without, search, window_s, ..usual });
    let words = "metaserver 1 of a:2049 b:2049, lazy, search tree, window 9 s, without 0";
    assert_eq!(other.words(), words);
}

#[test]
fn own_number_is_found_by_listen_address() {
    let number = |peers: &str, listen: &str| {
        let text = format!("{OVER_IODS}peer = [{peers}]\n[server]\nSTATE\nlisten = ['{listen}']\n");
        read(&text).map(|plan| plan.exports[0].layout.group.as_ref().map(|group| group.me))
    };
    let peers = "'203.0.113.1:2049', '127.0.0.2:2049', '127.0.0.3:99'";
    assert_eq!(number(peers, "127.0.0.3:99"), Ok(Some(2)));
    assert_eq!(number(peers, "0.0.0.0:2049"), Ok(Some(1)));
    let told = number(peers, "127.0.0.9:2049").expect_err("it is no peer's");
    assert!(told.contains("FILE:5:9: no peer has the address 127.0.0.9:2049"), "{told}");
    let told = number("'127.0.0.2', '127.0.0.3'", "0.0.0.0:2049").expect_err("it is which?");
    assert!(told.contains("several peers, 127.0.0.2 and 127.0.0.3: listen on one"), "{told}");
    // The option `number` overrides the search by addresses, which finds several entries here.
    let said = format!("{OVER_IODS}peer = ['127.0.0.2', '127.0.0.3']\nnumber = 1\n");
    let plan = read(&format!("{said}[server]\nSTATE\n")).expect("it is well formed");
    assert_eq!(plan.exports[0].layout.group.as_ref().map(|group| group.me), Some(1));
}

#[test]
fn invalid_options_of_several_metaservers_are_rejected() {
    let one = "[[export]]\ndirectory = 'HOME/data'\n";
    let numbered = format!("{OVER_IODS}{PEERS}number = 0\n");
    for (text, told) in [
        (format!("{OVER_IODS}number = 0\n"), "FILE:5:10: `number` requires several metaservers"),
        (format!("{OVER_IODS}strict = true\n"), "FILE:5:10: `strict` requires several"),
        (format!("{OVER_IODS}search = 'tree'\n"), "FILE:5:10: `search` requires several"),
        (format!("{OVER_IODS}lazy-window = 3\n"), "FILE:5:15: `lazy-window` requires several"),
        (format!("{OVER_IODS}without = [1]\n"), "FILE:5:12: `without` requires several"),
        (
            format!("{OVER_IODS}peer = ['203.0.113.1', '203.0.113.2']\n"),
            "FILE:5:9: no peer has an address of this machine: add one; or give the index",
        ),
        (format!("{OVER_IODS}{PEERS}number = 2\n"), "FILE:6:10: must be the index of a `peer`"),
        (format!("{numbered}without = [1, 0]\n"), "FILE:7:15: must be the index of another"),
        (format!("{numbered}without = [2]\n"), "FILE:7:12: must be the index of another"),
        (format!("{numbered}strict = true\nsearch = 'tree'\n"), "FILE:8:10: `search` and `strict"),
        (format!("{numbered}search = 'all'\n"), "unknown value `all`"),
        (format!("{numbered}lazy-window = 0\n"), "FILE:7:15: must be 1 to 60 seconds"),
        (format!("{numbered}lazy-window = 61\n"), "FILE:7:15: must be 1 to 60 seconds"),
        (format!("{numbered}copies = 2\n"), "FILE:5:9: with `peer` each stripe has one copy"),
        (format!("{numbered}rebalance = true\n"), "FILE:5:9: with `peer` each stripe has one copy"),
        (format!("{numbered}drain = [0]\n"), "FILE:5:9: with `peer` each stripe has one copy"),
        (format!("{numbered}[[export]]\ndirectory = 'HOME/more'\n"), "serves nothing else"),
        (
            format!("{OVER_IODS}peer = ['a:2049', 'a:2049']\nnumber = 0\n"),
            "FILE:5:19: names a metaserver twice",
        ),
        (
            format!("{OVER_IODS}peer = ['nfs://a/b']\nnumber = 0\n"),
            "FILE:5:9: a `peer` must be HOST:PORT",
        ),
        (format!("{one}{PEERS}number = 0\n"), "FILE:3:9: several metaservers require iods"),
        (
            format!("{one}iod = ['a:1']\n{PEERS}number = 0\n"),
            "FILE:4:9: metaservers authenticate each",
        ),
    ] {
        let error = read(&text).expect_err("it is wrong");
        assert!(error.contains(told), "{error}\nfor:\n{text}");
    }
}

#[test]
fn metaserver_number_changes_after_restart() {
    let (_home, file) = home(&format!("{OVER_IODS}{PEERS}number = 0\n[server]\nSTATE\n"));
    let facts = || Facts::of(&Plan::read(&file, &Server::default()).expect("it is well formed"));
    let before = facts();
    let text = fs::read_to_string(&file).expect("is there");
    fs::write(&file, text.replace("number = 0", "number = 1")).expect("there is room");
    let difference = before.difference(&facts());
    assert_eq!(difference.changes, [] as [&str; 0]);
    assert_eq!(difference.after_restart.len(), 1, "{:?}", difference.after_restart);
}
