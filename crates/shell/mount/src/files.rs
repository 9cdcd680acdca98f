//! The file system of a mount: dispatches each request.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::units::FileSystemId;
use leasehold_client::{
    Access, Client, Credential, FileType, Found, NodeId, OpenHow, Seen, Variant,
};
use leasehold_fuse::{
    Answer, AttributeChanges, Entry, Errno, FileSystem, Notifier, Opened, Operation, Reply,
    Request, Space,
};

use crate::caller::Callers;
use crate::convert::{self, errno};
use crate::data::Write;
use crate::kernel_cache::{KernelCaches, NAMED_MAX, Telling};
use crate::open::{Open, Openings};

/// The operations on names in a directory.
macro_rules! names {
    () => {
        Operation::Create { .. }
            | Operation::Link { .. }
            | Operation::Lookup { .. }
            | Operation::Mkdir { .. }
            | Operation::Mknod { .. }
            | Operation::Rename { .. }
            | Operation::Rmdir { .. }
            | Operation::Symlink { .. }
            | Operation::Unlink { .. }
    };
}

/// Returns true if an operation reads or changes names in a directory.
const fn is_of_names(operation: &Operation) -> bool {
    matches!(operation, names!() | Operation::Opendir | Operation::Readdir { .. })
}

/// The files of an NFS server.
pub struct Files {
    pub(crate) client: Client,
    pub(crate) openings: Openings,
    pub(crate) keeper: Arc<KernelCaches>,
    pub(crate) notifier: Notifier,
    callers: Callers,
    judge: Judge,
    /// The file system that contains the root of the mount, if known.
    home: Option<FileSystemId>,
}

/// The party that decides the access of the users of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The kernel decides by mode bits. The server then checks each call as well.
    Kernel,
    /// The server decides for one user; no other user may use the mount.
    ServerForOne,
    /// The server decides for several users.
    ServerForAll,
}

/// The resources of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// The number of objects to which the kernel has references.
    pub nodes: usize,
    /// The number of open files and directories.
    pub open: usize,
}

impl Files {
    /// Creates the file system of a client. `machine` is the machine name in credentials.
    #[must_use]
    pub fn new(client: Client, machine: String, notifier: Notifier, judge: Judge) -> Self {
        let keeper = Arc::new(KernelCaches::default());
        crate::invalidate::watch(&client, &notifier, &keeper);
        let home = client.known_file_system(NodeId::ROOT);
        Self {
            client,
            openings: Openings::default(),
            keeper,
            notifier,
            callers: Callers::new(machine),
            judge,
            home,
        }
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the resources in use.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings { nodes: self.keeper.count(), open: self.openings.count() }
    }

    /// Saves all written data. Returns true if no written data was lost, now or earlier, without a
    /// program having received the error.
    pub async fn settle(&self) -> bool {
        self.client.sync().await;
        !self.client.has_refused_untold()
    }

    /// Closes all open files after the end of the mount, because the kernel then sends no more
    /// RELEASE requests.
    pub fn close_all(&self) {
        for open in self.openings.all() {
            self.release(open.id.0);
        }
    }

    /// Requests the attributes of each open file of which the kernel may have pages, if the client
    /// no longer trusts its cached attributes of the file. If another client has changed the file,
    /// makes the kernel drop the pages.
    pub async fn look_again(&self) {
        if self.is_leased() {
            // With leases the server recalls the lease before another client changes a file, so no
            // check is necessary.
            return;
        }
        for open in self.openings.all().into_iter().filter(|open| open.keeps_pages) {
            // A failure is ignored, because the next read requests the attributes again.
            if let Ok(seen) = self.client.getattr(&open.who, open.node).await {
                self.told(open.node, &seen.attributes, Telling::Unasked);
            }
        }
    }

    /// Handles a request. A directory that this mount has removed and that a program still uses
    /// contains no names, but still has its attributes, as in a local file system.
    async fn answer(&self, request: Request) -> Result<Reply, Errno> {
        let node = NodeId(request.node.0);
        let shows = matches!(request.operation, Operation::Getattr { .. });
        let is_of_names = is_of_names(&request.operation);
        match self.answer_there(request).await {
            Err(Errno::STALE) => match self.client.removed_directory(node) {
                Some(attributes) if shows => Ok(Reply::Attributes(
                    convert::attributes(&attributes, self.home()),
                    Duration::ZERO,
                )),
                Some(_) if is_of_names => Err(Errno::NOENT),
                Some(_) | None => Err(Errno::STALE),
            },
            answer => answer,
        }
    }

