//! NFS as one set of operations for both versions of the server.
//!
//! Arguments and replies have the types of version 3. Operations that version 2 lacks are emulated:
//! ACCESS by mode bits, a guarded CREATE by LOOKUP and CREATE; COMMIT does nothing, because every
//! WRITE is stable. A call that returns JUKEBOX is repeated with pauses that double, up to the soft
//! timeout of the session. A status that no RFC defines becomes an I/O error.

mod bounds;
mod convert;
mod listing;
mod v2;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use leasehold_base::xdr::{Decode, Encode, Reader};
use leasehold_core::calls::Weight;
use leasehold_wire::lease;
use leasehold_wire::nfs3::{
    self, Attributes, DirectoryArgs, Handle, Name, Path, SetAttributes, Status, Time, access,
    commit, create, fsinfo, fsstat, getattr, link, lookup, mkdir, mknod, pathconf, read, readlink,
    remove, rename, rmdir, setattr, symlink, write,
};

use crate::call::Results;
use crate::credential::Credential;
use crate::error::Error;
use crate::leases::{Leases, Rider};
use crate::session::{Procedure, Session};

pub use bounds::Bounds;
/// The messages of version 3, which this module uses for both versions.
pub use leasehold_wire::nfs3 as messages;
pub use listing::{Entry, Listed, Listing, Place};

/// The supported versions of NFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// NFS version 2 (RFC 1094).
    V2,
    /// NFS version 3 (RFC 1813).
    V3,
}

impl Version {
    /// Returns the version number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V2 => leasehold_wire::nfs2::VERSION,
            Self::V3 => nfs3::VERSION,
        }
    }
}

/// The pauses before a retry after JUKEBOX.
const JUKEBOX_PAUSE_MIN: Duration = Duration::from_millis(100);
const JUKEBOX_PAUSE_MAX: Duration = Duration::from_secs(5);

/// The longest wait for a server's reply to HELLO of the lease program.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// NFS on one server. A call with a name or a path that is too long for the version fails with the
/// error that the server would return.
#[derive(Clone)]
pub struct Nfs {
    session: Session,
    version: Version,
    /// True if the server has reported that it lacks READDIRPLUS.
    lists_names_only: Arc<AtomicBool>,
    /// The client of the lease program, if the calls use that program.
    leases: Option<Leases>,
    /// The piggybacked lease information of each call.
    rider: Option<Arc<Rider>>,
}

/// The target of a link, or only the link's attributes.
pub type Link = nfs3::Reply<LinkTarget, Option<Attributes>>;

/// The target of a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// The link's attributes.
    pub attributes: Option<Attributes>,
    /// The path, which the client resolves.
    pub target: Bytes,
}

impl Nfs {
    /// Creates a client of the server of a session. The server must support this version.
    #[must_use]
    pub fn new(session: Session, version: Version) -> Self {
        let lists_names_only = Arc::default();
        Self { session, version, lists_names_only, leases: None, rider: None }
    }

