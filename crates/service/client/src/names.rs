//! Names: lookup, link, remove and rename.

use core::time::Duration;

use leasehold_base::attributes::FileType;
use leasehold_core::cache::{Asked, Event, Source};
use leasehold_core::leases::Kind;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::{self, Attributes, Handle, Status};

use crate::client::{Change, Client};
use crate::convert;
use crate::nodes::{Found, Node, NodeId, Seen};
use crate::piggyback::{FIRST, MOVED, Piggyback, REPLACED, SECOND};

impl Client {
    /// Looks up a name in a directory. The client does not resolve `.` and `..` itself, but sends
    /// them to the server.
    ///
    /// # Errors
    /// [`Status::NotFound`] when there is no such name, and as [`Client::getattr`].
    pub async fn lookup(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
    ) -> Result<Found, Error> {
        // If the client holds a lease on the directory, this use renews the lease. If it holds no
        // lease, the LOOKUP call itself requests a lease on the directory.
        if self.holds_lease(directory) {
            self.lease(who, directory, Kind::Read, 0).await;
        }
        // The server does not check the lookup of a cached name, so the client must check the
        // caller's right to search the directory itself.
        let is_cached = self.with(|state, now, _| state.find(now, directory, name).is_some());
        if is_cached {
            match self.ask_search(who, directory).await {
                Ok(true) => {}
                Ok(false) => return Err(Error::Failed(Status::Access)),
                Err(_) => return self.ask_lookup(who, directory, name).await,
            }
        }
        match self.find(directory, name) {
            Some(Some(node)) => match self.found(who, node, (directory, name)).await {
                Err(error) if is_gone(&error) => {}
                found => return found,
            },
            Some(None) => return Err(Error::Failed(Status::NotFound)),
            None => {}
        }
        self.ask_lookup(who, directory, name).await
    }

    /// Returns references that the caller received with [`Found`]. The client forgets a closed node
    /// without references when the cache has no unsaved data and no cached name of the node.
    pub fn forget(&self, node: NodeId, count: u64) {
        self.with(|state, now, actions| {
            state.nodes.give_back(node, count);
            if let Some(event) = state.forget_unused(node) {
                state.step(now, event, actions);
            }
        });
    }

    /// Returns true if a caller holds a reference to a node.
    #[must_use]
    pub fn is_referred(&self, node: NodeId) -> bool {
        self.shared.state().nodes.get(node).is_some_and(Node::is_referred)
    }

    /// Returns the cached target of a name and adds one reference to it.
    fn find(&self, directory: NodeId, name: &[u8]) -> Option<Option<NodeId>> {
        self.with(|state, now, _| {
            let target = state.find(now, directory, name)?;
            let Some(node) = target else { return Some(None) };
            state.nodes.seen_at(node, directory, name);
            state.nodes.refer(node).then_some(Some(node))
        })
    }

    /// Returns the cached target of a name, or else the object that was last seen there, which may
    /// be out of date; adds one reference. The client records only the last name of a node.
    fn last_at(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.with(|state, now, _| {
            let named = state.find(now, directory, name).flatten();
            let node = named.or_else(|| state.nodes.at(directory, name))?;
            state.nodes.refer(node).then_some(node)
        })
    }

    /// Completes a lookup with the attributes of the node. On failure gives the reference to the
    /// node back.
    pub(crate) async fn found(
        &self,
        who: &Credential,
        node: NodeId,
        place: (NodeId, &[u8]),
    ) -> Result<Found, Error> {
        self.found_made(who, node, place, None).await
    }

    /// Like [`Self::found`], for a node that has just received its name, with its attributes at
    /// that time. Another client may have removed the object since, but the creation has succeeded:
    /// if a kernel received ESTALE, it would create the object again, and other clients would see
    /// one object more than the program created.
    pub(crate) async fn found_made(
        &self,
        who: &Credential,
        node: NodeId,
        (directory, name): (NodeId, &[u8]),
        made: Option<&Attributes>,
    ) -> Result<Found, Error> {
        let mut reference = Reference { client: self, node: Some(node) };
        let seen = match (self.known(who, node).await, made) {
            (Err(error), Some(made)) if is_gone(&error) => {
                Seen { attributes: convert::attributes(made), trusted_for: GONE_FOR }
            }
            (seen, _) => seen?,
        };
        reference.node = None;
        Ok(self.found_as(node, &seen, (directory, name)))
    }

