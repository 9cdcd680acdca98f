//! Connected servers, and the lookup of paths on them.

use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::Duration;

use leasehold_session as session;
use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Error};
use leasehold_shell::client::{Address, Mounted, Runtime, Target, mount};
use leasehold_wire::nfs3::{Attributes, FileType, Handle, Status};

use crate::{Cause, Failure, Place};

/// The maximum number of symbolic links in the resolution of one path, as in Linux.
const LINKS_MAX: usize = 40;

/// The treatment of a symbolic link as the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// The result is the target of the link.
    Last,
    /// The result is the link itself. Links in the middle of the path are followed.
    AllButLast,
}

/// The options for finding and calling servers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port of the MOUNT program; `None` for the port of NFS, or the port from the server's
    /// portmapper.
    pub mount_port: Option<u16>,
    /// The version of NFS; `None` for the newest version that the server supports.
    pub version: Option<Version>,
    /// True to use UDP instead of TCP.
    pub udp: bool,
    /// The number of connections to a server.
    pub connections: NonZeroUsize,
    /// The number of concurrent requests on each connection.
    pub in_flight: NonZeroUsize,
    /// The time without a reply after which an operation fails; `None` waits without limit.
    pub timeout: Option<Duration>,
    /// Resolves the name of a server and an optional port to a host and a port.
    pub resolve: fn(&str, Option<u16>) -> (String, Option<u16>),
}

/// The connections of one operation to its servers, with the identity of this process.
pub struct Servers {
    runtime: Runtime,
    who: Rc<Credential>,
    options: Options,
}

/// An object on a server.
#[derive(Clone)]
pub struct Remote {
    /// The export that contains the object.
    pub mounted: Rc<Mounted>,
    pub(crate) who: Rc<Credential>,
    pub(crate) handle: Handle,
    /// The attributes of the object, as the server last reported them.
    pub attributes: Attributes,
}

impl Remote {
    pub(crate) fn nfs(&self) -> &Nfs {
        &self.mounted.nfs
    }

    /// Returns the type of the object.
    #[must_use]
    pub const fn file_type(&self) -> FileType {
        self.attributes.file_type
    }

    /// Reads the target of a symbolic link.
    ///
    /// # Errors
    /// The server fails, or the object is no link.
    pub async fn target(&self) -> Result<Vec<u8>, Error> {
        let link = self.nfs().readlink(&self.who, &self.handle).await?.done()?;
        Ok(link.target.to_vec())
    }

    /// Returns the object with a name in this directory.
    pub(crate) async fn child(&self, name: &[u8]) -> Result<Self, Error> {
        let found = self.nfs().lookup(&self.who, &self.handle, name).await?.done()?;
        self.known(found.object, found.attributes).await
    }

    /// Returns an object of this server; requests the object's attributes if the reply lacked them.
    pub(crate) async fn known(
        &self,
        handle: Handle,
        attributes: Option<Attributes>,
    ) -> Result<Self, Error> {
        let attributes = match attributes {
            Some(attributes) => attributes,
            None => self.nfs().getattr(&self.who, &handle).await?.done()?.attributes,
        };
        Ok(Self { handle, attributes, ..self.clone() })
    }
}

impl Servers {
    /// Starts the client. No server is called yet.
    ///
    /// # Errors
    /// The system has no thread or socket left, or does not report the groups of this process.
    pub fn new(options: Options) -> Result<Self, Failure> {
        let runtime = Runtime::start().map_err(Failure::Start)?;
        let groups = rustix::process::getgroups();
        let groups = groups.map_err(|error| Failure::Start(io::Error::from(error)))?;
        let groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let name = rustix::system::uname();
        let machine = name.nodename().to_string_lossy();
        let who = Rc::new(Credential::system(&machine, uid, gid, &groups));
        Ok(Self { runtime, who, options })
    }

    /// Returns the maximum number of concurrent requests for one file.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.options.in_flight.get() * self.options.connections.get()
    }

    /// Returns the object at an address.
    ///
    /// # Errors
    /// The server cannot be reached, or the path leads to no object of the export.
    pub async fn find(&self, address: &Address, follow: Follow) -> Result<Remote, Failure> {
        let failed = |cause| Failure::at(&Place::There(address.clone()), cause);
        let mounted = mount(&self.runtime, &self.target(address), &self.who).await;
        let mounted = mounted.map_err(|error| failed(error.into()))?;
        self.walk(mounted, follow).await.map_err(failed)
    }

    fn target(&self, address: &Address) -> Target {
        let Options { mount_port, version, udp, connections, in_flight, timeout, resolve } =
            self.options;
        let options = if udp { session::Options::datagram() } else { session::Options::stream() };
        let options = session::Options {
            connections: connections.get(),
            in_flight_max: in_flight.get(),
            soft: timeout,
            fail_unreached: true,
            ..options
        };
        let (host, port) = resolve(&address.host, address.port.map(Into::into));
        Target { port, mount_port, version, ..Target::new(&host, &address.path, options) }
    }

    /// Looks up the rest of the path from the root of the export. Follows symbolic links within the
    /// export.
    async fn walk(&self, mounted: Mounted, follow: Follow) -> Result<Remote, Cause> {
        let mut names: Vec<Vec<u8>> = mounted.rest.iter().rev().cloned().collect();
        let attributes = mounted.nfs.getattr(&self.who, &mounted.root).await?.done()?.attributes;
        let (handle, who) = (mounted.root, Rc::clone(&self.who));
        let mounted = Rc::new(mounted);
        let mut way = vec![Remote { mounted, who, handle, attributes }];
        let mut links = 0;
        while let Some(name) = names.pop() {
            let here = way.last().expect("the root is never left");
            match &name[..] {
                b"" | b"." => continue,
                b".." if way.len() > 1 => {
                    way.pop();
                    continue;
                }
                b".." => return Err(Cause::Outside),
                _ => {}
            }
            let found = here.child(&name).await?;
            let is_followed = !names.is_empty() || follow == Follow::Last;
            if found.file_type() != FileType::Symlink || !is_followed {
                way.push(found);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Cause::Links);
            }
            let link = found.target().await?;
            let mut target = &link[..];
            if target.starts_with(b"/") {
                // An absolute link refers to the server's own file system, of which the client sees
                // only the export. So resolve the link only if its target starts with the path of
                // the export.
                let mounted = &found.mounted.mounted;
                let mounted = mounted.strip_suffix(b"/").unwrap_or(mounted);
                target = target.strip_prefix(mounted).ok_or(Cause::Outside)?;
                if !(target.is_empty() || target.starts_with(b"/")) {
                    return Err(Cause::Outside);
                }
                way.truncate(1);
            }
            names.extend(target.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec));
        }
        Ok(way.pop().expect("the root is never left"))
    }
}

/// Returns true if a name from a server is a valid name of one object in a directory.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

/// Returns true if a call failed because the name already exists.
pub(crate) fn is_there_already(error: &Error) -> bool {
    *error == Error::Failed(Status::AlreadyExists)
}
