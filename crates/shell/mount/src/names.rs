//! Names: lookup, creation, rename and removal.

use std::time::Duration;

use leasehold_client::{
    Credential, Error, Found, Mode, NodeId, OpenHow, SetAttributes, Special, Status,
};
use leasehold_fuse::{Attributes, Created, Entry, Errno, Operation, Reply};

use crate::convert::{TYPE_BITS, decode_device, errno};
use crate::data::how;
use crate::files::Files;

/// Flags of `open(2)`.
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;

impl Files {
    /// Handles an operation on names in a directory.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the caller has handled all else")]
    pub(crate) async fn change_names(
        &self,
        directory: NodeId,
        who: Credential,
        operation: Operation,
    ) -> Result<Reply, Errno> {
        let client = &self.client;
        let _naming = self.keeper.naming(directory);
        let made = |found: Result<Found, Error>| {
            found.map(|found| Reply::Entry(self.entry(directory, &found))).map_err(errno)
        };
        match operation {
            Operation::Lookup { name } => self.lookup(directory, &who, &name).await,
            Operation::Create { name, mode, flags } => {
                self.create(directory, who, &name, (mode, flags)).await
            }
            Operation::Link { object, name } => {
                made(client.link(&who, NodeId(object.0), directory, &name).await)
            }
            Operation::Mkdir { name, mode } => {
                made(client.mkdir(&who, (directory, &name), Mode::from_bits(mode)).await)
            }
            Operation::Mknod { name, mode, device } => {
                self.mknod(directory, &who, &name, (mode, device)).await
            }
            Operation::Symlink { name, target } => {
                made(client.symlink(&who, (directory, &name), &target).await)
            }
            Operation::Unlink { name } => {
                client.remove(&who, directory, &name).await.map_err(errno)?;
                Ok(Reply::Done)
            }
            Operation::Rmdir { name } => {
                client.rmdir(&who, directory, &name).await.map_err(errno)?;
                Ok(Reply::Done)
            }
            // The flags of `renameat2` forbid the replacement of a target or request the exchange
            // of two names. NFS supports neither.
            Operation::Rename { flags, .. } if flags != 0 => Err(Errno::INVAL),
            Operation::Rename { name, to, new_name, .. } => {
                let to = (NodeId(to.0), &new_name[..]);
                // After the rename the kernel caches the name in the new directory, so the name
                // counts as in transit to the kernel during the call.
                let _naming = self.keeper.naming(to.0);
                let renamed = client.rename(&who, (directory, &name), to).await;
                if matches!(renamed, Err(Error::Failed(Status::NotFound))) {
                    // The server may have performed the rename and then been killed before it
                    // replied; the retransmitted call then fails with ENOENT. Without the
                    // invalidation the kernel would still cache the absence of the new name.
                    self.notifier.names_changed();
                }
                renamed.map_err(errno)?;
                Ok(Reply::Done)
            }
            _ => Err(Errno::NOSYS),
        }
    }

    async fn lookup(
        &self,
        directory: NodeId,
        who: &Credential,
        name: &[u8],
    ) -> Result<Reply, Errno> {
        match self.client.lookup(who, directory, name).await {
            Ok(found) => Ok(Reply::Entry(self.entry(directory, &found))),
            Err(Error::Failed(Status::NotFound)) => {
                match self.client.named_for(directory, name, None) {
                    Duration::ZERO => Err(Errno::NOENT),
                    valid => Ok(Reply::Entry(no_such_name(self.name_valid(directory, valid)))),
                }
            }
            Err(error) => Err(errno(error)),
        }
    }

    async fn create(
        &self,
        directory: NodeId,
        who: Credential,
        name: &[u8],
        (mode, flags): (u32, u32),
    ) -> Result<Reply, Errno> {
        let wanted = (Mode::from_bits(mode), flags & EXCLUSIVE != 0);
        let place = (directory, name);
        let (mut found, open) =
            self.client.create(&who, place, wanted, how(flags)).await.map_err(errno)?;
        if flags & TRUNCATE != 0 && found.attributes.size > 0 {
            // The new file has contents, so another client has created the file first. The client
            // truncates the file, as the open requires.
            let size = SetAttributes { size: Some(0), ..SetAttributes::default() };
            match self.client.setattr(&who, found.node, &size).await {
                Ok(seen) => found.attributes = seen.attributes,
                Err(error) => {
                    self.client.release(open);
                    self.client.forget(found.node, 1);
                    return Err(errno(error));
                }
            }
        }
        let entry = self.entry(directory, &found);
        self.keeper.open(found.node, &found.attributes, self.client.replaced(found.node));
        let opened = self.opened(open, found.node, who, flags);
        Ok(Reply::Created(Created { entry, opened }))
    }

    async fn mknod(
        &self,
        directory: NodeId,
        who: &Credential,
        name: &[u8],
        (mode, device): (u32, u32),
    ) -> Result<Reply, Errno> {
        let (place, device) = ((directory, name), decode_device(device));
        let special = match mode & TYPE_BITS {
            0 | 0o100_000 => {
                let wanted = (Mode::from_bits(mode), true);
                let made = self.client.create(who, place, wanted, OpenHow::READ_WRITE).await;
                let (found, open) = made.map_err(errno)?;
                let entry = self.entry(directory, &found);
                self.client.release(open);
                return Ok(Reply::Entry(entry));
            }
            0o060_000 => Special::BlockDevice(device),
            0o020_000 => Special::CharacterDevice(device),
            0o140_000 => Special::Socket,
            0o010_000 => Special::Fifo,
            _ => return Err(Errno::INVAL),
        };
        let found = self.client.mknod(who, place, Mode::from_bits(mode), special).await;
        Ok(Reply::Entry(self.entry(directory, &found.map_err(errno)?)))
    }
}

/// Returns the kernel's entry for a name that does not exist.
fn no_such_name(valid: Duration) -> Entry {
    Entry {
        node: None,
        generation: 0,
        name_valid: valid,
        attributes_valid: Duration::ZERO,
        attributes: Attributes::default(),
    }
}