    async fn answer_there(&self, request: Request) -> Result<Reply, Errno> {
        let node = NodeId(request.node.0);
        let who = || self.callers.credential(request.caller);
        match request.operation {
            Operation::Getattr { handle } => {
                // The kernel passes a handle if it needs only the size, for a read or write. The
                // client then need not make the times final.
                let seen = match handle {
                    Some(_) => self.client.getattr_in_passing(&who(), node).await,
                    None => self.client.getattr(&who(), node).await,
                };
                let seen = seen.map_err(errno)?;
                Ok(self.tell(node, &seen, self.telling()))
            }
            Operation::Setattr(changes) => self.setattr(node, &who(), &changes).await,
            Operation::Open { flags } => self.open(node, who(), flags).await,
            Operation::Opendir => {
                let who = who();
                let id = self.client.open(&who, node, OpenHow::READ).await.map_err(errno)?;
                let handle = self.openings.insert(Open::new(id, node, who, false));
                Ok(Reply::Opened(Opened { handle, ..Opened::default() }))
            }
            Operation::Read { handle, offset, size } => {
                self.read(&*self.openings.find(handle)?, offset, size).await
            }
            Operation::Write { handle, offset, data, cached, append, kill_privileges } => {
                let how = Write { cached, append, kill_privileges };
                self.write(&*self.openings.find(handle)?, offset, data, how).await
            }
            Operation::Flush { handle } => {
                let open = self.openings.find(handle)?;
                self.client.flush(open.id).await.map_err(errno)?;
                Ok(Reply::Done)
            }
            Operation::Fsync { handle, .. } => {
                let open = self.openings.find(handle)?;
                self.client.fsync(open.id).await.map_err(errno)?;
                Ok(Reply::Done)
            }
            Operation::Release { handle } | Operation::Releasedir { handle } => {
                Ok(self.release(handle))
            }
            Operation::Readdir { handle, offset, size, plus } => {
                self.readdir(&*self.openings.find(handle)?, offset, size, plus).await
            }
            Operation::Readlink => {
                Ok(Reply::Data(self.client.readlink(&who(), node).await.map_err(errno)?))
            }
            Operation::Statfs => self.statfs(node, &who()).await,
            // The server replies to a change of names only after the change is on stable storage,
            // so there is nothing to sync.
            Operation::Fsyncdir => Ok(Reply::Done),
            Operation::Access { mask } => self.access(node, &who(), mask).await,
            operation @ names!() => self.change_names(node, who(), operation).await,
        }
    }

    /// Returns the kernel's entry of an object from a lookup or a listing.
    pub(crate) fn entry(&self, directory: NodeId, found: &Found) -> Entry {
        self.told(found.node, &found.attributes, self.telling());
        Entry {
            node: Some(leasehold_fuse::NodeId(found.node.0)),
            generation: 0,
            name_valid: self.name_valid(directory, found.named_for),
            attributes_valid: found.trusted_for,
            attributes: convert::attributes(&found.attributes, self.home()),
        }
    }

    /// Returns the way in which the kernel processes attributes that it has requested.
    fn telling(&self) -> Telling {
        if self.checks_pages() { Telling::Compared } else { Telling::Taken }
    }

    /// Returns the kernel's reply with attributes.
    fn tell(&self, node: NodeId, seen: &Seen, telling: Telling) -> Reply {
        self.told(node, &seen.attributes, telling);
        Reply::Attributes(convert::attributes(&seen.attributes, self.home()), seen.trusted_for)
    }

    /// Returns the file system of the root.
    pub(crate) const fn home(&self) -> Option<FileSystemId> {
        self.home
    }

    /// Returns the time for which the kernel may cache a name. Without leases this is the time for
    /// which the client caches the name. With leases the kernel may cache a name only if the mount
    /// can invalidate the name while operations in the directory are in progress. The kernel uses a
    /// cached name for every user, so the time is zero if some user may not search the directory.
    pub(crate) fn name_valid(&self, directory: NodeId, named_for: Duration) -> Duration {
        const SEARCH: u32 = 0o111;
        let is_open = || {
            let seen = self.client.seen(directory);
            seen.is_some_and(|seen| seen.attributes.mode.bits() & SEARCH == SEARCH)
        };
        if self.judge == Judge::ServerForAll && !is_open() {
            return Duration::ZERO;
        }
        match (self.client.leases_names(), self.notifier.takes_names_back()) {
            (false, _) => named_for,
            (true, true) => named_for.min(NAMED_MAX),
            (true, false) => Duration::ZERO,
        }
    }

