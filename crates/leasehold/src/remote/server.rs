//! Connected servers, and the lookup of paths on them.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use leasehold_session::nfs::{Nfs, Version};
use leasehold_session::{Credential, Error, Options};
use leasehold_shell::client::{Mounted, Runtime, Target, mount};
use leasehold_wire::nfs3::{Attributes, FileType, Handle, Status};

use super::options::{How, NfsVersion};
use super::url::Address;
use crate::failure::{Failure, Kind};
use crate::find;

/// The maximum number of symbolic links in the resolution of one path, as in Linux.
const LINKS_MAX: usize = 40;

/// The treatment of a symbolic link as the last part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follow {
    Last,
    AllButLast,
}

/// The connections of one command to its servers.
pub(super) struct Servers {
    runtime: Runtime,
    who: Rc<Credential>,
    how: How,
}

/// An object on a server.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) mounted: Rc<Mounted>,
    pub(super) who: Rc<Credential>,
    pub(super) handle: Handle,
    pub(super) attributes: Attributes,
}

impl Remote {
    pub(super) fn nfs(&self) -> &Nfs {
        &self.mounted.nfs
    }

    pub(super) const fn file_type(&self) -> FileType {
        self.attributes.file_type
    }

    /// Returns the object with a name in this directory.
    pub(super) async fn child(&self, name: &[u8]) -> Result<Self, Error> {
        let found = self.nfs().lookup(&self.who, &self.handle, name).await?.done()?;
        self.known(found.object, found.attributes).await
    }

    /// Returns an object of this server; requests the object's attributes if the reply lacked them.
    pub(super) async fn known(
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
    pub(super) fn new(how: &How) -> Result<Self, Failure> {
        let failed = |error: &dyn fmt::Display| {
            Kind::Running.because(format!("cannot start to call servers: {error}"))
        };
        let runtime = Runtime::start().map_err(|error| failed(&error))?;
        let groups = rustix::process::getgroups().map_err(|error| failed(&error))?;
        let groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let name = rustix::system::uname();
        let machine = name.nodename().to_string_lossy();
        let who = Rc::new(Credential::system(&machine, uid, gid, &groups));
        Ok(Self { runtime, who, how: how.clone() })
    }

    /// Returns the maximum number of concurrent requests for one file.
    pub(super) fn in_flight(&self) -> usize {
        self.how.in_flight.get() * self.how.connections.get()
    }

    /// Returns the object at an address.
    pub(super) async fn find(&self, address: &Address, follow: Follow) -> Result<Remote, Failure> {
        let because = |text: &dyn fmt::Display| Kind::Running.because(format!("{address}: {text}"));
        let mounted = mount(&self.runtime, &self.target(address), &self.who).await;
        let mounted = mounted.map_err(|error| because(&error))?;
        let found = self.walk(mounted, follow).await;
        found.map_err(|error| because(&error))
    }

    fn target(&self, address: &Address) -> Target {
        let how = &self.how;
        let options = if how.udp { Options::datagram() } else { Options::stream() };
        let soft = Duration::from_secs(how.timeout.into());
        let options = Options {
            connections: how.connections.get(),
            in_flight_max: how.in_flight.get(),
            soft: (!soft.is_zero()).then_some(soft),
            fail_unreached: true,
            ..options
        };
        let (host, port) = find::resolve(&address.host, address.port.map(Into::into));
        Target {
            port,
            mount_port: how.mount_port.map(Into::into),
            version: how.nfs_version.map(|version| match version {
                NfsVersion::Two => Version::V2,
                NfsVersion::Three => Version::V3,
            }),
            ..Target::new(&host, &address.path, options)
        }
    }

    /// Looks up the rest of the path from the root of the export. Follows symbolic links within the
    /// export.
    async fn walk(&self, mounted: Mounted, follow: Follow) -> Result<Remote, Lost> {
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
                b".." => return Err(Lost::Outside),
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
                return Err(Lost::Links);
            }
            let link = found.nfs().readlink(&self.who, &found.handle).await?.done()?;
            let mut target = &link.target[..];
            if target.starts_with(b"/") {
                // An absolute link refers to the server's own file system, of which the client sees
                // only the export. So resolve the link only if its target starts with the path of
                // the export.
                let mounted = &found.mounted.mounted;
                let mounted = mounted.strip_suffix(b"/").unwrap_or(mounted);
                target = target.strip_prefix(mounted).ok_or(Lost::Outside)?;
                if !(target.is_empty() || target.starts_with(b"/")) {
                    return Err(Lost::Outside);
                }
                way.truncate(1);
            }
            names.extend(target.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec));
        }
        Ok(way.pop().expect("the root is never left"))
    }
}

/// The reason why a path cannot be resolved.
enum Lost {
    Call(Error),
    Links,
    Outside,
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        Self::Call(status.into())
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => error.fmt(f),
            Self::Links => f.write_str("too many symbolic links"),
            Self::Outside => f.write_str("a symbolic link leads out of the export"),
        }
    }
}

/// Returns true if a name from a server is a valid name of one object in a directory.
pub(super) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
}

/// Returns true if a call failed because the name already exists.
pub(super) fn is_there_already(error: &Error) -> bool {
    *error == Error::Failed(Status::AlreadyExists)
}
