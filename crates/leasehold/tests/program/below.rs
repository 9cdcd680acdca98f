//! The reports of the commands on file systems that are mounted below an export.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::process::geteuid;
use rustix::thread::UnshareFlags;
use serde_json::Value;

use crate::config::{getattr, handle, start};
use crate::support::{Home, call_of_user, leasehold, over_stream, run};

/// Runs a test on a thread with its own mount namespace, if the user is root.
fn with_own_mounts(test: fn()) {
    if !geteuid().is_root() {
        return;
    }
    let test = thread::spawn(move || {
        // The call is unsafe for a separate descriptor table; this table stays shared.
        #[expect(deprecated)]
        rustix::thread::unshare(UnshareFlags::NEWNS).unwrap();
        mount(&["--make-rprivate", "/"]);
        test();
    });
    test.join().unwrap();
}

fn mount(words: &[&str]) {
    assert!(Command::new("mount").args(words).status().unwrap().success(), "{words:?}");
}

/// Creates a home with `/data`, a tmpfs on its `top`, and a configuration file with additional
/// lines.
fn home(more: &str) -> (Home, String) {
    let home = Home::new();
    for directory in ["", "data"] {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(home.path(directory), mode).unwrap();
    }
    let (data, state) = (home.path("data"), home.path("state"));
    let file = home.path("leasehold.toml");
    fs::create_dir(Path::new(&data).join("top")).unwrap();
    mount(&["-t", "tmpfs", "none", &home.path("data/top")]);
    fs::create_dir(home.path("data/top/inner")).unwrap();
    let text = format!(
        "[server]\nlisten = ['127.0.0.1:0']\nstate = '{state}'\n[[export]]\n\
         directory = '{data}'\n{}",
        more.replace("DATA", &data)
    );
    fs::write(&file, text).unwrap();
    (home, file)
}

const WORDS: &str = "a file system (tmpfs) is mounted there, which this export does not cross \
                     (cross = true): clients see an empty directory";

#[test]
fn why_names_the_mount_and_no_permission() {
    with_own_mounts(|| {
        let (_home, file) = home("");
        let why = |words: &[&str]| {
            let start = ["why", "--config", &file, "--client", "127.0.0.1", "--uid", "1000"];
            let (code, told, complaint) = run(leasehold(&[&start[..], words].concat()));
            assert_eq!((code, complaint.as_str()), (0, ""));
            told
        };
        for (words, last) in [
            (["list", "/data/top"], "allowed\n"),
            (["create", "/data/top/new"], "denied\n"),
            (["lookup", "/data/top/inner"], "denied\n"),
        ] {
            let told = why(&words);
            assert!(told.contains(&format!("/data/top: {WORDS}\n")), "{told}");
            assert!(told.ends_with(last) && !told.contains("may not search"), "{told}");
        }
        let told = why(&["remove", "/data/top"]);
        let words = "/data/top: a file system (tmpfs) is mounted there, and the name cannot be \
                     removed\ndenied\n";
        assert!(!told.contains(words), "the user has no right to remove names there: {told}");
    });
}

#[test]
fn check_and_doctor_list_mounts_below_export() {
    with_own_mounts(|| {
        let (home, file) = home("[[export]]\ndirectory = 'DATA/top/inner'\n");
        let line = format!("{}: {WORDS}", home.path("data/top"));
        let (code, told, _) = run(leasehold(&["check", "--config", &file]));
        assert!(code == 0 && told.contains(&format!("  {line}\n")), "{told}");
        assert!(!told.contains("lies within"), "/data does not lead to /inner: {told}");
        let (_, told, _) = run(leasehold(&["check", "--json", "--config", &file]));
        let told: Value = serde_json::from_str(&told).unwrap();
        let begin = &told["exports"][0]["begin_below"];
        assert_eq!(begin[0]["path"], home.path("data/top"));
        assert_eq!((&begin[0]["kind"], begin.as_array().unwrap().len()), (&"tmpfs".into(), 1));
        let (_, told, _) = run(leasehold(&["doctor", "--config", &file]));
        assert!(told.contains(&format!("note     {}: {line}\n", home.path("data"))), "{told}");
    });
}

