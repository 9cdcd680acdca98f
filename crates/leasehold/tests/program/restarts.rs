//! A server that is repeatedly killed and restarted under the load of a caching client.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold_base::units::FileTime;
use leasehold_client::{Client, Credential, Options, Variant};
use leasehold_rig::{Ledger, Load};
use leasehold_shell::client::{Runtime, Target, block_on, mount};
use rustix::process::{Signal, getegid, geteuid};

use crate::support::{Home, Serving, leasehold, port};

/// The minimum number of kills; then the test continues until a kill hits uncommitted data, up to
/// the maximum.
const KILLS: u32 = 6;
const KILLS_MAX: u32 = 200;

fn serve(home: &Home, address: SocketAddr) -> Serving {
    let mut command = leasehold(&["serve", &home.path("data"), "--insecure", "--json"]);
    command.args(["--state", &home.path("state"), "--listen", &address.to_string()]);
    let serving = Serving::start(command);
    serving.line();
    serving
}

fn client(address: SocketAddr, home: &Home, who: &Credential, options: Options) -> Client {
    let runtime = Runtime::start().unwrap();
    let calling = leasehold_session::Options::stream();
    let path = home.path("data");
    let host = address.ip().to_string();
    let target =
        Target { port: Some(address.port()), ..Target::new(&host, path.as_bytes(), calling) };
    let mounted = block_on(mount(&runtime, &target, who)).unwrap();
    let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, who, options);
    block_on(client).unwrap()
}

#[test]
fn no_byte_is_lost_when_the_server_is_killed_and_restarted() {
    let home = Home::new();
    let address = SocketAddr::from(([127, 0, 0, 1], port()));
    let who = Credential::system("test", geteuid().as_raw(), getegid().as_raw(), &[]);
    let mut serving = serve(&home, address);
    let usual = Options::new(FileTime::default, 1);
    let caching = client(address, &home, &who, usual);

    let kills = AtomicU32::new(0);
    let rounds = std::thread::scope(|scope| {
        scope.spawn(|| {
            for kill in 1..=KILLS_MAX {
                if kill > KILLS && caching.counters().rewritten_bytes > 0 {
                    kills.store(KILLS_MAX, Ordering::Release);
                    break;
                }
                std::thread::sleep(Duration::from_millis(150));
                serving.end(Signal::KILL);
                serving = serve(&home, address);
                kills.store(kill, Ordering::Release);
            }
        });
        let mut rounds = Vec::new();
        while kills.load(Ordering::Acquire) < KILLS_MAX {
            let seed = rounds.len() as u64;
            let load = Load { files: 4, steps: 100, bytes_max: 4 << 20, exclusive: true, seed };
            rounds.push(block_on(load.run(&caching, &who)).unwrap());
        }
        rounds
    });
    assert_ne!(caching.counters().rewritten_bytes, 0, "uncommitted data is written again");

    let past_the_cache = Options { variant: Variant::None, ..usual };
    let reading = client(address, &home, &who, past_the_cache);
    let mut total = Ledger::default();
    for (files, ledger) in &rounds {
        total = total.plus(*ledger).plus(block_on(files.compare(&reading, &who)).unwrap());
    }
    assert_ne!(total.written_bytes, 0);
    assert_eq!(total.lost_bytes, 0, "{total:?}");
}
