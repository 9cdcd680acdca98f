//! The trait `Files` for a directory of an NFS server.

use core::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use leasehold_base::units::FileTime;
use leasehold_fs::{FsError, Owner, Space, Spot, Stability, Verifier};
use leasehold_session::nfs::messages::{Attributes, Handle, Status, create, write};
use leasehold_session::nfs::{Bounds, Nfs, Place, messages};
use leasehold_session::{Credential, Error, Traffic};

use crate::files::Files;
use crate::iod::{Extent, Room};
use crate::local::is_of_directories;

/// The mode of an object that clients may write: the owner writes, and the group reads.
const WRITTEN_MODE: u32 = 0o640;

/// The mode of an object that clients only read, as its group. Even the owner has no write
/// permission: a client can learn the user id of the owner from the attributes that a server
/// returns, and could otherwise write the object under this id.
const READ_MODE: u32 = 0o440;

/// The permission bits of a mode, including set-user-ID, set-group-ID and the sticky bit.
const MODE_BITS: u32 = 0o7777;

/// Files below a directory of a server, accessed as one user.
pub struct Remote {
    nfs: Nfs,
    who: Credential,
    /// The credential that replaces `who` as soon as it is available.
    later: Arc<OnceLock<Credential>>,
    /// The callback for a server that refuses the credential because another metaserver has
    /// superseded this metaserver.
    over: Option<Arc<dyn Fn() + Send + Sync>>,
    root: Handle,
    bounds: Bounds,
    machine: u64,
    /// The address at which clients reach the server; `None` if clients cannot reach the server.
    reached_at: Option<SocketAddr>,
    /// Returns the authentication token that makes the server accept clients if the server has
    /// recorded a rollback counter; `None` for a server that does not support such tokens.
    lets_in: Option<Arc<Word>>,
}

/// A function that returns the authentication token for a rollback counter.
type Word = dyn Fn(u64) -> String + Send + Sync;

impl Remote {
    /// Creates the files below a directory of a server with these bounds; `machine` is one number
    /// for all servers of a machine.
    #[must_use]
    pub fn new(nfs: Nfs, who: Credential, root: Handle, bounds: Bounds, machine: u64) -> Self {
        let (later, over) = (Arc::default(), None);
        Self { nfs, who, later, over, root, bounds, machine, reached_at: None, lets_in: None }
    }

    /// Sets a credential that replaces the first one as soon as it is available. The callback
    /// `over` runs each time that the server refuses the credential because another metaserver has
    /// superseded this metaserver.
    #[must_use]
    pub fn later_as(
        self,
        later: Arc<OnceLock<Credential>>,
        over: Arc<dyn Fn() + Send + Sync>,
    ) -> Self {
        Self { later, over: Some(over), ..self }
    }

    /// Sets the address at which clients access the files directly.
    #[must_use]
    pub fn reached_at(self, address: SocketAddr) -> Self {
        Self { reached_at: Some(address), ..self }
    }

    /// Sets the function for authentication tokens. The server answers clients only after it has
    /// received the token for the rollback counter that it has recorded.
    #[must_use]
    pub fn letting_in(self, word: Arc<dyn Fn(u64) -> String + Send + Sync>) -> Self {
        Self { lets_in: Some(word), ..self }
    }

    fn who(&self) -> &Credential {
        self.later.get().unwrap_or(&self.who)
    }

    /// Translates the error of a call to the server. Runs the callback `over` if another metaserver
    /// has superseded this metaserver.
    fn lost(&self, error: Error) -> FsError {
        if error.is_of_one_who_is_over() {
            self.over.iter().for_each(|over| over());
        }
        lost(error)
    }

    /// Queries the current attributes of a file.
    async fn attributes(&self, file: &Handle) -> Result<Attributes, FsError> {
        let told = self.nfs.getattr(self.who(), file).await.map_err(|error| self.lost(error))?;
        Ok(told.done().map_err(meaning)?.attributes)
    }

    /// Returns the attributes from a reply, or queries the server if the reply has none.
    async fn told(&self, file: &Handle, told: Option<Attributes>) -> Result<Attributes, FsError> {
        match told {
            Some(attributes) => Ok(attributes),
            None => self.attributes(file).await,
        }
    }

    /// Returns the handle of the created object. Looks the name up if the reply contains no handle,
    /// which RFC 1813 permits.
    async fn made(
        &self,
        made: Option<Handle>,
        directory: Handle,
        name: &str,
    ) -> Result<Handle, FsError> {
        match made {
            Some(object) => Ok(object),
            None => self.lookup(directory, name).await?.ok_or(FsError::NotFound),
        }
    }
}

impl Files for Remote {
    type Object = Handle;

