//! The server under test: its addresses and its features.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use leasehold_wire::nfs3::{SetAttributes, create, fsinfo, pathconf};
use leasehold_wire::rpc::{ReplyStatus, null};
use leasehold_wire::{mount, nfs2, nfs3, portmap};

use crate::case::Stop;
use crate::client::{Client, Credential, Route};
use crate::mount::{Mount, port_of};
use crate::net::Source;
use crate::options::{Options, Version};
use crate::sweep;
use crate::talk::{Carrier, Procedure, Talk};
use crate::target::Target;
use crate::v2::{self, V2};
use crate::v3::{self, V3};

/// The default port of NFS.
const NFS_PORT: u16 = 2049;

/// The timeout of the first datagram: many servers accept none, and one that accepts some may be
/// busy.
const UDP_PROBE_TIME: Duration = Duration::from_secs(4);

/// A size that every server accepts, with any limits.
const WRITE_BYTES_MIN: usize = 512;

/// The user id of calls by an ordinary user: unlikely to be in use.
pub(crate) const ORDINARY_USER: u32 = 40_001;

/// The reason for which a server cannot be tested: the fault, its place and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub(crate) String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

impl From<Stop> for Problem {
    fn from(stop: Stop) -> Self {
        let (Stop::Fail(why) | Stop::Skip(why)) = stop;
        Self(why)
    }
}

/// Restarts the server; returns the reason of a failure.
pub type Restart = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The directory of the run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) version3: Option<nfs3::Handle>,
    pub(crate) version2: Option<nfs2::Handle>,
}

/// The server under test.
pub(crate) struct Server {
    pub(crate) export: String,
    pub(crate) nfs: SocketAddr,
    /// Another server of the same files, if there is one.
    pub(crate) also: Option<SocketAddr>,
    pub(crate) mount: SocketAddr,
    /// Portmap, if it is tested.
    pub(crate) portmap: Option<SocketAddr>,
    pub(crate) root3: Option<nfs3::Handle>,
    pub(crate) root2: Option<nfs2::Handle>,
    /// True if NFS is served over UDP.
    pub(crate) udp: bool,
    /// The port from which the server trusts the run's credential over UDP; `None` if it trusts no
    /// port.
    pub(crate) udp_source: Option<Source>,
    /// True if the server trusts the credentials of callers.
    pub(crate) believes: bool,
    pub(crate) info: Option<fsinfo::Done>,
    pub(crate) limits: Option<pathconf::Done>,
    pub(crate) place: Place,
    /// The length of the list of mounts at the begin of the run.
    mounts: usize,
    pub(crate) me: Credential,
    pub(crate) source: Source,
    pub(crate) patience: Duration,
    pub(crate) seed: u64,
    pub(crate) back_dir: Option<PathBuf>,
    pub(crate) restart: Option<Restart>,
    /// Held by the thread that restarts a server that ended.
    pub(crate) revival: Mutex<()>,
    /// True if the server was restarted, so that handles may be invalid.
    pub(crate) restarted: AtomicBool,
    /// True if the server has ended and does not restart.
    pub(crate) ended: AtomicBool,
}

impl Server {
    /// Finds the server, mounts the export and creates the directory of this run.
    pub(crate) fn find(
        target: &Target,
        options: &Options,
        restart: Option<Restart>,
    ) -> Result<Self, Problem> {
        let talk = Talk::new();
        let source = if options.reserved_port { Source::Reserved } else { Source::Any };
        let (nfs, mount, portmap) = addresses(target, options, source, &talk)?;
        let ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let mut server = Self {
            export: target.export.clone(),
            nfs,
            also: options.also.as_deref().map(|also| address(also, also)).transpose()?,
            mount,
            portmap,
            root3: None,
            root2: None,
            udp: false,
            udp_source: None,
            believes: false,
            info: None,
            limits: None,
            place: Place { name: String::new(), version3: None, version2: None },
            mounts: 0,
            me: Credential::user(options.uid.unwrap_or(ids.0), options.gid.unwrap_or(ids.1)),
            source,
            patience: Duration::from_secs(options.patience.into()),
            seed: options.seed,
            back_dir: options.back_dir.clone(),
            restart,
            revival: Mutex::new(()),
            restarted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        };
        server.mounts = server.mounts_now(&talk);
        server.mount_export(&options.versions, &talk)?;
        server.udp = server.answers_datagrams(&talk);
        server.make_place(&talk)?;
        server.learn(&talk)?;
        if server.udp {
            server.udp_source = server.trusted_over_udp(&talk)?;
        }
        Ok(server)
    }

