//! Attributes, permissions, links and room.

use bytes::Bytes;
use leasehold_base::attributes::{FileType, SetAttributes};
use leasehold_core::cache::Event;
use leasehold_core::leases::Kind;
use leasehold_fs::{Access, Space};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::{self, Status, access};

use crate::client::Client;
use crate::convert;
use crate::nodes::{NodeId, Rights, Seen};
use crate::ride::FIRST;

impl Client {
    /// The attributes of a node.
    ///
    /// # Errors
    /// When they cannot be had from the server, as for every operation.
    pub async fn getattr(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        self.lease(who, node, Kind::Read, 0).await;
        match self.seen(node) {
            Some(seen) => Ok(seen),
            None => self.refresh(who, node).await,
        }
    }

    /// Changes attributes, all or none. What was written before is saved first.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn setattr(
        &self,
        who: &Credential,
        node: NodeId,
        attributes: &SetAttributes,
    ) -> Result<Seen, Error> {
        if attributes.size.is_some_and(|size| size > self.shared.bounds.file_bytes_max) {
            return Err(Error::Failed(Status::FileTooBig));
        }
        let handle = self.handle(node)?;
        let is_file = self.getattr(who, node).await?.attributes.file_type == FileType::Regular;
        let hold = if is_file { Some(self.hold(node).await) } else { None };
        let change = self.begin_change(node);
        let set = convert::set_attributes(attributes);
        let ride = self.ride(&[], None);
        let wcc = match ride.nfs.setattr(who, &handle, &set, None).await? {
            nfs3::Reply::Done(wcc) => wcc,
            nfs3::Reply::Failed(status, wcc) => {
                change.finish(&wcc, (&ride, FIRST));
                return Err(self.failed(node, status));
            }
        };
        if let Some(size) = attributes.size {
            self.step(Event::Resized { file: node.key(), size });
        }
        change.finish(&wcc, (&ride, FIRST));
        drop(hold);
        self.getattr(who, node).await
    }

    /// Which of the wanted kinds of access a caller has.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn access(
        &self,
        who: &Credential,
        node: NodeId,
        wanted: Access,
    ) -> Result<Access, Error> {
        self.lease(who, node, Kind::Read, 0).await;
        if let Some(seen) = self.seen(node) {
            let state = self.shared.state();
            let known = state.nodes.get(node);
            let at = Rights::of(&seen.attributes);
            if let Some(access) = known.and_then(|known| known.access(who, wanted, at)) {
                return Ok(access);
            }
        }
        self.ask_access(who, node, wanted).await
    }

    /// The same, asked of the server; its answer has the attributes as well.
    pub(crate) async fn ask_access(
        &self,
        who: &Credential,
        node: NodeId,
        wanted: Access,
    ) -> Result<Access, Error> {
        let (handle, asked) = (self.handle(node)?, self.ask());
        match self.shared.nfs.access(who, &handle, to_wire(wanted)).await? {
            nfs3::Reply::Done(done) => {
                let granted = from_wire(done.access);
                match &done.attributes {
                    Some(attributes) => self.observe(node, asked, Some(attributes)),
                    None => drop(self.refresh(who, node).await?),
                }
                self.with(|state, now, _| {
                    if let (Some(seen), Some(known)) =
                        (state.seen(now, node), state.nodes.get_mut(node))
                    {
                        known.set_access(who, (wanted, granted), Rights::of(&seen.attributes));
                    }
                });
                Ok(granted)
            }
            nfs3::Reply::Failed(status, seen) => {
                self.observe(node, asked, seen.as_ref());
                Err(self.failed(node, status))
            }
        }
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn readlink(&self, who: &Credential, node: NodeId) -> Result<Bytes, Error> {
        let (handle, asked) = (self.handle(node)?, self.ask());
        match self.shared.nfs.readlink(who, &handle).await? {
            nfs3::Reply::Done(done) => {
                self.observe(node, asked, done.attributes.as_ref());
                Ok(done.target)
            }
            nfs3::Reply::Failed(status, seen) => {
                self.observe(node, asked, seen.as_ref());
                Err(self.failed(node, status))
            }
        }
    }

    /// The room on the file system of a node.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn statfs(&self, who: &Credential, node: NodeId) -> Result<Space, Error> {
        let (handle, asked) = (self.handle(node)?, self.ask());
        match self.shared.nfs.fsstat(who, &handle).await? {
            nfs3::Reply::Done(done) => {
                self.observe(node, asked, done.attributes.as_ref());
                Ok(Space {
                    bytes: done.bytes,
                    free_bytes: done.free_bytes,
                    available_bytes: done.available_bytes,
                    files: done.files,
                    free_files: done.free_files,
                    available_files: done.available_files,
                })
            }
            nfs3::Reply::Failed(status, seen) => {
                self.observe(node, asked, seen.as_ref());
                Err(self.failed(node, status))
            }
        }
    }
}

const fn to_wire(access: Access) -> access::Access {
    let Access { read, lookup, modify, extend, delete, execute } = access;
    access::Access { read, lookup, modify, extend, delete, execute }
}

const fn from_wire(access: access::Access) -> Access {
    let access::Access { read, lookup, modify, extend, delete, execute } = access;
    Access { read, lookup, modify, extend, delete, execute }
}
