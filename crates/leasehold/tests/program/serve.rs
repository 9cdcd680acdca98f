//! The messages and the effects of `leasehold serve`.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::{Signal, geteuid};

use crate::support::{
    Home, NFS, Serving, TIMEOUT, address, call, leasehold, mount, over_datagram, over_stream, run,
    success, with_mounted,
};

#[test]
fn ready_message_has_address_and_export() {
    let home = Home::new();
    let mut serving = Serving::start(home.command(&["--durability", "memory", "--read-only"]));
    let first = serving.line();
    let port = first.rsplit(':').next().unwrap().to_owned();
    let data = fs::canonicalize(home.path("data")).unwrap();
    assert_eq!(
        first,
        format!(
            "Serving {} as /data, read-only (NFS 3 and 2, TCP and UDP) on 127.0.0.1:{port}",
            data.display()
        )
    );
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    assert_eq!(over_stream(address, &call(NFS, 0, &[])), success());
    assert_eq!(over_datagram(address, &call(NFS, 0, &[])), success());
    let rest: Vec<String> = (0..7).map(|_| serving.line()).collect();
    let rest = rest.join("\n");
    assert!(rest.contains(&format!("proto=tcp,port={port},mountport={port}")), "{rest}");
    assert!(rest.ends_with("Durability: memory. A crash of this machine loses changes."), "{rest}");
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
}

#[test]
fn ready_message_can_be_one_line_of_json() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &["--name", "other"]);
    assert_eq!(ready["pid"], serving.child.id());
    assert_eq!(ready["durability"], "disk");
    assert_eq!(ready["exports"][0]["name"], "/other");
    assert_eq!(ready["addresses"][0]["transports"], serde_json::json!(["tcp", "udp"]));
    mount(address(&ready));
    assert_eq!(serving.end(Signal::INT).code(), Some(0));
    assert!(serving.lines.recv_timeout(TIMEOUT).is_err(), "the server prints nothing more");
}

#[test]
fn handles_survive_a_restart() {
    let home = Home::new();
    let replies: Vec<_> = (0..2)
        .map(|_| {
            let (mut serving, ready) = Serving::with_json(&home, &[]);
            let reply = mount(address(&ready));
            serving.end(Signal::TERM);
            reply
        })
        .collect();
    assert_eq!(replies[0], replies[1]);
    // An upgrade keeps handles too: the form, the length of the id, and the number of the export.
    let handle = &replies[0][32..64];
    assert!(handle[0] == 1 && handle[1] <= 20 && handle[2..4] == [0, 1], "{handle:?}");
    // With another key the handles differ.
    fs::remove_dir_all(home.path("state")).unwrap();
    let (_serving, ready) = Serving::with_json(&home, &[]);
    assert_ne!(mount(address(&ready)), replies[0]);
}

#[test]
fn open_connection_does_not_delay_the_end() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &[]);
    let mut idle = TcpStream::connect(address(&ready)).unwrap();
    idle.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(over_stream(address(&ready), &call(NFS, 0, &[])), success());
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn unusable_directory_is_reported() {
    let home = Home::new();
    fs::write(home.path("file"), "").unwrap();
    let serve = |path: &str| run(leasehold(&["serve", &home.path(path)]));
    let (code, out, err) = serve("none");
    assert_eq!((code, out.as_str()), (3, ""));
    assert!(err.starts_with("leasehold: ") && err.contains("does not exist"), "{err}");
    let (code, _, err) = serve("file");
    assert!(code == 3 && err.contains("is not a directory"), "{err}");
    // Root may read any file.
    if !geteuid().is_root() {
        fs::set_permissions(home.path("data"), fs::Permissions::from_mode(0o000)).unwrap();
        let (code, _, err) = serve("data");
        assert!(code == 3 && err.contains("cannot be read by this user"), "{err}");
    }
}

#[test]
fn address_in_use_is_reported_with_a_remedy() {
    let home = Home::new();
    let stream = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for taken in [stream.local_addr().unwrap(), datagrams.local_addr().unwrap()] {
        let (code, out, err) = run(home.command(&["--listen", &taken.to_string()]));
        assert_eq!((code, out.as_str()), (4, ""));
        assert!(err.starts_with(&format!("leasehold: {taken} is taken")), "{err}");
        assert!(err.contains("--listen 127.0.0.1:0"), "{err}");
    }
    let (code, _, err) = run(home.command(&["--listen", "192.0.2.1:2049"]));
    assert!(code == 4 && err.contains("no address 192.0.2.1"), "{err}");
}

#[test]
fn unusable_state_error_names_the_option() {
    let home = Home::new();
    let (code, _, err) = run(home.command(&["--state", "/proc/none"]));
    assert_eq!(code, 2, "a repeated option is an error: {err}");
    let mut command = leasehold(&["serve", &home.path("data"), "--listen", "127.0.0.1:0"]);
    command.args(["--state", "/proc/none"]);
    let (code, _, err) = run(command);
    assert!(code == 5 && err.contains("/proc/none") && err.contains("--state DIR"), "{err}");
}

/// Clients could read the key, and forge arbitrary handles.
#[test]
fn state_within_reach_of_clients_is_rejected() {
    let home = Home::new();
    let refused = |mut command: Command| {
        // If the state were accepted, the server would fail at the address.
        let (code, out, err) = run({
            command.args(["--listen", "192.0.2.1:2049"]);
            command
        });
        assert_eq!((code, out.as_str()), (5, ""), "{err}");
        assert!(err.contains("lies in the served directory") && err.contains("--state DIR"));
        assert_eq!(fs::read_dir(home.path("data")).unwrap().count(), 0, "nothing is created");
    };
    std::os::unix::fs::symlink("data", home.path("link")).unwrap();
    for state in ["data", "data/state", "data/not/made/yet", "link/state", "data/../data/state"] {
        let state = home.path(state);
        refused(leasehold(&["serve", &home.path("data"), "--state", &state]));
        refused(leasehold(&["serve", &home.path("link"), "--state", &state]));
    }
    let mut relative = leasehold(&["serve", ".", "--state", "state"]);
    relative.current_dir(home.path("data"));
    refused(relative);
    if geteuid().is_root() {
        // The same directory under another name.
        let other = home.path("other");
        let serve = leasehold(&["serve", &other, "--state", &home.path("data/state")]);
        refused(with_mounted(&home.path("data"), &other, &serve));
    } else {
        // The default state directory.
        let mut usual = leasehold(&["serve", &home.path("data")]);
        usual.env_remove("XDG_STATE_HOME").env("HOME", home.path("data"));
        refused(usual);
    }
}

#[test]
fn invalid_options_are_reported() {
    let home = Home::new();
    for wrong in [
        &["--listen", "nowhere"][..],
        &["--name", "a/b"],
        &["--name", ""],
        &["--threads", "0"],
        &["--log", "loud"],
        &["--durability", "tape"],
        &["--none"],
    ] {
        let (code, out, err) = run(home.command(wrong));
        assert_eq!((code, out.as_str()), (2, ""), "{wrong:?}: {err}");
        assert!(err.starts_with("leasehold: "), "{wrong:?}: {err}");
    }
}

#[test]
fn help_fits_a_screen() {
    for arguments in [&["--help"][..], &["serve", "-h"]] {
        let (code, out, err) = run(leasehold(arguments));
        assert_eq!((code, err.as_str()), (0, ""));
        assert!(out.lines().count() <= 40, "{arguments:?}");
        assert!(out.lines().all(|line| line.len() <= 100), "{out}");
        assert!(out.contains("Exit codes:"), "{out}");
    }
}
