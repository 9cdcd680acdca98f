//! The state directory: only one server at a time uses it, and no other user has access.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Signal, geteuid};

use crate::support::{
    Home, Serving, address, call_of_user, leasehold, opaque, over_stream, root, run,
};

/// Returns the command of a server of another directory with the state of a home.
fn other(home: &Home) -> Command {
    fs::create_dir_all(home.path("other")).unwrap();
    let mut command = leasehold(&["serve", &home.path("other"), "--state", &home.path("state")]);
    command.args(["--listen", "127.0.0.1:0"]);
    command
}

/// Two servers with one state issued an epoch of leases twice, and the second server replaced the
/// first server's list of lease holders: clients of the first server then lost their cached data.
#[test]
fn second_server_cannot_use_the_state_of_a_running_one() {
    let home = Home::new();
    let (mut first, ready) = Serving::with_json(&home, &[]);
    let leases = fs::read(home.path("state/leases")).unwrap();
    let (code, _, error) = run(other(&home));
    assert_eq!(code, 5, "{error}");
    for word in [&ready["pid"].to_string(), &home.path("data"), &home.path("state"), "--state DIR"]
    {
        assert!(error.contains(word), "{word}: {error}");
    }
    assert_eq!(fs::read(home.path("state/leases")).unwrap(), leases);
    // The next server can use the state, however the first server ends.
    first.end(Signal::KILL);
    let mut next = Serving::start(other(&home));
    next.line();
    assert!(next.end(Signal::TERM).success());
}

#[test]
fn restart_keeps_the_lock_of_the_state() {
    let home = Home::new();
    let (mut serving, _) = Serving::with_json(&home, &[]);
    let ends = Arc::new(AtomicBool::new(false));
    let taker = {
        let (ends, mut tried) = (Arc::clone(&ends), Vec::new());
        let state = home.path("state/lock");
        thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let file = fs::File::open(&state).unwrap();
                tried.push(file.try_lock().is_err());
            }
            tried
        })
    };
    for _ in 0..3 {
        let (code, _, error) = run(leasehold(&["restart", "--state", &home.path("state")]));
        assert_eq!(code, 0, "{error}");
    }
    ends.store(true, Ordering::Relaxed);
    let tried = taker.join().unwrap();
    assert!(tried.len() > 10 && tried.iter().all(|refused| *refused), "the lock was free");
    let (code, _, error) = run(other(&home));
    assert!(code == 5 && error.contains("--state DIR"), "{error}");
    assert!(serving.end(Signal::TERM).success());
}

const GETATTR: u32 = 1;
const LOOKUP: u32 = 3;

/// Returns the status of a call at a server (0 for success), and the reply.
fn status(server: SocketAddr, procedure: u32, arguments: &[u8]) -> (u32, Vec<u8>) {
    let reply = over_stream(server, &call_of_user(1, procedure, arguments));
    (u32::from_be_bytes(reply[24..28].try_into().unwrap()), reply)
}

/// Serves a directory with the state of a home.
fn serve(home: &Home, directory: &str) -> (Serving, SocketAddr) {
    let mut command = leasehold(&["serve", &home.path(directory), "--json", "--state"]);
    let serving = Serving::start({
        command.args([&home.path("state"), "--listen", "127.0.0.1:0"]);
        command
    });
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, address(&ready))
}

