//! Discovery of a server's ports and versions, and the MOUNT of a directory.
//!
//! Rules:
//! 1. The NFS port is the port in the options, else the port in the server's portmapper, else 2049.
//! 2. The MOUNT port is the port in the options. If there is none, but the options contain an NFS
//!    port at which the server supports MOUNT as well, it is that port. Otherwise it is the port in
//!    the portmapper, else the NFS port.
//! 3. The version is the requested version, else the newest version that both server and client
//!    support.
//! 4. The client mounts the longest prefix of the path that the server exports, and looks up the
//!    rest of the path. If the list of exports contains no prefix of the path, the client mounts
//!    the longest prefix that the server accepts. A server that returns the same handle for the
//!    prefix and for `/` accepts any path for its only export; the client then mounts `/`.
//! 5. If the caller knows that the whole path is an export (`only_whole`), the client tries no
//!    other path and does not request the list of exports.

use core::fmt;
use core::net::{IpAddr, SocketAddr};
use std::net::ToSocketAddrs as _;

use leasehold_base::limits::durations::MOUNT_STEP_TIMEOUT;
use leasehold_session::nfs::{Bounds, Nfs, Version};
use leasehold_session::{Carrier, Credential, Error, Options, mount as mount_calls, portmap};
use leasehold_wire::mount::mnt::Status;
use leasehold_wire::nfs3::Handle;
use leasehold_wire::rpc::{ReplyStatus, Versions};
use leasehold_wire::{mount as mount_wire, nfs3, portmap as portmap_wire};

use super::hub::Runtime;
use super::sockets::SourcePort;

/// The default NFS port.
const NFS_PORT: u16 = 2049;

/// The directory to mount, and the options.
#[derive(Clone, Debug)]
pub struct Target {
    /// The server's name or address.
    pub host: String,
    /// The NFS port, if it is known.
    pub port: Option<u16>,
    /// The MOUNT port, if it is known.
    pub mount_port: Option<u16>,
    /// The requested NFS version, if any.
    pub version: Option<Version>,
    /// The path of a directory on the server.
    pub path: Vec<u8>,
    /// True if the client must mount the whole path, regardless of the list of exports.
    pub only_whole: bool,
    /// The source ports.
    pub source: SourcePort,
    /// The options of the mounted session.
    pub options: Options,
}

impl Target {
    /// Creates a target for a directory of a server, with defaults for all other settings.
    #[must_use]
    pub fn new(host: &str, path: &[u8], options: Options) -> Self {
        Self {
            host: host.to_owned(),
            port: None,
            mount_port: None,
            version: None,
            path: path.to_vec(),
            only_whole: false,
            source: SourcePort::default(),
            options,
        }
    }
}

/// A mounted directory of a server.
#[derive(Clone)]
pub struct Mounted {
    /// The session with the NFS server.
    pub nfs: Nfs,
    /// The address of the server.
    pub server: SocketAddr,
    /// The handle that MOUNT returned.
    pub root: Handle,
    /// The path that the client mounted, to which `root` belongs.
    pub mounted: Vec<u8>,
    /// The names that lead from the mounted path to the requested path; empty if both paths are
    /// equal.
    pub rest: Vec<Vec<u8>>,
    /// The server's sizes and limits.
    pub bounds: Bounds,
}

