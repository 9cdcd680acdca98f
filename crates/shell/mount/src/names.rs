//! Names: found, made, changed and removed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_base::random::Random;
use leasehold_fuse::{Attributes, Created, Entry, Errno, NodeId, Operation, Reply};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::mknod::{DeviceData, Node as NewNode};
use leasehold_wire::nfs3::{self, Handle, SetAttributes, SetTime, Status, create};

use crate::convert::{self, TYPE_BITS, decode_device};
use crate::files::{Files, failed};
use crate::nodes::{Node, Place, Seen};
use crate::open::Open;

/// Flags of `open(2)`.
const EXCLUSIVE: u32 = 0o200;
const TRUNCATE: u32 = 0o1000;

/// Names for files that were removed while open, and verifiers of exclusive creation.
pub(crate) struct Hider(Mutex<Random>);

impl Hider {
    pub(crate) fn new(random: Random) -> Self {
        Self(Mutex::new(random))
    }

    fn number(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A name that no other client takes: many clean up what begins like this.
    fn name(&self) -> Vec<u8> {
        format!(".nfs{:016x}{:08x}", self.number(), self.number() >> 32).into_bytes()
    }
}

impl Files {
    /// Answers what is about names in a directory.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the caller has answered all else")]
    pub(crate) async fn change_names(
        &self,
        directory: &Arc<Node>,
        who: Credential,
        operation: Operation,
    ) -> Result<Reply, Errno> {
        match operation {
            Operation::Lookup { name } => self.lookup(directory, &who, name).await,
            Operation::Create { name, mode, flags } => {
                self.create(directory, who, name, mode, flags).await
            }
            Operation::Link { object, name } => self.link(directory, &who, object, name).await,
            Operation::Mkdir { name, mode } => {
                let reply = self.nfs.mkdir(&who, &directory.handle, &name, &with_mode(mode)).await;
                self.made(directory, &who, name, reply).await
            }
            Operation::Mknod { name, mode, device } => {
                self.mknod(directory, &who, name, mode, device).await
            }
            Operation::Symlink { name, target } => {
                let (place, what) = (&directory.handle, (&target[..], &with_mode(0o777)));
                let reply = self.nfs.symlink(&who, place, &name, what).await;
                self.made(directory, &who, name, reply).await
            }
            Operation::Unlink { name } => self.unlink(directory, &who, name).await,
            Operation::Rmdir { name } => {
                let reply = self.nfs.rmdir(&who, &directory.handle, &name).await;
                reply.map_err(failed)?.done().map_err(convert::of_status)?;
                self.nodes.moved(&Place { directory: directory.id, name }, None);
                Ok(Reply::Done)
            }
            // What is there cannot be left in place or exchanged by NFS.
            Operation::Rename { flags, .. } if flags != 0 => Err(Errno::INVAL),
            Operation::Rename { name, to, new_name, .. } => {
                let to_directory = self.nodes.find(to).ok_or(Errno::STALE)?;
                let from = Place { directory: directory.id, name };
                let to = Place { directory: to_directory.id, name: new_name };
                self.rename(&who, (directory, from), (&to_directory, to)).await
            }
            _ => Err(Errno::NOSYS),
        }
    }

    async fn lookup(
        &self,
        directory: &Node,
        who: &Credential,
        name: Vec<u8>,
    ) -> Result<Reply, Errno> {
        let reply = self.nfs.lookup(who, &directory.handle, &name).await.map_err(failed)?;
        let done = match reply.done() {
            Ok(done) => done,
            Err(Status::NotFound) if !self.valid().is_zero() => {
                return Ok(Reply::Entry(no_such_name(self.valid())));
            }
            Err(status) => return Err(convert::of_status(status)),
        };
        let attributes = self.attributes(who, &done.object, done.attributes).await?;
        let place = Place { directory: directory.id, name };
        Ok(Reply::Entry(self.entry(done.object, place, &attributes)))
    }

