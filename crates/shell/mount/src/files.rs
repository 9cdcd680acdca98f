//! The files of a mount: each request goes to where it is answered.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::random::Random;
use leasehold_fuse::{
    Answer, AttributeChanges, Entry, Errno, FileSystem, NodeId, Notifier, Opened, Operation, Reply,
    Request, Space,
};
use leasehold_session::Credential;
use leasehold_session::nfs::{Bounds, Nfs};
use leasehold_wire::nfs3::{self, Handle, access::Access};

use crate::caller::Callers;
use crate::convert;
use crate::names::Hider;
use crate::nodes::{Node, Nodes, Place, Seen};
use crate::open::Openings;

/// What the kernel may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// Nothing: each operation is asked of the server.
    None,
    /// Data as long as OPEN finds it unchanged, names and attributes for so long.
    CloseToOpen(Duration),
}

/// The files of an NFS server.
pub struct Files {
    pub(crate) nfs: Nfs,
    pub(crate) bounds: Bounds,
    pub(crate) nodes: Nodes,
    pub(crate) openings: Openings,
    pub(crate) hider: Hider,
    callers: Callers,
    caching: Caching,
    notifier: Notifier,
}

/// What is held on behalf of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Objects that the kernel knows.
    pub nodes: usize,
    /// Openings of files and directories.
    pub open: usize,
    /// Bytes that were written and are not yet known to be safe.
    pub unstable_bytes: usize,
}

/// The mode bits of `open(2)`.
const WRITE_ONLY: u32 = 1;
const READ_WRITE: u32 = 2;
const ACCESS_MODE: u32 = 3;
/// The kernel's own: opened to be run.
const TO_RUN: u32 = 0x20;

impl Files {
    /// The files below a directory. `machine` is the name that the server is told.
    #[must_use]
    pub fn new(
        (nfs, bounds, root): (Nfs, Bounds, Handle),
        machine: String,
        caching: Caching,
        random: Random,
        notifier: Notifier,
    ) -> Self {
        Self {
            nfs,
            bounds,
            nodes: Nodes::new(root),
            openings: Openings::default(),
            hider: Hider::new(random),
            callers: Callers::new(machine),
            caching,
            notifier,
        }
    }

