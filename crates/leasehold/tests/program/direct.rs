//! Clients that read and write at the iods themselves: `spec/lease.x`, rules 23 to 26. The iods
//! must distinguish users, so they need root.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, Mode, OpenHow, Options, Servers, User, Variant};
use leasehold_session::leases::Rider;
use leasehold_session::leases::messages::layout::Object;
use leasehold_session::leases::messages::leases::{Progress, Wanted};
use leasehold_session::leases::messages::objects::Layout;
use leasehold_session::leases::messages::{Base, Grant, Kind, Terms};
use leasehold_session::nfs::messages::{Handle, Status, write};
use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Options as Calling};
use leasehold_shell::client::{Mounted, Runtime, SourcePort, block_on};
use rustix::process::{Signal, geteuid};

use crate::cluster::{iod, iod_command, meta, started, try_mount};
use crate::over::{go_on, stop};
use crate::support::{Home, Serving, TIMEOUT, address, leasehold, port, put, run, who};

const MODE: Mode = Mode::from_bits(0o644);

/// An ordinary user.
const USER: u32 = 1000;

/// A running iod with its port, and its address for a metaserver.
type Iod = ((Serving, u16), String);

/// A metaserver over three iods.
pub(crate) struct Cluster {
    pub(crate) home: Home,
    pub(crate) runtime: Runtime,
    pub(crate) iods: Vec<(Serving, u16)>,
    serving: Serving,
    port: u16,
}

/// Connects to iods as the mount does.
pub(crate) struct Reach(pub(crate) Runtime);

impl Reach {
    fn nfs(&self, address: SocketAddr, patience: Duration) -> Nfs {
        let options = Calling::stream().impatient(patience);
        let session = self.0.session(address, options, SourcePort::default());
        Nfs::new(session.unwrap(), Version::V3)
    }
}

impl Servers for Reach {
    fn at(&self, address: SocketAddr) -> Option<Nfs> {
        Some(self.nfs(address, Duration::from_secs(5)))
    }
}

impl Cluster {
    /// Starts a cluster; `None` if iods cannot distinguish users.
    pub(crate) fn start(more: &[&str]) -> Option<Self> {
        Self::start_with(|home| of_cluster(iod(home, "three", "key", 0)), more)
    }

    /// Starts a cluster with another third iod.
    fn start_with(third: impl FnOnce(&Home) -> Iod, more: &[&str]) -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let home = Home::new();
        let mut iods: Vec<_> = ["one", "two"].map(|name| iod(&home, name, "key", 0)).into();
        let ports: Vec<u16> = iods.iter().map(|(_, port)| *port).collect();
        let (third, at) = third(&home);
        iods.push(third);
        let mut command = meta(&home, &ports, more);
        command.args(["--iod", &at]);
        let serving = Serving::start(command);
        let port = address(&serde_json::from_str(&serving.line()).unwrap()).port();
        Some(Self { home, runtime: Runtime::start().unwrap(), iods, serving, port })
    }

    pub(crate) fn mount(&self) -> Mounted {
        try_mount(&self.runtime, self.port, "/data").unwrap()
    }

    pub(crate) fn leased(&self, number: u8) -> Mounted {
        let mounted = self.mount();
        let nfs = block_on(mounted.nfs.with_leases(&who(), [number; 16], b"client")).unwrap();
        assert!(nfs.leases().is_some());
        Mounted { nfs, ..mounted }
    }

    fn user(&self, number: u8) -> User {
        self.client(number).user(who())
    }

    fn client(&self, number: u8) -> Client {
        let mounted = self.leased(number);
        let options = Options::new(FileTime::default, number.into());
        let options = Options { variant: Variant::Lease, ..options };
        let who = who();
        let client = Client::new(mounted.nfs, mounted.root, mounted.bounds, &who, options);
        let client = block_on(client).unwrap();
        client.reach_by(Arc::new(Reach(self.runtime.clone())));
        client
    }

    /// Returns the bytes of calls and replies at the metaserver.
    fn bytes(&self) -> u64 {
        let (_, text, _) =
            run(leasehold(&["status", "--json", "--state", &self.home.path("state")]));
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        let bytes = |way: &str| told["total"][way].as_u64().unwrap();
        bytes("bytes_in") + bytes("bytes_out")
    }
}

fn of_cluster(iod: (Serving, u16)) -> Iod {
    let at = format!("127.0.0.1:{}", iod.1);
    (iod, at)
}