    /// Switches to the lease program, with a unique client id, if this is version 3 and the server
    /// supports the program. Otherwise this value stays unchanged, and [`Nfs::leases`] returns
    /// None. `name` is for display.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn with_leases(
        self,
        who: &Credential,
        client: [u8; 16],
        name: &[u8],
    ) -> Result<Self, Error> {
        if self.version != Version::V3 {
            return Ok(self);
        }
        let leases = Leases::new(&self.session, client, name);
        match self.answer_in(HELLO_LIMIT, leases.hello(who)).await {
            Some(Ok(())) => Ok(Self { leases: Some(leases), ..self }),
            // Servers without the lease program refuse the call, send a malformed refusal, or do
            // not reply at all. In all these cases the client uses NFS version 3.
            Some(Err(Error::Denied(_) | Error::Garbled(_))) | None => Ok(self),
            Some(Err(error)) => Err(error),
        }
    }

    /// Returns the result of a call; None if the call takes longer than `limit`.
    async fn answer_in<T>(&self, limit: Duration, call: impl Future<Output = T>) -> Option<T> {
        let (mut call, mut end) = (pin!(call), pin!(self.session.sleep(limit)));
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => end.as_mut().poll(context).map(|_| None),
        })
        .await
    }

    /// Returns a clone of this client with piggybacked lease information, for a single call.
    #[must_use]
    pub fn ridden(&self, rider: Arc<Rider>) -> Self {
        Self { rider: Some(rider), ..self.clone() }
    }

    /// Returns the client of the lease program, if the calls use that program.
    #[must_use]
    pub const fn leases(&self) -> Option<&Leases> {
        self.leases.as_ref()
    }

    /// Returns the session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Calls NULL, which does nothing and shows that the server runs and supports the version.
    ///
    /// # Errors
    /// An error if the call failed, as for every operation here. A failure at the server is a
    /// reply.
    pub async fn null(&self, who: &Credential) -> Result<(), Error> {
        self.run(who, leasehold_wire::rpc::null::NUMBER, Weight::Light, &()).await.map(drop)
    }

    /// Returns the attributes of an object.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn getattr(
        &self,
        who: &Credential,
        object: &Handle,
    ) -> Result<getattr::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = getattr::Args { object: *object };
                reply(&self.run(who, getattr::NUMBER, Weight::Light, &args).await?)
            }
            Version::V2 => v2::getattr(self, who, object).await,
        }
    }

    /// Changes attributes. If a guard is given, the change is made only if the object's change time
    /// equals the guard. Version 2 has no guards, so a call with a guard fails.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn setattr(
        &self,
        who: &Credential,
        object: &Handle,
        attributes: &SetAttributes,
        guard: Option<Time>,
    ) -> Result<setattr::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = setattr::Args { object: *object, attributes: *attributes, guard };
                reply(&self.run(who, setattr::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 if guard.is_some() => Ok(unsupported()),
            Version::V2 => v2::setattr(self, who, object, attributes).await,
        }
    }

    /// Returns the object of a name.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn lookup(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
    ) -> Result<lookup::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = place(directory, name);
                reply(&self.run(who, lookup::NUMBER, Weight::Light, &args).await?)
            }
            Version::V2 => v2::lookup(self, who, directory, name).await,
        }
    }

    /// Returns the subset of the requested kinds of access that the caller has.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn access(
        &self,
        who: &Credential,
        object: &Handle,
        access: access::Access,
    ) -> Result<access::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = access::Args { object: *object, access };
                reply(&self.run(who, access::NUMBER, Weight::Light, &args).await?)
            }
            Version::V2 => v2::access(self, who, object, access).await,
        }
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn readlink(&self, who: &Credential, symlink: &Handle) -> Result<Link, Error> {
        match self.version {
            Version::V3 => {
                let args = readlink::Args { symlink: *symlink };
                let results = self.run(who, readlink::NUMBER, Weight::Light, &args).await?;
                let read: readlink::Reply<'_> = reply(&results)?;
                Ok(read.map(|done| LinkTarget {
                    attributes: done.attributes,
                    target: Bytes::copy_from_slice(done.target.0),
                }))
            }
            Version::V2 => v2::readlink(self, who, symlink).await,
        }
    }

    /// Reads data of a file: at most `count` bytes; the server may return fewer.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn read(
        &self,
        who: &Credential,
        file: &Handle,
        offset: u64,
        count: u32,
    ) -> Result<read::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = read::Args { file: *file, offset, count };
                let results = self.run(who, read::NUMBER, Weight::Heavy, &args).await?;
                let mut read: read::Reply = reply(&results)?;
                if let nfs3::Reply::Done(done) = &mut read {
                    // A faulty server may send more data than requested, or a wrong count. The data
                    // is truncated, and the length of the data replaces the count.
                    done.data.truncate(count as usize);
                    done.count = u32::try_from(done.data.len()).unwrap_or(count);
                }
                Ok(read)
            }
            Version::V2 => v2::read_file(self, who, file, offset, count).await,
        }
    }

    /// Writes data to a file: all of it, or a part that the server chooses.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn write(
        &self,
        who: &Credential,
        file: &Handle,
        offset: u64,
        data: (Bytes, write::Stability),
    ) -> Result<write::Reply, Error> {
        self.write_and_set(who, file, offset, data, SetAttributes::default()).await
    }

    /// Like [`Nfs::write`], and then sets attributes in the same call. A call with attributes needs
    /// the lease program. The whole call fails if the server cannot set the attributes.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn write_and_set(
        &self,
        who: &Credential,
        file: &Handle,
        offset: u64,
        (data, stability): (Bytes, write::Stability),
        attributes: SetAttributes,
    ) -> Result<write::Reply, Error> {
        match self.version {
            Version::V3 => {
                let count = u32::try_from(data.len()).unwrap_or(u32::MAX);
                let write = write::Args { file: *file, offset, count, stability, data };
                let results = if self.leases.is_some() {
                    let args = lease::write::Merged { attributes, write };
                    self.run(who, write::NUMBER, Weight::Heavy, &args).await?
                } else {
                    self.run(who, write::NUMBER, Weight::Heavy, &write).await?
                };
                let mut written: write::Reply = reply(&results)?;
                if let nfs3::Reply::Done(done) = &mut written {
                    done.count = done.count.min(count);
                }
                Ok(written)
            }
            Version::V2 => v2::write(self, who, file, offset, data).await,
        }
    }

    /// Appends data at the end of a file, and returns the offset of the data; needs the lease
    /// program.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn append(
        &self,
        who: &Credential,
        file: &Handle,
        (data, stability): (Bytes, write::Stability),
    ) -> Result<nfs3::Reply<lease::append::Appended, nfs3::Wcc>, Error> {
        if self.leases.is_none() {
            return Ok(unsupported());
        }
        let args = lease::append::Data { file: *file, stability, data };
        reply(&self.run(who, lease::append::NUMBER, Weight::Heavy, &args).await?)
    }

    /// Returns the layout of a file for direct data access under a lease of the given kind; needs
    /// the lease program. A server of an earlier version does not have this procedure.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn objects(
        &self,
        who: &Credential,
        file: &Handle,
        kind: lease::Kind,
    ) -> Result<nfs3::Reply<lease::objects::Layout, ()>, Error> {
        if self.leases.is_none() {
            return Ok(unsupported());
        }
        let args = lease::objects::Wanted { file: *file, kind };
        reply(&self.run(who, lease::objects::NUMBER, Weight::Light, &args).await?)
    }

    /// Returns the layout of a file from [`Nfs::objects`] to the server; needs the lease program.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn give_objects_back(
        &self,
        who: &Credential,
        file: &Handle,
    ) -> Result<nfs3::Reply<(), ()>, Error> {
        if self.leases.is_none() {
            return Ok(unsupported());
        }
        let args = lease::layout::Wanted { file: *file, kind: None };
        let reply: nfs3::Reply<lease::layout::Layout, ()> =
            reply(&self.run(who, lease::layout::NUMBER, Weight::Light, &args).await?)?;
        Ok(reply.map(drop))
    }

    /// Creates a regular file.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn create(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
        how: create::How,
    ) -> Result<create::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = create::Args { place: place(directory, name), how };
                reply(&self.run(who, create::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::create(self, who, directory, name, how).await,
        }
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn mkdir(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
        attributes: &SetAttributes,
    ) -> Result<mkdir::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = mkdir::Args { place: place(directory, name), attributes: *attributes };
                reply(&self.run(who, mkdir::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::mkdir(self, who, directory, name, attributes).await,
        }
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn symlink(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
        (target, attributes): (&[u8], &SetAttributes),
    ) -> Result<symlink::Reply, Error> {
        match self.version {
            Version::V3 => {
                let (place, attributes) = (place(directory, name), *attributes);
                let args = symlink::Args { place, attributes, target: Path(target) };
                reply(&self.run(who, symlink::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::symlink(self, who, directory, name, target, attributes).await,
        }
    }

    /// Creates a special file; not supported in version 2.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn mknod(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
        node: mknod::Node,
    ) -> Result<mknod::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = mknod::Args { place: place(directory, name), node };
                reply(&self.run(who, mknod::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => Ok(unsupported()),
        }
    }

    /// Removes a name of any object except a directory.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn remove(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
    ) -> Result<remove::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = place(directory, name);
                reply(&self.run(who, remove::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::remove(self, who, directory, name).await,
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn rmdir(
        &self,
        who: &Credential,
        directory: &Handle,
        name: &[u8],
    ) -> Result<rmdir::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = place(directory, name);
                reply(&self.run(who, rmdir::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::rmdir(self, who, directory, name).await,
        }
    }

    /// Renames an object.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn rename(
        &self,
        who: &Credential,
        from: (&Handle, &[u8]),
        to: (&Handle, &[u8]),
    ) -> Result<rename::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = rename::Args { from: place(from.0, from.1), to: place(to.0, to.1) };
                reply(&self.run(who, rename::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::rename(self, who, from, to).await,
        }
    }

    /// Adds a name to an object.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn link(
        &self,
        who: &Credential,
        file: &Handle,
        directory: &Handle,
        name: &[u8],
    ) -> Result<link::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = link::Args { file: *file, link: place(directory, name) };
                reply(&self.run(who, link::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => v2::link(self, who, file, directory, name).await,
        }
    }

    /// Returns the space on a file system.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn fsstat(&self, who: &Credential, root: &Handle) -> Result<fsstat::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = fsstat::Args { root: *root };
                reply(&self.run(who, fsstat::NUMBER, Weight::Light, &args).await?)
            }
            Version::V2 => v2::fsstat(self, who, root).await,
        }
    }

    /// Makes unstable data stable; a count of zero means to the end of the file.
    ///
    /// # Errors
    /// As for [`Nfs::null`].
    pub async fn commit(
        &self,
        who: &Credential,
        file: &Handle,
        offset: u64,
        count: u32,
    ) -> Result<commit::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = commit::Args { file: *file, offset, count };
                reply(&self.run(who, commit::NUMBER, Weight::Heavy, &args).await?)
            }
            Version::V2 => {
                let (file, verifier) = (nfs3::Wcc::default(), v2::VERIFIER);
                Ok(nfs3::Reply::Done(commit::Done { file, verifier }))
            }
        }
    }

    /// Returns the properties and limits of a file system, from which [`Bounds`] derive.
    async fn fsinfo(&self, who: &Credential, root: &Handle) -> Result<fsinfo::Reply, Error> {
        let args = fsinfo::Args { root: *root };
        reply(&self.run(who, fsinfo::NUMBER, Weight::Light, &args).await?)
    }

    async fn pathconf(&self, who: &Credential, object: &Handle) -> Result<pathconf::Reply, Error> {
        let args = pathconf::Args { object: *object };
        reply(&self.run(who, pathconf::NUMBER, Weight::Light, &args).await?)
    }

    /// Returns the results of a procedure, and retries after JUKEBOX.
    async fn run(
        &self,
        who: &Credential,
        number: u32,
        weight: Weight,
        args: &impl Encode,
    ) -> Result<Results, Error> {
        let version = self.version.number();
        let procedure = Procedure { program: nfs3::PROGRAM, version, number, weight };
        let begun = self.session.now();
        let mut pause = JUKEBOX_PAUSE_MIN;
        loop {
            let results = match &self.leases {
                Some(leases) if number != leasehold_wire::rpc::null::NUMBER => {
                    leases.run(who, (number, weight), args, self.rider.as_deref()).await?
                }
                Some(_) | None => self.session.call(who, procedure, args).await?,
            };
            let soft = self.session.options().soft;
            let may_wait = soft.is_none_or(|soft| self.session.now().since(begun) + pause < soft);
            if !(is_jukebox(&results) && self.version == Version::V3 && may_wait) {
                return Ok(results);
            }
            self.session.sleep(pause).await;
            pause = (pause * 2).min(JUKEBOX_PAUSE_MAX);
        }
    }
}

