//! The state directory: one server at a time has it, and no other user.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Signal, geteuid};

use crate::support::{
    Home, Serving, address, call_of_user, leasehold, opaque, over_stream, root, run,
};

/// A server of another directory with the state of a home.
fn other(home: &Home) -> Command {
    fs::create_dir_all(home.path("other")).unwrap();
    let mut command = leasehold(&["serve", &home.path("other"), "--state", &home.path("state")]);
    command.args(["--listen", "127.0.0.1:0"]);
    command
}

/// Two servers with one state issued an epoch of leases twice, and the second put its own list of
/// lease holders in the place of the first's: clients of the first then lost what they had cached.
#[test]
fn a_second_server_is_refused_the_state_of_one_that_runs() {
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
    // However the first one ends, the next one has the state then.
    first.end(Signal::KILL);
    let mut next = Serving::start(other(&home));
    next.line();
    assert!(next.end(Signal::TERM).success());
}

#[test]
fn no_other_server_takes_the_state_between_a_server_and_its_next_program() {
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

/// The state of a call at a server: 0 where it was done.
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

/// All servers of one directory gave it the number 1, so whoever had looked up a file of a read-only
/// export could write it at the next server with that state, which served another directory.
#[test]
fn a_handle_is_taken_under_the_rules_of_its_own_export_alone() {
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

/// A state with every file that a server may have there, after a clean stop.
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
    // The note of the log goes at a clean stop, as the verifier comes.
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

/// The server refuses to start, names the place, and has changed nothing that the link leads to.
fn refused(home: &Home, place: &str, why: &str) {
    let (code, _, error) = run(leasehold(&["serve", "--config", &home.path("config")]));
    assert!(code == 5 && error.contains(place) && error.contains(why), "{place} {why}: {error}");
}

/// Whoever could write one of them would have the server read and write files of its exports for
/// them, or the server would write to where a link leads.
#[test]
fn a_state_that_another_user_could_have_written_is_refused() {
    let home = Home::new();
    let names = whole_state(&home);
    #[rustfmt::skip]
    let known = ["exports", "handle-key", "leases", "lock", "origins", "replies", "stable-log", "verifier"];
    assert_eq!(names, known, "a new file of the state is to be opened as these are");
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
    // A start that is refused has taken the verifier perhaps.
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
        // As root another user's files could be read; without that power they cannot be made.
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
fn a_cluster_key_that_another_user_could_know_is_refused() {
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
