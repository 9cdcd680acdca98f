//! This version reads the state of earlier versions.
//!
//! Each folder of `tests/state` is the state of a version after a clean stop, with an earlier call
//! and its reply. Before a release, a folder is added for the released version: run `STATE=keep
//! cargo test -p leasehold --test program upgrade` as root. The state is made as in another boot,
//! because records of the current boot expire with the machine's uptime.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::support::{Home, Serving, address, call_of_user, opaque, over_stream, root};

const LOOKUP: u32 = 3;
const MKDIR: u32 = 9;
const COMMIT: u32 = 21;

/// The files of a state directory that are stored completely. Of the recorded replies, which are
/// mostly holes, only the end of the file and its position are stored.
const FILES: [&str; 2] = ["handle-key", "verifier"];

fn states() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/state")
}

/// Makes a server of this version write state, and stores it.
fn keep() {
    let folder = states().join(env!("CARGO_PKG_VERSION"));
    let home = Home::new();
    let boot = home.path("boot");
    fs::write(&boot, "01234567-89ab-4cde-8f01-23456789abcd\n").unwrap();
    let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";
    let serve = home.command(&["--json"]);
    let mut elsewhen = Command::new("unshare");
    elsewhen.args(["--mount", "sh", "-c", script, "sh", &boot]);
    elsewhen.arg(serve.get_program()).args(serve.get_args());
    let mut serving = Serving::start(elsewhen);
    let ready = serde_json::from_str(&serving.line()).unwrap();
    let place = [opaque(&root(address(&ready))), opaque(b"made"), vec![0; 24]].concat();
    let call = call_of_user(4711, MKDIR, &place);
    let reply = over_stream(address(&ready), &call);
    assert_eq!(reply[24..28], [0; 4], "it was not created");
    assert!(serving.end(Signal::TERM).success());
    fs::create_dir_all(&folder).unwrap();
    for file in FILES {
        fs::copy(home.path(&format!("state/{file}")), folder.join(file)).unwrap();
    }
    let notes = fs::read(home.path("state/replies")).unwrap();
    let begin = notes.iter().position(|byte| *byte != 0).unwrap();
    fs::write(folder.join("replies"), &notes[begin..]).unwrap();
    fs::write(folder.join("replies-begin"), format!("{begin}\n")).unwrap();
    fs::write(folder.join("call"), call).unwrap();
    fs::write(folder.join("reply"), reply).unwrap();
}

#[test]
fn state_of_every_version_is_read() {
    if std::env::var_os("STATE").is_some_and(|word| word == "keep") {
        keep();
    }
    let mut versions = 0;
    for version in fs::read_dir(states()).unwrap() {
        let version = version.unwrap().path();
        let kept = |file: &str| fs::read(version.join(file)).unwrap();
        let home = Home::new();
        fs::create_dir(home.path("state")).unwrap();
        FILES.iter().for_each(|file| {
            let path = home.path(&format!("state/{file}"));
            fs::write(&path, kept(file)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        });
        let begin = String::from_utf8(kept("replies-begin")).unwrap().trim().parse().unwrap();
        let notes = [vec![0; begin], kept("replies")].concat();
        fs::write(home.path("state/replies"), notes).unwrap();
        fs::write(home.path("data/file"), "").unwrap();
        let log = fs::File::create(home.path("log")).unwrap();
        let mut serving = Serving::logging(home.command(&["--json"]), log.into());
        let ready = serde_json::from_str(&serving.line()).unwrap();
        let server = address(&ready);

        // With another key all mounts would be stale.
        assert_eq!(fs::read(home.path("state/handle-key")).unwrap(), kept("handle-key"));
        // With another verifier clients would write all data again.
        let place = [opaque(&root(server)), opaque(b"file")].concat();
        let found = over_stream(server, &call_of_user(1, LOOKUP, &place));
        let range = [opaque(&found[32..64]), vec![0; 12]].concat();
        let committed = over_stream(server, &call_of_user(2, COMMIT, &range));
        assert_eq!(committed[24..28], [0; 4]);
        assert!(committed.ends_with(&kept("verifier")), "{}", version.display());
        // Without its record, a retransmitted call would run again. The call came from root.
        if geteuid().is_root() {
            assert_eq!(over_stream(server, &kept("call")), kept("reply"), "{}", version.display());
        }
        assert!(serving.end(Signal::TERM).success());
        let log = fs::read_to_string(home.path("log")).unwrap();
        assert!(log.contains("replies=1") && !log.contains("WARN"), "{log}");
        versions += 1;
    }
    assert!(versions > 0);
}
