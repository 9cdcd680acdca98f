//! Tests of a session over faulty links: each call ends exactly once, with its own reply.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_rig::{Cable, Cut, Faults, Manners, MemServer};
use leasehold_session::{Error, Options};
use leasehold_shell::client::{Mounted, block_on};
use leasehold_wire::nfs3::create::How;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{Handle, SetAttributes};

use crate::support::{TIMEOUT, mounted, root, target};

/// A server, a cable to the server, and a mount over the cable.
struct World {
    mounted: Mounted,
    cable: Cable,
    _server: MemServer,
}

impl World {
    fn new(options: Options) -> Self {
        let server = MemServer::start(Manners::Full);
        let any = "127.0.0.1:0".parse().unwrap();
        let cable = Cable::lay(any, server.address(), Faults::default()).unwrap();
        let mounted = mounted(&target(cable.address(), options));
        Self { mounted, cable, _server: server }
    }

    /// Creates a new file, writes and reads the file, and removes it. Each call must take effect
    /// once or fail.
    async fn life_of_a_file(&self, number: u64) -> Result<(), Error> {
        let (nfs, who, top) = (&self.mounted.nfs, &root(), &self.mounted.root);
        let name = format!("file-{number}");
        let how = How::Guarded(SetAttributes::default());
        let file = nfs.create(who, top, name.as_bytes(), how).await?.done()?;
        let file: Handle = file.object.unwrap();
        let data: Bytes = (number..number + 5000).map(|at| at.to_le_bytes()[0]).collect();
        let stable = (data.clone(), Stability::FileSync);
        assert_eq!(nfs.write(who, &file, 0, stable).await?.done()?.count, 5000);
        assert!(nfs.read(who, &file, 0, 8192).await?.done()?.data == data);
        nfs.remove(who, top, name.as_bytes()).await?.done()?;
        Ok(())
    }

    fn lives_of_files(&self, count: u64) {
        let lives = (0..count).map(|number| self.life_of_a_file(number));
        let ends = block_on(futures_util::future::join_all(lives));
        assert_eq!(ends, vec![Ok(()); usize::try_from(count).unwrap()]);
    }

    /// Waits until the world satisfies a condition.
    fn wait_until(&self, what: impl Fn(&Self) -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !what(self) {
            assert!(Instant::now() < end, "the cable does not reach the state");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Polls the future of a call once, so that the session sends the call.
fn send(call: core::pin::Pin<&mut impl Future>) {
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[test]
fn datagrams_may_be_lost_duplicated_and_reordered() {
    let world = World::new(Options::datagram());
    world.cable.set_faults(Faults {
        round_trip: Duration::from_millis(2),
        lost: 50,
        doubled: 100,
        reordered: 200,
    });
    world.lives_of_files(60);
    let (carried, called) = (world.cable.counters(), world.mounted.nfs.session().counters());
    assert!(carried.lost > 0 && carried.doubled > 0, "{carried:?}");
    assert!(called.sent_again > 0 && called.late > 0, "{called:?}");
    assert_eq!(called.replies, called.calls);
}

#[test]
fn unanswered_calls_are_sent_again_on_a_new_connection() {
    for connections in [1, 3] {
        let world = World::new(Options { connections, ..Options::stream() });
        let delay = Faults { round_trip: Duration::from_millis(4), ..Faults::default() };
        world.cable.set_faults(delay);
        std::thread::scope(|scope| {
            let lives = scope.spawn(|| world.lives_of_files(300));
            for _ in 0..4 {
                let before = world.cable.counters().bytes;
                world.wait_until(|world| {
                    world.cable.counters().bytes > before + 20_000 || lives.is_finished()
                });
                world.cable.sever();
            }
        });
        let called = world.mounted.nfs.session().counters();
        assert_eq!(called.replies, called.calls, "{called:?}");
        assert!(called.connections > connections as u64, "{called:?}");
    }
}

#[test]
fn a_hard_call_outlasts_a_cut_and_a_soft_one_does_not() {
    for options in [Options::stream(), Options::datagram()] {
        let hard = World::new(options);
        hard.cable.cut(Cut::ToServer);
        std::thread::scope(|scope| {
            let lives = scope.spawn(|| hard.lives_of_files(10));
            hard.wait_until(|world| world.mounted.nfs.session().open_calls() == 10);
            assert!(!lives.is_finished());
            hard.cable.mend();
        });

        let soft = World::new(Options { soft: Some(Duration::from_secs(3)), ..options });
        // With only one direction cut, the server receives the calls, and its replies are lost.
        soft.cable.cut(Cut::ToClients);
        let (nfs, who) = (&soft.mounted.nfs, &root());
        let ended = block_on(nfs.getattr(who, &soft.mounted.root));
        assert_eq!(ended.map(|_| ()), Err(Error::TimedOut));
        assert_eq!(nfs.session().open_calls(), 0);
    }
}

#[test]
fn a_silent_connection_is_given_up() {
    let patience = Duration::from_millis(100);
    let world = World::new(Options { patience, ..Options::stream() });
    let (nfs, who) = (&world.mounted.nfs, &root());
    block_on(nfs.getattr(who, &world.mounted.root)).unwrap().done().unwrap();
    // On a slow machine a reply may have taken so long that the session has already reconnected, so
    // count from the current number.
    let before = nfs.session().counters().connections;
    world.cable.cut(Cut::Both);
    std::thread::scope(|scope| {
        // On a slow machine the reply may take longer than the timeout, so this call may run twice;
        // it has no effect.
        let call = scope.spawn(|| block_on(nfs.getattr(who, &world.mounted.root)).map(|_| ()));
        world.wait_until(|world| world.mounted.nfs.session().counters().connections > before);
        assert!(!call.is_finished());
        world.cable.mend();
        assert_eq!(call.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_dropped_call_frees_its_slot_and_its_reply_is_dropped() {
    for options in [Options::stream(), Options::datagram()] {
        let world = World::new(Options { in_flight_max: 1, ..options });
        let (nfs, who, top) = (&world.mounted.nfs, &root(), &world.mounted.root);
        block_on(nfs.getattr(who, top)).unwrap().done().unwrap();
        let session = nfs.session();
        world.cable.cut(Cut::ToClients);
        {
            let mut dropped = pin!(nfs.getattr(who, top));
            send(dropped.as_mut());
            let mut waits = pin!(nfs.getattr(who, top));
            send(waits.as_mut());
            assert_eq!(session.open_calls(), 2);
        }
        assert_eq!((session.open_calls(), session.counters().forgotten), (0, 2));
        world.cable.mend();
        block_on(nfs.getattr(who, top)).unwrap().done().unwrap();
        if options == Options::stream() {
            // The stream delivers the delayed reply first, and the session must count it as late.
            assert_eq!(session.counters().late, 1);
        }
    }
}

#[test]
fn closing_ends_waiting_calls() {
    let world = World::new(Options::stream());
    let (nfs, who) = (&world.mounted.nfs, &root());
    world.cable.cut(Cut::Both);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| block_on(nfs.getattr(who, &world.mounted.root)).map(|_| ()));
        world.wait_until(|world| world.mounted.nfs.session().open_calls() == 1);
        nfs.session().close();
        assert_eq!(call.join().unwrap(), Err(Error::Closed));
    });
    let after = block_on(nfs.getattr(who, &world.mounted.root));
    assert_eq!(after.map(|_| ()), Err(Error::Closed));
}
