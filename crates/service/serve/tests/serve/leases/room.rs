//! Disk space that leases reserve, and the shares of clients.

use super::*;

impl World {
    /// Returns a world on a disk of the given capacity.
    fn with_room(capacity_bytes: u64) -> Self {
        Self::over(Server::over(Config { capacity_bytes, ..Config::default() }))
    }

    /// Returns a request for a write lease with all bytes of the disk.
    fn asking_for_the_disk(&self, client: u32, object: Handle) -> leases::Args {
        let mut args = self.asking(client, object, Kind::Write);
        args.wanted.0.iter_mut().for_each(|wanted| wanted.terms.space = u64::MAX);
        args
    }
}

/// A request for a lease with the space of the whole disk gets only a share of the disk. All
/// clients of one address have one share, and clients of another address have another share.
#[test]
fn a_lease_for_the_whole_disk_leaves_room_for_others() {
    let mut world = World::with_room(8 << 20);
    let other = world.file(b"other");
    let mut reserved = [0; 3];
    for (client, reserved) in [1, 2, 3].into_iter().zip(&mut reserved) {
        let address = if client == 3 { "192.0.2.3:700" } else { "192.0.2.1:700" };
        world.server.arrival.from = address.parse().expect("an address");
        world.hello(client);
        for number in 0..6 {
            let file = world.file(format!("{client}-{number}").as_bytes());
            let mut args = world.asking_for_the_disk(client, file);
            args.wanted.0.iter_mut().for_each(|wanted| wanted.terms.opportune = true);
            let grant = grant_of(world.lease(client, leases::NUMBER, &args));
            assert!(grant.cachable && grant.space <= 1 << 20, "an eighth: {grant:?}");
            *reserved += grant.space;
        }
    }
    let by_address = [reserved[0] + reserved[1], reserved[2]];
    assert!(by_address.iter().all(|bytes| (1 << 20..=2 << 20).contains(bytes)), "{reserved:?}");
    let data: &[u8] = Box::leak(vec![1; 1 << 20].into_boxed_slice());
    for number in 0..3 {
        let mut write = world.nfs(write::NUMBER, &written(other, number << 20, data));
        assert!(write.results::<write::Reply>().done().is_ok(), "there is no wait");
    }
}

/// If a client has used its whole share, the server recalls leases of this client to make space,
/// and other clients keep their leases.
#[test]
fn a_client_with_its_whole_share_gives_back_its_own_leases() {
    let mut world = World::with_room(8 << 20);
    let files = [b"a", b"b", b"c", b"d"].map(|name| world.file(name));
    let mut held: Vec<(u32, Handle, u64)> = Vec::new();
    for (client, file) in [2, 1, 1].into_iter().zip(files) {
        let address = if client == 2 { "192.0.2.2:700" } else { "192.0.2.1:700" };
        world.server.arrival.from = address.parse().expect("an address");
        world.hello(client);
        let args = world.asking_for_the_disk(client, file);
        let grant = grant_of(world.lease(client, leases::NUMBER, &args));
        assert!(grant.space > 0, "{grant:?}");
        held.push((client, file, grant.serial));
    }
    let args = world.asking_for_the_disk(1, files[3]);
    let mut asked = world.send(1, (lease::PROGRAM, lease::VERSION, leases::NUMBER), &args);
    assert_eq!(asked.poll(), None, "it waits for its own leases");
    assert_eq!(world.evictions(2).len(), 0);
    for (client, file, serial) in held.into_iter().filter(|(client, ..)| *client == 1) {
        world.give_back(client, file, serial);
    }
    assert!(grant_of(asked.results()).space > 0);
}

/// The server does not report a full disk while reserved bytes may become free.
#[test]
fn writer_without_space_retries_while_a_holder_keeps_it() {
    let mut world = World::with_room(1 << 20);
    let (kept, other) = (world.file(b"kept"), world.file(b"other"));
    world.hello(1);
    let args = world.asking_for_the_disk(1, kept);
    let all = grant_of(world.lease(1, leases::NUMBER, &args));
    assert!(all.space > 0);
    // A writer without a lease uses all bytes of the disk except the reserved bytes.
    let piece: &[u8] = &[1; 4096];
    let mut end = 0;
    let mut first = loop {
        let mut write = world.nfs(write::NUMBER, &written(other, end, piece));
        if write.poll().is_none() {
            break write;
        }
        end += 4096;
    };
    assert!(end >= (1 << 20) / 2, "the writer without a lease has half of the disk: {end}");
    assert_eq!(world.evictions(1).len(), 1);
    // A second WRITE without space does not recall the lease a second time.
    let mut second = world.nfs(write::NUMBER, &written(other, end, piece));
    assert_eq!(second.poll(), None);
    world.pass(Duration::from_secs(2));
    for waiting in [&mut first, &mut second] {
        let Reply::Failed(status, _) = waiting.results::<write::Reply>() else {
            panic!("it failed")
        };
        assert_eq!(status, Status::Jukebox);
    }
    world.give_back(1, kept, all.serial);
    let mut again = world.nfs(write::NUMBER, &written(other, end, piece));
    assert!(again.results::<write::Reply>().done().is_ok());
}