/// Starts an iod as an ordinary user, which cannot change the owner of objects.
fn iod_of_user(home: &Home) -> Iod {
    fs::set_permissions(home.0.path(), Permissions::from_mode(0o755)).unwrap();
    let (program, own) = (home.path("program"), Some(USER));
    fs::copy(env!("CARGO_BIN_EXE_leasehold"), &program).unwrap();
    fs::copy(home.path("key"), home.path("key-user")).unwrap();
    fs::create_dir(home.path("state-user")).unwrap();
    let command = iod_command(home, "user", "key-user", port());
    for name in ["key-user", "state-user", "user"] {
        chown(home.path(name), own, own).unwrap();
    }
    let mut by_user = Command::new(program);
    by_user.args(command.get_args()).uid(USER).gid(USER);
    of_cluster(started(by_user))
}

/// Starts a server that accepts every client as root: it changes owners, and lets all clients
/// write.
fn iod_without_users(home: &Home) -> Iod {
    fs::create_dir(home.path("all")).unwrap();
    let text = format!(
        "[server]\nlisten = ['127.0.0.1:0']\nstate = '{}'\n[[export]]\ndirectory = '{}'\n\
         [[export.client]]\nfrom = ['127.0.0.0/8']\nsquash = 'all'\nanonuid = 0\nanongid = 0\n",
        home.path("state-all"),
        home.path("all"),
    );
    fs::write(home.path("all.toml"), text).unwrap();
    let config = home.path("all.toml");
    let serving = Serving::start(leasehold(&["serve", "--json", "--config", &config]));
    let port = address(&serde_json::from_str(&serving.line()).unwrap()).port();
    ((serving, port), format!("nfs://127.0.0.1:{port}/all"))
}

pub(crate) fn data(length: u32) -> Bytes {
    (0..length / 4).flat_map(u32::to_be_bytes).collect()
}

/// Writes and reads with two clients; `bytes` returns the traffic at the metaservers. Returns the
/// content of `file`.
pub(crate) fn data_goes_to_the_iods(one: &User, other: &User, bytes: impl Fn() -> u64) -> Bytes {
    let whole = data(8 << 20);
    block_on(async {
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, whole.slice(..1 << 20)).await.unwrap();
        let before = bytes();
        file.write_at(1 << 20, whole.slice(1 << 20..)).await.unwrap();
        file.sync().await.unwrap();
        let written = bytes() - before;
        assert!(written < 100_000, "{written} bytes passed the metaservers to write");
        file.close().await.unwrap();

        let before = bytes();
        let read = other.read(b"file").await.unwrap();
        assert!(read == whole, "it differs from the written data");
        let read = bytes() - before;
        assert!(read < 100_000, "{read} bytes passed the metaservers to read");
    });
    whole
}

/// One iod does not reply for a while: clients then read its data through the metaserver, and all
/// other data at the iods.
#[test]
fn only_a_late_iod_is_bypassed() {
    let Some(cluster) = Cluster::start(&["--stripe-unit", "1024"]) else { return };
    let (one, other) = (cluster.user(1), cluster.user(2));
    let (mib, whole) = (1_usize << 20, data(60 << 20));
    block_on(async {
        one.write(b"file", MODE, whole.clone()).await.unwrap();
        let file = other.open(b"file", OpenHow::READ).await.unwrap();
        let first = file.read_at(0, 1 << 20).await.unwrap().into_bytes();
        assert!(first == whole[..mib], "it differs from the written data");
        let before = cluster.bytes();
        let late = &cluster.iods[1].0;
        stop(late);
        let read = async {
            for start in (mib..whole.len()).step_by(mib) {
                let read = file.read_at(start as u64, 1 << 20).await.unwrap().into_bytes();
                assert!(read == whole[start..start + mib], "at {start}");
            }
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| block_on(read));
            // Longer than a client's timeout for an iod.
            std::thread::sleep(Duration::from_secs(6));
            go_on(late);
            reader.join().unwrap();
        });
        let by_metaserver = usize::try_from(cluster.bytes() - before).unwrap();
        let there = whole.len() / 3;
        assert!(by_metaserver > there / 2, "{by_metaserver} bytes of {there} on the iod");
        assert!(by_metaserver < there * 3 / 2, "{by_metaserver} bytes of {there} on the iod");
    });
}

