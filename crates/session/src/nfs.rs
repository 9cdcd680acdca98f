//! NFS as one set of operations, whichever version the server speaks.
//!
//! Arguments and replies are those of version 3. What version 2 does not have is made of what it
//! has: ACCESS of mode bits, a guarded CREATE of LOOKUP and CREATE; COMMIT does nothing, as every
//! WRITE is stable. A server that asks for patience (JUKEBOX) is asked again, with pauses that
//! double, until the soft time of the session is over. Statuses that no RFC knows are I/O errors.

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
/// The messages of version 3, in which all is said here.
pub use leasehold_wire::nfs3 as messages;
pub use listing::{Entry, Listed, Listing, Place};

/// The versions of NFS that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 1094.
    V2,
    /// RFC 1813.
    V3,
}

impl Version {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V2 => leasehold_wire::nfs2::VERSION,
            Self::V3 => nfs3::VERSION,
        }
    }
}

/// The pauses before a server that asked for patience is asked again.
const JUKEBOX_PAUSE_MIN: Duration = Duration::from_millis(100);
const JUKEBOX_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a server that is there may take to say that it serves the lease program.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// NFS on one server. A name or a path that is too long for the version fails as at the server.
#[derive(Clone)]
pub struct Nfs {
    session: Session,
    version: Version,
    /// Whether the server has said that it has no READDIRPLUS.
    lists_names_only: Arc<AtomicBool>,
    /// Whose calls they are, where they go by the lease program.
    leases: Option<Leases>,
    /// What goes with each of them.
    rider: Option<Arc<Rider>>,
}

/// What a link says, or the link's attributes alone.
pub type Link = nfs3::Reply<LinkTarget, Option<Attributes>>;

/// What a symbolic link says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTarget {
    /// The link's attributes.
    pub attributes: Option<Attributes>,
    /// Where it leads, for the client to follow.
    pub target: Bytes,
}

impl Nfs {
    /// Calls the server of a session, which speaks that version.
    #[must_use]
    pub fn new(session: Session, version: Version) -> Self {
        let lists_names_only = Arc::default();
        Self { session, version, lists_names_only, leases: None, rider: None }
    }

    /// The same server by the lease program, as a client with an id that no other has, where it
    /// serves that, in version 3. Elsewhere this stays as it is, and [`Nfs::leases`] says so.
    /// `name` is for people.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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
            // Some do not deny what they do not serve, or in words that nobody can read.
            Some(Err(Error::Denied(_) | Error::Garbled(_))) | None => Ok(self),
            Some(Err(error)) => Err(error),
        }
    }

    /// What comes of a call, if it does so in time.
    async fn answer_in<T>(&self, limit: Duration, call: impl Future<Output = T>) -> Option<T> {
        let (mut call, mut end) = (pin!(call), pin!(self.session.sleep(limit)));
        poll_fn(|context| match call.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => end.as_mut().poll(context).map(|_| None),
        })
        .await
    }

    /// The same server, where this goes with each call: one is to be made by it.
    #[must_use]
    pub fn ridden(&self, rider: Arc<Rider>) -> Self {
        Self { rider: Some(rider), ..self.clone() }
    }

    /// The client of the lease program that calls, where one does.
    #[must_use]
    pub const fn leases(&self) -> Option<&Leases> {
        self.leases.as_ref()
    }

    /// The session.
    #[must_use]
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Calls NULL: does nothing, and shows that the server is there and speaks the version.
    ///
    /// # Errors
    /// When the call came to nothing, as for every operation here. What fails at the server is a
    /// reply.
    pub async fn null(&self, who: &Credential) -> Result<(), Error> {
        self.run(who, leasehold_wire::rpc::null::NUMBER, Weight::Light, &()).await.map(drop)
    }

    /// The attributes of an object.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Changes attributes; with a guard, only if that still is the time of the last change.
    /// Version 2 has no guards, and fails where one is given.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// The object of a name.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Which kinds of access a caller has, of those that are asked for.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// What a symbolic link says.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Data of a file: at most `count` bytes, and fewer where the server likes.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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
                    // Whatever a server says, no more than was asked for, and what came counts.
                    done.data.truncate(count as usize);
                    done.count = u32::try_from(done.data.len()).unwrap_or(count);
                }
                Ok(read)
            }
            Version::V2 => v2::read_file(self, who, file, offset, count).await,
        }
    }

    /// Writes data to a file: all of it, or as much as the server likes.
    ///
    /// # Errors
    /// As [`Nfs::null`].
    pub async fn write(
        &self,
        who: &Credential,
        file: &Handle,
        offset: u64,
        data: (Bytes, write::Stability),
    ) -> Result<write::Reply, Error> {
        self.write_and_set(who, file, offset, data, SetAttributes::default()).await
    }

    /// The same, and sets attributes behind it, as far as the lease program is spoken: without it
    /// there must be none. It fails as a whole where they cannot be set.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Writes data to where a file ends then, and says where that was; by the lease program alone.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Says where the data of a file lies, for a client that goes there itself under a lease of
    /// that kind; by the lease program alone. A server of an earlier version does not know the
    /// procedure.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Gives back the layout of a file from [`Nfs::objects`]; by the lease program alone.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Makes a regular file.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Makes a special file; not with version 2.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Removes a name that is no directory's.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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
    /// As [`Nfs::null`].
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

    /// Gives an object another name.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// Gives an object a further name.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// How much room a file system has.
    ///
    /// # Errors
    /// As [`Nfs::null`].
    pub async fn fsstat(&self, who: &Credential, root: &Handle) -> Result<fsstat::Reply, Error> {
        match self.version {
            Version::V3 => {
                let args = fsstat::Args { root: *root };
                reply(&self.run(who, fsstat::NUMBER, Weight::Light, &args).await?)
            }
            Version::V2 => v2::fsstat(self, who, root).await,
        }
    }

    /// Puts unstable data on stable storage; a count of zero reaches to the end of the file.
    ///
    /// # Errors
    /// As [`Nfs::null`].
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

    /// What the server does on a file system, and its limits: [`Bounds`] are made of it.
    async fn fsinfo(&self, who: &Credential, root: &Handle) -> Result<fsinfo::Reply, Error> {
        let args = fsinfo::Args { root: *root };
        reply(&self.run(who, fsinfo::NUMBER, Weight::Light, &args).await?)
    }

    async fn pathconf(&self, who: &Credential, object: &Handle) -> Result<pathconf::Reply, Error> {
        let args = pathconf::Args { object: *object };
        reply(&self.run(who, pathconf::NUMBER, Weight::Light, &args).await?)
    }

    /// The results of a procedure, once the server does not ask for patience any more.
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

/// What version 2 does not have.
fn unsupported<Done, Failed: Default>() -> nfs3::Reply<Done, Failed> {
    nfs3::Reply::Failed(Status::NotSupported, Failed::default())
}

/// The status of a number; one that no RFC knows is an I/O error.
fn status(word: u32) -> Status {
    let known = Status::ALL.iter().find(|status| **status as u32 == word);
    known.copied().unwrap_or(Status::Io)
}

/// Reads results of version 3.
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