    fn root(&self) -> Handle {
        self.root
    }

    async fn names(&self, directory: Handle) -> Result<Vec<Vec<u8>>, FsError> {
        let bytes = self.bounds.directory_bytes;
        let mut names = Vec::new();
        let mut place = Some(Place::default());
        while let Some(from) = place {
            let listed = self.nfs.list(self.who(), &directory, from, bytes, false).await;
            let listed = listed.map_err(|error| self.lost(error))?.done().map_err(meaning)?;
            place = listed.next();
            let here = listed.entries.into_iter().map(|entry| entry.name.to_vec());
            names.extend(here.filter(|name| !is_of_directories(name)));
        }
        Ok(names)
    }

    async fn lookup(&self, directory: Handle, name: &str) -> Result<Option<Handle>, FsError> {
        let found = self
            .nfs
            .lookup(self.who(), &directory, name.as_bytes())
            .await
            .map_err(|error| self.lost(error))?;
        match found.done() {
            Ok(found) => Ok(Some(found.object)),
            Err(Status::NotFound) => Ok(None),
            Err(status) => Err(meaning(status)),
        }
    }

    async fn make_directory(&self, directory: Handle, name: &str) -> Result<Handle, FsError> {
        let made = self.nfs.mkdir(self.who(), &directory, name.as_bytes(), &mode(0o700)).await;
        match made.map_err(|error| self.lost(error))?.done() {
            Ok(made) => self.made(made.object, directory, name).await,
            Err(Status::AlreadyExists) => self.made(None, directory, name).await,
            Err(status) => Err(meaning(status)),
        }
    }

    async fn make_file(&self, directory: Handle, name: &str) -> Result<Handle, FsError> {
        let how = create::How::Unchecked(mode(0o600));
        let made = self.nfs.create(self.who(), &directory, name.as_bytes(), how).await;
        let made = made.map_err(|error| self.lost(error))?.done().map_err(meaning)?;
        self.made(made.object, directory, name).await
    }

    async fn remove(&self, directory: Handle, name: &str) -> Result<(), FsError> {
        let removed = self.nfs.remove(self.who(), &directory, name.as_bytes()).await;
        removed.map_err(|error| self.lost(error))?.done().map(drop).map_err(meaning)
    }

    async fn extent(&self, file: Handle) -> Result<Extent, FsError> {
        Ok(extent(&self.attributes(&file).await?))
    }

    async fn resize(&self, file: Handle, size: u64) -> Result<Extent, FsError> {
        let changes =
            messages::SetAttributes { size: Some(size), ..messages::SetAttributes::default() };
        let done = self.nfs.setattr(self.who(), &file, &changes, None).await;
        let done = done.map_err(|error| self.lost(error))?.done().map_err(meaning)?;
        Ok(extent(&self.told(&file, done.after).await?))
    }

    async fn read(&self, file: Handle, offset: u64, count: u32) -> Result<(Bytes, bool), FsError> {
        let count = count.min(self.bounds.read_bytes);
        let read = self
            .nfs
            .read(self.who(), &file, offset, count)
            .await
            .map_err(|error| self.lost(error))?;
        let read = read.done().map_err(meaning)?;
        Ok((read.data, read.end))
    }