    /// What is held.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings {
            nodes: self.nodes.count(),
            open: self.openings.count(),
            unstable_bytes: self.nodes.all().iter().map(|node| node.unstable.bytes()).sum(),
        }
    }

    /// Makes safe what was written, of all files that are open.
    ///
    /// # Errors
    /// The first of those that came up.
    pub async fn settle_all(&self) -> Result<(), Errno> {
        let mut first = Ok(());
        for open in self.openings.all() {
            first = first.and(self.settle(&open.1.node, &open.1.who).await);
        }
        first
    }

    /// Closes what is still open, when the mount is gone: nobody else will.
    ///
    /// # Errors
    /// The first of those that came up.
    pub async fn close_all(&self) -> Result<(), Errno> {
        let mut first = self.settle_all().await;
        for (handle, _) in self.openings.all() {
            first = first.and(self.release(handle).await.map(drop));
        }
        first
    }

    async fn answer(&self, request: Request) -> Result<Reply, Errno> {
        let node = self.nodes.find(request.node).ok_or(Errno::STALE)?;
        let who = || self.callers.credential(request.caller);
        match request.operation {
            Operation::Getattr { .. } => self.getattr(&node, &who()).await,
            Operation::Setattr(changes) => self.setattr(&node, &who(), &changes).await,
            Operation::Open { flags } => self.open(&node, who(), flags).await,
            Operation::Opendir => {
                let handle = self.openings.insert(node, who());
                Ok(Reply::Opened(Opened { handle, ..Opened::default() }))
            }
            Operation::Read { handle, offset, size } => {
                self.read(&*self.openings.find(handle)?, offset, size).await
            }
            Operation::Write { handle, offset, data, cached, kill_privileges } => {
                let open = self.openings.find(handle)?;
                let written = self.write(&open, offset, data, cached).await;
                if kill_privileges {
                    // The server has taken set-user-id and set-group-id away.
                    self.notifier.attributes_changed(request.node);
                }
                written
            }
            Operation::Flush { handle } | Operation::Fsync { handle, .. } => {
                self.flush(&*self.openings.find(handle)?).await
            }
            Operation::Release { handle } | Operation::Releasedir { handle } => {
                self.release(handle).await
            }
            Operation::Readdir { handle, offset, size, plus } => {
                self.readdir(&*self.openings.find(handle)?, offset, size, plus).await
            }
            Operation::Readlink => {
                let read = self.nfs.readlink(&who(), &node.handle).await.map_err(failed)?;
                Ok(Reply::Data(read.done().map_err(convert::of_status)?.target))
            }
            Operation::Statfs => self.statfs(&node, &who()).await,
            // Names are on stable storage when the server answers.
            Operation::Fsyncdir => Ok(Reply::Done),
            // The kernel looks at the mode bits, and the server at each operation.
            Operation::Access { .. } => Err(Errno::NOSYS),
            operation @ (Operation::Create { .. }
            | Operation::Link { .. }
            | Operation::Lookup { .. }
            | Operation::Mkdir { .. }
            | Operation::Mknod { .. }
            | Operation::Rename { .. }
            | Operation::Rmdir { .. }
            | Operation::Symlink { .. }
            | Operation::Unlink { .. }) => self.change_names(&node, who(), operation).await,
        }
    }

    /// How long what the kernel is told of is good.
    pub(crate) fn valid(&self) -> Duration {
        match self.caching {
            Caching::None => Duration::ZERO,
            Caching::CloseToOpen(valid) => valid,
        }
    }

    /// Tells the kernel of an object that a name led to.
    pub(crate) fn entry(
        &self,
        object: Handle,
        place: Place,
        attributes: &nfs3::Attributes,
    ) -> Entry {
        let node = self.nodes.learn(object, place);
        Entry {
            node: Some(node.id),
            generation: 0,
            name_valid: self.valid(),
            attributes_valid: self.valid(),
            attributes: convert::attributes(attributes),
        }
    }

    /// The attributes of an object, from a reply that may have left them out.
    pub(crate) async fn attributes(
        &self,
        who: &Credential,
        object: &Handle,
        given: Option<nfs3::Attributes>,
    ) -> Result<nfs3::Attributes, Errno> {
        match given {
            Some(attributes) => Ok(attributes),
            None => {
                let reply = self.nfs.getattr(who, object).await.map_err(failed)?;
                Ok(reply.done().map_err(convert::of_status)?.attributes)
            }
        }
    }

    async fn getattr(&self, node: &Node, who: &Credential) -> Result<Reply, Errno> {
        let mut attributes = self.attributes(who, &node.handle, None).await?;
        if node.state().hidden.is_some() {
            // The name that stands for it is ours.
            attributes.link_count = attributes.link_count.saturating_sub(1);
        }
        Ok(Reply::Attributes(convert::attributes(&attributes), self.valid()))
    }

    async fn setattr(
        &self,
        node: &Node,
        who: &Credential,
        changes: &AttributeChanges,
    ) -> Result<Reply, Errno> {
        // Who has a file open for writing may change its size, whatever its mode says by now.
        let open = changes.handle.map(|handle| self.openings.find(handle)).transpose()?;
        let who = open.as_ref().map_or(who, |open| &open.who);
        // Lest what is written again later comes over what is changed now.
        self.settle(node, who).await?;
        let wanted = convert::changes(changes)?;
        let reply = self.nfs.setattr(who, &node.handle, &wanted, None).await.map_err(failed)?;
        let wcc = reply.done().map_err(convert::of_status)?;
        self.saw(node, &wcc);
        let attributes = self.attributes(who, &node.handle, wcc.after).await?;
        Ok(Reply::Attributes(convert::attributes(&attributes), self.valid()))
    }

    async fn open(&self, node: &Arc<Node>, who: Credential, flags: u32) -> Result<Reply, Errno> {
        let (mode, to_run) = (flags & ACCESS_MODE, flags & TO_RUN != 0);
        let writes = mode == WRITE_ONLY || mode == READ_WRITE;
        let reads = mode != WRITE_ONLY;
        let access = Access {
            read: reads,
            modify: writes,
            extend: writes,
            execute: reads,
            ..Access::default()
        };
        let reply = self.nfs.access(&who, &node.handle, access).await.map_err(failed)?;
        let done = reply.done().map_err(convert::of_status)?;
        let may = done.access;
        // Who may run a file may read it to that end (RFC 1813 4.4).
        if reads && !(may.read || to_run && may.execute) || writes && !(may.modify || may.extend) {
            return Err(Errno::ACCESS);
        }
        let attributes = self.attributes(&who, &node.handle, done.attributes).await?;
        let now = Seen { size: attributes.size, modified: attributes.modified };
        let unchanged = node.state().seen.replace(now) == Some(now);
        if !unchanged {
            self.notifier.attributes_changed(node.id);
        }
        let handle = self.openings.insert(Arc::clone(node), who);
        Ok(Reply::Opened(Opened { keep_cache: unchanged, ..self.opened(handle) }))
    }

    /// How a file is opened where the kernel has nothing of it.
    pub(crate) fn opened(&self, handle: u64) -> Opened {
        Opened { handle, direct: self.caching == Caching::None, ..Opened::default() }
    }

    /// Follows the file while nobody else changes it.
    pub(crate) fn saw(&self, node: &Node, wcc: &nfs3::Wcc) {
        let mut state = node.state();
        let before = wcc.before.map(|at| Seen { size: at.size, modified: at.modified });
        state.seen = match (before, wcc.after) {
            (Some(before), Some(after)) if state.seen == Some(before) => {
                Some(Seen { size: after.size, modified: after.modified })
            }
            _ => None,
        };
    }

    async fn statfs(&self, node: &Node, who: &Credential) -> Result<Reply, Errno> {
        const BLOCK_BYTES: u32 = 4096;
        let reply = self.nfs.fsstat(who, &node.handle).await.map_err(failed)?;
        let room = reply.done().map_err(convert::of_status)?;
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        Ok(Reply::Space(Space {
            blocks: blocks(room.bytes),
            free: blocks(room.free_bytes),
            available: blocks(room.available_bytes),
            files: room.files,
            free_files: room.free_files,
            block_bytes: BLOCK_BYTES,
            name_bytes_max: self.bounds.name_bytes_max,
        }))
    }
}

/// What a program is told of a call that came to nothing.
#[allow(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
pub(crate) fn failed(error: leasehold_session::Error) -> Errno {
    convert::errno(&error)
}

impl FileSystem for Files {
    fn call(self: Arc<Self>, request: Request) -> Answer {
        Box::pin(async move { self.answer(request).await })
    }

    fn forget(&self, node: NodeId, lookups: u64) {
        self.nodes.forget(node, lookups);
    }
}