    /// Returns the route to NFS.
    pub(crate) fn route(&self, carrier: Carrier) -> Route {
        Route { address: self.nfs, carrier, source: self.source, patience: self.patience }
    }

    /// Returns the route to MOUNT.
    pub(crate) fn mount_route(&self) -> Route {
        Route { address: self.mount, ..self.route(Carrier::Tcp) }
    }

    pub(crate) fn v3(&self, credential: &Credential, talk: &Talk) -> V3 {
        self.v3_over(self.route(Carrier::Tcp), credential, talk)
    }

    /// Returns a client of version 3 with this route.
    pub(crate) fn v3_over(&self, route: Route, credential: &Credential, talk: &Talk) -> V3 {
        let said = self.info.map_or(u32::MAX, |info| info.write_bytes_max);
        let write_bytes_max = usize::try_from(said).unwrap_or(usize::MAX).max(WRITE_BYTES_MIN);
        V3 { client: Client::new(route, credential.clone(), talk), write_bytes_max }
    }

    pub(crate) fn v2(&self, credential: &Credential, talk: &Talk) -> V2 {
        V2 { client: Client::new(self.route(Carrier::Tcp), credential.clone(), talk) }
    }

    pub(crate) fn mounter(&self, talk: &Talk) -> Mount {
        Mount { client: Client::new(self.mount_route(), self.me.clone(), talk) }
    }

    /// Gets the handles of the export's root.
    fn mount_export(&mut self, versions: &[Version], talk: &Talk) -> Result<(), Problem> {
        let mut mounter = self.mounter(talk);
        let mut whys = Vec::new();
        if versions.contains(&Version::Three) {
            match mounter.mnt(&self.export).and_then(crate::answer::Answered::done) {
                Ok(done) => self.root3 = Some(done.directory),
                Err(stop) => whys.push(Problem::from(stop).0),
            }
        }
        mounter.client.disconnect();
        if versions.contains(&Version::Two) && self.serves(nfs2::VERSION, talk) {
            let mounted = mounter.old_mnt(mount::VERSION_1, &self.export);
            // Some servers answer calls of any version as if they were of another one.
            let speaks = |root| self.v2(&self.me, talk).attributes(root).map(|_| root);
            match mounted.and_then(crate::answer::Answered::done).and_then(speaks) {
                Ok(root) => self.root2 = Some(root),
                Err(stop) => whys.push(Problem::from(stop).0),
            }
        }
        if self.root3.is_none() && self.root2.is_none() {
            let (export, mount, why) = (&self.export, self.mount, whys.join("; "));
            let exports = self.exports(talk);
            return Err(Problem(format!(
                "{export} cannot be mounted from {mount}: {why}; {exports}"
            )));
        }
        Ok(())
    }

    /// Describes the server's exports.
    fn exports(&self, talk: &Talk) -> String {
        let mut mounter = self.mounter(talk);
        let list = mounter.exports(mount::VERSION_3).or_else(|_| mounter.exports(mount::VERSION_1));
        let names = list.unwrap_or_default();
        let names = names.iter().map(|export| export.directory.escape_ascii().to_string());
        match names.collect::<Vec<_>>().join(", ").as_str() {
            "" => "it does not list its exports".to_owned(),
            names => format!("it exports {names}"),
        }
    }

    fn serves(&self, version: u32, talk: &Talk) -> bool {
        let mut client = Client::new(self.route(Carrier::Tcp), Credential::None, talk);
        let null = Procedure { program: nfs3::PROGRAM, version, number: null::NUMBER };
        client.received(null, &()) == Ok(ReplyStatus::Success)
    }

