//! Attributes, permissions, symbolic links and file system space.

use core::time::Duration;

use bytes::Bytes;
use leasehold_base::attributes::{Attributes, FileType, SetAttributes, SetTime};
use leasehold_base::units::FileSystemId;
use leasehold_core::cache::Event;
use leasehold_core::leases::{Kind, holder};
use leasehold_fs::{Access, Space};
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::{self, Status, access};

use crate::client::{Client, State};
use crate::convert;
use crate::leases::object_of;
use crate::nodes::{NodeId, Rights, Seen};
use crate::options::Variant;
use crate::piggyback::FIRST;

impl Client {
    /// Returns the attributes of a node, for a program. The times in the attributes are the final
    /// times of the file even if the server does not have the written data yet: the client later
    /// sends these times with the data, or it sends the data before this method returns.
    ///
    /// # Errors
    /// The server did not return the attributes. Every operation of the client can fail with such
    /// an error.
    pub async fn getattr(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        let (seen, is_settled) = self.getattr_so_far(who, node).await?;
        if !is_settled {
            self.sync_node(node).await;
            return self.getattr_in_passing(who, node).await;
        }
        Ok(seen)
    }

    /// Returns the attributes of a node, for a program that needs the size only. If the times are
    /// not final, `trusted_for` is zero, so that the program does not cache them.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn getattr_in_passing(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        self.getattr_so_far(who, node).await.map(|(seen, _)| seen)
    }

    /// Returns the attributes of a node, and true if the times in the attributes are final.
    async fn getattr_so_far(&self, who: &Credential, node: NodeId) -> Result<(Seen, bool), Error> {
        let known = self.known(who, node).await?;
        let at = self.time_of_day();
        let is_settled =
            self.with(|state, now, actions| state.settle_times(now, (node, at), actions));
        let seen = self.with(|state, now, _| state.seen(now, node)).unwrap_or(known);
        let trusted_for = if is_settled { known.trusted_for } else { Duration::ZERO };
        Ok((Seen { attributes: seen.attributes, trusted_for }, is_settled))
    }

    /// Returns the attributes of a node for internal use.
    pub(crate) async fn known(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        if self.variant_of(node) == Variant::Lease && !self.holds_lease(node) {
            return self.look(who, node).await;
        }
        self.lease(who, node, Kind::Read, 0).await;
        let seen = self.with(|state, now, _| state.seen(now, node));
        match seen.filter(|seen| !seen.trusted_for.is_zero()) {
            Some(seen) => Ok(seen),
            None => self.refresh(who, node).await,
        }
    }

    /// Requests the attributes of a node. The call also requests a lease on the node, which the
    /// server grants only if no other client has a write lease: otherwise a listing with attributes
    /// would recall the leases of clients that work in the directory.
    async fn look(&self, who: &Credential, node: NodeId) -> Result<Seen, Error> {
        let (handle, asked) = (self.handle(node)?, self.ask());
        let piggyback = self.piggyback(&[(FIRST, Kind::Read)], None);
        match piggyback.nfs.getattr(who, &handle).await? {
            nfs3::Reply::Done(done) => {
                let attributes = Some(&done.attributes);
                self.observe(node, asked, attributes);
                if let Some(grant) = piggyback.grant(FIRST) {
                    self.take_grant((who, node), grant, (asked, attributes));
                }
                let seen = self.with(|state, now, _| state.seen(now, node));
                seen.ok_or(Error::Failed(Status::Stale))
            }
            nfs3::Reply::Failed(status, ()) => Err(self.failed(node, status)),
        }
    }

    /// Changes all of the given attributes or none. If no lease permits a local change, the client
    /// first sends the data of earlier writes to the server, and then sends SETATTR.
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
        let attributes = &SetAttributes {
            accessed: self.kept_set(attributes.accessed),
            modified: self.kept_set(attributes.modified),
            ..*attributes
        };
        let handle = self.handle(node)?;
        if let Some(seen) = self.set_here(who, node, attributes).await {
            return Ok(seen);
        }
        let is_file = self.known(who, node).await?.attributes.file_type == FileType::Regular;
        let hold = if is_file { Some(self.hold(node).await) } else { None };
        let change = self.begin_change(node);
        let set = convert::set_attributes(attributes);
        let piggyback = self.piggyback(&[], None);
        let wcc = match piggyback.nfs.setattr(who, &handle, &set, None).await? {
            nfs3::Reply::Done(wcc) => wcc,
            nfs3::Reply::Failed(status, wcc) => {
                change.finish(&wcc, (&piggyback, FIRST));
                return Err(self.failed(node, status));
            }
        };
        if is_file {
            // The SETATTR has ended the layout of the file at the server, so the client forgets the
            // layout.
            self.with(|state, _, actions| state.layouts.forget(node, actions));
        }
        if let Some(size) = attributes.size {
            self.step(Event::Resized { file: node.key(), size });
        }
        change.finish(&wcc, (&piggyback, FIRST));
        drop(hold);
        self.getattr(who, node).await
    }

    /// Applies a change of attributes locally if a write lease covers it: the times of a file, and
    /// also mode and size of a file that this client created. The client sends the change to the
    /// server later, with the written data.
    async fn set_here(
        &self,
        who: &Credential,
        node: NodeId,
        attributes: &SetAttributes,
    ) -> Option<Seen> {
        if !self.is_leased() {
            return None;
        }
        let covered = |state: &State, now| {
            let seen = state.seen(now, node).filter(|seen| !seen.trusted_for.is_zero())?;
            let set = covered(who, &seen.attributes, attributes)?;
            // `Now` means the time at which the server receives the change. The client may delay
            // such a change only for a new file, for which the delay is short.
            let now_there = [set.accessed, set.modified].contains(&SetTime::Now);
            let of_new = set.mode.is_some() || set.size.is_some() || now_there;
            let fits = set.size.is_none_or(|size| state.cache.can_resize(node.key(), size));
            (fits && state.covers_setting(now, node, of_new)).then_some(set)
        };
        self.with(|state, now, _| covered(state, now))?;
        self.write_as(who, node).await;
        let at = self.time_of_day();
        self.with(|state, now, actions| {
            let set = covered(state, now)?;
            if set != SetAttributes::default() {
                state.step(now, Event::Alter { file: node.key(), set, at }, actions);
                state.lease(now, holder::Event::Dirtied(object_of(node), 0), actions);
            }
            state.shown(now, node)
        })
    }

    /// Rounds a time to the resolution of the server's files.
    fn kept_set(&self, set: SetTime) -> SetTime {
        match set {
            SetTime::Keep | SetTime::Now => set,
            SetTime::To(time) => SetTime::To(self.kept_time(time)),
        }
    }

    /// Returns the kinds of access that a caller has, among the wanted kinds.
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
        let known = self.with(|state, now, _| {
            let seen = state.seen(now, node).filter(|seen| !seen.trusted_for.is_zero())?;
            state.nodes.get(node)?.access(now, who, wanted, Rights::of(&seen.attributes))
        });
        match known {
            Some(access) => Ok(access),
            None => self.ask_access(who, node, wanted).await,
        }
    }

    /// Returns the last attributes of a directory that this client has removed, with a link count
    /// of zero; `None` for every other object. The server no longer has the directory.
    #[must_use]
    pub fn removed_directory(&self, node: NodeId) -> Option<Attributes> {
        let known = self.with(|state, now, _| {
            state.nodes.is_lost(node).then(|| state.seen(now, node)).flatten()
        });
        let known = known.filter(|seen| seen.attributes.file_type == FileType::Directory);
        known.map(|seen| Attributes { link_count: 0, ..seen.attributes })
    }

    /// Returns the type of a node if the client knows it.
    #[must_use]
    pub fn known_type(&self, node: NodeId) -> Option<FileType> {
        self.shared.state().cache.file_type(node.key())
    }

    /// Returns the file system of a node if the client knows it.
    #[must_use]
    pub fn known_file_system(&self, node: NodeId) -> Option<FileSystemId> {
        let seen = self.with(|state, now, _| state.seen(now, node))?;
        Some(seen.attributes.file_system)
    }

    /// Returns true if a caller may look up names in a directory whose names are cached. If the
    /// mode bits permit all callers to search the directory and no ACCESS reply contradicts the
    /// bits, the client does not ask the server. For any other directory the client sends ACCESS,
    /// because the server may map the caller's ids, know other groups, or have an access list.
    pub async fn may_search(&self, who: &Credential, directory: NodeId) -> bool {
        self.ask_search(who, directory).await.unwrap_or(false)
    }

    /// As [`Client::may_search`], but fails if the ACCESS call fails, for example because the
    /// directory no longer exists.
    pub(crate) async fn ask_search(
        &self,
        who: &Credential,
        directory: NodeId,
    ) -> Result<bool, Error> {
        let wanted = Access { lookup: true, ..Access::default() };
        let known = self.with(|state, now, _| {
            let attributes = state.seen(now, directory)?.attributes;
            let at = Rights::of(&attributes);
            let said = state.nodes.get(directory)?.access(now, who, wanted, at);
            Some(said.map_or_else(|| at.let_all_search(), |said| said.lookup))
        });
        match known {
            Some(true) => Ok(true),
            Some(false) | None => Ok(self.access(who, directory, wanted).await?.lookup),
        }
    }

    /// Records that the server permitted a caller to look up or create a name in a directory, which
    /// saves a later ACCESS call. The client records nothing while it has a local change of the
    /// mode that the server does not have yet.
    pub(crate) fn note_searched(&self, who: &Credential, directory: NodeId) {
        self.with(|state, now, _| {
            if !state.cache.is_mode_altered(directory.key()) {
                let at = Rights::of(&state.seen(now, directory)?.attributes);
                state.nodes.get_mut(directory)?.note_searched(now, who, at);
            }
            Some(())
        });
    }

    /// Requests all kinds of access of a caller in one ACCESS call. The client also records the
    /// attributes in the reply.
    pub(crate) async fn ask_access(
        &self,
        who: &Credential,
        node: NodeId,
        wanted: Access,
    ) -> Result<Access, Error> {
        if self.shared.state().cache.is_mode_altered(node.key()) {
            // The server would decide by its earlier mode, so the client first sends its local
            // change of the mode.
            self.sync_node(node).await;
        }
        let (handle, asked) = (self.handle(node)?, self.ask());
        match self.shared.nfs.access(who, &handle, to_wire(ALL)).await? {
            nfs3::Reply::Done(done) => {
                let granted = from_wire(done.access);
                let answered = done.attributes.as_ref().map(convert::attributes);
                match &done.attributes {
                    Some(attributes) => self.observe(node, asked, Some(attributes)),
                    None => drop(self.refresh(who, node).await?),
                }
                self.with(|state, now, _| {
                    let at = Rights::of(&state.seen(now, node)?.attributes);
                    // If a change of the owner or the mode has crossed the call, the reply refers
                    // to the earlier attributes, and the client does not record the reply.
                    if answered.is_none_or(|answered| Rights::of(&answered) == at) {
                        state.nodes.get_mut(node)?.set_access(now, who, (ALL, granted), at);
                    }
                    Some(())
                });
                Ok(granted.and(wanted))
            }
            nfs3::Reply::Failed(status, seen) => {
                self.observe(node, asked, seen.as_ref());
                Err(self.failed(node, status))
            }
        }
    }

    /// Returns the target of a symbolic link.
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

    /// Returns the space of the file system of a node.
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