/// Only names, sizes and leases pass the metaserver, and all clients see the same data.
#[test]
fn data_goes_only_to_the_iods() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let (one, other) = (cluster.user(1), cluster.user(2));
    let whole = data_goes_to_the_iods(&one, &other, || cluster.bytes());
    // A plain client reads it from the metaserver.
    let plain = cluster.mount();
    let found = block_on(plain.nfs.lookup(&who(), &plain.root, b"file")).unwrap().done().unwrap();
    assert_eq!(found.attributes.unwrap().size, whole.len() as u64);
    let read = block_on(plain.nfs.read(&who(), &found.object, 5 << 20, 4096)).unwrap();
    assert_eq!(read.done().unwrap().data, whole.slice(5 << 20..(5 << 20) + 4096));
}

/// Checks the data that clients with leases write and read. Returns the total bytes of a transfer,
/// and the bytes that passed the metaserver while one client wrote and while the other read.
fn by_the_metaserver(cluster: &Cluster) -> (u64, u64, u64) {
    let (one, other) = (cluster.user(1), cluster.user(2));
    let mut whole = data(4 << 20).to_vec();
    let (written, read) = block_on(async {
        let before = cluster.bytes();
        let file = one.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, whole.clone().into()).await.unwrap();
        file.sync().await.unwrap();
        file.close().await.unwrap();
        let written = cluster.bytes() - before;
        let before = cluster.bytes();
        assert!(other.read(b"file").await.unwrap() == whole, "it differs from the written data");
        let read = cluster.bytes() - before;
        // In the other direction, over all iods and past the end.
        let part = data(1 << 20).slice(4..);
        whole.truncate(3_900_001);
        whole.extend_from_slice(&part);
        let file = other.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        file.write_at(3_900_001, part).await.unwrap();
        file.close().await.unwrap();
        assert!(one.read(b"file").await.unwrap() == whole, "it differs in the other direction");
        (written, read)
    });
    // A plain client reads all of it from the metaserver.
    let plain = cluster.mount();
    let found = block_on(plain.nfs.lookup(&who(), &plain.root, b"file")).unwrap().done().unwrap();
    assert_eq!(found.attributes.unwrap().size, whole.len() as u64);
    for start in (0..whole.len()).step_by(64 << 10) {
        let end = whole.len().min(start + (64 << 10));
        let count = u32::try_from(end - start).unwrap();
        let read = block_on(plain.nfs.read(&who(), &found.object, start as u64, count));
        assert!(read.unwrap().done().unwrap().data == whole[start..end], "at {start}");
    }
    (4 << 20, written, read)
}

/// No client is sent to an iod that cannot fence it: all data passes the metaserver.
#[test]
fn iod_that_cannot_change_owners_is_used_only_by_the_metaserver() {
    let Some(cluster) = Cluster::start_with(iod_of_user, &[]) else { return };
    let (all, written, read) = by_the_metaserver(&cluster);
    assert!(written >= all, "{written} bytes of {all} passed the metaserver to write");
    assert!(read >= all, "{read} bytes of {all} passed the metaserver to read");
}

/// The client recognizes an iod that would let other users write, and does not write there.
#[test]
fn iod_that_lets_all_users_write_is_written_only_by_the_metaserver() {
    let Some(cluster) = Cluster::start_with(iod_without_users, &[]) else { return };
    let (all, written, _) = by_the_metaserver(&cluster);
    assert!(written >= all, "{written} bytes of {all} passed the metaserver to write");
}

/// Data that a client truncates and writes again goes to the iods as well, although the truncation
/// ended the layout.
#[test]
fn rewritten_data_goes_to_the_iods() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let (user, other) = (cluster.user(1), cluster.user(2));
    block_on(async {
        user.write(b"file", MODE, data(2 << 20)).await.unwrap();
        let file = user.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        file.set_size(0).await.unwrap();
        let before = cluster.bytes();
        let whole = data(4 << 20).slice(1 << 20..);
        file.write_at(0, whole.clone()).await.unwrap();
        file.sync().await.unwrap();
        file.close().await.unwrap();
        let written = cluster.bytes() - before;
        // Data below 256 KiB passes the metaserver.
        assert!(written < 400_000, "{written} bytes passed the metaserver");
        assert!(other.read(b"file").await.unwrap() == whole);
    });
}

