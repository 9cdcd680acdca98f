//! A server with a configuration file: `serve --config`, `check`, `why`, `reload`, `config init`.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::support::{
    Home, MOUNT, NFS, Serving, TIMEOUT, address, call, call_of_user, leasehold, opaque,
    over_stream, run,
};

impl Home {
    /// Writes a configuration with these exports; the state directory lies beside them.
    fn write(&self, exports: &str) -> String {
        let head = "[server]\nlisten = ['127.0.0.1:0']\nstate = 'HOME/state'\n";
        let text = format!("{head}{exports}").replace("HOME", self.path("").trim_end_matches('/'));
        fs::write(self.path("leasehold.toml"), text).unwrap();
        self.path("leasehold.toml")
    }

    pub(super) fn serve(&self) -> Command {
        leasehold(&["serve", "--json", "--config", &self.path("leasehold.toml")])
    }

    pub(super) fn reload(&self) -> (i32, String, String) {
        run(leasehold(&["reload", "--state", &self.path("state")]))
    }
}

const DATA: &str = "[[export]]\ndirectory = 'HOME/data'\n";
const MORE: &str = "[[export]]\ndirectory = 'HOME/more'\n";
const LOCAL: &str = "[[export.client]]\nfrom = ['127.0.0.0/8']\n";

/// Returns the handle of a path, or the status of a rejection.
pub(super) fn handle(address: SocketAddr, path: &str) -> Result<Vec<u8>, u8> {
    let reply = over_stream(address, &call(MOUNT, 1, &opaque(path.as_bytes())));
    match reply[27] {
        0 => Ok(reply[28..64].to_vec()),
        status => Err(status),
    }
}

/// Returns the status of a GETATTR.
pub(super) fn getattr(address: SocketAddr, handle: &[u8]) -> u8 {
    over_stream(address, &call_of_user(9, 1, handle))[27]
}

/// Returns the status of a MKDIR.
fn mkdir(address: SocketAddr, handle: &[u8], name: &str) -> u8 {
    let arguments = [handle, &opaque(name.as_bytes()), &[0; 24]].concat();
    let xid = u32::try_from(name.len()).unwrap() + 100;
    over_stream(address, &call_of_user(xid, 9, &arguments))[27]
}

const READ_ONLY: u8 = 30;
const STALE: u8 = 70;
const NOT_FOUND: u8 = 2;

#[test]
fn several_exports_have_their_own_rules() {
    let home = Home::new();
    fs::create_dir(home.path("more")).unwrap();
    fs::create_dir(home.path("far")).unwrap();
    let far = "[[export]]\ndirectory = 'HOME/far'\n[[export.client]]\nfrom = ['192.0.2.0/24']\n";
    home.write(&format!("{DATA}{LOCAL}squash = 'none'\n{MORE}{LOCAL}read-only = true\n{far}"));
    let (mut serving, first) = start(&home);
    let data = handle(first, "/data").unwrap();
    let more = handle(first, &home.path("more")).unwrap();
    assert_eq!(handle(first, "/far"), Err(NOT_FOUND), "it is hidden");
    assert_eq!(handle(first, "/"), Err(NOT_FOUND), "which one?");
    assert_eq!(mkdir(first, &more, "new"), READ_ONLY);
    assert_eq!(mkdir(first, &data, "new"), 0);
    assert!(fs::metadata(home.path("data/new")).unwrap().is_dir());
    serving.end(Signal::TERM);

    // Handles stay valid with any order of the exports in the file, and also if the directory is
    // served without the file.
    home.write(&format!("{MORE}{DATA}"));
    let (mut serving, second) = start(&home);
    assert_eq!(handle(second, "/data"), Ok(data.clone()));
    assert_eq!(handle(second, "/more"), Ok(more.clone()));
    serving.end(Signal::TERM);
    let state = home.path("state");
    let one = ["serve", &home.path("more"), "--state", &state, "--listen", "127.0.0.1:0", "--json"];
    let serving = Serving::start(leasehold(&one));
    let ready = serde_json::from_str(&serving.line()).unwrap();
    assert_eq!(handle(address(&ready), "/"), Ok(more));
    assert_eq!(getattr(address(&ready), &data), STALE);
}