/// Returns the change to apply locally if the caller, as the owner, certainly may make it and the
/// server would do nothing else; `None` otherwise.
fn covered(who: &Credential, now: &Attributes, change: &SetAttributes) -> Option<SetAttributes> {
    const SPECIAL: u32 = 0o7000;
    const OWNER_WRITES: u32 = 0o200;
    let SetAttributes { mode, uid, gid, size, accessed, modified } = *change;
    let keeps_owner = uid.is_none_or(|uid| uid == now.uid) && gid.is_none_or(|gid| gid == now.gid);
    // A SETATTR with an owner clears special mode bits at the server, even if the owner stays the
    // same. The client therefore sends every change of a file with such bits.
    let is_plain = now.mode.bits() & SPECIAL == 0 && mode.unwrap_or(now.mode).bits() & SPECIAL == 0;
    let is_file = now.file_type == FileType::Regular;
    // The server processes writes under the earlier mode until it receives the change. A local
    // change of the mode must therefore not remove any permission.
    let only_opens = mode.is_none_or(|mode| now.mode.bits() & !mode.bits() == 0);
    let is_own = keeps_owner && now.uid == who.uid();
    let may_cut = size.is_none() || now.mode.bits() & OWNER_WRITES != 0;
    // A change of size modifies the data, so the change also sets the modification time.
    let is_timed = size.is_none() || modified != SetTime::Keep;
    let modified = if is_timed { modified } else { SetTime::Now };
    let may = is_file && is_plain && only_opens && is_own && may_cut;
    may.then(|| SetAttributes { mode, size, accessed, modified, ..SetAttributes::default() })
}

/// All kinds of access.
const ALL: Access =
    Access { read: true, lookup: true, modify: true, extend: true, delete: true, execute: true };

const fn to_wire(access: Access) -> access::Access {
    let Access { read, lookup, modify, extend, delete, execute } = access;
    access::Access { read, lookup, modify, extend, delete, execute }
}

const fn from_wire(access: access::Access) -> Access {
    let access::Access { read, lookup, modify, extend, delete, execute } = access;
    Access { read, lookup, modify, extend, delete, execute }
}