    fn answers_datagrams(&self, talk: &Talk) -> bool {
        let route = Route { patience: UDP_PROBE_TIME, ..self.route(Carrier::Udp) };
        let mut client = Client::new(route, Credential::None, talk);
        let version = if self.root3.is_some() { nfs3::VERSION } else { nfs2::VERSION };
        let null = Procedure { program: nfs3::PROGRAM, version, number: null::NUMBER };
        client.received(null, &()) == Ok(ReplyStatus::Success)
    }

    /// Creates the directory of this run, with a unique name.
    fn make_place(&mut self, talk: &Talk) -> Result<(), Problem> {
        let name = format!("conform-{:016x}", RandomState::new().hash_one(0));
        let failed = |stop| {
            let Problem(why) = Problem::from(stop);
            Problem(format!(
                "no directory can be made in {}: {why}; it must be writable for the user that \
                 calls are made as, see --uid",
                self.export
            ))
        };
        if let Some(root) = self.root3 {
            let mut v3 = self.v3(&self.me, talk);
            let made = v3.directory(root, &name).map_err(failed)?;
            v3.setattr(made, v3::mode(0o777)).and_then(crate::answer::Answered::done)?;
            self.place.version3 = Some(made);
        }
        if let Some(root) = self.root2 {
            let mut v2 = self.v2(&self.me, talk);
            self.place.version2 = Some(match self.root3 {
                Some(_) => v2.find(root, &name).map_err(failed)?,
                None => {
                    v2.mkdir(root, &name, v2::mode(0o777))
                        .and_then(crate::answer::Answered::done)
                        .map_err(failed)?
                        .object
                }
            });
        }
        self.place.name = name;
        Ok(())
    }

    /// Fetches the server's limits, and checks whether it trusts its callers.
    fn learn(&mut self, talk: &Talk) -> Result<(), Problem> {
        let (Some(root), Some(place)) = (self.root3, self.place.version3) else {
            return Ok(());
        };
        let mut v3 = self.v3(&self.me, talk);
        self.info = v3.fsinfo(root)?.either().ok();
        self.limits = v3.pathconf(place)?.either().ok();
        let mut stranger = self.v3(&Credential::user(ORDINARY_USER, ORDINARY_USER), talk);
        let how = create::How::Guarded(SetAttributes::default());
        if let Ok(made) = stranger.create(place, "who", how)?.either() {
            let made = made.object.map_or_else(|| v3.find(place, "who"), Ok)?;
            self.believes = v3.attributes(made)?.uid == ORDINARY_USER;
            v3.remove(place, "who")?.done()?;
        }
        Ok(())
    }

    /// Returns the source port from which calls over UDP run as the user of the run: the user that
    /// creates files over TCP.
    fn trusted_over_udp(&self, talk: &Talk) -> Result<Option<Source>, Problem> {
        let (Some(place), mut tcp) = (self.place.version3, self.v3(&self.me, talk)) else {
            return Ok(Some(self.source));
        };
        let made = tcp.file(place, "by-tcp", b"")?;
        let expected = tcp.attributes(made)?.uid;
        tcp.remove(place, "by-tcp")?.done()?;
        for source in [self.source, Source::Reserved] {
            let route = Route { source, ..self.route(Carrier::Udp) };
            let mut udp = self.v3_over(route, &self.me, talk);
            let Ok(made) = udp.file(place, "by-udp", b"") else {
                continue;
            };
            let got = tcp.attributes(made)?.uid;
            tcp.remove(place, "by-udp")?.done()?;
            if got == expected {
                return Ok(Some(source));
            }
        }
        Ok(None)
    }

    /// Removes the directory of this run with all its contents.
    pub(crate) fn remove_place(&self) -> Result<(), Problem> {
        let talk = Talk::new();
        if self.root3.is_some() {
            // Handles may have become invalid in a restart, but names stay.
            let root = self.mounter(&talk).mnt(&self.export)?.done()?.directory;
            let mut v3 = self.v3(&self.me, &talk);
            sweep::sweep(&mut v3, root, self.place.name.as_bytes())?;
        } else if let Some(root) = self.root2 {
            let mut v2 = self.v2(&self.me, &talk);
            sweep::sweep(&mut v2, root, self.place.name.as_bytes())?;
        }
        self.unmount(&talk)
    }