/// Two clients write to one file alternately: a client that lost its layout continues through the
/// metaserver or with another layout.
#[test]
fn one_client_reads_data_of_the_other() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let users = [cluster.user(1), cluster.user(2)];
    block_on(async {
        users[0].write(b"file", MODE, data(1 << 20)).await.unwrap();
        let mut expected = data(1 << 20).to_vec();
        for turn in 0..12_usize {
            let (one, other) = (&users[turn % 2], &users[(turn + 1) % 2]);
            let file = one.open(b"file", OpenHow::READ_WRITE).await.unwrap();
            let at = 300_000 + turn * 70_000;
            let part = vec![u8::try_from(turn).unwrap() + 1; 100_000];
            expected.resize(expected.len().max(at + part.len()), 0);
            expected[at..at + part.len()].copy_from_slice(&part);
            file.write_at(at as u64, part.into()).await.unwrap();
            if turn % 3 == 0 {
                file.sync().await.unwrap();
            }
            file.close().await.unwrap();
            assert_eq!(other.attributes(b"file").await.unwrap().size, expected.len() as u64);
            assert!(other.read(b"file").await.unwrap() == expected, "turn {turn}");
        }
        // Explicitly set times persist, whichever layout ends afterwards.
        let size = users[0].attributes(b"file").await.unwrap().size;
        assert_eq!(size, expected.len() as u64);
    });
}

/// A client that holds a lease and sends nothing more.
pub(crate) struct Silent {
    server: Mounted,
    file: Handle,
    grant: Grant,
    pub(crate) layout: Layout,
}

impl Silent {
    /// Takes a lease with a short term that suffices for an operation on a busy machine, and its
    /// layout.
    fn begin(cluster: &Cluster, file: Handle) -> Self {
        let silent = Self::at(cluster.leased(9), file);
        assert_eq!(silent.layout.objects.0.len(), 3);
        silent
    }

    /// Takes a lease as a client of this server.
    pub(crate) fn at(server: Mounted, file: Handle) -> Self {
        let terms = Terms { kind: Kind::Write, term_ms: 12_000, opportune: false, space: 0 };
        let wanted = vec![Wanted { object: file, terms, reclaim: false }];
        let leases = server.nfs.leases().unwrap();
        let who = who();
        let asked = leases.lease(&who, wanted, Vec::new(), Progress::Recovered);
        let (_, held) = block_on(asked).unwrap();
        let grant = held[0].grant;
        assert!(grant.cachable);
        let told = block_on(server.nfs.objects(&who, &file, Kind::Write));
        let layout = told.unwrap().done().unwrap();
        Self { server, file, grant, layout }
    }

    fn write(&self, cluster: &Cluster, object: &Object, bytes: &[u8]) -> Result<(), Status> {
        self.write_by(&cluster.runtime, object, bytes)
    }

    pub(crate) fn write_by(
        &self,
        runtime: &Runtime,
        object: &Object,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let caller = Credential::system("client", self.layout.user, self.layout.group, &[]);
        let port = u16::try_from(object.port).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let nfs = Reach(runtime.clone()).nfs(address, TIMEOUT);
        let what = (Bytes::copy_from_slice(bytes), write::Stability::Unstable);
        block_on(nfs.write(&caller, &object.object, 0, what)).unwrap().done().map(drop)
    }
}

/// The client is stopped during a write, beyond the end of its lease; another client writes. The
/// iods reject the rest of the write, and the metaserver rejects it as late.
#[test]
fn suspended_client_is_rejected_at_the_iods() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(60_000)));
    let silent = Silent::begin(&cluster, file);
    let objects = &silent.layout.objects.0;
    silent.write(&cluster, &objects[0], b"in an hour").unwrap();
    // No other client can return the lease on its behalf.
    let stranger = cluster.leased(8);
    block_on(stranger.nfs.give_objects_back(&who(), &file)).unwrap().done().unwrap();
    silent.write(&cluster, &objects[0], b"in time").unwrap();
    // The server waits until its lease expires.
    let other = cluster.user(2);
    block_on(async {
        let opened = other.open(b"file", OpenHow::READ_WRITE).await.unwrap();
        opened.write_at(4096, Bytes::from_static(b"of another")).await.unwrap();
        opened.sync().await.unwrap();
        opened.close().await.unwrap();
    });
    for object in objects {
        assert_eq!(silent.write(&cluster, object, b"too late"), Err(Status::Access));
    }
    let base = Base { serial: silent.grant.serial, modrev: silent.grant.modrev };
    let rider = Arc::new(Rider::new(Vec::new(), Some(base)));
    let by_metaserver = silent.server.nfs.ridden(Arc::clone(&rider));
    let what = (Bytes::from_static(b"too late"), write::Stability::FileSync);
    assert!(block_on(by_metaserver.write(&who(), &silent.file, 0, what)).is_err());
    assert!(rider.told().late.is_some());
    let read = block_on(plain.nfs.read(&who(), &file, 0, 60_000)).unwrap().done().unwrap().data;
    let mut expected = data(60_000).to_vec();
    expected[..10].copy_from_slice(b"in timeour");
    expected[4096..4106].copy_from_slice(b"of another");
    assert!(read == expected);
}