    /// The object that was made, where the server may have left out which it is.
    async fn found(
        &self,
        directory: &Node,
        who: &Credential,
        name: &[u8],
        made: nfs3::Made,
    ) -> Result<(Handle, nfs3::Attributes), Errno> {
        let (object, given) = match made.object {
            Some(object) => (object, made.attributes),
            None => {
                let reply = self.nfs.lookup(who, &directory.handle, name).await.map_err(failed)?;
                let done = reply.done().map_err(convert::of_status)?;
                (done.object, done.attributes)
            }
        };
        Ok((object, self.attributes(who, &object, given).await?))
    }

    async fn made(
        &self,
        directory: &Node,
        who: &Credential,
        name: Vec<u8>,
        reply: Result<nfs3::Reply<nfs3::Made, nfs3::Wcc>, Error>,
    ) -> Result<Reply, Errno> {
        let made = reply.map_err(failed)?.done().map_err(convert::of_status)?;
        let (object, attributes) = self.found(directory, who, &name, made).await?;
        let place = Place { directory: directory.id, name };
        Ok(Reply::Entry(self.entry(object, place, &attributes)))
    }

    async fn create(
        &self,
        directory: &Node,
        who: Credential,
        name: Vec<u8>,
        mode: u32,
        flags: u32,
    ) -> Result<Reply, Errno> {
        let size = (flags & TRUNCATE != 0).then_some(0);
        let exclusive = flags & EXCLUSIVE != 0;
        let how = if exclusive {
            create::How::Exclusive(self.hider.number().to_ne_bytes())
        } else {
            create::How::Unchecked(SetAttributes { size, ..with_mode(mode) })
        };
        let reply = self.nfs.create(&who, &directory.handle, &name, how).await.map_err(failed)?;
        let made = reply.done().map_err(convert::of_status)?;
        let (object, mut attributes) = self.found(directory, &who, &name, made).await?;
        if exclusive {
            // The verifier may lie in its times.
            let now = (SetTime::Now, SetTime::Now);
            let wanted = SetAttributes { accessed: now.0, modified: now.1, ..with_mode(mode) };
            let reply = self.nfs.setattr(&who, &object, &wanted, None).await.map_err(failed)?;
            let wcc = reply.done().map_err(convert::of_status)?;
            attributes = self.attributes(&who, &object, wcc.after).await?;
        }
        let entry = self.entry(object, Place { directory: directory.id, name }, &attributes);
        let node = entry.node.and_then(|id| self.nodes.find(id)).ok_or(Errno::STALE)?;
        node.state().seen = Some(Seen { size: attributes.size, modified: attributes.modified });
        let opened = self.opened(self.openings.insert(node, who));
        Ok(Reply::Created(Created { entry, opened }))
    }

    async fn mknod(
        &self,
        directory: &Node,
        who: &Credential,
        name: Vec<u8>,
        mode: u32,
        device: u32,
    ) -> Result<Reply, Errno> {
        let attributes = with_mode(mode);
        let data = DeviceData { attributes, device: decode_device(device) };
        let node = match mode & TYPE_BITS {
            0 | 0o100_000 => {
                let how = create::How::Guarded(attributes);
                let reply = self.nfs.create(who, &directory.handle, &name, how).await;
                return self.made(directory, who, name, reply).await;
            }
            0o060_000 => NewNode::BlockDevice(data),
            0o020_000 => NewNode::CharacterDevice(data),
            0o140_000 => NewNode::Socket(attributes),
            0o010_000 => NewNode::Fifo(attributes),
            _ => return Err(Errno::INVAL),
        };
        let reply = self.nfs.mknod(who, &directory.handle, &name, node).await;
        self.made(directory, who, name, reply).await
    }