    /// Like [`Self::found`], if the reply with the name may also contain the attributes, so that no
    /// separate request is necessary. If the client holds a lease on the node, this use renews the
    /// lease.
    async fn found_told(
        &self,
        who: &Credential,
        node: NodeId,
        place: (NodeId, &[u8]),
        told: Option<&Attributes>,
    ) -> Result<Found, Error> {
        let told = told.filter(|_| !self.holds_lease(node));
        match told.and_then(|_| self.with(|state, now, _| state.seen(now, node))) {
            Some(seen) => Ok(self.found_as(node, &seen, place)),
            None => self.found(who, node, place).await,
        }
    }

    fn found_as(&self, node: NodeId, seen: &Seen, (directory, name): (NodeId, &[u8])) -> Found {
        let trusted_for = self.with(|state, _, _| state.shown_for(node, seen.trusted_for));
        Found {
            node,
            attributes: seen.attributes,
            trusted_for,
            named_for: self.named_for(directory, name, Some(node)),
        }
    }

    /// Returns the time for which the caller may trust the target of a name, or the absence of the
    /// name. Returns zero if the cache has no such entry.
    #[must_use]
    pub fn named_for(&self, directory: NodeId, name: &[u8], target: Option<NodeId>) -> Duration {
        let seen = self.with(|state, now, _| {
            (state.find(now, directory, name) == Some(target)).then(|| state.seen(now, directory))
        });
        seen.flatten().map_or(Duration::ZERO, |seen| seen.trusted_for)
    }

    /// Looks up a name at the server.
    pub(crate) async fn ask_lookup(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
    ) -> Result<Found, Error> {
        let (handle, asked) = (self.handle(directory)?, self.ask());
        let piggyback = self.ride_to_names(directory, SECOND);
        match piggyback.nfs.lookup(who, &handle, name).await? {
            nfs3::Reply::Done(done) => {
                self.observe(directory, asked, done.directory.as_ref());
                self.note_searched(who, directory);
                let place = (directory, asked);
                let named =
                    self.take_grant_of_names(who, place, &piggyback, done.directory.as_ref());
                let target = (&done.object, done.attributes.as_ref());
                let node = self.learn((directory, name), target, (Source::Asked, asked, named));
                // If a local operation has changed the object during the call, the attributes in
                // the reply are out of date, and the client requests them again.
                let is_current = self.shared.state().cache.is_current(node.key(), asked);
                let told = done.attributes.as_ref().filter(|_| is_current);
                if let Some(grant) = piggyback.grant(SECOND) {
                    self.take_grant((who, node), grant, (asked, done.attributes.as_ref()));
                }
                self.found_told(who, node, (directory, name), told).await
            }
            nfs3::Reply::Failed(status, seen) => {
                self.observe(directory, asked, seen.as_ref());
                let asked =
                    self.take_grant_of_names(who, (directory, asked), &piggyback, seen.as_ref());
                if status == Status::NotFound {
                    self.note_searched(who, directory);
                    self.name((directory, name), None, (Source::Asked, asked));
                }
                Err(self.failed(directory, status))
            }
        }
    }

    /// Records the target of a name from a reply, and adds one reference to the node. `asked` is
    /// the time stamp of the attributes, and `named` is the time stamp of the name.
    pub(crate) fn learn(
        &self,
        (directory, name): (NodeId, &[u8]),
        (object, attributes): (&Handle, Option<&Attributes>),
        (source, asked, named): (Source, Asked, Asked),
    ) -> NodeId {
        let node = self.with(|state, now, actions| {
            let node = state.nodes.take(object);
            state.nodes.seen_at(node, directory, name);
            state.observe(now, (node, asked), attributes, actions);
            node
        });
        self.name((directory, name), Some(node), (source, named));
        node
    }

    /// Passes the target of a name to the cache.
    pub(crate) fn name(
        &self,
        (directory, name): (NodeId, &[u8]),
        target: Option<NodeId>,
        (source, asked): (Source, Asked),
    ) {
        // The cache stores only names that clients can change, so `.` and `..` are left out.
        if !matches!(name, b"." | b"..") {
            self.step(Event::Named {
                directory: directory.key(),
                name: name.into(),
                target: target.map(NodeId::key),
                source,
                asked,
            });
        }
    }

