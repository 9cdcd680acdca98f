//! Open, read, write and sync.

use bytes::Bytes;
use leasehold_client::{Credential, NodeId, OpenHow, OpenId, Variant};
use leasehold_fuse::{Errno, Opened, Reply};

use crate::convert::errno;
use crate::files::Files;
use crate::open::Open;

/// The access mode bits of `open(2)`, and some of its flags.
const WRITE_ONLY: u32 = 1;
const READ_WRITE: u32 = 2;
const ACCESS_MODE: u32 = 3;
const APPEND: u32 = 0o2000;
const DIRECT: u32 = 0o40000;
/// The flag by which the kernel opens a file to execute it; programs cannot set the flag.
const EXECUTE: u32 = 0o40;

/// Converts the flags of an open.
pub(crate) fn how(flags: u32) -> OpenHow {
    let mode = flags & ACCESS_MODE;
    OpenHow {
        read: mode != WRITE_ONLY,
        write: mode == WRITE_ONLY || mode == READ_WRITE,
        direct: flags & DIRECT != 0,
        execute: flags & EXECUTE != 0,
    }
}

impl Files {
    pub(crate) async fn open(
        &self,
        node: NodeId,
        who: Credential,
        flags: u32,
    ) -> Result<Reply, Errno> {
        let open = self.client.open(&who, node, how(flags)).await.map_err(errno)?;
        let seen = match self.client.getattr(&who, node).await {
            Ok(seen) => seen,
            Err(error) => {
                self.client.release(open);
                return Err(errno(error));
            }
        };
        let opening = self.keeper.open(node, &seen.attributes, self.client.replaced(node));
        if opening.attributes_are_old {
            self.notifier.attributes_changed(leasehold_fuse::NodeId(node.0));
        }
        let opened = self.opened(open, node, who, flags);
        Ok(Reply::Opened(Opened { keep_cache: opening.pages_are_good, ..opened }))
    }

    /// Returns the reply to an open of a file of which the kernel has no valid data. If the kernel
    /// may not cache the data, because a client writes the file while other clients use it, reads
    /// bypass the kernel's cache, so the kernel need not request attributes before each read.
    /// Writes under a lease bypass the kernel's pages. Otherwise the kernel would keep a partly
    /// written page locked while the write waits for the recall of other clients' leases, and that
    /// recall may itself wait for this page, which would be a deadlock.
    pub(crate) fn opened(&self, id: OpenId, node: NodeId, who: Credential, flags: u32) -> Opened {
        let writes = how(flags).write;
        let appends = writes && flags & APPEND != 0;
        let past = appends || self.client.options().variant == Variant::None;
        let keeps_nothing = (writes && self.is_leased()) || !self.client.is_usable(node);
        let direct = past || (keeps_nothing && self.notifier.maps_direct());
        let handle = self.openings.insert(Open::new(id, node, who, !past));
        // A close of a read-only open has no data to save and no write error to report, so it needs
        // no FLUSH.
        Opened { handle, direct, no_flush: !writes, ..Opened::default() }
    }

    /// Reads the requested number of bytes, or less at the end of the file.
    pub(crate) async fn read(&self, open: &Open, offset: u64, size: u32) -> Result<Reply, Errno> {
        let read = self.client.read_to_keep(open.id, offset, size).await;
        let (data, may_be_kept) = read.map_err(errno)?;
        if may_be_kept && self.client.is_usable(open.node) {
            self.keeper.filled(open.node);
        } else if open.keeps_pages {
            // The data may not be cached, but the kernel puts the data of this reply into pages.
            // The invalidation makes the kernel drop these pages after it has received the reply;
            // otherwise other programs would later read stale data. If the kernel has not copied
            // the data to the program by then, it reads again.
            self.notifier.data_changed(leasehold_fuse::NodeId(open.node.0));
        }
        Ok(Reply::Data(data.into_bytes()))
    }

    pub(crate) async fn write(
        &self,
        open: &Open,
        offset: u64,
        data: Bytes,
        how: Write,
    ) -> Result<Reply, Errno> {
        let count = u32::try_from(data.len()).map_err(|_| Errno::INVAL)?;
        let written = if how.cached {
            self.client.write_back(open.id, offset, data).await
        } else if how.append {
            self.client.append(open.id, data).await
        } else {
            self.client.write(open.id, offset, data).await
        };
        self.keeper.written(open.node);
        written.map_err(errno)?;
        if how.kill_privileges {
            // The server clears the set-user-id and set-group-id bits when it receives the data, so
            // the client sends the data at once and the kernel then requests the attributes.
            self.client.fsync(open.id).await.map_err(errno)?;
            self.notifier.attributes_changed(leasehold_fuse::NodeId(open.node.0));
        }
        Ok(Reply::Written(count))
    }

    pub(crate) fn release(&self, handle: u64) -> Reply {
        if let Some(open) = self.openings.remove(handle) {
            open.keep_listed(&self.client, None);
            self.client.release(open.id);
        }
        Reply::Done
    }
}

/// The properties of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    /// True if the data comes from the kernel's page cache.
    pub(crate) cached: bool,
    /// True if the data belongs at the end of the file.
    pub(crate) append: bool,
    /// True if the set-user-id and set-group-id bits must be cleared.
    pub(crate) kill_privileges: bool,
}
