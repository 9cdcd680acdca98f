//! The Linux kernel's client, in both versions: each test boots a kernel that mounts a server of its
//! own and runs one case of `cases/` there.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Guest, Link, Server, Version, output};

/// Far more than any case takes; a guest that hangs must not hang the test.
const LIMIT: Duration = Duration::from_secs(150);

/// One test for each case and version.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod v2 { $(#[test] fn $case() { super::case::$case(super::Version::V2); })* }
        mod v3 { $(#[test] fn $case() { super::case::$case(super::Version::V3); })* }
        mod case {
            $(pub(super) fn $case(version: super::Version) {
                let case = include_str!(concat!("../cases/", stringify!($case), ".sh"));
                super::run(version, case);
            })*
        }
    };
}

cases!(
    append, archive, attributes, compile, content, git, large, listing, names, restart, space,
    special, unlinked, users,
);

/// Runs a case over a new server.
fn run(version: Version, case: &str) {
    let mut server = Server::start();
    let link = Arc::new(Link::new());
    let guest = Guest::boot(&link, &server.mount(version), case, LIMIT);
    let ended = guest.wait(|request| match request {
        "restart" => server.restart(),
        other => panic!("no such request: {other}"),
    });
    ended.expect_success();
    check_on_disk(server.folder());
}

/// Compares what lies on the server's disk with the sums that the case made of what it wrote.
fn check_on_disk(folder: &Path) {
    if folder.join("sums").exists() {
        output(Command::new("sha256sum").args(["--quiet", "-c", "sums"]).current_dir(folder));
    }
}
