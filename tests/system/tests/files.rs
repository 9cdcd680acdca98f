//! Files on foreign servers, without a mount: copied and read, and under the load of the caching
//! client; and on a mount.

use std::path::Path;
use std::process::Command;

use leasehold_system_tests::{Scratch, built, built_rig, program, tools_folder};

/// The folder of the scripts.
const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");

/// Runs a script with user operations on files of a server.
fn files_of(server: &str, script: &str, environment: &[(&str, &str)]) {
    let folder = Scratch::new(server);
    let paths = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{paths}:/usr/sbin", tools_folder().join("bin").display());
    let words = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash"];
    let done = Command::new("timeout")
        .args(["--kill-after=5", "500"])
        .arg(program("unshare"))
        .args(words)
        .arg(Path::new(PEERS).join("peer.sh"))
        .arg(server)
        .arg(folder.path())
        .arg(Path::new(PEERS).join(script))
        .env("PATH", path)
        .env("LEASEHOLD", built())
        .env("RIG", built_rig())
        .envs(environment.iter().copied())
        .output()
        .expect("timeout can be run");
    let complaints = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{server}: {}: {complaints}", done.status);
}

#[test]
fn files_of_ganesha() {
    files_of("ganesha", "files.sh", &[("RESTARTS", "2")]);
}

/// It uses the library go-nfs. Its handles do not survive a restart, so the test does not kill it.
#[test]
fn files_of_rclone() {
    files_of("rclone", "files.sh", &[("RESTARTS", "0")]);
}

#[test]
fn a_mount_of_ganesha() {
    files_of("ganesha", "mounted.sh", &[("LASTING", "yes")]);
}

/// Its handles are valid until their file is renamed.
#[test]
fn a_mount_of_rclone() {
    files_of("rclone", "mounted.sh", &[("LASTING", "no")]);
}