/// The client is stopped during a write, beyond the end of its lease, and others only read: its
/// data at the iods then appears as its own change. The rest of the write is accepted.
#[test]
fn suspended_client_is_not_late_after_reads_by_others() {
    let Some(cluster) = Cluster::start(&[]) else { return };
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &data(60_000)));
    let silent = Silent::begin(&cluster, file);
    silent.write(&cluster, &silent.layout.objects.0[0], b"at the iod").unwrap();
    // The server waits until its lease expires.
    let read = || block_on(plain.nfs.read(&who(), &file, 0, 60_000)).unwrap().done().unwrap().data;
    assert!(read().starts_with(b"at the iod"));
    let write = |base, bytes: &'static [u8]| {
        let rider = Arc::new(Rider::new(Vec::new(), Some(base)));
        let by_metaserver = silent.server.nfs.ridden(Arc::clone(&rider));
        let what = (Bytes::from_static(bytes), write::Stability::FileSync);
        let written = block_on(by_metaserver.write(&who(), &silent.file, 6, what));
        written.map(|_| rider.told()).map_err(|_| rider.told().late)
    };
    let base = Base { serial: silent.grant.serial, modrev: silent.grant.modrev };
    let told = write(base, b" METASERVER").unwrap();
    assert_eq!(told.changes[0].before, base.modrev, "it continues from the known revision");
    let mut expected = data(60_000).to_vec();
    expected[..17].copy_from_slice(b"at the METASERVER");
    assert!(read() == expected);
    // The client continues from the reported revision, and can no longer use the earlier one.
    let next = Base { modrev: told.changes[0].after, ..base };
    write(next, b" LAST SERVER").unwrap();
    assert!(matches!(write(base, b" late"), Err(Some(_))));
    // A revision from another lease is not its own.
    let stranger = Base { serial: base.serial - 1, ..base };
    assert!(matches!(write(stranger, b" late"), Err(Some(_))));
}

/// A handle of an object that a client received from one cluster is not valid at another cluster's
/// iods, or at another iod of the same cluster.
#[test]
fn handle_is_valid_only_at_its_iod() {
    let (Some(cluster), Some(other)) = (Cluster::start(&[]), Cluster::start(&[])) else { return };
    let [silent, stranger] = [&cluster, &other].map(|cluster| {
        Silent::begin(cluster, block_on(put(&cluster.mount(), b"file", &data(60_000))))
    });
    let (objects, others) = (&silent.layout.objects.0, &stranger.layout.objects.0);
    for (at, object) in objects.iter().enumerate() {
        silent.write(&cluster, object, b"its own").unwrap();
        for elsewhere in [others[at].port, objects[(at + 1) % 3].port] {
            let object = Object { port: elsewhere, ..*object };
            let refused = silent.write(&cluster, &object, b"of another");
            assert_eq!(refused, Err(Status::BadHandle));
        }
    }
}

