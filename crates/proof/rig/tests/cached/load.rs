//! Programs that know each byte they wrote, while the server crashes and the cable is bad.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_base::random::Random;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, Mode, NodeId, OpenHow, OpenId, Options, SetAttributes, Variant};
use leasehold_rig::{Cable, Cut, Faults, Manners, MemServer};
use leasehold_session::nfs::Version;
use leasehold_shell::client::{Target, block_on};

use crate::support::{mounted, root, target};

/// What a load runs over.
struct World {
    server: MemServer,
    cable: Cable,
    calling: leasehold_session::Options,
    version: Version,
}

/// What a load does.
#[derive(Clone, Copy)]
struct Load {
    variant: Variant,
    always_stable: bool,
    files: u64,
    steps: u32,
    /// No file is longer.
    bytes_max: usize,
}

impl Load {
    const USUAL: Self = Self {
        variant: Variant::CloseToOpen,
        always_stable: false,
        files: 4,
        steps: 150,
        bytes_max: 200_000,
    };
}

impl World {
    fn new(manners: Manners, calling: leasehold_session::Options) -> Self {
        let server = MemServer::start(manners);
        let any = "127.0.0.1:0".parse().unwrap();
        let cable = Cable::lay(any, server.address(), Faults::default()).unwrap();
        let version = if manners == Manners::Version2Only { Version::V2 } else { Version::V3 };
        Self { server, cable, calling, version }
    }

    /// A client with a cache so small that it is always full.
    fn client(&self, load: Load) -> Client {
        let version = Some(self.version);
        let mounted = mounted(&Target { version, ..target(self.cable.address(), self.calling) });
        let options = Options {
            variant: load.variant,
            always_stable: load.always_stable,
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

    /// Runs a load while `trouble` is made, from time to time, by its number. What was told to be
    /// saved must outlast one more crash. Says how many bytes were written again.
    fn bear(&self, load: Load, trouble: impl Fn(&Self, u32) + Sync) -> u64 {
        let client = self.client(load);
        let is_over = AtomicBool::new(false);
        let files = std::thread::scope(|scope| {
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
            let lives = (0..load.files).map(|number| life(&client, load, number));
            block_on(join_all(lives))
        });
        self.cable.mend();
        self.cable.set_faults(Faults::default());
        self.server.store().crash();
        let past_the_cache = Load { variant: Variant::None, ..load };
        let reader = self.client(past_the_cache);
        for (number, bytes) in files.iter().enumerate() {
            let read = block_on(whole(&reader, &name(number as u64), bytes.len()));
            assert!(read == bytes[..], "file {number} is as its program left it");
        }
        self.server.store().check();
        client.counters().rewritten_bytes
    }
}

/// Ends the trouble, also when a program finds that it lost something.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn name(number: u64) -> Vec<u8> {
    format!("file-{number}").into_bytes()
}

async fn whole(client: &Client, name: &[u8], length: usize) -> Bytes {
    let found = client.lookup(&root(), NodeId::ROOT, name).await.unwrap();
    let open = client.open(&root(), found.node, OpenHow::READ).await.unwrap();
    let more = u32::try_from(length).unwrap() + 1;
    let read = client.read(open, 0, more).await.unwrap().into_bytes();
    client.release(open);
    read
}

/// One program's file and what it is to hold.
struct Program<'a> {
    client: &'a Client,
    random: Random,
    node: NodeId,
    open: OpenId,
    bytes: Vec<u8>,
    load: Load,
}

/// Writes, reads, cuts, syncs and closes a file, and says what it holds at the end.
async fn life(client: &Client, load: Load, number: u64) -> Vec<u8> {
    let name = name(number);
    let (mode, how) = ((Mode::from_bits(0o600), true), OpenHow::READ_WRITE);
    let place = (NodeId::ROOT, &name[..]);
    let (found, open) = client.create(&root(), place, mode, how).await.unwrap();
    let random = Random::from_seed(number);
    let mut program = Program { client, random, node: found.node, open, bytes: vec![], load };
    for _ in 0..load.steps {
        program.step().await;
    }
    client.fsync(program.open).await.unwrap();
    client.release(program.open);
    program.bytes
}