    async fn write(
        &self,
        file: Handle,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<(usize, Verifier, Option<Extent>), FsError> {
        let count = data.len().min(self.bounds.write_bytes as usize);
        let what = (data.slice(..count), wanted(stability));
        let done = self
            .nfs
            .write(self.who(), &file, offset, what)
            .await
            .map_err(|error| self.lost(error))?;
        let done = done.done().map_err(meaning)?;
        if done.stability < wanted(stability) {
            // The server did not make the data stable as requested, which RFC 1813 3.3.7 forbids.
            return Err(FsError::Io);
        }
        let extent = done.file.after.as_ref().map(extent);
        Ok((done.count as usize, Verifier(done.verifier), extent))
    }

    async fn commit(&self, file: Handle) -> Result<Verifier, FsError> {
        let done = self
            .nfs
            .commit(self.who(), &file, 0, 0)
            .await
            .map_err(|error| self.lost(error))?
            .done();
        Ok(Verifier(done.map_err(meaning)?.verifier))
    }

    async fn give(&self, file: Handle, owner: Owner) -> Result<Option<Spot>, FsError> {
        let Some(address) = self.reached_at else { return Ok(None) };
        let spot = || Spot { address, handle: file.as_bytes().to_vec() };
        let mode = if owner.is_given_out() { WRITTEN_MODE } else { READ_MODE };
        let is_given = |told: &Attributes| {
            let of = Owner { user: told.uid, group: told.gid };
            of == owner && told.mode & MODE_BITS == mode
        };
        if is_given(&self.attributes(&file).await?) {
            return Ok(Some(spot()));
        }
        let changes = messages::SetAttributes {
            mode: Some(mode),
            uid: Some(owner.user),
            gid: Some(owner.group),
            ..messages::SetAttributes::default()
        };
        let done = self
            .nfs
            .setattr(self.who(), &file, &changes, None)
            .await
            .map_err(|error| self.lost(error))?;
        let after = match done.done() {
            Ok(done) => done.after,
            // The metaserver is an ordinary user on this server and cannot change the owner, so
            // clients cannot access the file directly.
            Err(Status::NotOwner | Status::Access | Status::Invalid | Status::NotSupported) => {
                return Ok(None);
            }
            Err(status) => return Err(meaning(status)),
        };
        Ok(is_given(&self.told(&file, after).await?).then(spot))
    }

    async fn let_clients_in(&self, turn: u64) -> Result<(), FsError> {
        let Some(word) = &self.lets_in else { return Ok(()) };
        let who = Credential::system(&word(turn), self.who.uid(), self.who.gid(), &[]);
        self.nfs.null(&who).await.map_err(lost)
    }

    fn connections(&self) -> u64 {
        let session = self.nfs.session();
        // Count openings and losses: two for each connection that was opened, less one for each
        // connection that is still open.
        (2 * session.counters().connections).saturating_sub(session.open_connections() as u64)
    }

    async fn space(&self) -> Result<Room, FsError> {
        let root = self
            .nfs
            .getattr(self.who(), &self.root)
            .await
            .map_err(|error| self.lost(error))?
            .done();
        let file_system = root.map_err(meaning)?.attributes.file_system;
        let told =
            self.nfs.fsstat(self.who(), &self.root).await.map_err(|error| self.lost(error))?;
        let told = told.done().map_err(meaning)?;
        let space = Space {
            bytes: told.bytes,
            free_bytes: told.free_bytes,
            available_bytes: told.available_bytes,
            files: told.files,
            free_files: told.free_files,
            available_files: told.available_files,
        };
        Ok(Room { space, place: (self.machine, file_system) })
    }

    fn traffic(&self) -> Traffic {
        self.nfs.session().traffic()
    }
}

fn extent(attributes: &Attributes) -> Extent {
    let Attributes { size, used, uid: owner, modified, .. } = *attributes;
    let messages::Time { seconds, nanoseconds } = modified;
    let modified = FileTime { seconds: seconds.into(), nanoseconds };
    Extent { size, used, owner, modified }
}

fn mode(bits: u32) -> messages::SetAttributes {
    let mode = Some(bits);
    messages::SetAttributes { mode, ..messages::SetAttributes::default() }
}

const fn wanted(stability: Stability) -> write::Stability {
    match stability {
        Stability::Unstable => write::Stability::Unstable,
        Stability::DataSync => write::Stability::DataSync,
        Stability::FileSync => write::Stability::FileSync,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as it comes out of a result")]
fn lost(error: Error) -> FsError {
    match error {
        Error::Failed(status) => meaning(status),
        Error::Busy => FsError::Delay,
        // Another metaserver has superseded this metaserver, so the client may retry at the other
        // metaserver.
        Error::Denied(_) if error.is_of_one_who_is_over() => FsError::Delay,
        Error::Closed
        | Error::Denied(_)
        | Error::Garbled(_)
        | Error::TimedOut
        | Error::Unreachable(_) => FsError::Io,
    }
}

/// Translates an error status of an iod. Errors about file names, ids or permissions on the iod
/// mean nothing to a client, so they become I/O errors.
const fn meaning(status: Status) -> FsError {
    match status {
        Status::NoSpace => FsError::NoSpace,
        Status::QuotaExceeded => FsError::QuotaExceeded,
        Status::FileTooBig => FsError::FileTooBig,
        Status::ReadOnly => FsError::ReadOnly,
        Status::Jukebox => FsError::Delay,
        Status::NotFound => FsError::NotFound,
        Status::Stale | Status::BadHandle => FsError::Stale,
        Status::NotOwner
        | Status::Io
        | Status::NoSuchAddress
        | Status::Access
        | Status::AlreadyExists
        | Status::CrossDevice
        | Status::NoSuchDevice
        | Status::NotDirectory
        | Status::IsDirectory
        | Status::Invalid
        | Status::TooManyLinks
        | Status::NameTooLong
        | Status::NotEmpty
        | Status::Remote
        | Status::NotSynchronized
        | Status::BadCookie
        | Status::NotSupported
        | Status::TooSmall
        | Status::ServerFault
        | Status::BadType => FsError::Io,
    }
}