#[test]
fn reports_show_that_export_crosses() {
    with_own_mounts(|| {
        let (home, file) = home("cross = true\n[[export]]\ndirectory = 'DATA/top/inner'\n");
        let words =
            "a file system (tmpfs) is mounted there, which this export crosses (cross = true)";
        let why = ["why", "--config", &file, "--client", "127.0.0.1", "--uid", "1000"];
        let (_, told, _) = run(leasehold(&[&why[..], &["list", "/data/top/inner"]].concat()));
        assert!(told.contains(&format!("/data/top: {words}\n")), "{told}");
        assert!(told.ends_with("allowed\n"), "{told}");
        let (_, told, _) = run(leasehold(&["check", "--config", &file]));
        let line = format!("{}: {words}", home.path("data/top"));
        assert!(told.contains(&format!("  {line}\n")), "{told}");
        assert!(
            told.contains("/inner lies within /data: clients of the outer export reach"),
            "{told}"
        );
        let (_, told, _) = run(leasehold(&["doctor", "--config", &file]));
        assert!(told.contains(&format!("note     {}: {line}\n", home.path("data"))), "{told}");
    });
}

/// `check` rejects these options together with `cross`, with the reason.
#[test]
fn stripes_and_a_stable_log_exclude_crossing() {
    let home = Home::new();
    let (data, state) = (home.path("data"), home.path("state"));
    fs::create_dir(home.path("stripes")).unwrap();
    let file = home.path("leasehold.toml");
    let text = format!(
        "[server]\nstate = '{state}'\n[[export]]\ndirectory = '{data}'\ncross = true\n\
         stripe = ['{}']\n",
        home.path("stripes")
    );
    fs::write(&file, text).unwrap();
    let (code, _, complaint) = run(leasehold(&["check", "--config", &file]));
    assert!(
        code == 2 && complaint.contains("`cross` and stripes or iods exclude each other"),
        "{complaint}"
    );
    let log = home.path("log");
    let text = format!(
        "[server]\nstate = '{state}'\nstable-log = '{log}'\n[[export]]\ndirectory = '{data}'\n\
         cross = true\n"
    );
    fs::write(&file, text).unwrap();
    for command in ["check", "serve"] {
        let (code, _, complaint) = run(leasehold(&[command, "--config", &file]));
        assert!(
            code == 2 && complaint.contains("stable log and `cross` exclude each other"),
            "{complaint}"
        );
    }
}

const STALE: u8 = 70;

/// The handles of file systems below an export depend on the option, and survive a restart.
#[test]
fn reload_changes_crossing() {
    with_own_mounts(|| {
        let (home, file) = home("cross = true\n");
        let crossing = fs::read_to_string(&file).unwrap();
        let plain = crossing.replace("cross = true\n", "");
        let reload = |text: &str| {
            fs::write(&file, text).unwrap();
            let (code, told, complaint) = home.reload();
            assert_eq!(code, 0, "{complaint}");
            assert!(told.contains("with file systems mounted below"), "{told}");
        };
        let (serving, address) = start(&home);
        let root = handle(address, "/data").unwrap();
        let inner = handle(address, "/data/top/inner").unwrap();
        reload(&plain);
        assert_eq!((getattr(address, &root), getattr(address, &inner)), (0, STALE));
        assert!(handle(address, "/data/top").is_ok(), "the placeholder");
        assert_eq!(handle(address, "/data/top/inner"), Err(2));
        reload(&crossing);
        assert_eq!((getattr(address, &root), getattr(address, &inner)), (0, 0));
        drop(serving);
        let (_serving, address) = start(&home);
        assert_eq!((getattr(address, &root), getattr(address, &inner)), (0, 0));
        assert_eq!(handle(address, "/data/top/inner"), Ok(inner));
    });
}

/// Otherwise clients could read the key of all handles.
#[test]
fn mount_with_state_directory_is_not_crossed() {
    with_own_mounts(|| {
        let (home, file) = home("cross = true\n");
        let text = fs::read_to_string(&file).unwrap();
        let state = home.path("data/top/inner/state");
        fs::write(&file, text.replace(&home.path("state"), &state)).unwrap();
        let (_serving, address) = start(&home);
        assert_eq!(handle(address, "/data/top/inner"), Err(2));
        let top = handle(address, "/data/top").unwrap();
        let reply = over_stream(address, &call_of_user(9, 1, &top));
        assert_eq!((reply[27], &reply[32..36]), (0, &0o555_u32.to_be_bytes()[..]));
    });
}
