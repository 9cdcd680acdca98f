//! A network that a test has to itself, where every port is free.

use std::env;
use std::process::Command;

use crate::{built, guest, output};

/// Set where a test is on its network.
const THERE: &str = "LEASEHOLD_TEST_NETWORK";

/// Readies the network: a loopback, its devices in `/sys`, and a `/run` where nobody is to be
/// found; then runs the words that follow the path of busybox.
const READY: &str = r#"
    "$0" ip link set lo up
    mount -t sysfs sysfs /sys
    mount -t tmpfs tmpfs /run
    exec "$@"
"#;

/// Runs a part of the test of that name in a network of its own. It is the test's whole body: the
/// test is run again there, in a process of its own.
///
/// # Panics
/// If the part fails, or the network cannot be made: that takes root.
pub fn on_own_network(test: &str, part: impl FnOnce()) {
    if env::var_os(THERE).is_some() {
        return part();
    }
    // To build it takes a time that does not count, and perhaps the machine's own network.
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

/// Gives the network another address than those of the loopback.
pub fn add_address(address: &str) {
    let words = ["ip", "addr", "add", address, "dev", "lo"];
    output(Command::new(guest::parts().join("busybox")).args(words));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