/// A client's layout does not survive a restart of the metaserver: marks on the objects record the
/// layout.
#[test]
fn restarted_metaserver_fences_forgotten_clients() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let file = block_on(put(&cluster.mount(), b"file", &data(60_000)));
    let silent = Silent::begin(&cluster, file);
    silent.write(&cluster, &silent.layout.objects.0[1], b"in time").unwrap();
    cluster.serving.end(Signal::KILL);
    let ports: Vec<u16> = cluster.iods.iter().map(|(_, port)| *port).collect();
    cluster.serving = Serving::start(meta(&cluster.home, &ports, &[]));
    let ready = cluster.serving.line();
    cluster.port = address(&serde_json::from_str(&ready).unwrap()).port();
    // No other client holds earlier leases.
    let state = cluster.home.path("state");
    let (code, _, error) = run(leasehold(&["forget", "0909", "--state", &state]));
    assert_eq!(code, 0, "{error}");
    let plain = cluster.mount();
    let found = block_on(plain.nfs.lookup(&who(), &plain.root, b"file")).unwrap().done().unwrap();
    assert_eq!(found.attributes.unwrap().size, 60_000);
    for object in &silent.layout.objects.0 {
        assert_eq!(silent.write(&cluster, object, b"too late"), Err(Status::Access));
    }
}

/// One iod is killed and returns: its data waits or passes the metaserver, and nothing is lost.
#[test]
fn killed_iod_loses_nothing() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let user = cluster.user(1);
    let whole = data(4 << 20);
    let file = block_on(async {
        let file = user.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, whole.slice(..2 << 20)).await.unwrap();
        file
    });
    let port = cluster.iods[1].1;
    assert!(cluster.iods[1].0.end(Signal::KILL).code().is_none());
    std::thread::scope(|scope| {
        // Writes that need the iod wait for it.
        let written = scope.spawn(|| {
            block_on(async {
                file.write_at(2 << 20, whole.slice(2 << 20..)).await.unwrap();
                file.sync().await.unwrap();
            });
        });
        cluster.iods[1] = iod(&cluster.home, "two", "key", port);
        written.join().unwrap();
    });
    let reader = cluster.user(2);
    block_on(async {
        file.close().await.unwrap();
        let read = reader.read(b"file").await.unwrap();
        assert!(read == whole, "it differs from the written data");
    });
}

/// One iod is killed and returns, and the client writes to another: the COMMIT goes to both, and
/// the client rewrites all data exactly once.
#[test]
fn lost_data_is_rewritten_once() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let user = cluster.user(1);
    let file = block_on(async {
        let file = user.create(b"file", MODE, false).await.unwrap();
        file.write_at(0, data(2 << 20)).await.unwrap();
        file.sync().await.unwrap();
        file
    });
    let layout = leasehold(&["layout", &cluster.home.path("data/file"), "--json"]);
    let told: serde_json::Value = serde_json::from_str(&run(layout).1).unwrap();
    let last = usize::try_from(told["iods"][2].as_u64().unwrap()).unwrap();
    let port = cluster.iods[last].1;
    assert!(cluster.iods[last].0.end(Signal::KILL).code().is_none());
    cluster.iods[last] = iod(&cluster.home, ["one", "two", "three"][last], "key", port);
    let (ended, end) = std::sync::mpsc::channel();
    // The first stripe of a row is on the first of its iods. A single WRITE needs no COMMIT.
    let rows = [100, 110].map(|row| row * 3 * 4096);
    std::thread::spawn(move || {
        block_on(async {
            for at in rows {
                file.write_at(at, vec![7; 4096].into()).await.unwrap();
            }
            file.sync().await.unwrap();
            file.close().await.unwrap();
        });
        ended.send(()).unwrap();
    });
    end.recv_timeout(TIMEOUT).expect("the data is stable without repeated writes");
    let mut expected = data(2 << 20).to_vec();
    for at in rows.map(|at| usize::try_from(at).unwrap()) {
        expected[at..at + 4096].fill(7);
    }
    assert!(block_on(cluster.user(2).read(b"file")).unwrap() == expected);
}

/// A client that ends does not wait longer for an unreachable iod than for an unreachable server:
/// its layout ends when another client needs the file.
#[test]
fn ending_client_does_not_wait_for_an_iod() {
    let Some(mut cluster) = Cluster::start(&[]) else { return };
    let client = cluster.client(1);
    let user = client.user(who());
    for name in [&b"one"[..], b"two", b"three"] {
        block_on(user.write(name, MODE, data(1 << 20))).unwrap();
    }
    block_on(client.sync());
    let port = cluster.iods[1].1;
    assert!(cluster.iods[1].0.end(Signal::KILL).code().is_none());
    let begun = Instant::now();
    block_on(client.goodbye());
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(14), "{waited:?}");
    cluster.iods[1] = iod(&cluster.home, "two", "key", port);
    let other = cluster.user(2);
    assert!(block_on(other.read(b"three")).unwrap() == data(1 << 20));
}
