//! Reading data, writing data, and making data stable.

use bytes::Bytes;
use leasehold_fs::{
    Caller, Changed, Committed, FsError, ObjectId, ReadDone, Stability, Wcc, WriteDone,
};

use crate::Striped;
use crate::file::{Data, Objects};
use crate::metafile::{CHANGE_OFFSET, Change, HEAD_BYTES, Head};
use crate::objects::Said;
use crate::visible::{apparent, superuser};

impl Striped {
    pub(crate) async fn read_data(
        &self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadDone, FsError> {
        // A read of zero bytes checks the caller's permission and the type of the object.
        let allowed = self.names.read(caller, object, 0, 0).await?;
        let file = self.file(object);
        self.catch_up(object, &file, allowed.attributes.changed).await?;
        let data = self.shared(object, &file).await?;
        match &*data {
            Data::Inline(_) => {
                let behind = offset.saturating_add(HEAD_BYTES);
                let done = self.names.read(caller, object, behind, count).await?;
                Ok(ReadDone { attributes: apparent(&data, done.attributes), ..done })
            }
            Data::OnIods(objects) => {
                if self.options.shared && offset >= objects.size() {
                    self.ask_size(objects).await?;
                }
                let size = objects.size();
                let length = size.saturating_sub(offset).min(u64::from(count));
                let bytes = self.gather(object, objects, offset, length).await?;
                let end = offset.saturating_add(length) >= size;
                // Return the attributes from before the read. If the file changed during the read,
                // a client that caches the data with these attributes sees the difference in later
                // attributes. Attributes from after the read would hide the change.
                let attributes = apparent(&data, allowed.attributes);
                Ok(ReadDone { data: bytes, end, attributes })
            }
            Data::Nowhere | Data::Unknown | Data::Gone => {
                let attributes = apparent(&data, allowed.attributes);
                Ok(ReadDone { data: Bytes::new(), end: true, attributes })
            }
        }
    }

    pub(crate) async fn write_data(
        &self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Changed<WriteDone> {
        let alone = match self.keep_alone(object).await {
            Ok(alone) => alone,
            Err(error) => return Changed::failed(error),
        };
        // A write of zero bytes checks the caller's permission.
        let allowed = self.names.write(caller, object, 0, Bytes::new(), Stability::Unstable).await;
        let end = offset.saturating_add(data.len() as u64);
        let done = match allowed.result.and_then(|done| self.fits(end).map(|()| done)) {
            Ok(done) => done,
            Err(error) => {
                let wcc = self.true_wcc(object, allowed.wcc).await;
                return Changed { result: Err(error), wcc };
            }
        };
        if data.is_empty() {
            let verifier = self.verifier(done.verifier, &[]);
            let wcc = self.true_wcc(object, allowed.wcc).await;
            return Changed { result: Ok(WriteDone { stability, verifier, ..done }), wcc };
        }
        let file = self.file(object);
        loop {
            let held = match self.shared(object, &file).await {
                Ok(held) => held,
                Err(error) => return Changed::failed(error),
            };
            match &*held {
                Data::Inline(_) if end <= u64::from(self.options.inline_bytes_max) => {
                    let behind = offset + HEAD_BYTES;
                    let done = self.names.write(caller, object, behind, data, stability).await;
                    return self.told(&held, &done, &[]);
                }
                Data::OnIods(objects) => {
                    objects.alone_by(alone.number);
                    let all = data.clone();
                    let spread = self.spread(Some(object), objects, offset, all, stability);
                    let (count, said) = match spread.await {
                        Ok(done) => done,
                        Err(error) => {
                            let wcc = Self::wcc(&held, &allowed.wcc);
                            return Changed { result: Err(error), wcc };
                        }
                    };
                    self.follow(objects, offset, data.slice(..count as usize)).await;
                    let mut done = self.touch(caller, object, objects, None, stability).await;
                    if let Ok(done) = &mut done.result {
                        done.count = count;
                    }
                    return self.told(&held, &done, &said);
                }
                Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {}
            }
            drop(held);
            let room = async {
                let mut held = self.alone(object, &file).await?;
                self.make_room(caller, object, &mut held, end, Stability::Unstable).await
            };
            if let Err(error) = room.await {
                return self.without_room(object, error).await;
            }
        }
    }

    /// Returns the reply to a WRITE that failed for lack of space. Reads the attributes again,
    /// since the call may have changed the metafile.
    async fn without_room(&self, object: &ObjectId, error: FsError) -> Changed<WriteDone> {
        let after = self.names.getattr(object).await.ok();
        let wcc = self.true_wcc(object, Wcc { before: None, after }).await;
        Changed { result: Err(error), wcc }
    }

    /// Derives the reply to a WRITE from the result of the write to the metafile and the verifiers
    /// of the iods.
    fn told(&self, data: &Data, done: &Changed<WriteDone>, said: &[Said]) -> Changed<WriteDone> {
        let wcc = Self::wcc(data, &done.wcc);
        let result = done
            .result
            .map(|done| WriteDone { verifier: self.verifier(done.verifier, said), ..done });
        Changed { result, wcc }
    }

    /// Updates the metafile to record that the file data has changed, or (`cut`) is about to be
    /// truncated to a size.
    pub(crate) async fn touch(
        &self,
        caller: &Caller,
        object: &ObjectId,
        file: &Objects,
        cut: Option<u64>,
        stability: Stability,
    ) -> Changed<WriteDone> {
        let _times = file.times.read().await;
        self.upkeep.forget(&self.names.identity(object));
        let mark = Change { number: file.next_change(), cut }.encode();
        let done = self.names.write(caller, object, CHANGE_OFFSET, mark, stability).await;
        if let (true, Some(after)) = (self.options.shared, done.wcc.after) {
            file.saw(after.changed);
        }
        done
    }

    /// Like `touch`, for a change that no client requested. Records the new change time, so that a
    /// task that read the attributes of the metafile before reads them again.
    pub(crate) async fn touch_unasked(
        &self,
        object: &ObjectId,
        file: &Objects,
    ) -> Result<(), FsError> {
        let done = self.touch(&superuser(), object, file, None, Stability::FileSync).await;
        if let Some(after) = done.wcc.after {
            file.showed(after.changed);
        }
        done.result.map(drop)
    }

    pub(crate) async fn commit_data(
        &self,
        caller: &Caller,
        object: &ObjectId,
    ) -> Changed<Committed> {
        let done = self.names.commit(caller, object, 0, 0).await;
        let names = match done.result {
            Ok(committed) => committed.verifier,
            Err(error) => {
                let wcc = self.true_wcc(object, done.wcc).await;
                return Changed { result: Err(error), wcc };
            }
        };
        let file = self.file(object);
        let data = match self.shared(object, &file).await {
            Ok(data) => data,
            Err(error) => return Changed::failed(error),
        };
        let mut wcc = done.wcc;
        let said = match &*data {
            Data::OnIods(objects) => {
                let said = self.commit_on_iods(object, objects).await;
                // The commit may have changed the metafile (to record an out-of-date copy or
                // changed data), so read the attributes again.
                wcc.after = self.names.getattr(object).await.ok();
                said
            }
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => Ok(Vec::new()),
        };
        let result = said.map(|said| Committed { verifier: self.verifier(names, &said) });
        Changed { result, wcc: Self::wcc(&data, &wcc) }
    }

    async fn commit_on_iods(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<Vec<Said>, FsError> {
        let said = self.commit_objects(Some(object), objects).await?;
        self.show(object, objects).await?;
        Ok(said)
    }

    /// Removes the objects of a file that no longer exists.
    pub(crate) async fn purge(&self, object: &ObjectId, head: Head) {
        let file = self.file(object);
        let mut data = file.write().await;
        // The data may have migrated after the caller read the header, so prefer the current
        // header.
        let head = match &*data {
            Data::OnIods(objects) => objects.head.clone(),
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => head,
        };
        *data = Data::Gone;
        self.tending.done(&self.names.identity(object));
        self.files.forget(&self.names.identity(object));
        self.upkeep.forget(&self.names.identity(object));
        drop(data);
        if !head.inline {
            self.remove_objects(&head).await;
        }
    }
}