/// Each server of one directory gave it the number 1, so a client that had looked up a file of a
/// read-only export could write the file at a later server of another directory with the same
/// state.
#[test]
fn handle_is_valid_only_under_the_rules_of_its_export() {
    const STALE: u32 = 70;
    let home = Home::new();
    fs::write(home.path("data/file"), "text").unwrap();
    fs::create_dir(home.path("other")).unwrap();
    let (mut serving, server) = serve(&home, "data");
    let place = [opaque(&root(server)), opaque(b"file")].concat();
    let (done, found) = status(server, LOOKUP, &place);
    assert_eq!(done, 0);
    let handles = [opaque(&root(server)), opaque(&found[32..64])];
    assert!(serving.end(Signal::TERM).success());
    let answers = |directory: &str| {
        let (mut serving, server) = serve(&home, directory);
        let found = handles.each_ref().map(|handle| status(server, GETATTR, handle).0);
        assert!(serving.end(Signal::TERM).success());
        found
    };
    assert_eq!(answers("other"), [STALE; 2], "another directory of the file system");
    assert_eq!(answers("data"), [0; 2], "the same directory again");
    fs::rename(home.path("data"), home.path("moved")).unwrap();
    assert_eq!(answers("moved"), [0; 2], "the same directory under another name");
    fs::create_dir(home.path("data")).unwrap();
    assert_eq!(answers("data"), [STALE; 2], "another directory of the same name");
}