    /// Removes a name from the cache.
    pub(crate) fn unname(&self, directory: NodeId, name: &[u8]) {
        self.step(Event::Unnamed { directory: directory.key(), name: name.into() });
    }

    /// Adds a name to a file.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn link(
        &self,
        who: &Credential,
        node: NodeId,
        directory: NodeId,
        name: &[u8],
    ) -> Result<Found, Error> {
        let (file, handle) = (self.handle(node)?, self.handle(directory)?);
        let asked = self.ask();
        let (change, touch) = (self.begin_change(directory), self.begin_touch(node));
        let piggyback = self.piggyback(&[], None);
        let reply = piggyback.nfs.link(who, &file, &handle, name).await?;
        let (result, done) = match reply {
            nfs3::Reply::Done(done) => (Ok(()), done),
            nfs3::Reply::Failed(status, done) => (Err(status), done),
        };
        let named = change.finish(&done.directory, (&piggyback, SECOND));
        touch.touched((&piggyback, FIRST));
        match &done.attributes {
            Some(attributes) => self.observe(node, asked, Some(attributes)),
            None => self.step(Event::Distrust { object: node.key() }),
        }
        if let Err(status) = result {
            self.unname(directory, name);
            return Err(self.failed(directory, status));
        }
        self.shared.state().nodes.refer(node);
        self.name((directory, name), Some(node), (Source::Asked, named));
        self.found_made(who, node, (directory, name), done.attributes.as_ref()).await
    }

    /// Removes a name of an object other than a directory. If this client has the file open, the
    /// client renames the file to a hidden name (silly rename), so that the open file keeps its
    /// data until its release.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn remove(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
    ) -> Result<(), Error> {
        if let Some(node) = self.open_file_at(who, directory, name).await {
            let (client, who, name) = (self.clone(), who.clone(), name.to_vec());
            let aside = async move { client.put_aside(&who, node, (directory, &name)).await };
            return self.to_the_end(aside).await.map(drop);
        }
        let target = self.last_at(directory, name);
        let certain = self.is_at(target, directory, name);
        let losing = target.map(|node| self.begin_losing(node));
        let removed = self.remove_name(who, directory, name, target.filter(|_| certain)).await;
        if let Some(node) = target {
            self.unlinked(node, certain && removed.is_ok());
            // If the call was retransmitted, the server may report that the name does not exist
            // although the first copy of the call removed the name. Both results therefore count as
            // a removal.
            let gone = matches!(removed, Ok(()) | Err(Error::Failed(Status::NotFound)));
            losing.into_iter().for_each(|losing| losing.end(gone));
            self.forget(node, 1);
        }
        removed
    }

    /// Marks a node, until the returned guard is dropped, as an object whose most recently seen
    /// name a call may remove. A WRITE of the node's data may reach the server after the removal
    /// and fail with a stale handle; by the mark the client recognises that this failure is no loss
    /// of data.
    pub(crate) fn begin_losing(&self, node: NodeId) -> Losing {
        self.shared.state().nodes.begin_losing(node);
        Losing { client: self.clone(), node, lost: false }
    }

    /// Returns true if the cache is certain that a name refers to a node.
    fn is_at(&self, node: Option<NodeId>, directory: NodeId, name: &[u8]) -> bool {
        let target = self.with(|state, now, _| {
            let is_certain = state.names_are_certain();
            state.find(now, directory, name).filter(|_| is_certain)
        });
        target.flatten().is_some_and(|target| Some(target) == node)
    }

    /// Records that a node may have lost a name; `gone` is true if the name is certainly removed.
    pub(crate) fn unlinked(&self, node: NodeId, gone: bool) {
        self.with(|state, now, actions| {
            let last = state.seen(now, node).is_some_and(|seen| seen.attributes.link_count <= 1);
            state.step(now, Event::Distrust { object: node.key() }, actions);
            if gone && last && !state.nodes.is_open(node) {
                // The file has lost its last name and is not open here, so no client can read its
                // data again. The unsent data is discarded.
                state.step(now, Event::Discard { file: node.key() }, actions);
            }
        });
    }

    /// Sends REMOVE and updates the cache. `target` is the node of the name, if the client is
    /// certain of the node.
    pub(crate) async fn remove_name(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
        target: Option<NodeId>,
    ) -> Result<(), Error> {
        let handle = self.handle(directory)?;
        let change = self.begin_change(directory);
        let touch = target.map(|target| self.begin_touch(target));
        let piggyback = self.piggyback(&[], None);
        let reply = piggyback.nfs.remove(who, &handle, name).await?;
        if let Some(touch) = touch {
            touch.touched((&piggyback, SECOND));
        }
        self.removed(directory, name, &reply, (change, &piggyback))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn rmdir(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
    ) -> Result<(), Error> {
        let handle = self.handle(directory)?;
        let target = self.last_at(directory, name);
        let losing = target.map(|node| self.begin_losing(node));
        let change = self.begin_change(directory);
        let piggyback = self.piggyback(&[], None);
        let reply = piggyback.nfs.rmdir(who, &handle, name).await;
        let result =
            reply.and_then(|reply| self.removed(directory, name, &reply, (change, &piggyback)));
        losing.into_iter().for_each(|losing| losing.end(result.is_ok()));
        if let Some(node) = target {
            self.step(Event::Distrust { object: node.key() });
            self.forget(node, 1);
        }
        result
    }

    fn removed(
        &self,
        directory: NodeId,
        name: &[u8],
        reply: &nfs3::Reply<nfs3::Wcc, nfs3::Wcc>,
        (change, piggyback): (Change, &Piggyback),
    ) -> Result<(), Error> {
        let (status, wcc) = match reply {
            nfs3::Reply::Done(wcc) => (None, wcc),
            nfs3::Reply::Failed(status, wcc) => (Some(*status), wcc),
        };
        let named = change.finish(wcc, (piggyback, FIRST));
        match status {
            None | Some(Status::NotFound) => {
                self.name((directory, name), None, (Source::Asked, named));
            }
            Some(_) => self.unname(directory, name),
        }
        status.map_or(Ok(()), |status| Err(self.failed(directory, status)))
    }

    /// Renames an object and replaces an object with the new name. A replaced file that is open
    /// keeps its data, as with [`Client::remove`].
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn rename(
        &self,
        who: &Credential,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
    ) -> Result<(), Error> {
        let moved = self.last_at(from.0, from.1);
        let replaced = self.open_file_at(who, to.0, to.1).await;
        // A rename between two names of one file has no effect (POSIX), so the file is not replaced
        // and needs no silly rename.
        let replaced = replaced.filter(|node| Some(*node) != moved && from != to);
        let result = match replaced {
            Some(node) => {
                let (client, who) = (self.clone(), who.clone());
                let names = (from.1.to_vec(), to.1.to_vec());
                let over = async move {
                    let (from, to) = ((from.0, &names.0[..]), (to.0, &names.1[..]));
                    client.rename_over(&who, from, to, (moved, node)).await
                };
                self.to_the_end(over).await
            }
            None => self.rename_name(who, from, to, moved).await,
        };
        if let Some(node) = moved {
            self.forget(node, 1);
        }
        result
    }

    /// Renames an object to the name of an open file, after a silly rename of that file.
    async fn rename_over(
        &self,
        who: &Credential,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        (moved, replaced): (Option<NodeId>, NodeId),
    ) -> Result<(), Error> {
        let aside = self.put_aside(who, replaced, to).await?;
        let result = self.rename_name(who, from, to, moved).await;
        if result.is_err() {
            // The rename failed, so the silly rename was unnecessary. The client tries to rename
            // the file back to its name.
            let back = self.rename_name(who, (to.0, &aside), to, Some(replaced)).await;
            if back.is_ok() {
                self.put_back(replaced, to, &aside);
            }
        }
        result
    }

    /// Returns the open node that was last seen under a name, if the removal of that name could
    /// delete the node's data. Directories, and files that already have a hidden name, are
    /// excluded.
    async fn open_file_at(
        &self,
        who: &Credential,
        directory: NodeId,
        name: &[u8],
    ) -> Option<NodeId> {
        let (node, known) = self.with(|state, now, _| {
            let node = state.nodes.open_at(directory, name)?;
            (!state.nodes.is_removed(node)).then(|| (node, state.seen(now, node)))
        })?;
        let seen = match known {
            Some(seen) => Some(seen),
            None => self.refresh(who, node).await.ok(),
        };
        let is_directory =
            seen.is_some_and(|seen| seen.attributes.file_type == FileType::Directory);
        (!is_directory).then_some(node)
    }

    /// Sends RENAME and updates the cache.
    pub(crate) async fn rename_name(
        &self,
        who: &Credential,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        moved: Option<NodeId>,
    ) -> Result<(), Error> {
        let (from_handle, to_handle) = (self.handle(from.0)?, self.handle(to.0)?);
        let replaced = self.last_at(to.0, to.1);
        let certain = self.is_at(replaced, to.0, to.1);
        let touches = [
            (moved.filter(|_| self.is_at(moved, from.0, from.1)), MOVED),
            (replaced.filter(|_| certain && replaced != moved), REPLACED),
        ];
        let touches = touches.map(|(node, place)| (node.map(|node| self.begin_touch(node)), place));
        let changes =
            (self.begin_change(from.0), (from.0 != to.0).then(|| self.begin_change(to.0)));
        let losing = replaced.filter(|_| replaced != moved).map(|node| self.begin_losing(node));
        let piggyback = self.piggyback(&[], None);
        let reply = piggyback.nfs.rename(who, (&from_handle, from.1), (&to_handle, to.1)).await?;
        let (result, done) = match reply {
            nfs3::Reply::Done(done) => (Ok(()), done),
            nfs3::Reply::Failed(status, done) => (Err(status), done),
        };
        for (touch, place) in touches {
            if let Some(touch) = touch {
                touch.touched((&piggyback, place));
            }
        }
        let from_named = changes.0.finish(&done.from, (&piggyback, FIRST));
        let to_named =
            changes.1.map_or(from_named, |change| change.finish(&done.to, (&piggyback, SECOND)));
        if result.is_err() || moved.is_none() || replaced == moved {
            self.unname(from.0, from.1);
            self.unname(to.0, to.1);
        }
        if let Some(node) = replaced {
            if Some(node) != moved {
                self.unlinked(node, certain && result.is_ok());
            }
            losing.into_iter().for_each(|losing| losing.end(result.is_ok()));
            self.forget(node, 1);
        }
        if let Some(node) = moved {
            self.step(Event::Distrust { object: node.key() });
            if result.is_ok() {
                self.shared.state().nodes.seen_at(node, to.0, to.1);
                if replaced != moved {
                    self.name(from, None, (Source::Asked, from_named));
                }
                self.name(to, Some(node), (Source::Asked, to_named));
            }
        }
        result.map_err(|status| self.failed(from.0, status))
    }
}

