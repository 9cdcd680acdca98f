//! tshark as an independent decoder: it decodes the complete traffic between a client and the
//! server, and finds no error.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use leasehold_system_tests::{Capture, Guest, Link, Server, Version, output, program};

/// Longer than the cases take.
const LIMIT: Duration = Duration::from_mins(5);

/// Cases that together call every procedure, each in its own folder.
const CASES: [(&str, &str); 6] = [
    ("append", include_str!("../cases/append.sh")),
    ("attributes", include_str!("../cases/attributes.sh")),
    ("many", "head -c 8M /dev/zero >large; touch {1..3000}; remount; ls -f >/dev/null"),
    ("names", include_str!("../cases/names.sh")),
    ("space", include_str!("../cases/space.sh")),
    ("special", include_str!("../cases/special.sh")),
];

/// Runs the cases in a guest, and returns the called procedures from `field`.
fn procedures(version: Version, field: &str) -> Vec<u32> {
    let (server, link) = (Server::start(), Arc::new(Link::new()));
    let capture = Capture::start(link.device(), server.port());
    let case: String = CASES
        .iter()
        .map(|(name, text)| format!("mkdir /mnt/{name}; cd /mnt/{name}\n{text}\n"))
        .collect();
    let guest = Guest::boot(&link, &server.mount(version), &case, LIMIT);
    guest.wait(|request| panic!("no such request: {request}")).expect_success();
    let captured = capture.stop();

    assert_eq!(captured.malformed(), "");
    assert!(captured.answered_calls() > 500);
    let mut procedures: Vec<u32> =
        captured.values(field).iter().map(|value| value.parse().expect("a number")).collect();
    procedures.sort_unstable();
    procedures
}

#[test]
fn the_kernel_s_client_with_version_2() {
    // All but ROOT (3) and WRITECACHE (7), which no client calls.
    let all = (0..=17).filter(|procedure| ![3, 7].contains(procedure));
    assert_eq!(procedures(Version::V2, "nfs.procedure_v2"), all.collect::<Vec<_>>());
}

#[test]
fn the_kernel_s_client_with_version_3() {
    assert_eq!(procedures(Version::V3, "nfs.procedure_v3"), (0..=21).collect::<Vec<_>>());
}

#[test]
fn the_tools_of_libnfs() {
    let server = Server::start();
    fs::write(server.folder().join("file"), vec![7; 3_000_000])
        .expect("the export can be written to");
    let capture = Capture::start("lo", server.port());
    output(Command::new(program("nfs-ls")).arg(server.url("")));
    output(Command::new(program("nfs-cat")).arg(server.url("/file")));
    let captured = capture.stop();

    assert_eq!(captured.malformed(), "");
    assert!(captured.answered_calls() > 5);
}
