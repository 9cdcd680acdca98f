//! Reads and writes that bypass the cache.

use core::ops::Range;

use bytes::Bytes;
use leasehold_core::cache::Event;
use leasehold_session::{Credential, Error};

use crate::calls;
use crate::client::Client;
use crate::nodes::NodeId;
use crate::piggyback::FIRST;
use leasehold_wire::nfs3;
use leasehold_wire::nfs3::write::Stability;

impl Client {
    /// Sends the local writes to the server, then reads from the server.
    pub(crate) async fn read_directly(
        &self,
        who: &Credential,
        node: NodeId,
        offset: u64,
        count: u32,
    ) -> Result<Vec<Bytes>, Error> {
        let handle = self.handle(node)?;
        if self.shared.state().cache.is_unsaved(node.key()) {
            self.sync_node(node).await;
        }
        let mut parts = Vec::new();
        let (mut at, end) = (offset, offset.saturating_add(u64::from(count)));
        let most = self.shared.options.read_bytes(&self.shared.bounds);
        while at < end {
            let asked = self.ask();
            let wanted = u32::try_from(end - at).unwrap_or(u32::MAX).min(most);
            let fetched = match calls::read(self, who, &handle, at, wanted).await {
                Err(Error::Failed(status)) => return Err(self.failed(node, status)),
                fetched => fetched?,
            };
            if let Some(attributes) = fetched.attributes {
                self.step(Event::Observed { object: node.key(), asked, attributes });
            }
            at += fetched.data.len() as u64;
            parts.push(fetched.data);
            if fetched.end {
                break;
            }
        }
        Ok(parts)
    }

    /// Appends data at the end that the file has at the server when the server processes the write.
    pub(crate) async fn append_directly(
        &self,
        who: &Credential,
        node: NodeId,
        mut data: Bytes,
    ) -> Result<(), Error> {
        let handle = self.handle(node)?;
        let most = self.shared.options.write_bytes(&self.shared.bounds) as usize;
        let hold = self.hold(node).await;
        while !data.is_empty() {
            let part = data.slice(..data.len().min(most));
            let change = self.begin_change(node);
            let piggyback = self.piggyback(&[], None);
            let reply = piggyback.nfs.append(who, &handle, (part, Stability::FileSync)).await?;
            let done = match reply {
                nfs3::Reply::Done(done) => done,
                nfs3::Reply::Failed(status, wcc) => {
                    change.finish(&wcc, (&piggyback, FIRST));
                    return Err(self.refused(node, status));
                }
            };
            let count = done.written.count;
            let range = done.offset..done.offset.saturating_add(count.into());
            self.overwritten(node, range);
            change.finish(&done.written.file, (&piggyback, FIRST));
            if count == 0 {
                return Err(Error::Failed(nfs3::Status::Io));
            }
            drop(data.split_to((count as usize).min(data.len())));
        }
        drop(hold);
        Ok(())
    }

    /// Sends earlier local writes to the server, then writes data to the server's stable storage.
    pub(crate) async fn write_directly(
        &self,
        who: &Credential,
        node: NodeId,
        offset: u64,
        mut data: Bytes,
    ) -> Result<(), Error> {
        let handle = self.handle(node)?;
        let most = self.shared.options.write_bytes(&self.shared.bounds) as usize;
        let hold = if self.caches() { Some(self.hold(node).await) } else { None };
        let mut at = offset;
        while !data.is_empty() {
            let part = data.slice(..data.len().min(most));
            let length = part.len() as u64;
            let change = self.begin_change(node);
            let stability = Stability::FileSync;
            let piggyback = self.piggyback(&[], None);
            let reply = piggyback.nfs.write(who, &handle, at, (part, stability)).await?;
            self.overwritten(node, at..at + length);
            let done = match reply {
                nfs3::Reply::Done(done) => done,
                nfs3::Reply::Failed(status, wcc) => {
                    change.finish(&wcc, (&piggyback, FIRST));
                    return Err(self.refused(node, status));
                }
            };
            change.finish(&done.file, (&piggyback, FIRST));
            if done.count == 0 {
                return Err(Error::Failed(nfs3::Status::Io));
            }
            at += u64::from(done.count);
            drop(data.split_to(done.count as usize));
        }
        drop(hold);
        Ok(())
    }

    /// Records that the server refused a write that bypassed the cache.
    fn refused(&self, node: NodeId, status: nfs3::Status) -> Error {
        let error = self.failed(node, status);
        self.with(|state, now, _| state.refusals.failed(now, &error));
        error
    }

    /// Invalidates the cached bytes of a range and the read layout of the file.
    fn overwritten(&self, node: NodeId, range: Range<u64>) {
        self.with(|state, now, actions| {
            state.layouts.changed(node, actions);
            state.step(now, Event::Overwritten { file: node.key(), range }, actions);
        });
    }
}
