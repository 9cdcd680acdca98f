//! Tests of the caching client under load, while the server crashes and the cable has faults.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_base::units::FileTime;
use leasehold_client::{Client, Options, Variant};
use leasehold_rig::{Cable, Cut, Faults, Load, Manners, MemServer};
use leasehold_session::nfs::Version;
use leasehold_shell::client::{Target, block_on};

use crate::support::{mounted, root, target};

/// The server and the cable of a load, from which the test creates clients.
struct World {
    server: MemServer,
    cable: Cable,
    calling: leasehold_session::Options,
    version: Version,
}

/// The conditions of a load.
#[derive(Clone, Copy)]
struct Bearing {
    variant: Variant,
    always_stable: bool,
    load: Load,
}

const LOAD: Load = Load { files: 4, steps: 150, bytes_max: 200_000, exclusive: true, seed: 0 };

const USUAL: Bearing = Bearing { variant: Variant::CloseToOpen, always_stable: false, load: LOAD };

impl World {
    fn new(manners: Manners, calling: leasehold_session::Options) -> Self {
        let server = MemServer::start(manners);
        let any = "127.0.0.1:0".parse().unwrap();
        let cable = Cable::lay(any, server.address(), Faults::default()).unwrap();
        let version = if manners == Manners::Version2Only { Version::V2 } else { Version::V3 };
        Self { server, cable, calling, version }
    }

    /// Creates a client with such a small cache that the cache is always full.
    fn client(&self, bearing: Bearing) -> Client {
        let version = Some(self.version);
        let mounted = mounted(&Target { version, ..target(self.cable.address(), self.calling) });
        let options = Options {
            variant: bearing.variant,
            always_stable: bearing.always_stable,
            bytes_max: 300_000,
            unsaved_bytes_max: 150_000,
            read_bytes_max: 16_384,
            write_bytes_max: 16_384,
            ahead_bytes: 65_536,
            write_delay: Duration::from_millis(5),
            calls_of_file_max: 4,
            calls_max: 8,
            ..Options::new(FileTime::default, 1)
        };
        let who = root();
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options);
        block_on(client).unwrap()
    }

    /// Runs a load while `trouble` causes numbered faults from time to time. Then the server
    /// crashes once more: data that was reported as durable must survive. Returns the number of
    /// bytes that the client wrote again.
    fn bear(&self, bearing: Bearing, trouble: impl Fn(&Self, u32) + Sync) -> u64 {
        let client = self.client(bearing);
        let is_over = AtomicBool::new(false);
        let (files, ledger) = std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0.. {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(4));
                    trouble(self, number);
                }
            });
            let _over = Over(&is_over);
            block_on(bearing.load.run(&client, &root())).unwrap()
        });
        assert_eq!(ledger.lost_bytes, 0, "{ledger:?}");
        self.cable.mend();
        self.cable.set_faults(Faults::default());
        self.server.store().crash();
        let past_the_cache = self.client(Bearing { variant: Variant::None, ..bearing });
        let ledger = block_on(files.compare(&past_the_cache, &root())).unwrap();
        assert_eq!(ledger.lost_bytes, 0, "{ledger:?}");
        self.server.store().check();
        client.counters().rewritten_bytes
    }
}

/// Ends the faults when it is dropped, even if a program panics because of a loss.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Crashes the server: it loses all unstable data and its connections.
fn crash(world: &World, _number: u32) {
    world.server.store().crash();
    world.cable.sever();
}

#[test]
fn a_server_that_crashes_again_and_again() {
    let stream = leasehold_session::Options::stream();
    for variant in [Variant::BufferCache, Variant::CloseToOpen] {
        let rewritten = World::new(Manners::Full, stream).bear(Bearing { variant, ..USUAL }, crash);
        assert_ne!(rewritten, 0, "a crash lost uncommitted data");
    }
    let stable = Bearing { always_stable: true, ..USUAL };
    assert_eq!(World::new(Manners::Full, stream).bear(stable, crash), 0);
    let past_the_cache = Bearing { variant: Variant::None, ..USUAL };
    assert_eq!(World::new(Manners::Full, stream).bear(past_the_cache, crash), 0);
    assert_eq!(World::new(Manners::Version2Only, stream).bear(USUAL, crash), 0);
}

#[test]
fn a_server_that_does_the_least_and_crashes() {
    let stream = leasehold_session::Options::stream();
    let load = Load { files: 2, steps: 60, bytes_max: 300, ..LOAD };
    World::new(Manners::Stingy, stream).bear(Bearing { load, ..USUAL }, crash);
}

#[test]
fn a_cable_that_is_cut() {
    let world = World::new(Manners::Full, leasehold_session::Options::stream());
    world.cable.set_faults(Faults { round_trip: Duration::from_millis(1), ..Faults::default() });
    let cuts = [Cut::ToServer, Cut::ToClients, Cut::Both];
    world.bear(USUAL, |world, number| {
        if number % 2 == 1 {
            world.cable.mend();
        } else if number % 16 == 0 {
            world.cable.sever();
        } else {
            world.cable.cut(cuts[number as usize / 2 % 3]);
        }
    });
}

#[test]
fn datagrams_are_lost_duplicated_and_reordered_while_the_server_crashes() {
    let world = World::new(Manners::Full, leasehold_session::Options::datagram());
    world.cable.set_faults(Faults {
        round_trip: Duration::from_millis(1),
        lost: 20,
        doubled: 100,
        reordered: 100,
    });
    let load = Load { steps: 60, ..LOAD };
    world.bear(Bearing { load, ..USUAL }, |world, _| world.server.store().crash());
}
