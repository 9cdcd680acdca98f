//! Two copies of each stripe, and clients with leases.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_client::{Client, OpenHow, Options, Servers, Variant};
use leasehold_session::leases::Rider;
use leasehold_session::leases::messages::leases::{Progress, Wanted};
use leasehold_session::leases::messages::{Base, Change, Kind, Terms};
use leasehold_session::nfs::Nfs;
use leasehold_session::nfs::messages::{Handle, write};
use leasehold_shell::client::{Mounted, Runtime, block_on};
use rustix::process::{Signal, geteuid};

use crate::cluster::{iod, meta, try_mount, wait_until_settled};
use crate::direct::Reach;
use crate::support::{Home, Serving, TIMEOUT, address, leasehold, put, run, who};

/// A metaserver over three iods.
struct Cluster {
    home: Home,
    runtime: Runtime,
    iods: Vec<(Serving, u16)>,
    _serving: Serving,
    port: u16,
}

const NAMES: [&str; 3] = ["one", "two", "three"];

impl Cluster {
    fn start() -> Self {
        let home = Home::new();
        let iods: Vec<_> = NAMES.map(|name| iod(&home, name, "key", 0)).into();
        let ports: Vec<u16> = iods.iter().map(|(_, port)| *port).collect();
        let serving = Serving::start(meta(&home, &ports, &["--copies", "2"]));
        let port = address(&serde_json::from_str(&serving.line()).unwrap()).port();
        Self { home, runtime: Runtime::start().unwrap(), iods, _serving: serving, port }
    }

    fn mount(&self) -> Mounted {
        try_mount(&self.runtime, self.port, "/data").unwrap()
    }

    fn leased(&self, number: u8) -> Mounted {
        let mounted = self.mount();
        let nfs = block_on(mounted.nfs.with_leases(&who(), [number; 16], b"client")).unwrap();
        Mounted { nfs, ..mounted }
    }

    fn kill(&mut self, iod: usize) {
        assert!(self.iods[iod].0.end(Signal::KILL).code().is_none());
    }

    fn start_again(&mut self, number: usize) {
        self.iods[number] = iod(&self.home, NAMES[number], "key", self.iods[number].1);
    }

    /// Returns the iods of a file, in the order of its stripes.
    fn iods_of(&self, file: &str) -> Vec<usize> {
        let path = self.home.path(&format!("data/{file}"));
        let (code, text, error) = run(leasehold(&["layout", &path, "--json"]));
        assert_eq!(code, 0, "{error}");
        let told: serde_json::Value = serde_json::from_str(&text).unwrap();
        serde_json::from_value(told["iods"].clone()).unwrap()
    }
}

/// A client with a write lease on a file.
struct Holder {
    server: Mounted,
    file: Handle,
    base: Base,
}

impl Holder {
    /// Takes a lease with a short term that suffices for an operation on a busy machine.
    fn of(server: Mounted, file: Handle) -> Self {
        let terms = Terms { kind: Kind::Write, term_ms: 12_000, opportune: false, space: 0 };
        let wanted = vec![Wanted { object: file, terms, reclaim: false }];
        let (leases, who) = (server.nfs.leases().unwrap(), who());
        let asked = leases.lease(&who, wanted, Vec::new(), Progress::Recovered);
        let grant = block_on(asked).unwrap().1[0].grant;
        assert!(grant.cachable);
        let base = Base { serial: grant.serial, modrev: grant.modrev };
        Self { server, file, base }
    }

    /// Writes data that was changed under the lease; returns the reported change, or that the data
    /// is late.
    fn write(&mut self, bytes: &'static [u8]) -> Result<Change, Option<u64>> {
        let rider = Arc::new(Rider::new(Vec::new(), Some(self.base)));
        let ridden = self.server.nfs.ridden(Arc::clone(&rider));
        let what = (Bytes::from_static(bytes), write::Stability::FileSync);
        let written = block_on(ridden.write(&who(), &self.file, 0, what));
        written.map_err(|_| rider.told().late)?.done().unwrap();
        let change = rider.told().changes[0];
        self.base.modrev = change.after;
        Ok(change)
    }
}

