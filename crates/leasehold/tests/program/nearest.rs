//! `meta` with `--search nearest`: a distant metaserver is queried last.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_session::Options;
use leasehold_session::nfs::messages::{SetAttributes, create};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};
use serde_json::Value;

use crate::cluster::iod;
use crate::support::{Home, Serving, TIMEOUT, leasehold, port, who};

/// The additional delay to the distant metaserver, below the timeout of calls between metaservers.
const FAR: Duration = Duration::from_millis(500);

/// Starts one of several metaservers over an iod, and returns its ready message.
pub(crate) fn metaserver(
    home: &Home,
    (number, listen): (usize, u16),
    (peers, iod): (&[u16], u16),
    more: &[&str],
) -> (Serving, Value) {
    let names = home.path(&format!("names{number}"));
    fs::create_dir(&names).unwrap();
    fs::set_permissions(&names, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = leasehold(&["meta", &names, "--json", "--name", "files"]);
    command.args(["--listen", &format!("127.0.0.1:{listen}")]);
    command.args(["--state", &home.path(&format!("state{number}"))]);
    command.args(["--cluster-key", &home.path("key"), "--iod", &format!("127.0.0.1:{iod}")]);
    command.args(["--number", &number.to_string()]).args(more);
    for port in peers {
        command.args(["--peer", &format!("127.0.0.1:{port}")]);
    }
    let serving = Serving::start(command);
    let ready = serde_json::from_str(&serving.line()).unwrap();
    (serving, ready)
}

/// Returns a port that forwards all data to another port, with a delay. Its threads end with the
/// test.
fn far_way(to: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            // If the target does not listen yet, the connection closes, as without forwarding.
            let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
            let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            carry(near, far, FAR);
            carry(back, forth, Duration::ZERO);
        }
    });
    port
}

/// Forwards all data, each part with the delay.
fn carry(mut from: TcpStream, mut to: TcpStream, late: Duration) {
    let (sender, parts) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut part = vec![0; 65_536];
        while let Ok(length @ 1..) = from.read(&mut part) {
            if sender.send((Instant::now() + late, part[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, part) in parts {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if to.write_all(&part).is_err() {
                break;
            }
        }
        // The connection may be closed already.
        let _ = to.shutdown(Shutdown::Both);
    });
}

/// By number the distant metaserver precedes the one that has the name. No option describes
/// distances.
#[test]
fn distant_metaserver_is_queried_last() {
    let home = Home::new();
    let (_iod, iod) = iod(&home, "one", "key", 0);
    let listen: [u16; 4] = std::array::from_fn(|_| port());
    let mut peers = listen;
    peers[2] = far_way(listen[2]);
    let metaservers: Vec<_> = (0..)
        .zip(listen)
        .map(|at| metaserver(&home, at, (&peers, iod), &["--search", "nearest"]))
        .collect();
    let runtime = Runtime::start().unwrap();
    let mounted = |number: usize| -> Mounted {
        let options = Options::stream().impatient(TIMEOUT);
        let port = Some(listen[number]);
        let target = Target { port, ..Target::new("127.0.0.1", b"/files", options) };
        block_on(mount(&runtime, &target, &who())).unwrap()
    };
    let (maker, seeker) = (mounted(3), mounted(1));
    let end = Instant::now() + TIMEOUT;
    // The searches themselves reveal the distances; a random delay affects only one search.
    for number in 0.. {
        assert!(Instant::now() < end, "the distant metaserver is queried first");
        let name = format!("file{number}");
        let how = create::How::Guarded(SetAttributes::default());
        let made = block_on(maker.nfs.create(&who(), &maker.root, name.as_bytes(), how));
        if made.unwrap().done().is_err() {
            // The metaserver still waits for the others.
            continue;
        }
        let begun = Instant::now();
        let found = block_on(seeker.nfs.lookup(&who(), &seeker.root, name.as_bytes())).unwrap();
        if found.done().is_ok() && begun.elapsed() < FAR {
            break;
        }
    }
    drop(metaservers);
}