    /// Returns true if no program listens at the server's address any more.
    pub(crate) fn is_gone(&self) -> bool {
        let connected = TcpStream::connect_timeout(&self.nfs, UDP_PROBE_TIME);
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    /// Restores the list of mounts: this machine may have mounted the export before.
    fn unmount(&self, talk: &Talk) -> Result<(), Problem> {
        let mut mounter = self.mounter(talk);
        if self.root3.is_none() {
            mounter.umnt(mount::VERSION_1, &self.export)?;
            if self.mounts_now(talk) < self.mounts {
                mounter.old_mnt(mount::VERSION_1, &self.export)?.done()?;
            }
            return Ok(());
        }
        mounter.umnt(mount::VERSION_3, &self.export)?;
        if self.mounts_now(talk) < self.mounts {
            mounter.mnt(&self.export)?.done()?;
        }
        Ok(())
    }

    /// Returns the length of the list of mounts; a server without a list needs no restore.
    fn mounts_now(&self, talk: &Talk) -> usize {
        let mut mounter = self.mounter(talk);
        let list = mounter.dump(mount::VERSION_3).or_else(|_| mounter.dump(mount::VERSION_1));
        list.map_or(0, |list| list.len())
    }
}

/// Returns the first address of a host and port.
fn address(place: impl ToSocketAddrs, name: &str) -> Result<SocketAddr, Problem> {
    let mut found = place
        .to_socket_addrs()
        .map_err(|error| Problem(format!("{name} has no address: {error}")))?;
    found.next().ok_or_else(|| Problem(format!("{name} has no address")))
}

/// Returns the addresses of NFS, of MOUNT, and of portmap if it is tested.
fn addresses(
    target: &Target,
    options: &Options,
    source: Source,
    talk: &Talk,
) -> Result<(SocketAddr, SocketAddr, Option<SocketAddr>), Problem> {
    let host = target.host.as_str();
    let ip = address((host, 0), host)?.ip();
    let at = |port| SocketAddr::new(ip, port);
    let patience = Duration::from_secs(options.patience.max(1).into());
    let client = |address| {
        let route = Route { address, carrier: Carrier::Tcp, source, patience };
        Client::new(route, Credential::None, talk)
    };
    let portmap = at(options.portmap_port.unwrap_or(portmap::PORT));
    let ask = |program, version| -> Option<u16> {
        let port = port_of(&mut client(portmap), program, version, portmap::protocol::TCP).ok()?;
        u16::try_from(port).ok().filter(|port| *port != 0)
    };
    let nfs = match target.port {
        Some(port) => port,
        None => ask(nfs3::PROGRAM, nfs3::VERSION)
            .or_else(|| ask(nfs2::PROGRAM, nfs2::VERSION))
            .unwrap_or(NFS_PORT),
    };
    if let Err(error) = TcpStream::connect_timeout(&at(nfs), patience) {
        let advice = "does the server run, and is this its TCP port?";
        return Err(Problem(format!("{} accepts no connection: {error}: {advice}", at(nfs))));
    }
    let null =
        Procedure { program: mount::PROGRAM, version: mount::VERSION_3, number: null::NUMBER };
    let serves_mount = |port| {
        let received = client(at(port)).received(null, &());
        matches!(received, Ok(ReplyStatus::Success | ReplyStatus::ProgramMismatch(_)))
    };
    let mounting = options
        .mount_port
        .or_else(|| serves_mount(nfs).then_some(nfs))
        .or_else(|| ask(mount::PROGRAM, mount::VERSION_3))
        .or_else(|| ask(mount::PROGRAM, mount::VERSION_1))
        .ok_or_else(|| {
            Problem(format!(
                "no MOUNT is found at {host}: neither on port {nfs} nor with portmap on port {}; \
                 name its port with --mount-port",
                portmap.port()
            ))
        })?;
    let test_portmap = target.port.is_none() || options.portmap_port.is_some();
    Ok((at(nfs), at(mounting), test_portmap.then_some(portmap)))
}