pub(super) fn start(home: &Home) -> (Serving, SocketAddr) {
    let serving = Serving::start(home.serve());
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, address(&ready))
}

#[test]
fn root_is_squashed_unless_disabled() {
    if !geteuid().is_root() {
        return;
    }
    let home = Home::new();
    fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o777)).unwrap();
    let owner = |rules: &str, name: &str| {
        use std::os::unix::fs::MetadataExt;
        home.write(&format!("{DATA}{rules}"));
        let (mut serving, address) = start(&home);
        let root = handle(address, "/").unwrap();
        assert_eq!(mkdir(address, &root, name), 0);
        serving.end(Signal::TERM);
        let made = fs::metadata(home.path(&format!("data/{name}"))).unwrap();
        (made.uid(), made.gid())
    };
    assert_eq!(owner("", "1"), (65_534, 65_534));
    assert_eq!(owner(&format!("{LOCAL}anonuid = 7\nanongid = 8\n"), "22"), (7, 8));
    assert_eq!(owner(&format!("{LOCAL}squash = 'none'\n"), "333"), (0, 0));
    let mapped = "squash = 'none'\nuid-map = [{ from = 0, to = '5' }]\n";
    assert_eq!(owner(&format!("{LOCAL}{mapped}"), "4444"), (5, 0));
}