impl Program<'_> {
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.next_u64() % end as u64).unwrap()
    }

    async fn step(&mut self) {
        match self.below(16) {
            0..=6 => self.write().await,
            7..=11 => self.read().await,
            12 => self.resize().await,
            13 => self.client.fsync(self.open).await.unwrap(),
            14 => {
                self.client.flush(self.open).await.unwrap();
                self.client.release(self.open);
                let how = OpenHow::READ_WRITE;
                self.open = self.client.open(&root(), self.node, how).await.unwrap();
            }
            _ => {
                let seen = self.client.getattr(&root(), self.node).await.unwrap();
                assert_eq!(seen.attributes.size, self.bytes.len() as u64);
            }
        }
    }

    async fn write(&mut self) {
        let most = self.load.bytes_max;
        let offset = self.below(most - 1);
        let length = 1 + self.below((most - offset).min(40_000));
        let first = self.random.next_u64();
        let data: Vec<u8> = (0..length as u64)
            .map(|at| (first.wrapping_add(at).wrapping_mul(0x9e37_79b9)).to_le_bytes()[2])
            .collect();
        let end = offset + length;
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[offset..end].copy_from_slice(&data);
        self.client.write(self.open, offset as u64, data.into()).await.unwrap();
    }

    async fn read(&mut self) {
        let offset = self.below(self.load.bytes_max);
        let length = 1 + self.below(60_000);
        let count = u32::try_from(length).unwrap();
        let read = self.client.read(self.open, offset as u64, count).await.unwrap().into_bytes();
        let all = &self.bytes;
        let due = &all[offset.min(all.len())..(offset + length).min(all.len())];
        assert!(read == due, "{} bytes from {offset}, not as {}", read.len(), due.len());
    }

    async fn resize(&mut self) {
        let size = self.below(self.load.bytes_max);
        let attributes = SetAttributes { size: Some(size as u64), ..SetAttributes::default() };
        let seen = self.client.setattr(&root(), self.node, &attributes).await.unwrap();
        assert_eq!(seen.attributes.size, size as u64);
        self.bytes.resize(size, 0);
    }
}

/// The server loses what it may, and its connections.
fn crash(world: &World, _number: u32) {
    world.server.store().crash();
    world.cable.sever();
}

#[test]
fn a_server_that_crashes_again_and_again() {
    let stream = leasehold_session::Options::stream();
    for variant in [Variant::BufferCache, Variant::CloseToOpen] {
        let rewritten =
            World::new(Manners::Full, stream).bear(Load { variant, ..Load::USUAL }, crash);
        assert_ne!(rewritten, 0, "a crash lost what was not committed");
    }
    let stable = Load { always_stable: true, ..Load::USUAL };
    assert_eq!(World::new(Manners::Full, stream).bear(stable, crash), 0);
    let past_the_cache = Load { variant: Variant::None, ..Load::USUAL };
    assert_eq!(World::new(Manners::Full, stream).bear(past_the_cache, crash), 0);
    assert_eq!(World::new(Manners::Version2Only, stream).bear(Load::USUAL, crash), 0);
}

#[test]
fn a_server_that_does_the_least_and_crashes() {
    let stream = leasehold_session::Options::stream();
    let load = Load { files: 2, steps: 60, bytes_max: 300, ..Load::USUAL };
    World::new(Manners::Stingy, stream).bear(load, crash);
}

#[test]
fn a_cable_that_is_cut() {
    let world = World::new(Manners::Full, leasehold_session::Options::stream());
    world.cable.set_faults(Faults { round_trip: Duration::from_millis(1), ..Faults::default() });
    let cuts = [Cut::ToServer, Cut::ToClients, Cut::Both];
    world.bear(Load::USUAL, |world, number| {
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
fn datagrams_that_are_lost_doubled_late_and_out_of_order_while_the_server_crashes() {
    let world = World::new(Manners::Full, leasehold_session::Options::datagram());
    world.cable.set_faults(Faults {
        round_trip: Duration::from_millis(1),
        lost: 20,
        doubled: 100,
        reordered: 100,
    });
    let load = Load { steps: 60, ..Load::USUAL };
    world.bear(load, |world, _| world.server.store().crash());
}