/// The reason why a mount failed: the step, the address and the error.
#[derive(Clone, Debug)]
pub enum NotFound {
    /// The server's name has no address.
    NoAddress(String),
    /// A step failed.
    Step {
        /// The step.
        what: &'static str,
        /// The address.
        at: SocketAddr,
        /// The error.
        error: Error,
    },
    /// The server does not support the requested version; with the range of versions that it
    /// supports, if known.
    NoVersion(SocketAddr, Option<Versions>),
    /// MOUNT refuses the path.
    Refused(String, Status),
    /// The system has no socket or thread left.
    System(String),
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(why) => write!(f, "cannot resolve the server's name: {why}"),
            Self::Step { what, at, error } => write!(f, "{what} at {at}: {error}"),
            Self::NoVersion(at, Some(Versions { low, high })) => {
                write!(f, "the server at {at} supports NFS versions {low} to {high} only")
            }
            Self::NoVersion(at, None) => write!(f, "no NFS server at {at}"),
            Self::Refused(path, status) => match status {
                Status::Access | Status::NotOwner => {
                    write!(f, "the server does not permit this client to mount {path}")
                }
                Status::NotFound => write!(f, "the server has no directory {path}"),
                Status::NotDirectory => write!(f, "{path} on the server is not a directory"),
                Status::Io
                | Status::Invalid
                | Status::NameTooLong
                | Status::NotSupported
                | Status::ServerFault => write!(f, "the server cannot mount {path}: {status:?}"),
            },
            Self::System(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NotFound {}

/// Finds a server and mounts a directory of the server. Resolves the host name on the calling
/// thread, which may block.
///
/// # Errors
/// The step that failed at the last of the server's addresses.
pub async fn mount(
    runtime: &Runtime,
    target: &Target,
    who: &Credential,
) -> Result<Mounted, NotFound> {
    let no_address = |error: std::io::Error| NotFound::NoAddress(error.to_string());
    let addresses = (target.host.as_str(), 0).to_socket_addrs().map_err(no_address)?;
    let mut last = NotFound::NoAddress("it has no address".to_owned());
    for address in addresses {
        let search = Search { runtime, target, who, address: address.ip() };
        match search.mount().await {
            Ok(mounted) => return Ok(mounted),
            // The server itself refused the mount and would do so at its other addresses, so the
            // search ends.
            Err(refused @ (NotFound::Refused(..) | NotFound::NoVersion(_, Some(_)))) => {
                return Err(refused);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The search at one address.
struct Search<'a> {
    runtime: &'a Runtime,
    target: &'a Target,
    who: &'a Credential,
    address: IpAddr,
}

impl Search<'_> {
    async fn mount(&self) -> Result<Mounted, NotFound> {
        let (server, version) = self.nfs().await?;
        let (mount_server, mount_session) = self.mount_service(server, version).await?;
        let (root, mounted, rest) = self.root(mount_server, &mount_session, version).await?;
        let session = self.runtime.session(server, self.target.options, self.target.source);
        let nfs = Nfs::new(session.map_err(|error| system(&error))?, version);
        let bounds = nfs.bounds(self.who, &root).await;
        let bounds = bounds.map_err(|error| step("FSINFO", server, error))?;
        Ok(Mounted { nfs, server, root, mounted, rest, bounds })
    }

    /// Returns the address of NFS and the version to use.
    async fn nfs(&self) -> Result<(SocketAddr, Version), NotFound> {
        let wanted: &[Version] = match &self.target.version {
            Some(version) => core::slice::from_ref(version),
            None => &[Version::V3, Version::V2],
        };
        let mut failure = None;
        let mut last_port = None;
        for version in wanted {
            let port = match self.target.port {
                Some(port) => port,
                None => self.mapped(nfs3::PROGRAM, version.number()).await.unwrap_or(NFS_PORT),
            };
            let server = SocketAddr::new(self.address, port);
            // If no server answers at a port, another version at the same port cannot succeed
            // either.
            if last_port == Some(port) && matches!(failure, Some(NotFound::Step { .. })) {
                break;
            }
            last_port = Some(port);
            let nfs = Nfs::new(self.brief(server)?, *version);
            match nfs.null(&Credential::none()).await {
                Ok(()) => return Ok((server, *version)),
                Err(Error::Denied(ReplyStatus::ProgramMismatch(versions))) => {
                    failure = Some(NotFound::NoVersion(server, Some(versions)));
                }
                Err(Error::Denied(ReplyStatus::ProgramUnavailable)) => {
                    failure = Some(NotFound::NoVersion(server, None));
                }
                Err(error) => failure = Some(step("NFS", server, error)),
            }
        }
        Err(failure.expect("a version is tried"))
    }

    /// Returns the address of MOUNT.
    async fn mount_service(
        &self,
        nfs: SocketAddr,
        version: Version,
    ) -> Result<(SocketAddr, leasehold_session::Session), NotFound> {
        if let Some(port) = self.target.mount_port {
            let server = SocketAddr::new(self.address, port);
            return Ok((server, self.brief(server)?));
        }
        if self.target.port.is_some() {
            let session = self.brief(nfs)?;
            if self.serves_mount(&session, version).await {
                return Ok((nfs, session));
            }
        }
        let number = mount_calls::version_for(version);
        let port = self.mapped(mount_wire::PROGRAM, number).await.unwrap_or(nfs.port());
        let server = SocketAddr::new(self.address, port);
        Ok((server, self.brief(server)?))
    }

    async fn serves_mount(&self, session: &leasehold_session::Session, version: Version) -> bool {
        let procedure = leasehold_session::Procedure {
            program: mount_wire::PROGRAM,
            version: mount_calls::version_for(version),
            number: leasehold_wire::rpc::null::NUMBER,
            weight: leasehold_session::Weight::Light,
        };
        session.call(&Credential::none(), procedure, &()).await.is_ok()
    }

    /// Returns the handle of the path, or of the longest prefix that the client can mount, with
    /// that prefix and the remaining names.
    async fn root(
        &self,
        server: SocketAddr,
        session: &leasehold_session::Session,
        version: Version,
    ) -> Result<(Handle, Vec<u8>, Vec<Vec<u8>>), NotFound> {
        let names = names_of(&self.target.path);
        let mnt = async |count| {
            let path = path_of(&names, count);
            let mounted = mount_calls::mount(session, self.who, version, &path).await;
            mounted.map_err(|error| step("MOUNT", server, error))
        };
        let found = |root, count: usize| {
            let rest = names[count..].iter().map(|name| name.to_vec()).collect();
            (root, path_of(&names, count), rest)
        };
        if self.target.only_whole {
            let all = names.len();
            let root = mnt(all).await?;
            let refused = |status| NotFound::Refused(text_of(&names, all), status);
            return root.map(|root| found(root, all)).map_err(refused);
        }
        let exported = self.exported(session, version, &names).await;
        if let Some(count) = exported
            && let Ok(root) = mnt(count).await?
        {
            return Ok(found(root, count));
        }
        let mut refused = None;
        for count in (0..=names.len()).rev() {
            match mnt(count).await? {
                Ok(root) => {
                    let takes_any_path = count > 0 && mnt(0).await? == Ok(root);
                    return Ok(found(root, if takes_any_path { 0 } else { count }));
                }
                Err(status) => {
                    // If the server refuses all prefixes, the error contains the status of the
                    // whole path, which the user requested. The client tries the whole path first,
                    // so `get_or_insert` keeps that status.
                    refused.get_or_insert(NotFound::Refused(text_of(&names, count), status));
                }
            }
        }
        Err(refused.expect("at least the root is tried"))
    }

    /// Returns the number of names in the longest exported prefix of a path.
    async fn exported(
        &self,
        session: &leasehold_session::Session,
        version: Version,
        names: &[&[u8]],
    ) -> Option<usize> {
        let exports = mount_calls::exports(session, self.who, version).await.ok()?;
        let fronts = exports.iter().filter_map(|export| {
            let export = names_of(&export.directory);
            names.starts_with(&export).then_some(export.len())
        });
        fronts.max()
    }

    /// Returns the port in the server's portmapper, if there is one.
    async fn mapped(&self, program: u32, version: u32) -> Option<u16> {
        let at = SocketAddr::new(self.address, portmap_wire::PORT);
        let session = self.brief(at).ok()?;
        portmap::port(&session, program, version, self.carrier()).await.ok()?
    }

    /// Creates a session with the timeout of the discovery.
    fn brief(&self, at: SocketAddr) -> Result<leasehold_session::Session, NotFound> {
        let options = match self.carrier() {
            Carrier::Stream => Options::stream(),
            Carrier::Datagram => Options::datagram(),
        };
        let options = options.impatient(MOUNT_STEP_TIMEOUT);
        self.runtime.session(at, options, self.target.source).map_err(|error| system(&error))
    }

    fn carrier(&self) -> Carrier {
        self.target.options.carrier
    }
}

fn step(what: &'static str, at: SocketAddr, error: Error) -> NotFound {
    NotFound::Step { what, at, error }
}

fn system(error: &std::io::Error) -> NotFound {
    NotFound::System(error.to_string())
}

fn names_of(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect()
}

fn path_of(names: &[&[u8]], count: usize) -> Vec<u8> {
    [b"/", &names[..count].join(&b'/')[..]].concat()
}

/// Returns the path as text for messages.
fn text_of(names: &[&[u8]], count: usize) -> String {
    String::from_utf8_lossy(&path_of(names, count)).into_owned()
}
