//! `leasehold serve --portmap`.

use std::net::SocketAddr;

use rustix::process::Signal;

use crate::support::{
    Home, MOUNT, NFS, Serving, address, call, over_datagram, over_stream, run, success,
};

const RPCBIND: u32 = 100_000;
const GETADDR: u32 = 3;

#[test]
fn own_portmapper_reports_the_server() {
    let home = Home::new();
    let (mut serving, ready) = Serving::with_json(&home, &["--portmap=127.0.0.1:0"]);
    let port = u16::try_from(ready["portmap"][0]["port"].as_u64().unwrap()).unwrap();
    let portmap = SocketAddr::from(([127, 0, 0, 1], port));
    let [high, low] = address(&ready).port().to_be_bytes();
    let told = format!("127.0.0.1.{high}.{low}");
    for program in [NFS, MOUNT] {
        // Program, version, and three unused texts.
        let args: Vec<u8> =
            [program, 3, 0, 0, 0].iter().flat_map(|one| one.to_be_bytes()).collect();
        for reply in [
            over_stream(portmap, &call(RPCBIND, GETADDR, &args)),
            over_datagram(portmap, &call(RPCBIND, GETADDR, &args)),
        ] {
            assert!(reply.starts_with(&success()), "{reply:?}");
            let text = &reply[success().len() + 4..];
            assert!(text.starts_with(told.as_bytes()), "{}", text.escape_ascii());
        }
    }
    // Each port serves only its own programs.
    assert_ne!(over_stream(portmap, &call(NFS, 0, &[])), success());
    assert_ne!(over_stream(address(&ready), &call(RPCBIND, 0, &[])), success());
    assert_eq!(serving.end(Signal::TERM).code(), Some(0));
}

#[test]
fn own_portmapper_reports_the_served_versions() {
    let home = Home::new();
    let options = ["--portmap=127.0.0.1:0", "--versions", "3,4.2"];
    let (_serving, ready) = Serving::with_json(&home, &options);
    let port = u16::try_from(ready["portmap"][0]["port"].as_u64().unwrap()).unwrap();
    let portmap = SocketAddr::from(([127, 0, 0, 1], port));
    // DUMP: each entry has a program, a version and the name of a network.
    let dump = over_stream(portmap, &call(RPCBIND, 4, &[]));
    let entry = |program: u32, version: u32, network: &[u8]| {
        let numbers = [program, version].map(u32::to_be_bytes).concat();
        let entry = [numbers, crate::support::opaque(network)].concat();
        dump.windows(entry.len()).any(|bytes| bytes == entry)
    };
    assert!(entry(NFS, 4, b"tcp") && !entry(NFS, 4, b"udp"), "{}", dump.escape_ascii());
    assert!(entry(NFS, 3, b"tcp") && !entry(NFS, 2, b"tcp"), "{}", dump.escape_ascii());
    assert!(entry(MOUNT, 3, b"tcp") && !entry(MOUNT, 1, b"tcp"), "{}", dump.escape_ascii());
}

#[test]
fn portmap_and_register_exclude_each_other() {
    let home = Home::new();
    let (code, _, err) = run(home.command(&["--portmap", "--register"]));
    assert!(code == 2 && err.contains("--register"), "{err}");
}