fn is_jukebox(results: &Results) -> bool {
    results.bytes().first_chunk() == Some(&(Status::Jukebox as u32).to_be_bytes())
}

fn place<'a>(directory: &Handle, name: &'a [u8]) -> DirectoryArgs<'a> {
    DirectoryArgs { directory: *directory, name: Name(name) }
}

/// Returns the failure of an operation that version 2 lacks.
fn unsupported<Done, Failed: Default>() -> nfs3::Reply<Done, Failed> {
    nfs3::Reply::Failed(Status::NotSupported, Failed::default())
}

/// Returns the status of a number; an unknown number becomes an I/O error.
fn status(word: u32) -> Status {
    let known = Status::ALL.iter().find(|status| **status as u32 == word);
    known.copied().unwrap_or(Status::Io)
}

/// Decodes results of version 3.
fn reply<'a, Done: Decode<'a>, Failed: Decode<'a>>(
    results: &'a Results,
) -> Result<nfs3::Reply<Done, Failed>, Error> {
    let mut reader = Reader::new(results.bytes());
    let word = reader.u32().map_err(Error::Garbled)?;
    let read = match word {
        0 => Done::decode(&mut reader).map(nfs3::Reply::Done),
        _ => Failed::decode(&mut reader).map(|failed| nfs3::Reply::Failed(status(word), failed)),
    };
    read.map_err(Error::Garbled)
}
