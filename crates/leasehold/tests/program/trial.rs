//! `cluster try` with several metaservers.

use std::net::TcpStream;

use bytes::Bytes;
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::Signal;

use crate::cluster::try_mount;
use crate::support::{Home, Serving, leasehold, put, run, who};

/// Both metaservers serve the same file, and no process remains after the end.
#[test]
fn two_metaservers_can_be_tried() {
    let home = Home::new();
    let folder = home.path("cluster");
    let words = ["cluster", "try", &folder, "--metaservers", "2", "--iods", "2"];
    let try_it = || leasehold(&[&words[..], &["--listen", "127.0.0.1:0"]].concat());
    let runtime = Runtime::start().unwrap();
    let started = || {
        let serving = Serving::start(try_it());
        let ports: Vec<u16> = (0..2).map(|_| served(&serving)).collect();
        let servers = ports.iter().map(|port| try_mount(&runtime, *port, "/cluster").unwrap());
        (servers.collect::<Vec<_>>(), ports, serving)
    };
    let same = |servers: &[Mounted], data: &Bytes| {
        let found: Vec<_> = servers
            .iter()
            .map(|server| {
                let found = block_on(server.nfs.lookup(&who(), &server.root, b"file")).unwrap();
                let file = found.done().unwrap().object;
                let read = block_on(server.nfs.read(&who(), &file, 0, 300_000)).unwrap();
                assert_eq!(read.done().unwrap().data, *data);
                file
            })
            .collect();
        assert_eq!(found[0], found[1]);
    };

    let (servers, ports, mut serving) = started();
    assert_ne!(ports[0], ports[1]);
    let data = Bytes::from(vec![7; 300_000]);
    block_on(put(&servers[1], b"file", &data));
    same(&servers, &data);
    assert!(serving.end(Signal::TERM).success());
    for port in ports {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "a process still serves");
    }
    // The data persists.
    let (servers, _, mut serving) = started();
    same(&servers, &data);
    assert!(serving.end(Signal::TERM).success());
}

/// A cluster whose metaserver cannot start ends, with the reason and without its iods.
#[test]
fn trial_ends_when_a_process_fails() {
    let home = Home::new();
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let folder = home.path("cluster");
    let words = ["cluster", "try", &folder, "--iods", "1", "--listen", &taken];
    let (code, _, complaint) = run(leasehold(&words));
    assert_eq!(code, 1, "{complaint}");
    assert!(complaint.contains("is taken by another program"), "{complaint}");
    assert!(complaint.contains("a process of the cluster has failed"), "{complaint}");
}

/// Returns the port of the next metaserver that reports its address.
fn served(serving: &Serving) -> u16 {
    loop {
        let line = serving.line();
        if line.starts_with("Serving ") {
            return line.rsplit(':').next().unwrap().parse().unwrap();
        }
    }
}
