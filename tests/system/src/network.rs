//! A network namespace for a test, in which every port is free.

use std::env;
use std::process::Command;

use crate::{built, guest, output};

/// An environment variable that is set inside the namespace.
const THERE: &str = "LEASEHOLD_TEST_NETWORK";

/// Prepares the namespace: a loopback, its devices in `/sys`, and an empty `/run`; then runs the
/// command after the path of busybox.
const READY: &str = r#"
    "$0" ip link set lo up
    mount -t sysfs sysfs /sys
    mount -t tmpfs tmpfs /run
    exec "$@"
"#;

/// Runs the body of a test in a network namespace. The body must be the whole test, because the
/// test with this name runs again inside, in a separate process.
///
/// # Panics
/// Panics if the body fails, or the namespace cannot be made, which requires root.
pub fn on_own_network(test: &str, part: impl FnOnce()) {
    if env::var_os(THERE).is_some() {
        return part();
    }
    // The build takes time that must not count, and may need the machine's own network.
    let _ = built();
    let busybox = guest::parts().join("busybox");
    let itself = env::current_exe().expect("a running test has a path");
    let there = ["unshare", "--net", "--uts", "--mount", "--fork", "--kill-child"];
    let done = Command::new("timeout")
        .arg("240")
        .args(there)
        .args(["bash", "-euc", READY])
        .args([busybox, itself])
        .args(["--exact", test, "--nocapture"])
        .env(THERE, "1")
        .output()
        .expect("timeout can be run");
    let [out, err] = [done.stdout, done.stderr].map(|bytes| text(&bytes));
    assert!(done.status.success(), "{}:\n{out}\n{err}", done.status);
    assert!(out.contains("1 passed"), "there is no test {test}:\n{out}");
}

/// Adds an address outside of the loopback network.
pub fn add_address(address: &str) {
    let words = ["ip", "addr", "add", address, "dev", "lo"];
    output(Command::new(guest::parts().join("busybox")).args(words));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
