//! Leases for clients of several metaservers: cached data of a client of one metaserver is written
//! back before a client of another reads the file, and data goes to the iods nevertheless. The iods
//! must distinguish users, so they need root.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, Error, Mode, OpenHow, Options, User, Variant};
use leasehold_session::nfs::messages::{Status, write};
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::{Signal, geteuid};

use crate::cluster::{iod, try_mount};
use crate::direct::{Reach, Silent, data, data_goes_to_the_iods};
use crate::support::{Home, Serving, leasehold, port, put, run, who};

const MODE: Mode = Mode::from_bits(0o644);

/// Two strict metaservers over two iods.
struct Cluster {
    home: Home,
    runtime: Runtime,
    ports: [u16; 2],
    iods: Vec<(Serving, u16)>,
    metaservers: Vec<Serving>,
}

impl Cluster {
    /// Starts a cluster; `None` if iods cannot distinguish users.
    fn start() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let home = Home::new();
        let iods: Vec<_> = ["one", "two"].map(|name| iod(&home, name, "key", 0)).into();
        let ports = [port(), port()];
        let runtime = Runtime::start().unwrap();
        let mut cluster = Self { home, runtime, ports, iods, metaservers: Vec::new() };
        for number in 0..2 {
            let names = cluster.home.path(&format!("names{number}"));
            std::fs::create_dir(&names).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(&names, open).unwrap();
            let serving = cluster.serve(number);
            cluster.metaservers.push(serving);
        }
        Some(cluster)
    }

    /// Starts a metaserver on its existing state.
    fn serve(&self, number: usize) -> Serving {
        let names = self.home.path(&format!("names{number}"));
        let listen = format!("127.0.0.1:{}", self.ports[number]);
        let mut command = leasehold(&["meta", &names, "--listen", &listen, "--json"]);
        command.args(["--state", &self.state(number)]);
        command.args(["--cluster-key", &self.home.path("key"), "--name", "cluster", "--strict"]);
        command.args(["--number", &number.to_string(), "--stripe-unit", "4"]);
        for port in self.ports {
            command.args(["--peer", &format!("127.0.0.1:{port}")]);
        }
        for (_, port) in &self.iods {
            command.args(["--iod", &format!("127.0.0.1:{port}")]);
        }
        let serving = Serving::start(command);
        serving.line();
        serving
    }

    fn state(&self, number: usize) -> String {
        self.home.path(&format!("state{number}"))
    }

    fn mount(&self, at: usize) -> Mounted {
        try_mount(&self.runtime, self.ports[at], "/cluster").unwrap()
    }

    fn leased(&self, at: usize, number: u8) -> Mounted {
        let mounted = self.mount(at);
        let nfs = block_on(mounted.nfs.with_leases(&who(), [number; 16], b"client")).unwrap();
        let leases = nfs.leases().expect("leases are granted");
        assert!(leases.leases_names());
        Mounted { nfs, ..mounted }
    }

    /// Connects a client to a metaserver.
    fn user(&self, at: usize, number: u8) -> User {
        let mounted = self.leased(at, number);
        let nfs = mounted.nfs;
        let options = Options::new(FileTime::default, number.into());
        let options = Options { variant: Variant::Lease, ..options };
        let who = who();
        let client = block_on(Client::new(nfs, mounted.root, mounted.bounds, &who, options));
        let client = client.unwrap();
        client.reach_by(Arc::new(Reach(self.runtime.clone())));
        client.user(who)
    }

    /// Returns the bytes of calls and replies at both metaservers.
    fn bytes(&self) -> u64 {
        let bytes_at = |at: usize| {
            let (_, text, _) = run(leasehold(&["status", "--json", "--state", &self.state(at)]));
            let told: serde_json::Value = serde_json::from_str(&text).unwrap();
            let bytes = |way: &str| told["total"][way].as_u64().unwrap();
            bytes("bytes_in") + bytes("bytes_out")
        };
        bytes_at(0) + bytes_at(1)
    }
}

/// A client of the other metaserver reads data that a client has written and not saved; then in the
/// opposite direction. The home of the file is the first metaserver each time.
#[test]
fn client_of_another_metaserver_sees_cached_writes() {
    let Some(cluster) = Cluster::start() else { return };
    let (one, other) = (cluster.user(0, 1), cluster.user(1, 2));
    let whole = data(256 << 10);
    block_on(async {
        for round in 0..3_u64 {
            let name = format!("file{round}");
            let file = one.create(name.as_bytes(), MODE, false).await.unwrap();
            file.write_at(0, whole.clone()).await.unwrap();
            let seen = other.read(name.as_bytes()).await.unwrap();
            assert!(seen == whole, "round {round}: cached data is not visible");
            let there = other.open(name.as_bytes(), OpenHow::READ_WRITE).await.unwrap();
            there.write_at(1000, whole.slice(..4000)).await.unwrap();
            let seen = one.read(name.as_bytes()).await.unwrap();
            assert!(
                seen[1000..5000] == whole[..4000],
                "round {round}: cached data is not visible in the opposite direction"
            );
            there.close().await.unwrap();
            file.close().await.unwrap();
        }
    });
    // A plain client of either metaserver reads it, and both clients see its writes.
    let plain = cluster.mount(1);
    let found = block_on(plain.nfs.lookup(&who(), &plain.root, b"file0")).unwrap().done().unwrap();
    let what = (Bytes::from_static(b"plain"), write::Stability::FileSync);
    let done = block_on(plain.nfs.write(&who(), &found.object, 7, what)).unwrap().done();
    assert_eq!(done.unwrap().count, 5);
    for user in [one, other] {
        assert_eq!(&block_on(user.read(b"file0")).unwrap()[7..12], b"plain");
    }
}