/// The time for which the attributes of a created and already removed object stay valid. The
/// attributes of such an object no longer change. Without this validity a kernel that requests them
/// during the open would receive an error.
pub(crate) const GONE_FOR: Duration = Duration::from_secs(1);

/// Returns true if the error means that the object no longer exists.
pub(crate) const fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Failed(status) if is_stale(*status))
}

/// Returns true if the status means that the object no longer exists.
pub(crate) const fn is_stale(status: Status) -> bool {
    matches!(status, Status::Stale | Status::BadHandle)
}

/// The guard of a call that removes the most recently seen name of a node; see
/// [`Client::begin_losing`].
pub(crate) struct Losing {
    client: Client,
    node: NodeId,
    lost: bool,
}

impl Losing {
    /// Records the end of the call; `lost` is true if the call removed the name.
    pub(crate) fn end(mut self, lost: bool) {
        self.lost = lost;
    }
}

impl Drop for Losing {
    fn drop(&mut self) {
        self.client.shared.state().nodes.end_losing(self.node, self.lost);
    }
}

/// A reference to a node. The drop of the value gives the reference back, unless a caller has taken
/// the reference.
struct Reference<'a> {
    client: &'a Client,
    node: Option<NodeId>,
}

impl Drop for Reference<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node {
            self.client.forget(node, 1);
        }
    }
}