/// A client is stopped beyond the end of its lease. Meanwhile a copy of its file that an iod lacks
/// is rebuilt. Since no other client has changed the file, the client's later write is accepted.
/// After a change by another client the write is late, even if a copy was rebuilt.
#[test]
fn suspended_client_is_not_late_after_rebuild_of_a_copy() {
    let mut cluster = Cluster::start();
    let plain = cluster.mount();
    let file = block_on(put(&plain, b"file", &Bytes::from(vec![1; 60_000])));
    let read = || block_on(plain.nfs.read(&who(), &file, 0, 20)).unwrap().done().unwrap().data;
    let mut holder = Holder::of(cluster.leased(9), file);
    cluster.kill(1);
    holder.write(b"under a lease").unwrap();
    cluster.start_again(1);
    wait_until_settled(&cluster.home);
    // The server waits until the lease expires.
    assert!(read().starts_with(b"under a lease"));
    let before = holder.base.modrev;
    let change = holder.write(b"after its end").unwrap();
    assert_eq!(change.before, before, "it continues from the known revision");
    assert!(read().starts_with(b"after its end"));
    cluster.kill(1);
    let what = (Bytes::from_static(b"from another"), write::Stability::FileSync);
    block_on(plain.nfs.write(&who(), &file, 0, what)).unwrap().done().unwrap();
    cluster.start_again(1);
    wait_until_settled(&cluster.home);
    assert!(matches!(holder.write(b"too late"), Err(Some(_))));
    assert!(read().starts_with(b"from another"));
}

/// The connections of a client to iods.
struct Called(Reach, Mutex<BTreeMap<SocketAddr, Nfs>>);

impl Called {
    /// Calls an iod as the client does, until the iod replies.
    fn wait_for(&self, port: u16) {
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let nfs = self.1.lock().unwrap()[&at].clone();
        let end = Instant::now() + TIMEOUT;
        while block_on(nfs.null(&who())).is_err() {
            assert!(Instant::now() < end);
        }
    }
}

impl Servers for Called {
    fn at(&self, address: SocketAddr) -> Option<Nfs> {
        let nfs = self.0.at(address)?;
        self.1.lock().unwrap().insert(address, nfs.clone());
        Some(nfs)
    }
}

/// A client that reads at the iods overwrites data past its cache, while an iod that it has read
/// from is unreachable. When that iod returns, before its copy is rebuilt, the client does not read
/// the old data there.
#[test]
fn client_does_not_read_overwritten_data_from_an_out_of_date_copy() {
    if !geteuid().is_root() {
        return;
    }
    let mut cluster = Cluster::start();
    let plain = cluster.mount();
    let old = Bytes::from(vec![1; 600_000]);
    let file = block_on(put(&plain, b"file", &old));
    let Mounted { nfs, root, bounds, .. } = cluster.leased(7);
    let options = Options { variant: Variant::Lease, ..Options::new(FileTime::default, 7) };
    let client = block_on(Client::new(nfs, root, bounds, &who(), options)).unwrap();
    let called = Arc::new(Called(Reach(cluster.runtime.clone()), Mutex::default()));
    client.reach_by(Arc::clone(&called) as _);
    let user = client.user(who());
    let opened = block_on(user.open(b"file", OpenHow::READ)).unwrap();
    let read = |count| block_on(opened.read_at(0, count)).unwrap().into_bytes();
    assert!(read(600_000) == old);
    let iods = cluster.iods_of("file");
    // No copy is rebuilt while an iod is known to be unreachable: the metaserver reads the third
    // stripe and notices.
    cluster.kill(iods[2]);
    let third = block_on(plain.nfs.read(&who(), &file, 2 * 4096, 4096)).unwrap().done().unwrap();
    assert!(third.data == old.slice(..4096), "there are two copies");
    cluster.kill(iods[0]);
    let past = OpenHow { direct: true, ..OpenHow::READ_WRITE };
    let past = block_on(user.open(b"file", past)).unwrap();
    let new = Bytes::from(vec![2; 4096]);
    block_on(past.write_at(0, new.clone())).unwrap();
    cluster.start_again(iods[0]);
    called.wait_for(cluster.iods[iods[0]].1);
    assert!(read(4096) == new, "it has read the overwritten data");
}