/// A client of the other metaserver that has looked a name up before sees its creation, rename and
/// removal. Lookups of unchanged names need no call.
#[test]
fn client_of_another_metaserver_sees_name_changes() {
    let Some(cluster) = Cluster::start() else { return };
    let (one, other) = (cluster.user(0, 1), cluster.user(1, 2));
    block_on(one.create_directory(b"here", MODE)).unwrap();
    block_on(other.create_directory(b"there", MODE)).unwrap();
    let is_there = |user: &User, path: &str| match block_on(user.attributes(path.as_bytes())) {
        Ok(_) => true,
        Err(Error::Failed(Status::NotFound)) => false,
        Err(error) => panic!("{path}: {error}"),
    };
    let mut rounds = 0;
    for (maker, watcher) in [(&one, &other), (&other, &one)] {
        for directory in ["here", "there"] {
            rounds += 1;
            let [from, to] = ["file", "other"].map(|name| format!("{directory}/{name}{rounds}"));
            let seen = |user: &User| [&from, &to].map(|path| is_there(user, path));
            assert_eq!((seen(watcher), seen(maker)), ([false; 2], [false; 2]));
            block_on(maker.write(from.as_bytes(), MODE, Bytes::from_static(b"data"))).unwrap();
            assert_eq!((seen(watcher), seen(maker)), ([true, false], [true, false]), "made");
            // The client that did not create the name renames it.
            block_on(watcher.rename(from.as_bytes(), to.as_bytes())).unwrap();
            assert_eq!((seen(maker), seen(watcher)), ([false, true], [false, true]), "renamed");
            block_on(maker.remove(to.as_bytes())).unwrap();
            assert_eq!((seen(watcher), seen(maker)), ([false; 2], [false; 2]), "removed");
        }
    }
    block_on(one.write(b"here/kept", MODE, Bytes::from_static(b"data"))).unwrap();
    let seen = || ["here/kept", "here/none"].map(|path| is_there(&other, path));
    assert_eq!(seen(), [true, false]);
    let bytes = cluster.bytes();
    for _ in 0..100 {
        assert_eq!(seen(), [true, false]);
    }
    let cost = cluster.bytes() - bytes;
    assert!(cost < 2000, "{cost} bytes for known names");
}

/// Two clients of two metaservers create and remove names in one directory at full speed: each sees
/// the other's changes, and neither waits long.
#[test]
fn two_metaservers_change_names_in_one_directory() {
    let Some(cluster) = Cluster::start() else { return };
    let users = [cluster.user(0, 1), cluster.user(1, 2)];
    block_on(users[0].create_directory(b"shared", MODE)).unwrap();
    let longest = std::thread::scope(|scope| {
        let works = [0, 1].map(|number| {
            let user = &users[number];
            scope.spawn(move || {
                let mut longest = Duration::ZERO;
                for round in 0..40 {
                    let path = format!("shared/{number}-{round}");
                    let begun = Instant::now();
                    block_on(user.write(path.as_bytes(), MODE, Bytes::from_static(b"x"))).unwrap();
                    if round % 2 == 0 {
                        block_on(user.remove(path.as_bytes())).unwrap();
                    }
                    longest = longest.max(begun.elapsed());
                }
                longest
            })
        });
        works.map(|work| work.join().unwrap())
    });
    for user in &users {
        assert_eq!(block_on(user.list(b"shared", false)).unwrap().len(), 40);
    }
    let term = Duration::from_secs(30);
    assert!(longest.iter().all(|longest| *longest < term), "a lease is waited out: {longest:?}");
}

/// Only names, sizes and leases pass the metaservers.
#[test]
fn data_goes_to_the_iods_with_several_metaservers() {
    let Some(cluster) = Cluster::start() else { return };
    let (one, other) = (cluster.user(0, 1), cluster.user(1, 2));
    data_goes_to_the_iods(&one, &other, || cluster.bytes());
}

/// A client's layout does not survive a restart of its metaserver, even if the next client only
/// reads and has looked the file up before: it looks the file up again, which fences the forgotten
/// client.
#[test]
fn forgotten_client_is_fenced_before_another_metaserver_reads() {
    let Some(mut cluster) = Cluster::start() else { return };
    let (whole, reader) = (data(60_000), cluster.mount(0));
    let file = block_on(put(&reader, b"file", &whole));
    let size = || {
        let found = block_on(reader.nfs.getattr(&who(), &file)).unwrap().done().unwrap();
        found.attributes.size
    };
    let read = || block_on(reader.nfs.read(&who(), &file, 0, 60_000)).unwrap().done().unwrap().data;
    assert!(read() == whole);
    let silent = Silent::at(cluster.leased(1, 9), file);
    let objects = &silent.layout.objects.0;
    assert_eq!(objects.len(), 2);
    silent.write_by(&cluster.runtime, &objects[0], b"in time").unwrap();
    cluster.metaservers[1].end(Signal::KILL);
    cluster.metaservers[1] = cluster.serve(1);
    // No other client holds earlier leases.
    let forget = leasehold(&["forget", "0909", "--state", &cluster.state(1)]);
    let (code, _, error) = run(forget);
    assert_eq!(code, 0, "{error}");
    assert_eq!(size(), 60_000);
    assert!(read().starts_with(b"in time"));
    for object in objects {
        let refused = silent.write_by(&cluster.runtime, object, b"too late");
        assert_eq!(refused, Err(Status::Access));
    }
    assert!(read().starts_with(b"in time"));
}