/// Returns the names of a complete state after a clean stop, with every file that a server may
/// store there.
fn whole_state(home: &Home) -> Vec<String> {
    let file = home.path("config");
    let text = format!(
        "[server]\nlisten = ['127.0.0.1:0']\nstate = {:?}\nstable-log = {:?}\n[[export]]\n\
         directory = {:?}\n",
        home.path("state"),
        home.path("log"),
        home.path("data"),
    );
    fs::write(&file, text).unwrap();
    let mut serving = Serving::start(leasehold(&["serve", "--config", &file]));
    serving.line();
    // A clean stop removes the note of the log, and writes the verifier.
    let note = fs::read(home.path("state/stable-log")).unwrap();
    assert!(serving.end(Signal::TERM).success());
    fs::write(home.path("state/stable-log"), note).unwrap();
    let listed = fs::read_dir(home.path("state")).unwrap();
    let mut names: Vec<_> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn set(path: &str, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Checks that the server refuses to start, names the place, and has not changed the target of the
/// link.
fn refused(home: &Home, place: &str, why: &str) {
    let (code, _, error) = run(leasehold(&["serve", "--config", &home.path("config")]));
    assert!(code == 5 && error.contains(place) && error.contains(why), "{place} {why}: {error}");
}

/// A user that could write a file of the state could make the server read and write files of its
/// exports for that user, or write to the target of a link.
#[test]
fn state_that_another_user_could_have_written_is_rejected() {
    let home = Home::new();
    let names = whole_state(&home);
    #[rustfmt::skip]
    let known = ["exports", "handle-key", "leases", "lock", "origins", "replies", "stable-log", "verifier"];
    assert_eq!(names, known, "open a new file of the state like these");
    let state = home.path("state");
    for mode in [0o770, 0o702, 0o1777] {
        set(&state, mode);
        refused(&home, &state, "chmod go-w");
    }
    set(&state, 0o700);
    let copy = |from: &str, to: &str| {
        assert!(Command::new("cp").args(["-a", from, to]).status().unwrap().success());
    };
    copy(&state, &home.path("kept"));
    // A rejected start may have removed the verifier.
    let restore = || {
        fs::remove_dir_all(&state).unwrap();
        copy(&home.path("kept"), &state);
    };
    let files: Vec<_> = names.iter().map(|name| home.path(&format!("state/{name}"))).collect();
    for path in files.iter().chain([&home.path("log")]) {
        restore();
        set(path, 0o620);
        refused(&home, path, "chmod");
        restore();
        // Root could read another user's files; a test without root's capabilities cannot create
        // such files.
        if geteuid().is_root() {
            set(path, 0o600);
            chown(path, Some(12_345), None).unwrap();
            refused(&home, path, "12345");
        }
    }
    set(&home.path("log"), 0o600);
    chown(home.path("log"), Some(geteuid().as_raw()), None).unwrap();
    for path in &files {
        restore();
        let victim = home.path("victim");
        fs::rename(path, &victim).unwrap();
        let before = fs::read(&victim).unwrap();
        symlink(&victim, path).unwrap();
        refused(&home, path, "symbolic link");
        assert_eq!(fs::read(&victim).unwrap(), before, "{path}");
    }
    restore();
    let key = home.path("state/handle-key");
    set(&key, 0o640);
    refused(&home, &key, "chmod go=");
    set(&key, 0o600);
    let mut serving = Serving::start(leasehold(&["serve", "--config", &home.path("config")]));
    serving.line();
    assert!(serving.end(Signal::TERM).success());
}

#[test]
fn cluster_key_that_another_user_could_know_is_rejected() {
    let home = Home::new();
    let key = home.path("key");
    fs::write(&key, format!("{:032x}\n", 7)).unwrap();
    let iod = || {
        let mut command = leasehold(&["iod", &home.path("data"), "--state", &home.path("state")]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-key", &key]);
        command
    };
    for (mode, why) in [(0o644, "read"), (0o620, "written")] {
        set(&key, mode);
        let (code, _, error) = run(iod());
        assert!(code == 5 && error.contains(&key) && error.contains(why), "{mode:o}: {error}");
    }
    set(&key, 0o600);
    let mut serving = Serving::start(iod());
    serving.line();
    assert!(serving.end(Signal::TERM).success());
}

/// A separate environment for states: root has another `/var/lib`, and with its own network,
/// commands find only the servers of this test.
struct Machine {
    home: Home,
    holder: Child,
    joins: Vec<&'static str>,
}

impl Machine {
    fn new(own_network: bool) -> Self {
        let home = Home::new();
        fs::create_dir(home.path("lib")).unwrap();
        let mut joins = vec!["--mount"];
        if own_network {
            joins.push("--net");
        }
        let mut holder = Command::new("unshare");
        holder.args(&joins);
        if !geteuid().is_root() {
            holder.args(["--user", "--map-root-user"]);
            joins.extend(["--user", "--preserve-credentials"]);
        }
        let script = "mount --bind \"$1\" /var/lib && ip link set lo up; echo ready; exec cat";
        holder.args(["sh", "-c", script, "sh", &home.path("lib")]);
        let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n");
        Self { home, holder, joins }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string()]).args(&self.joins).arg("--");
        let program = leasehold(words);
        command.arg(program.get_program()).args(program.get_args());
        command.env_remove("LEASEHOLD_LOG");
        command
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        run(self.command(words))
    }

    /// Starts a server in its default place, unless the words name another place; its log goes to a
    /// file.
    fn serve(&self, words: &[&str]) -> (Serving, serde_json::Value) {
        let log =
            fs::File::options().create(true).append(true).open(self.home.path("log")).unwrap();
        let words = [&["serve"], words, &["--listen", "127.0.0.1:0", "--json"]].concat();
        let serving = Serving::logging(self.command(&words), log.into());
        let ready = serde_json::from_str(&serving.line()).unwrap();
        (serving, ready)
    }

    /// Returns the folders of servers in the default place.
    fn folders(&self) -> Vec<String> {
        let listed = fs::read_dir(self.home.path("lib/leasehold/servers")).into_iter().flatten();
        let mut names: Vec<_> =
            listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// All servers of root shared a key, the recorded replies and the list of clients with leases: the
/// second server waited for clients of the first server.
#[test]
fn each_server_has_its_own_state_and_is_found_by_its_directory() {
    let machine = Machine::new(true);
    let home = &machine.home;
    let [data, other, third] = ["data", "other", "third"].map(|name| home.path(name));
    fs::create_dir(&other).unwrap();
    fs::create_dir(&third).unwrap();
    let (code, _, error) = machine.run(&["status"]);
    assert!(code == 1 && error.contains("no server"), "{error}");
    let (mut first, ready) = machine.serve(&[&data]);
    let (_, told, _) = machine.run(&["status", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["pid"], ready["pid"], "the only server is selected");
    let (mut second, _) = machine.serve(&[&other, "--state", &home.path("state")]);
    let file = home.path("config.toml");
    fs::write(&file, format!("[[export]]\ndirectory = {third:?}\n")).unwrap();
    let (mut by_file, third_ready) = machine.serve(&["--config", &file]);
    let folders = machine.folders();
    assert!(folders.len() == 2 && folders[0].starts_with("config.toml-"), "{folders:?}");
    let keys: Vec<_> = folders
        .iter()
        .map(|folder| fs::read(home.path(&format!("lib/leasehold/servers/{folder}/handle-key"))))
        .collect();
    assert_ne!(keys[0].as_ref().unwrap(), keys[1].as_ref().unwrap());

    // If the user names no server, the command lists all servers.
    let state = home.path("state");
    for words in [&["status"][..], &["restart"], &["reload"], &["leases"], &["forget", "nobody"]] {
        let (code, _, error) = machine.run(words);
        assert!(code == 1 && error.contains("several servers"), "{words:?}: {error}");
        for word in [&data, &other, &third, &state] {
            assert!(error.contains(word.as_str()), "{words:?} {word}: {error}");
        }
    }
    for (place, pid) in
        [(&data, &ready["pid"]), (&third, &third_ready["pid"]), (&file, &third_ready["pid"])]
    {
        let (_, told, error) = machine.run(&["status", place, "--json"]);
        assert!(told.contains(&format!("\"pid\":{pid}")), "{place}: {told} {error}");
    }
    let works = |words: &[&str]| {
        let (code, out, error) = machine.run(words);
        assert_eq!(code, 0, "{words:?}: {error}");
        out
    };
    works(&["top", &data, "--json", "--count", "1", "--interval", "0.1"]);
    works(&["leases", &other]);
    works(&["cluster", "status", &other]);
    works(&["reload", &file]);
    works(&["restart", &other]);
    works(&["check", "--config", &file]);
    let inside = format!("{third}/file");
    fs::write(&inside, "text").unwrap();
    works(&["why", "--client", "127.0.0.1", "--uid", "0", "read", &inside]);
    let (code, _, error) = machine.run(&["forget", "nobody", &other]);
    assert!(code == 1 && error.contains("no client"), "{error}");

    // A renamed directory keeps its state, and so its mounts.
    assert!(first.end(Signal::TERM).success());
    fs::rename(&data, home.path("renamed")).unwrap();
    let (mut renamed, _) = machine.serve(&[&home.path("renamed")]);
    assert_eq!(machine.folders(), folders);
    for serving in [&mut renamed, &mut second, &mut by_file] {
        assert!(serving.end(Signal::TERM).success());
    }
}

/// A program of another user that listens at a name of control sockets in a given directory, and
/// replies to each request with the id of a process.
const STRANGER: &str = r#"
import os, socket, sys
os.setgid(12345)
os.setuid(12345)
os.chdir(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1] + "/control.0123456789abcdef")
os.rename("control.0123456789abcdef", "control")
listener.listen()
print("listens", flush=True)
while True:
    asker = listener.accept()[0]
    asker.recv(4096)
    asker.sendall(b'{"ok":{"pid":%s,"program":"leasehold 9"}}\n' % sys.argv[2].encode())
"#;

/// Any user could make root signal any process, by a socket in /tmp, which belongs to root.
#[test]
fn socket_of_another_user_is_not_a_server() {
    // Only root can run a program as another user.
    if !geteuid().is_root() {
        return;
    }
    let machine = Machine::new(true);
    let shared = machine.home.path("shared");
    fs::create_dir(&shared).unwrap();
    set(&machine.home.path(""), 0o755);
    set(&shared, 0o1777);
    let mut victim = Command::new("sleep").arg("600").spawn().unwrap();
    let mut stranger = Command::new("nsenter");
    stranger.args(["--target", &machine.holder.id().to_string()]).args(&machine.joins).arg("--");
    stranger.args(["python3", "-c", STRANGER, &shared, &victim.id().to_string()]);
    let mut stranger = stranger.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(stranger.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let found = machine.run(&["restart"]);
    let named = machine.run(&["restart", "--state", &shared]);
    let ended = victim.try_wait().unwrap();
    for child in [&mut stranger, &mut victim] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(line, "listens\n");
    assert!(ended.is_none(), "the process was signalled");
    assert!(found.0 == 1 && found.2.contains("no server"), "{found:?}");
    assert!(named.0 == 1 && named.2.contains("the user 12345"), "{named:?}");
}

/// Clients of a replaced directory received ESTALE until a restart, and no tool reported the fault.
#[test]
fn directory_replaced_under_its_server_is_reported() {
    let machine = Machine::new(true);
    let home = &machine.home;
    let [data, third] = ["data", "third"].map(|name| home.path(name));
    fs::create_dir(&third).unwrap();
    let file = home.path("config.toml");
    fs::write(&file, format!("[[export]]\ndirectory = {third:?}\n")).unwrap();
    let (mut first, _) = machine.serve(&[&data]);
    let (mut by_file, _) = machine.serve(&["--config", &file]);
    let says = |words: &[&str]| {
        let (code, out, error) = machine.run(words);
        assert_eq!(code, 0, "{words:?}: {error}");
        out
    };
    assert!(!says(&["status", &third]).contains("ESTALE"));
    fs::remove_dir_all(&third).unwrap();
    fs::create_dir(&third).unwrap();
    assert!(says(&["status", &third]).contains("ESTALE"));
    assert!(!says(&["status", &data]).contains("ESTALE"));
    // The exit code of `doctor` reports the fault.
    let (code, out, error) = machine.run(&["doctor", "--config", &file]);
    assert!(code == 1 && out.contains("ESTALE"), "{out} {error}");
    for serving in [&mut first, &mut by_file] {
        assert!(serving.end(Signal::TERM).success());
    }
}

/// Creates the state of a server of `data` in the default place, where an earlier version kept the
/// states of all servers. Returns a handle of the directory.
fn state_of_earlier_version(machine: &Machine) -> Vec<u8> {
    let home = &machine.home;
    let usual = home.path("lib/leasehold");
    let (mut serving, ready) =
        machine.serve(&[&home.path("data"), "--state", "/var/lib/leasehold"]);
    let handle = opaque(&root(address(&ready)));
    assert!(serving.end(Signal::TERM).success());
    for name in ["lock", "origins"] {
        fs::remove_file(format!("{usual}/{name}")).unwrap();
    }
    handle
}

#[test]
fn state_of_an_earlier_version_moves_to_one_server() {
    let machine = Machine::new(false);
    let home = &machine.home;
    let [usual, data, other] = ["lib/leasehold", "data", "other"].map(|name| home.path(name));
    fs::create_dir(&other).unwrap();
    let handle = state_of_earlier_version(&machine);
    let is_good = |words: &[&str]| {
        let (mut serving, ready) = machine.serve(words);
        let done = status(address(&ready), GETATTR, &handle).0 == 0;
        assert!(serving.end(Signal::TERM).success());
        done
    };
    let is_there = || fs::exists(format!("{usual}/handle-key")).unwrap();
    // The state names its directory, like the state of a server of a file.
    assert!(!is_good(&[&other]) && is_there(), "another server is not the successor");
    let log = fs::read_to_string(home.path("log")).unwrap();
    assert!(log.contains("belongs to other directories") && log.contains("--state"), "{log}");
    // A running server of that version keeps its files.
    let notes = fs::File::open(format!("{usual}/replies")).unwrap();
    notes.lock().unwrap();
    fs::create_dir(home.path("more")).unwrap();
    assert!(!is_good(&[&home.path("more")]) && is_there());
    // The successor does not start with a new key, which would be permanent.
    let (code, _, error) = machine.run(&["serve", &data, "--listen", "127.0.0.1:0"]);
    assert!(code == 5 && error.contains("end that server first"), "{error}");
    assert!(machine.folders().iter().all(|folder| !folder.starts_with("data-")));
    drop(notes);
    let verifier = fs::read(format!("{usual}/verifier")).unwrap();
    assert!(is_good(&[&data]) && !is_there(), "the successor takes it over");
    let folders = machine.folders();
    let folder = folders.iter().find(|folder| folder.starts_with("data-")).unwrap();
    let folder = format!("/var/lib/leasehold/servers/{folder}");
    let kept = home.path(folder.strip_prefix("/var/").unwrap());
    assert_eq!(fs::read(format!("{kept}/verifier")).unwrap(), verifier, "no client writes again");
    // To go back, give an earlier version the folder.
    assert!(is_good(&[&data, "--state", &folder]));
    assert!(is_good(&[&data]));
}

#[test]
fn state_without_directories_moves_to_the_first_server_of_one() {
    let machine = Machine::new(false);
    let home = &machine.home;
    let usual = home.path("lib/leasehold");
    let handle = state_of_earlier_version(&machine);
    fs::remove_file(format!("{usual}/exports")).unwrap();
    let file = home.path("config.toml");
    fs::create_dir(home.path("other")).unwrap();
    fs::write(&file, format!("[[export]]\ndirectory = {:?}\n", home.path("other"))).unwrap();
    let (mut serving, _) = machine.serve(&["--config", &file]);
    assert!(serving.end(Signal::TERM).success());
    assert!(
        fs::exists(format!("{usual}/handle-key")).unwrap(),
        "a server of a file has recorded names"
    );
    // A metaserver and an iod on one machine shared the state: the metaserver takes the state over.
    fs::create_dir(home.path("stripes")).unwrap();
    let mut iod = machine.command(&["iod", &home.path("stripes"), "--listen", "127.0.0.1:0"]);
    iod.args(["--cluster-key", &home.path("key")]);
    let mut iod = Serving::start(iod);
    iod.line();
    assert!(iod.end(Signal::TERM).success());
    assert!(fs::exists(format!("{usual}/handle-key")).unwrap(), "an iod is not a successor");
    let (mut serving, ready) = machine.serve(&[&home.path("data")]);
    assert_eq!(status(address(&ready), GETATTR, &handle).0, 0);
    assert!(serving.end(Signal::TERM).success());
    assert!(!fs::exists(format!("{usual}/handle-key")).unwrap());
    let log = fs::read_to_string(home.path("log")).unwrap();
    let warning = log.lines().find(|line| line.contains("WARN") && line.contains("assumes"));
    assert!(warning.is_some_and(|line| line.contains(&home.path("data"))), "{log}");
}

/// Two iods on one directory changed the owners of each other's objects: a metaserver that named
/// both iods reported an iod of another cluster.
#[test]
fn directory_of_stripes_has_one_server() {
    let home = Home::new();
    fs::create_dir(home.path("names")).unwrap();
    let iod = |number: u32| {
        let state = home.path(&format!("state-{number}"));
        let mut command = leasehold(&["iod", &home.path("data"), "--state", &state]);
        command.args(["--listen", "127.0.0.1:0", "--cluster-key", &home.path("key")]);
        command
    };
    let mut first = Serving::start(iod(1));
    first.line();
    let mut stripes = leasehold(&["serve", &home.path("names"), "--stripe", &home.path("data")]);
    stripes.args(["--listen", "127.0.0.1:0", "--state", &home.path("state-3")]);
    for second in [iod(2), stripes] {
        let (code, _, error) = run(second);
        assert_eq!(code, 3, "{error}");
        for word in [&home.path("data"), "another process", "stores stripes"] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
    first.end(Signal::KILL);
    let mut next = Serving::start(iod(2));
    next.line();
    assert!(next.end(Signal::TERM).success());
}
