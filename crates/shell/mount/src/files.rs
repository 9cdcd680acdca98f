//! The files of a mount: each request goes to where it is answered.

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
use crate::kept::{Keeper, NAMED_MAX, Telling};
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
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) notifier: Notifier,
    callers: Callers,
    judge: Judge,
    /// The file system of the root, where it is known.
    home: Option<FileSystemId>,
}

/// The judge of the access of each user of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The kernel, by mode bits, and then the server.
    Kernel,
    /// The server, for one user: no other user may use the mount.
    ServerForOne,
    /// The server, for several users.
    ServerForAll,
}

/// What is held on behalf of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Objects that the kernel knows.
    pub nodes: usize,
    /// Openings of files and directories.
    pub open: usize,
}

impl Files {
    /// The files of a client. `machine` is the name that the server is told.
    #[must_use]
    pub fn new(client: Client, machine: String, notifier: Notifier, judge: Judge) -> Self {
        let keeper = Arc::new(Keeper::default());
        crate::withdraw::watch(&client, &notifier, &keeper);
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

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What is held.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings { nodes: self.keeper.count(), open: self.openings.count() }
    }

    /// Makes safe what was written. Whether all of it is, now and before, but for what a program was
    /// told of.
    pub async fn settle(&self) -> bool {
        self.client.sync().await;
        !self.client.has_refused_untold()
    }

    /// Closes what is still open, when the mount is gone: nobody else will.
    pub fn close_all(&self) {
        for open in self.openings.all() {
            self.release(open.id.0);
        }
    }

    /// Asks for the attributes of files that stay open and that the kernel may have pages of, where
    /// the client's trust in them has run out. What was changed elsewhere is dropped.
    pub async fn look_again(&self) {
        if self.is_leased() {
            // The server says so by itself.
            return;
        }
        for open in self.openings.all().into_iter().filter(|open| open.keeps_pages) {
            // What cannot be asked now is asked by whoever reads it.
            if let Ok(seen) = self.client.getattr(&open.who, open.node).await {
                self.told(open.node, &seen.attributes, Telling::Unasked);
            }
        }
    }

    /// Answers a request. A directory that this mount has removed has no names in it and goes on
    /// showing its attributes, as a directory of a local file system does.
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
                // The kernel names an opening where it wants the size to read or write by it.
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
            // Names are on stable storage when the server answers.
            Operation::Fsyncdir => Ok(Reply::Done),
            Operation::Access { mask } => self.access(node, &who(), mask).await,
            operation @ names!() => self.change_names(node, who(), operation).await,
        }
    }

    /// Tells the kernel of an object that a name led to, or that a listing has.
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

    /// How the kernel takes what it is told where it has asked.
    fn telling(&self) -> Telling {
        if self.checks_pages() { Telling::Compared } else { Telling::Taken }
    }

    /// Tells the kernel of attributes.
    fn tell(&self, node: NodeId, seen: &Seen, telling: Telling) -> Reply {
        self.told(node, &seen.attributes, telling);
        Reply::Attributes(convert::attributes(&seen.attributes, self.home()), seen.trusted_for)
    }

    /// The file system of the root.
    pub(crate) const fn home(&self) -> Option<FileSystemId> {
        self.home
    }

    /// For how long the kernel may keep a name: as long as the client, by time. Under a lease on
    /// the directory the kernel may keep a name only where the mount can take it back, whatever is
    /// under way in the directory. The kernel uses a kept name for every user, so it may keep no
    /// name where some user may not search the directory.
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

    /// Whether files go by leases.
    pub(crate) fn is_leased(&self) -> bool {
        self.client.options().variant == Variant::Lease
    }

    fn told(&self, node: NodeId, attributes: &leasehold_client::Attributes, telling: Telling) {
        if self.keeper.told(node, attributes, self.client.replaced(node), telling) {
            self.notifier.data_changed(leasehold_fuse::NodeId(node.0));
        }
    }

    /// Succeeds if a user has this access to an object, as `access(2)` does.
    async fn access(&self, node: NodeId, who: &Credential, mask: u32) -> Result<Reply, Errno> {
        const READ: u32 = 4;
        const WRITE: u32 = 2;
        const EXECUTE: u32 = 1;
        let (read, modify) = (mask & READ != 0, mask & WRITE != 0);
        let execute = mask & EXECUTE != 0;
        let nothing = Access::default();
        let wanted = match self.client.known_type(node) {
            // As in the kernel, a user who lists or enters a directory searches it.
            Some(FileType::Directory) if !read && !modify && execute => {
                let may = self.client.may_search(who, node).await;
                return may.then_some(Reply::Done).ok_or(Errno::ACCESS);
            }
            // The right to change names is the right to change the data of their directory.
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
        // Who has a file open for writing may change its size, whatever its mode says by now.
        let open = changes.handle.map(|handle| self.openings.find(handle)).transpose()?;
        let who = open.as_ref().map_or(who, |open| &open.who);
        let wanted = convert::changes(changes);
        let seen = self.client.setattr(who, node, &wanted).await.map_err(errno)?;
        let is_directory = seen.attributes.file_type == FileType::Directory;
        if is_directory && wanted.mode.is_some() && self.judge == Judge::ServerForAll {
            // Some users may not use the names in the directory any more.
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

    /// With leases, attributes are valid while the lease is: where this process stands still, reads
    /// of pages wait for it then.
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