    /// Returns true if the client caches files under leases.
    pub(crate) fn is_leased(&self) -> bool {
        self.client.options().variant == Variant::Lease
    }

    fn told(&self, node: NodeId, attributes: &leasehold_client::Attributes, telling: Telling) {
        if self.keeper.told(node, attributes, self.client.replaced(node), telling) {
            self.notifier.data_changed(leasehold_fuse::NodeId(node.0));
        }
    }

    /// Succeeds if a user has the requested access to an object, like `access(2)`.
    async fn access(&self, node: NodeId, who: &Credential, mask: u32) -> Result<Reply, Errno> {
        const READ: u32 = 4;
        const WRITE: u32 = 2;
        const EXECUTE: u32 = 1;
        let (read, modify) = (mask & READ != 0, mask & WRITE != 0);
        let execute = mask & EXECUTE != 0;
        let nothing = Access::default();
        let wanted = match self.client.known_type(node) {
            // For an access check, the right to execute a directory is the right to search it,
            // which the client may know without a call.
            Some(FileType::Directory) if !read && !modify && execute => {
                let may = self.client.may_search(who, node).await;
                return may.then_some(Reply::Done).ok_or(Errno::ACCESS);
            }
            // The right to write a directory is the right to change its names, which ACCESS reports
            // as the rights to modify and extend the directory.
            Some(FileType::Directory) => {
                Access { read, modify, extend: modify, lookup: execute, ..nothing }
            }
            Some(_) | None => Access { read, modify, execute, ..nothing },
        };
        if wanted == nothing {
            return Ok(Reply::Done);
        }
        let granted = self.client.access(who, node, wanted).await.map_err(errno)?;
        (granted == wanted).then_some(Reply::Done).ok_or(Errno::ACCESS)
    }

    async fn setattr(
        &self,
        node: NodeId,
        who: &Credential,
        changes: &AttributeChanges,
    ) -> Result<Reply, Errno> {
        // A program that has opened a file for writing may change its size even if the current mode
        // forbids it. The change therefore uses the credential of the open file.
        let open = changes.handle.map(|handle| self.openings.find(handle)).transpose()?;
        let who = open.as_ref().map_or(who, |open| &open.who);
        let wanted = convert::changes(changes);
        let seen = self.client.setattr(who, node, &wanted).await.map_err(errno)?;
        let is_directory = seen.attributes.file_type == FileType::Directory;
        if is_directory && wanted.mode.is_some() && self.judge == Judge::ServerForAll {
            // After the change of the mode some users may no longer search the directory, so the
            // kernel must look up its cached names again.
            self.notifier.names_changed();
        }
        Ok(self.tell(node, &seen, Telling::Taken))
    }

    async fn statfs(&self, node: NodeId, who: &Credential) -> Result<Reply, Errno> {
        const BLOCK_BYTES: u32 = 4096;
        let room = self.client.statfs(who, node).await.map_err(errno)?;
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        Ok(Reply::Space(Space {
            blocks: blocks(room.bytes),
            free: blocks(room.free_bytes),
            available: blocks(room.available_bytes),
            files: room.files,
            free_files: room.free_files,
            block_bytes: BLOCK_BYTES,
            name_bytes_max: self.client.bounds().name_bytes_max,
        }))
    }
}

impl FileSystem for Files {
    fn call(self: Arc<Self>, request: Request) -> Answer {
        Box::pin(async move { self.answer(request).await })
    }

    /// Attributes under a lease are valid only as long as the lease. With this setting the kernel
    /// does not use cached pages after that time, even if this process hangs: reads then wait for
    /// this process.
    fn checks_pages(&self) -> bool {
        self.is_leased()
    }

    fn forget(&self, node: leasehold_fuse::NodeId, lookups: u64) {
        let node = NodeId(node.0);
        self.client.forget(node, lookups);
        if !self.client.is_referred(node) {
            self.keeper.forget(node);
        }
    }
}
