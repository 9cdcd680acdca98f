//! Open files: open, read, write, sync and release.

use bytes::{Bytes, BytesMut};
use leasehold_core::cache::Event;
use leasehold_core::leases::Kind;
use leasehold_fs::Access;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::Status;

use crate::client::{Client, Outcome, Wait};
use crate::leases::Right;
use crate::nodes::NodeId;
use crate::open::{Open, OpenHow, OpenId};
use crate::options::Variant;

/// Data of a read: bytes in order, in the pieces in which they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data(Vec<Bytes>);

impl Data {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Returns true if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Bytes::is_empty)
    }

    /// Returns the pieces.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.0
    }

    /// Returns all bytes as one piece; copies them if there are several pieces.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        if self.0.len() <= 1 {
            return self.0.pop().unwrap_or_default();
        }
        let mut joined = BytesMut::with_capacity(self.len());
        for part in &self.0 {
            joined.extend_from_slice(part);
        }
        joined.freeze()
    }
}

impl Client {
    /// Opens a file or a directory; the caller must have the access that `how` needs.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn open(
        &self,
        who: &Credential,
        node: NodeId,
        how: OpenHow,
    ) -> Result<OpenId, Error> {
        // The client records the open before it waits for the check of access: if the name is
        // removed during the wait, the client renames the open file to a hidden name and keeps its
        // data.
        let open = self.opened(who, node, how);
        let granted = self.may_open(who, node, how).await;
        if granted.is_err() {
            self.release(open);
        }
        granted.map(|()| open)
    }

    async fn may_open(&self, who: &Credential, node: NodeId, how: OpenHow) -> Result<(), Error> {
        // A user may have the permission to execute a file and lack the permission to read it. The
        // server then accepts READs (RFC 1813 4.4), so for an execution the client does not check
        // the permission to read.
        let (runs, reads) = (how.execute, how.read && !how.execute);
        let wanted = Access { read: reads, execute: runs, modify: how.write, ..Access::default() };
        let granted = match self.variant_of(node) {
            Variant::BufferCache | Variant::Lease => self.access(who, node, wanted).await?,
            Variant::None | Variant::CloseToOpen => self.ask_access(who, node, wanted).await?,
        };
        if granted == wanted { Ok(()) } else { Err(Error::Failed(Status::Access)) }
    }

    /// Records that a file is open.
    pub(crate) fn opened(&self, who: &Credential, node: NodeId, how: OpenHow) -> OpenId {
        let how = OpenHow { direct: how.direct || !self.caches(), ..how };
        let of = node;
        self.with(|state, now, actions| {
            state.nodes.open(node);
            if let Some(node) = state.nodes.get_mut(node) {
                node.set_reader(who);
            }
            let (failures_seen, _) = state.cache.failure(node.key());
            let verifier = [0; 8];
            let open = Open { node, who: who.clone(), how, failures_seen, verifier };
            let open = state.opens.insert(open);
            state.note_open(now, of, actions);
            open
        })
    }

    /// Returns the open file with the given id.
    pub(crate) fn get_open(&self, open: OpenId) -> Result<Open, Error> {
        self.shared.state().opens.get(open).cloned().ok_or(Error::Failed(Status::BadHandle))
    }

    /// Returns the node of an open file.
    #[must_use]
    pub fn node_of(&self, open: OpenId) -> Option<NodeId> {
        self.shared.state().opens.get(open).map(|open| open.node)
    }

    /// Reads data. The result is shorter than `count` only at the end of the file.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn read(&self, open: OpenId, offset: u64, count: u32) -> Result<Data, Error> {
        self.read_to_keep(open, offset, count).await.map(|(data, _)| data)
    }

    /// Like [`Client::read`], and returns true if the caller may cache the data while the node is
    /// usable ([`Client::is_usable`]). The result is false for data that was read before the
    /// current lease was granted, because that lease does not cover the data.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn read_to_keep(
        &self,
        open: OpenId,
        offset: u64,
        count: u32,
    ) -> Result<(Data, bool), Error> {
        let Open { node, who, how, .. } = self.get_open(open)?;
        let through = how.direct || self.lease(&who, node, Kind::Read, 0).await == Right::Through;
        if through {
            let parts = self.read_directly(&who, node, offset, count).await?;
            return Ok((Data(parts), !self.is_leased()));
        }
        self.known(&who, node).await?;
        if let Some(known) = self.shared.state().nodes.get_mut(node) {
            known.set_reader(&who);
        }
        let (file, replaced) = (node.key(), self.replaced(node));
        match self.request(|ticket| Event::Read { ticket, file, offset, count }).await {
            Outcome::Read(result) => {
                let is_same = self.replaced(node) == replaced;
                result.map(|parts| (Data(parts), is_same || !self.is_leased()))
            }
            Outcome::Done | Outcome::Leased(_) => Err(Error::Failed(Status::ServerFault)),
        }
    }

    /// Writes all of the data, or nothing. If writes are delayed, the call waits only for free
    /// space in the cache. If the server later refuses the data, the next write, fsync or flush
    /// reports the refusal, and a [`crate::Rescuer`] receives the data.
    ///
    /// # Errors
    /// As [`Client::getattr`].
    pub async fn write(&self, open: OpenId, offset: u64, data: Bytes) -> Result<(), Error> {
        let Open { node, who, how, failures_seen, .. } = self.get_open(open)?;
        let end = offset.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > self.shared.bounds.file_bytes_max) {
            return Err(Error::Failed(Status::FileTooBig));
        }
        if data.is_empty() {
            return Ok(());
        }
        if how.direct {
            return self.write_directly(&who, node, offset, data).await;
        }
        let (failures, failure) = self.shared.state().cache.failure(node.key());
        if let Some(error) = failure.filter(|_| failures != failures_seen) {
            self.shared.state().refusals.told(node);
            return Err(error);
        }
        self.put(&who, node, offset, data).await
    }

    /// Accepts dirty data that another cache, such as the kernel's, is about to drop. The client
    /// accepts the data even after an earlier failure; only fsync and flush report that failure.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub async fn write_back(&self, open: OpenId, offset: u64, data: Bytes) -> Result<(), Error> {
        let Open { node, who, how, .. } = self.get_open(open)?;
        if how.direct || data.is_empty() {
            return self.write(open, offset, data).await;
        }
        self.put(&who, node, offset, data).await
    }

    /// Appends data to a file. Under a lease, no data of other clients comes in between.
    ///
    /// # Errors
    /// As [`Client::write`].
    pub async fn append(&self, open: OpenId, data: Bytes) -> Result<(), Error> {
        let Open { node, who, how, .. } = self.get_open(open)?;
        let bytes = data.len() as u64;
        let mut made_room = false;
        if self.is_leased() && !how.direct && !data.is_empty() && self.is_without_room() {
            self.write_as(&who, node).await;
            return self.append_directly(&who, node, data).await;
        }
        while self.is_leased() && !how.direct && !data.is_empty() {
            self.write_as(&who, node).await;
            match self.lease(&who, node, Kind::Write, bytes).await {
                Right::Use => {}
                Right::Through => return self.append_directly(&who, node, data).await,
                Right::Full if !made_room && self.is_unsaved(node) => {
                    self.sync_node(node).await;
                    made_room = true;
                    continue;
                }
                Right::Full => return self.append_directly(&who, node, data).await,
            }
            self.known(&who, node).await?;
            let (file, at) = (node.key(), self.time_of_day());
            let max = self.shared.bounds.file_bytes_max;
            let write = |ticket, size: Option<u64>| {
                let offset = size.filter(|size| size.saturating_add(bytes) <= max)?;
                Some(Event::Write { ticket, file, offset, data: data.clone(), at })
            };
            if let Some(written) = self.write_leased(node, bytes, write) {
                written.await;
                return Ok(());
            }
            if self.known(&who, node).await?.attributes.size.saturating_add(bytes) > max {
                return Err(Error::Failed(Status::FileTooBig));
            }
        }
        let end = self.known(&who, node).await?.attributes.size;
        self.write(open, end, data).await
    }

    async fn put(
        &self,
        who: &Credential,
        node: NodeId,
        offset: u64,
        data: Bytes,
    ) -> Result<(), Error> {
        self.write_as(who, node).await;
        let file = node.key();
        let bytes = data.len() as u64;
        let mut made_room = false;
        if self.is_without_room() {
            return self.write_directly(who, node, offset, data).await;
        }
        loop {
            let at = self.time_of_day();
            let write =
                |ticket, _| Some(Event::Write { ticket, file, offset, data: data.clone(), at });
            if let Some(written) = self.write_leased(node, bytes, write) {
                written.await;
                return Ok(());
            }
            match self.lease(who, node, Kind::Write, bytes).await {
                Right::Use => {}
                Right::Through => return self.write_directly(who, node, offset, data).await,
                Right::Full if !made_room && self.is_unsaved(node) => {
                    self.sync_node(node).await;
                    made_room = true;
                }
                Right::Full => return self.write_directly(who, node, offset, data).await,
            }
        }
    }

    /// Returns true if a file has unsaved data. When this data is saved, the server may need less
    /// reserved space than the data has bytes.
    fn is_unsaved(&self, node: NodeId) -> bool {
        self.shared.state().cache.is_unsaved(node.key())
    }

    /// Returns a count that grows whenever another client may have changed the data of a node. A
    /// caller's copy of the data is valid while the count stays the same.
    #[must_use]
    pub fn replaced(&self, node: NodeId) -> u64 {
        self.shared.state().cache.replaced(node.key())
    }

    /// Sets the credential for later WRITEs of a file. First sends the data that other users wrote
    /// with the credentials of these users.
    pub(crate) async fn write_as(&self, who: &Credential, node: NodeId) {
        let others = self.with(|state, _, _| {
            let unsaved = state.cache.is_unsaved(node.key());
            state.nodes.get(node).is_some_and(|known| unsaved && !known.is_writer(who))
        });
        if others {
            self.sync_node(node).await;
        }
        if let Some(known) = self.shared.state().nodes.get_mut(node) {
            known.set_writer(who);
        }
    }

    /// Waits until earlier writes are on stable storage or have failed.
    pub(crate) async fn sync_node(&self, node: NodeId) {
        self.request(|ticket| Event::Sync { ticket, file: node.key() }).await;
    }

    /// Handles a close of one descriptor: with close-to-open, saves the data that this client
    /// wrote.
    ///
    /// # Errors
    /// The first failure to save data that this open has not reported yet.
    pub async fn flush(&self, open: OpenId) -> Result<(), Error> {
        let Open { node, how, .. } = self.get_open(open)?;
        if how.write && self.shared.options.variant == Variant::CloseToOpen {
            self.sync_node(node).await;
        }
        self.new_failure(open)
    }

    /// Waits until all earlier writes to the file, by any user, are on the server's stable storage.
    ///
    /// # Errors
    /// As [`Client::flush`].
    pub async fn fsync(&self, open: OpenId) -> Result<(), Error> {
        let node = self.get_open(open)?.node;
        self.sync_node(node).await;
        self.new_failure(open)
    }

    fn new_failure(&self, open: OpenId) -> Result<(), Error> {
        self.with(|state, _, _| {
            let Some(open) = state.opens.get_mut(open) else { return Ok(()) };
            let (failures, failure) = state.cache.failure(open.node.key());
            let seen = core::mem::replace(&mut open.failures_seen, failures);
            let node = open.node;
            match failure.filter(|_| seen != failures) {
                Some(error) => {
                    state.refusals.told(node);
                    Err(error)
                }
                None => Ok(()),
            }
        })
    }

    /// Releases an open file. This method neither saves data nor reports failures;
    /// [`Client::flush`] does both.
    pub fn release(&self, open: OpenId) {
        let aside = self.with(|state, now, actions| {
            let Open { node, who, .. } = state.opens.remove(open)?;
            let aside = state.nodes.close(node);
            state.note_open(now, node, actions);
            let last = state.seen(now, node).is_some_and(|seen| seen.attributes.link_count <= 1);
            let is_certain = state.names_are_certain();
            if aside.is_some() && last && is_certain {
                // The client is about to remove the last name of the file, which deletes the file.
                // The unsaved data is therefore discarded and not sent.
                state.step(now, Event::Discard { file: node.key() }, actions);
            }
            // Without leases on names, the hidden name may refer to another file after a change by
            // another client. The client therefore keeps unsaved data, and saves it before it
            // removes the name.
            let unsaved = !is_certain && state.cache.is_unsaved(node.key());
            if let Some(event) = state.forget_unused(node) {
                state.step(now, event, actions);
            }
            aside.map(|place| (who, node, place, unsaved))
        });
        if let Some((who, node, (directory, name), unsaved)) = aside {
            self.remove_aside(who, node, (directory, name.into_vec()), unsaved);
        }
    }

    /// Waits until all earlier writes are on the server's stable storage or have failed. The open
    /// files report the failures.
    pub async fn sync(&self) {
        let unsaved = self.shared.state().cache.unsaved_objects();
        // The client starts all syncs before it waits for the first one, so that the syncs run
        // concurrently.
        let sync = |file| self.request(|ticket| Event::Sync { ticket, file });
        let syncs: Vec<Wait> = unsaved.into_iter().map(sync).collect();
        for synced in syncs {
            synced.await;
        }
    }
}