/// A client that sends calls without a pause on one connection, and counts the replies.
fn work(address: SocketAddr, handle: &[u8], ends: &AtomicBool, answered: &AtomicU64) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let call = call_of_user(5, 1, handle);
    let mark = 0x8000_0000 | u32::try_from(call.len()).unwrap();
    while !ends.load(Ordering::Relaxed) {
        stream.write_all(&[&mark.to_be_bytes(), call.as_slice()].concat()).unwrap();
        let mut head = [0; 32];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head[31], 0, "no call fails");
        let length = u32::from_be_bytes(head[..4].try_into().unwrap()) & 0x7fff_ffff;
        let mut rest = vec![0; length as usize - 28];
        stream.read_exact(&mut rest).unwrap();
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends the client on drop.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn reload_is_atomic_and_clients_do_not_notice() {
    let home = Home::new();
    fs::create_dir(home.path("more")).unwrap();
    home.write(&format!("{DATA}{LOCAL}"));
    let (serving, address) = start(&home);
    let data = handle(address, "/data").unwrap();
    let (ends, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    let goes_on = || {
        let (before, end) = (answered.load(Ordering::Relaxed), Instant::now() + TIMEOUT);
        while answered.load(Ordering::Relaxed) < before + 100 {
            assert!(Instant::now() < end, "the client makes no progress");
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        // The guard also ends the client when the test fails.
        let _end = Ends(&ends);
        scope.spawn(|| work(address, &data, &ends, &answered));
        goes_on();
        assert_eq!(home.reload(), (0, "no difference\n".into(), String::new()));

        home.write(&format!("{DATA}{LOCAL}{MORE}{LOCAL}read-only = true\n"));
        let (code, told, _) = home.reload();
        assert_eq!(code, 0);
        assert!(told.contains("changed: export /more: new, "), "{told}");
        let may = "127.0.0.0/8 may read, client root as the anonymous user";
        assert!(told.contains(&format!("changed: export /more, rule 1: new, {may}\n")), "{told}");
        let more = handle(address, "/more").unwrap();
        goes_on();

        // A file with an error at its end has no effect.
        home.write(&format!("{DATA}{LOCAL}[[export]]\ndirectory = 'HOME/none'\n"));
        let (code, told, complaint) = home.reload();
        assert_eq!((code, told.as_str()), (1, ""));
        assert!(complaint.contains("leasehold.toml:9:13: "), "{complaint}");
        assert_eq!(getattr(address, &more), 0, "it is unchanged");

        // The signal has the same effect, which the exports show.
        home.write(&format!("{DATA}{LOCAL}"));
        kill_process(Pid::from_child(&serving.child), Signal::HUP).unwrap();
        let end = Instant::now() + TIMEOUT;
        while getattr(address, &more) != STALE {
            assert!(Instant::now() < end, "the signal has no effect");
            thread::yield_now();
        }
        goes_on();
        home.write(&format!("{DATA}{LOCAL}{MORE}{LOCAL}"));
        assert_eq!(home.reload().0, 0);
        assert_eq!(handle(address, "/more"), Ok(more), "its number is permanent");
        goes_on();
    });
}

#[test]
fn an_export_of_several_may_be_striped_and_stays_so_until_a_restart() {
    let home = Home::new();
    for name in ["more", "one", "two"] {
        fs::create_dir(home.path(name)).unwrap();
    }
    let stripes = "stripe = ['HOME/one', 'HOME/two']\nstripe-unit = '4 KiB'\n";
    home.write(&format!("{DATA}{LOCAL}{MORE}{stripes}{LOCAL}squash = 'none'\n"));
    let (_serving, address) = start(&home);
    let more = handle(address, "/more").unwrap();
    assert_eq!(mkdir(address, &more, "new"), 0);
    for name in ["one", "two"] {
        assert!(fs::exists(home.path(&format!("{name}/leasehold-iod"))).unwrap());
    }
    home.write(&format!("{DATA}{LOCAL}{MORE}{}{LOCAL}", stripes.replace('4', "8")));
    let (code, _, complaint) = home.reload();
    assert_eq!(code, 1);
    assert!(complaint.contains("a change of stripes requires a restart"), "{complaint}");
    assert_eq!(getattr(address, &more), 0);
    for (wrong, told) in [
        ("stripe = ['HOME/one', 'HOME/one']\n", "one, which is for stripes, and "),
        ("stripe = ['HOME/data']\n", "data, which is for stripes, and "),
        ("stripe = ['HOME/none']\n", "leasehold.toml:8:11: "),
        ("stripe-unit = '2 GiB'\n", "leasehold.toml:8:15: must be 4 KiB to 1 GiB"),
    ] {
        home.write(&format!("{DATA}{MORE}{wrong}"));
        let (code, _, complaint) = home.reload();
        assert!(code == 1 && complaint.contains(told), "{told:?} is not in {complaint}");
    }
}

#[test]
fn server_without_file_rejects_reload() {
    let home = Home::new();
    let (_serving, _) = Serving::with_json(&home, &[]);
    let (code, _, complaint) = home.reload();
    assert!(code == 1 && complaint.contains("was started with a directory"), "{complaint}");
}

#[test]
fn check_shows_rights_and_changes() {
    let home = Home::new();
    fs::create_dir(home.path("data/inner")).unwrap();
    let inner = "[[export]]\ndirectory = 'HOME/data/inner'\n";
    let file = home.write(&format!("{DATA}{LOCAL}"));
    let check = || run(leasehold(&["check", "--config", &file]));
    let (code, told, _) = check();
    assert_eq!(code, 0);
    let may = "1. 127.0.0.0/8 may read and change, client root as the anonymous user\n";
    assert!(told.contains(may) && told.contains("no server runs"), "{told}");
    let (_serving, _) = start(&home);
    assert!(check().1.ends_with("no difference\n"));
    home.write(&format!(
        "[limits]\nconnections = 9\n{DATA}[[export.client]]\nfrom = ['*', 'no-host.invalid']\n\
         squash = 'none'\n{LOCAL}{inner}"
    ));
    let text = fs::read_to_string(&file).unwrap().replace("127.0.0.1:0", "0.0.0.0:0");
    fs::write(&file, text).unwrap();
    let (code, told, _) = check();
    assert_eq!(code, 0);
    for line in [
        "risk: a rule has no effect now, because its host has no address: no-host.invalid: ",
        "All clients that reach 0.0.0.0:0 may read and change, client root as root here: /data.\n",
        "risk: /data: rule 1 lets every client that reaches the server change files\n",
        "risk: /data: rule 1 makes root of its clients root here (squash)\n",
        "risk: /data: rule 2 never applies: earlier rules match all of its clients\n",
        "risk: /inner lies within /data: clients of the outer export reach it too",
        "would change: export /inner: new, ",
        "would need a restart: connections: default -> 9\n",
        "would need a restart: listen: 127.0.0.1:0 -> 0.0.0.0:0\n",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    let (code, told, _) = run(leasehold(&["check", "--json", "--config", &file]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(code == 0 && told["risks"].as_array().unwrap().len() >= 5, "{told}");
    let (code, _, complaint) = run(leasehold(&["check", "--config", &home.path("none")]));
    assert!(code == 2 && complaint.contains("`leasehold config init` writes one"), "{complaint}");
}

#[test]
fn why_explains_with_the_code_of_the_server() {
    if !geteuid().is_root() {
        return;
    }
    let home = Home::new();
    // Other users can access the directory.
    fs::set_permissions(home.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, mode) in [("open", 0o644), ("group", 0o640)] {
        fs::write(home.path(&format!("data/{name}")), "text").unwrap();
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(home.path(&format!("data/{name}")), mode).unwrap();
    }
    std::os::unix::fs::chown(home.path("data/group"), Some(0), Some(1020)).unwrap();
    let rules = "[[export.client]]\nfrom = ['192.0.2.0/24']\n";
    let file = home.write(&format!("{DATA}{rules}"));
    let why = |who: &str, what: &str| {
        let start = ["why", "--config", &file, "--client"];
        let words: Vec<&str> = who.split(' ').chain(what.split(' ')).collect();
        let (code, told, complaint) = run(leasehold(&[&start[..], &words].concat()));
        assert_eq!((code, complaint.as_str()), (0, ""), "{told}");
        told
    };
    let (ann, root) = ("192.0.2.1 --uid 1000 --gid 1000", "192.0.2.1 --uid 0");
    let told = why("198.51.100.1 --uid 1000", "read /data/open");
    assert_eq!(
        told,
        "no rule of /data matches 198.51.100.1: the export is hidden from it\ndenied\n"
    );
    let told = why(ann, "read /data/open");
    assert_eq!(
        told,
        "rule 1 of /data matches 192.0.2.1: 192.0.2.0/24 may read and change, client root as \
         the anonymous user\n\
         user 1000 group 1000 is user 1000 group 1000 with no further groups here, as claimed\n\
         /data/open has mode 0644, user 0 group 0: the bits of others are r--\n\
         allowed\n"
    );
    assert!(why(ann, "write /data/open").ends_with("ACCESS denies the operation\ndenied\n"));
    assert!(why(root, "read /data/open").ends_with("allowed\n"));
    let told = why(root, "write /data/open");
    assert!(told.contains("is user 65534 group 65534") && told.ends_with("denied\n"), "{told}");
    assert!(told.contains("because the rule squashes root"), "{told}");
    let groups: Vec<String> = (1005..=1021).map(|group| group.to_string()).collect();
    let in_groups = |from: usize| format!("{ann} --groups {}", groups[from..].join(","));
    assert!(why(&in_groups(1), "read /data/group").ends_with("allowed\n"));
    let told = why(&format!("{},1020", in_groups(0).replace(",1020", "")), "read /data/group");
    assert!(told.contains("has room for 16 groups, without groups 1020\n"), "{told}");
    assert!(told.ends_with("denied\n"), "{told}");
    let told = why(&format!("{ann} --high-port"), "create /data/new");
    assert!(
        told.contains("comes from an unprivileged port") && told.ends_with("denied\n"),
        "{told}"
    );
    assert!(why(ann, &format!("list {}", home.path("data"))).ends_with("allowed\n"));
    assert!(why(ann, "remove /data/open").ends_with("denied\n"));

    home.write(&format!("{DATA}{rules}read-only = true\n"));
    assert!(why(root, "write /data/open").contains("is read-only\ndenied\n"));
    let start = ["why", "--config", &file, "--client"];
    let words: Vec<&str> = root.split(' ').chain(["read", "/etc/passwd"]).collect();
    let outside = run(leasehold(&[&start[..], &words].concat()));
    assert!(outside.0 == 2 && outside.2.contains("lies in no export: there are /data"));
}

/// Without a file, the command queries the running server, which applies its current rules.
#[test]
fn why_queries_the_running_server() {
    if !geteuid().is_root() {
        return;
    }
    let home = Home::new();
    fs::set_permissions(home.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(home.path("data/open"), "text").unwrap();
    let rules = "[[export.client]]\nfrom = ['192.0.2.0/24']\n";
    let file = home.write(&format!("{DATA}{rules}"));
    let (_serving, _) = start(&home);
    let state = home.path("state");
    let why = |of: [&str; 2], words: &[&str]| {
        let start = ["why", of[0], of[1], "--client", "192.0.2.1", "--uid", "1000"];
        run(leasehold(&[&start[..], words].concat()))
    };
    let of_server = |words: &[&str]| why(["--state", &state], words);
    let words = ["write", "/data/open"];
    assert_eq!(of_server(&words), why(["--config", &file], &words));
    assert!(of_server(&words).1.ends_with("ACCESS denies the operation\ndenied\n"));
    let (code, _, complaint) = of_server(&["write", "/none"]);
    assert!(code == 1 && complaint.contains("/none lies in no export"), "{complaint}");

    home.write(&format!("{DATA}{rules}read-only = true\n"));
    assert!(of_server(&["--json", "read", "/data/open"]).1.starts_with("{\"allowed\":true,"));
    assert!(!of_server(&words).1.contains("is read-only"), "the server has not reloaded yet");
    assert_eq!(home.reload().0, 0);
    assert!(of_server(&words).1.ends_with("is read-only\ndenied\n"));
}

#[test]
fn commented_file_can_be_served() {
    let home = Home::new();
    let file = home.path("leasehold.toml");
    let (code, told, _) = run(leasehold(&["config", "init", &file]));
    assert_eq!((code, told.as_str()), (0, ""));
    let (code, _, complaint) = run(leasehold(&["config", "init", &file]));
    assert!(code == 2 && complaint.contains("cannot write"), "an existing file is unchanged");
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(run(leasehold(&["config", "init"])).1, text);
    let text = text
        .replace("\"/srv/data\"", &format!("{:?}", home.path("data")))
        .replace("listen = [\"127.0.0.1:2049\"]", "listen = [\"127.0.0.1:0\"]")
        .replace(
            "# state = \"/var/lib/leasehold/servers/files\"",
            &format!("state = {:?}", home.path("state")),
        );
    fs::write(&file, text).unwrap();
    let (mut serving, address) = start(&home);
    assert_eq!(over_stream(address, &call(NFS, 0, &[]))[..4], [0, 0, 0, 7]);
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
}

#[test]
fn rights_of_all_clients_are_shown_for_reachable_addresses() {
    let home = Home::new();
    let command = |listen: &str| {
        let file = home.write(DATA);
        let text = fs::read_to_string(&file).unwrap().replace("127.0.0.1:0", listen);
        fs::write(&file, text).unwrap();
        leasehold(&["serve", "--config", &file])
    };
    let said = |listen: &str| {
        let mut serving = Serving::logging(command(listen), Stdio::null());
        let mut lines = vec![serving.line()];
        while !lines.last().unwrap().contains("private") {
            lines.push(serving.line());
        }
        serving.end(Signal::TERM);
        lines.extend(serving.lines.iter());
        lines.join("\n")
    };
    let line = " may read and change, client root as the anonymous user: /data.";
    assert!(said("0.0.0.0:0").contains("All clients that reach 0.0.0.0:"));
    assert!(said("0.0.0.0:0").contains(line));
    assert!(!said("127.0.0.1:0").contains("Everybody"));
}

/// `check` also rejects files that would prevent a server from starting, and names the place of
/// each fault.
#[test]
fn check_rejects_files_that_a_server_rejects() {
    let home = Home::new();
    fs::create_dir_all(home.path("full")).unwrap();
    fs::write(home.path("full/file"), "content").unwrap();
    fs::create_dir_all(home.path("stripes")).unwrap();
    let server = |options: &str| format!("[server]\n{options}\n[[export]]\ndirectory = 'DATA'\n");
    let export = |options: &str| format!("[[export]]\ndirectory = 'DATA'\n{options}\n");
    for (text, place, reason) in [
        (server("listen = ['127.0.0.1:7', '127.0.0.1:7']"), "2:26", "is named twice"),
        (server("listen = ['0.0.0.0:7', '127.0.0.1:7']"), "2:24", "covers"),
        (server("listen = ['127.0.0.1:7']\nhttp = '127.0.0.1:7'"), "3:8", "NFS is served on"),
        (server("threads = 100000"), "2:11", "must be 1 to 1024"),
        (server("stable-log = '/x'\nstable-log-size = '1 MiB'"), "3:19", "at least 8 MiB"),
        (export("stripe = ['STRIPES']\ncopies = 2"), "4:10", "name more"),
        (export("stripe = ['STRIPES']\ndrain = [0]"), "4:9", "leave at least one"),
        (export("stripe = ['FULL']"), "3:11", "not stripes"),
        ("[[export]]\ndirectory = '/proc'\n".to_owned(), "2:13", "cannot serve /proc"),
        ("[[export]]\ndirectory = 'FULL'\nstripe = ['STRIPES']\n".to_owned(), "2:13", "striped"),
    ] {
        let text = text
            .replace("DATA", &home.path("data"))
            .replace("STRIPES", &home.path("stripes"))
            .replace("FULL", &home.path("full"));
        let file = home.path("mistake.toml");
        fs::write(&file, &text).unwrap();
        let (code, _, complaint) = run(leasehold(&["check", "--config", &file]));
        assert_ne!(code, 0, "{text}");
        assert!(complaint.contains(&format!("{file}:{place}: ")), "{text}: {complaint}");
        assert!(complaint.contains(reason), "{text}: {complaint}");
        let state = home.path("other state");
        let (code, _, complaint) = run(leasehold(&["serve", "--config", &file, "--state", &state]));
        assert_ne!(code, 0, "{text}: {complaint}");
    }
}

/// A name from outside may contain terminal control characters.
#[test]
fn control_characters_in_names_are_escaped() {
    let home = Home::new();
    let odd = home.path("data\u{1b}[31m\u{9b}\u{202e}");
    fs::create_dir_all(&odd).unwrap();
    let text = format!("[[export]]\ndirectory = \"{odd}\"\n").replace('\u{1b}', "\\u001b");
    let file = home.path("odd.toml");
    fs::write(&file, text).unwrap();
    let state = home.path("state");
    for words in [
        &["check", "--config", &file][..],
        &["check", "--json", "--config", &file],
        &["doctor", "--config", &file, "--state", &state],
        &["doctor", "--json", "--config", &file, "--state", &state],
        &["ls", &odd],
    ] {
        let (_, told, complaint) = run(leasehold(words));
        for said in [told, complaint] {
            let acts = |one: char| (one.is_control() && one != '\n') || one == '\u{202e}';
            assert!(!said.contains(acts), "{words:?}: {said:?}");
        }
    }
}

/// An export of a directory has the name from the user's path, also if the path is a symbolic link.
#[test]
fn export_has_the_name_of_its_link() {
    let home = Home::new();
    std::os::unix::fs::symlink(home.path("data"), home.path("public")).unwrap();
    let state = home.path("state");
    let mut command = leasehold(&["serve", &home.path("public"), "--json", "--state", &state]);
    command.args(["--listen", "127.0.0.1:0"]);
    let serving = Serving::start(command);
    let ready: serde_json::Value = serde_json::from_str(&serving.line()).unwrap();
    assert_eq!(ready["exports"][0]["name"], "/public");
}