    async fn link(
        &self,
        directory: &Node,
        who: &Credential,
        object: NodeId,
        name: Vec<u8>,
    ) -> Result<Reply, Errno> {
        let object = self.nodes.find(object).ok_or(Errno::STALE)?;
        let reply = self.nfs.link(who, &object.handle, &directory.handle, &name).await;
        let done = reply.map_err(failed)?.done().map_err(convert::of_status)?;
        let attributes = self.attributes(who, &object.handle, done.attributes).await?;
        let place = Place { directory: directory.id, name };
        Ok(Reply::Entry(self.entry(object.handle, place, &attributes)))
    }

    async fn unlink(
        &self,
        directory: &Node,
        who: &Credential,
        name: Vec<u8>,
    ) -> Result<Reply, Errno> {
        let place = Place { directory: directory.id, name };
        if let Some(open) = self.nodes.open_at(&place)
            && self.hide(directory, who, &open, &place).await?
        {
            return Ok(Reply::Done);
        }
        let reply = self.nfs.remove(who, &directory.handle, &place.name).await;
        reply.map_err(failed)?.done().map_err(convert::of_status)?;
        self.nodes.moved(&place, None);
        Ok(Reply::Done)
    }

    /// Gives an open file a name of ours in place of the one that is to go. Not where it has one
    /// already: the name that goes is then a further one.
    async fn hide(
        &self,
        directory: &Node,
        who: &Credential,
        open: &Arc<Node>,
        place: &Place,
    ) -> Result<bool, Errno> {
        if open.state().hidden.is_some() {
            return Ok(false);
        }
        let hidden = Place { directory: place.directory, name: self.hider.name() };
        let (from, to) = ((&directory.handle, &place.name[..]), &hidden.name[..]);
        let reply = self.nfs.rename(who, from, (&directory.handle, to)).await;
        reply.map_err(failed)?.done().map_err(convert::of_status)?;
        self.nodes.moved(place, Some(hidden.clone()));
        open.state().hidden = Some(hidden);
        Ok(true)
    }

    /// Removes the name that stood for a file; it was closed.
    pub(crate) async fn unhide(&self, open: &Open, place: &Place) -> Result<Reply, Errno> {
        let Some(directory) = self.nodes.find(place.directory) else { return Ok(Reply::Done) };
        // What was written to it goes with it.
        open.node.unstable.pieces().iter().for_each(|piece| open.node.unstable.done(piece.number));
        let removed = self.nfs.remove(&open.who, &directory.handle, &place.name).await;
        match removed.map(nfs3::Reply::done) {
            Ok(Ok(_) | Err(Status::NotFound | Status::Stale)) => {}
            Ok(Err(status)) => {
                let name = place.name.escape_ascii();
                tracing::warn!(%name, ?status, "a file that was removed while open is left");
            }
            Err(error) => return Err(convert::errno(&error)),
        }
        self.nodes.moved(place, None);
        Ok(Reply::Done)
    }

    async fn rename(
        &self,
        who: &Credential,
        (from_directory, from): (&Node, Place),
        (to_directory, to): (&Node, Place),
    ) -> Result<Reply, Errno> {
        if let Some(open) = self.nodes.open_at(&to) {
            let source = self.nfs.lookup(who, &from_directory.handle, &from.name).await;
            let source = source.map_err(failed)?.done().map_err(convert::of_status)?;
            // Two names of one file both stay.
            if source.object != open.handle {
                self.hide(to_directory, who, &open, &to).await?;
            }
        }
        let (old, new) = (&from_directory.handle, &to_directory.handle);
        let reply = self.nfs.rename(who, (old, &from.name), (new, &to.name)).await;
        reply.map_err(failed)?.done().map_err(convert::of_status)?;
        self.nodes.moved(&from, Some(to));
        Ok(Reply::Done)
    }
}

/// What the kernel is told where there is no such name.
fn no_such_name(valid: Duration) -> Entry {
    Entry {
        node: None,
        generation: 0,
        name_valid: valid,
        attributes_valid: Duration::ZERO,
        attributes: Attributes::default(),
    }
}

fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() }
}
