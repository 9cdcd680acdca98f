//! The cached information about files, and the attributes that clients see.

use std::sync::Arc;

use leasehold_base::units::FileTime;
use leasehold_fs::{
    Attributes, Caller, Changed, Completeness, ExclusiveAccess, FileType, FsError, ObjectId,
    ReadDone, SUPERUSER, Wcc,
};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use crate::Striped;
use crate::direct::is_given_out;
use crate::file::{Data, File, Objects, Shown};
use crate::iod::Extent;
use crate::metafile::{Behind, Change, Damaged, HEAD_BYTES, Head};

impl Striped {
    pub(crate) fn file(&self, object: &ObjectId) -> Arc<File> {
        self.files.get(self.names.identity(object))
    }

    /// Returns the cached information about a file's data, under a shared lock. Queries the iods
    /// first if necessary.
    pub(crate) async fn shared<'f>(
        &self,
        object: &ObjectId,
        file: &'f File,
    ) -> Result<RwLockReadGuard<'f, Data>, FsError> {
        let data = file.read().await;
        if data.is_known() {
            self.follow_clients(&data).await?;
            return Ok(data);
        }
        drop(data);
        Ok(RwLockWriteGuard::downgrade(self.alone(object, file).await?))
    }

    /// Returns the cached information about a file's data, under an exclusive lock. Queries the
    /// iods first if necessary.
    pub(crate) async fn alone<'f>(
        &self,
        object: &ObjectId,
        file: &'f File,
    ) -> Result<RwLockWriteGuard<'f, Data>, FsError> {
        let mut data = file.write().await;
        if let Data::Gone = &*data {
            return Err(FsError::Stale);
        }
        if data.is_known() {
            self.follow_clients(&data).await?;
        } else {
            let looked = self.look(object, &data).await?;
            *data = looked;
        }
        Ok(data)
    }

    /// Queries the sizes of a file's objects if a client may write them.
    async fn follow_clients(&self, data: &Data) -> Result<(), FsError> {
        match data {
            Data::OnIods(objects) if objects.is_given_out() => self.ask_size(objects).await,
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {
                Ok(())
            }
        }
    }

    /// Reads the header of a metafile; `None` if the metafile has no header yet.
    pub(crate) async fn head(&self, object: &ObjectId) -> Result<Option<Head>, FsError> {
        Ok(self.whole_head(object).await?.map(|(head, ..)| head))
    }

    /// Reads all parts of the header, and the change time of the metafile.
    pub(crate) async fn whole_head(
        &self,
        object: &ObjectId,
    ) -> Result<Option<(Head, Behind, Change, FileTime)>, FsError> {
        let length = u32::try_from(HEAD_BYTES).expect("it is small");
        let ReadDone { data: bytes, attributes, .. } =
            self.names.read(&superuser(), object, 0, length).await?;
        let head = match Head::decode(&bytes) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(None),
            Err(Damaged) => return Err(FsError::Io),
        };
        let known = head.iods.iter().all(|&iod| usize::from(iod) < self.iods.len());
        if head.volume != self.options.volume || !known {
            return Err(FsError::Io);
        }
        let behind = Behind::decode(&bytes).map_err(|Damaged| FsError::Io)?;
        Ok(Some((head, behind, Change::decode(&bytes), attributes.changed)))
    }

    /// Reads the location of a file's data from its metafile, and queries the iods for sizes. Ends
    /// a layout from before a restart, and continues an interrupted truncation. `before` is the
    /// earlier cached information.
    async fn look(&self, object: &ObjectId, before: &Data) -> Result<Data, FsError> {
        let Some((head, behind, change, changed)) = self.whole_head(object).await? else {
            return Ok(Data::Nowhere);
        };
        if head.inline {
            return Ok(Data::Inline(head));
        }
        let none = vec![Extent::default(); head.iods.len()];
        let objects = Objects::new(head, none, change.number, behind);
        // With several metaservers, a metafile records the first write to the file before any data
        // is on iods. So if there is no such record, the objects are empty and need no query.
        let is_new = self.options.shared && change == Change::default();
        if !is_new {
            for (number, extent) in (0..).zip(self.extents(&objects).await?) {
                objects.resized(number, extent);
            }
            // An iod reports equal extents for a removed object and for an object that was never
            // written. So check that the metafile still exists.
            let lacks_one = objects.extents().contains(&Extent::default());
            if lacks_one && self.options.shared && self.is_gone(object).await {
                return Err(FsError::Stale);
            }
        }
        objects.saw(changed);
        if objects.extents().iter().any(|extent| is_given_out(extent.owner)) {
            objects.found_given_out(self.shown_before(before, &objects));
            self.take_back_of_before(object, &objects).await?;
        }
        if let Some(size) = change.cut {
            // A crash interrupted a truncation, so some objects may be too long. Truncate them now.
            self.resize(Some(object), &objects, size).await?;
            self.touch_unasked(object, &objects).await?;
        }
        Ok(Data::OnIods(objects))
    }

    /// Ends a layout that an earlier run of this metaserver, or another metaserver that has failed,
    /// gave to a client. If several metaservers serve the same files, the change time of the
    /// metafile changed before the client received its layout. So only this client can have cached
    /// data under the current change time. For this client the update of the metafile here counts
    /// as internal maintenance: data that the client flushes late conflicts with no change of
    /// another client, unless another change comes in between.
    async fn take_back_of_before(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        if !self.options.shared {
            return self.take_back(object, objects).await;
        }
        let alone = self.names.exclusive(object).await;
        let before = self.names.change_time(object).await?;
        self.take_back(object, objects).await?;
        let after = self.names.change_time(object).await?;
        // The interval counts as maintenance only if this metaserver had exclusive access until
        // now. The condition consumes `alone`, which ends the exclusive access.
        if alone.is_ok_and(|alone| alone.number > 0) {
            self.upkeep.note(self.names.identity(object), before, after);
        }
        Ok(())
    }

    /// Returns the sizes and times of the objects when the metafile last reflected them; `None` if
    /// they are unknown. `before` is the cached information from before an iod's failure. If it
    /// contains no layout, the store failed to set all owner numbers, so no client has received the
    /// layout, and the metafile reflects the current state.
    fn shown_before(&self, before: &Data, objects: &Objects) -> Option<Shown> {
        match before {
            // With several metaservers the cached information does not suffice, because other
            // metaservers may have given layouts to clients.
            Data::OnIods(known) if !self.options.shared && known.head == objects.head => {
                known.last_shown().or_else(|| Some(objects.now()))
            }
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
        }
    }

    /// Derives the attributes of a file from the attributes of its metafile.
    pub(crate) async fn true_of(
        &self,
        object: &ObjectId,
        attributes: Attributes,
    ) -> Result<Attributes, FsError> {
        if attributes.file_type != FileType::Regular || attributes.size == 0 {
            return Ok(attributes);
        }
        let file = self.file(object);
        self.catch_up(object, &file, attributes.changed).await?;
        let data = match self.shared(object, &file).await {
            Ok(data) => data,
            Err(error) => return self.attributes_amid_cut(object, attributes).await.ok_or(error),
        };
        let attributes = match &*data {
            // The query of the iods, or a concurrent task, may have changed the metafile, so read
            // its attributes again.
            Data::OnIods(objects) if objects.has_shown_since(attributes.changed) => {
                self.names.getattr(object).await?
            }
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {
                attributes
            }
        };
        Ok(apparent(&data, attributes))
    }

    /// Returns the attributes of a file with an interrupted truncation that an iod refuses to
    /// finish; the size is the one that SETATTR requested. The store reads and writes no data of
    /// such a file until the iod accepts changes and the truncation is complete. Returns `None` for
    /// any other file.
    async fn attributes_amid_cut(
        &self,
        object: &ObjectId,
        attributes: Attributes,
    ) -> Option<Attributes> {
        let (head, _, change, _) = self.whole_head(object).await.ok()??;
        let size = change.cut.filter(|_| !head.inline && !self.options.shared)?;
        Some(Attributes { size, ..attributes })
    }

    /// Like `true_of`, but queries no iod, and waits for no task that may query an iod. The flag is
    /// true if all attributes are exact.
    pub(crate) fn known_of(
        &self,
        object: &ObjectId,
        attributes: Attributes,
    ) -> (Attributes, Completeness) {
        if attributes.file_type != FileType::Regular || attributes.size == 0 {
            return (attributes, Completeness::Complete);
        }
        let file = self.file(object);
        let Ok(data) = file.try_read() else { return (attributes, Completeness::SizeMayBeOld) };
        let is_known = match &*data {
            Data::OnIods(objects) => {
                let changed = attributes.changed;
                !self.has_to_ask(objects, changed) && !objects.has_shown_since(changed)
            }
            Data::Nowhere | Data::Inline(_) => true,
            Data::Unknown | Data::Gone => false,
        };
        let completeness =
            if is_known { Completeness::Complete } else { Completeness::SizeMayBeOld };
        (apparent(&data, attributes), completeness)
    }

    /// Returns true if a caller must query the iods of a file whose metafile has this change time.
    fn has_to_ask(&self, objects: &Objects, changed: FileTime) -> bool {
        let is_older = self.options.shared && objects.is_older_than(changed);
        is_older || objects.is_in_doubt() || objects.is_given_out()
    }

    /// Returns true if a caller that needs the attributes of a file would wait for an unreachable
    /// iod, or for another task that may wait for an iod. `changed` is the change time of the
    /// metafile.
    pub(crate) async fn would_wait(&self, object: &ObjectId, changed: FileTime) -> bool {
        let file = self.file(object);
        let Ok(data) = file.try_read() else { return true };
        match &*data {
            Data::OnIods(objects) => {
                return self.has_to_ask(objects, changed) && self.lacks_one(objects);
            }
            Data::Nowhere | Data::Inline(_) | Data::Gone => return false,
            Data::Unknown => {}
        }
        drop(data);
        match self.whole_head(object).await {
            Ok(Some((head, behind, ..))) if !head.inline => {
                self.lacks_one(&Objects::new(head, Vec::new(), 0, behind))
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Marks the cached extents as doubtful if another metaserver has changed the file. `changed`
    /// is a change time of the metafile that the caller has read.
    pub(crate) async fn catch_up(
        &self,
        object: &ObjectId,
        file: &File,
        changed: FileTime,
    ) -> Result<(), FsError> {
        if !self.options.shared || !is_older_than(file, changed).await {
            return Ok(());
        }
        // This metaserver itself may have changed the metafile after the caller read `changed`, for
        // example when it gave a layout to a client. Then a query of the iods is not necessary, and
        // would end the layout. So compare with the current change time.
        let changed = self.names.change_time(object).await?;
        if is_older_than(file, changed).await
            && let Data::OnIods(objects) = &*file.read().await
        {
            objects.doubt();
        }
        Ok(())
    }

    /// Excludes other metaservers from a file while the result exists. If another metaserver has
    /// had access since the last query of the iods, marks the cached extents as doubtful.
    pub(crate) async fn keep_alone(&self, object: &ObjectId) -> Result<ExclusiveAccess, FsError> {
        let alone = self.names.exclusive(object).await?;
        if alone.number > 0
            && let Data::OnIods(objects) = &*self.file(object).read().await
            && !objects.was_alone(alone.number)
        {
            // The next query of the iods also finds and ends layouts that other metaservers gave to
            // clients.
            objects.doubt();
        }
        Ok(alone)
    }

    /// Queries the sizes of a file's objects, which a client or another metaserver may have
    /// extended.
    pub(crate) async fn ask_size(&self, objects: &Objects) -> Result<(), FsError> {
        for (number, extent) in (0..).zip(self.extents(objects).await?) {
            objects.grown(number, extent);
        }
        Ok(())
    }

    /// Derives the attributes of a file in the reply to a change from the attributes of its
    /// metafile.
    pub(crate) async fn true_wcc(&self, object: &ObjectId, wcc: Wcc) -> Wcc {
        let after = match wcc.after {
            Some(after) => self.true_of(object, after).await.ok(),
            None => None,
        };
        Wcc { before: None, after }
    }

    /// Derives the reply to SETATTR from the result of the SETATTR of the metafile.
    pub(crate) async fn true_change(&self, object: &ObjectId, done: Changed<()>) -> Changed<()> {
        match done.wcc.after {
            Some(after) if after.file_type == FileType::Regular => {
                Changed { wcc: self.true_wcc(object, done.wcc).await, ..done }
            }
            Some(_) | None => done,
        }
    }

    /// Like `true_wcc`, for a caller that holds the lock of the file.
    pub(crate) fn wcc(data: &Data, wcc: &Wcc) -> Wcc {
        let after = wcc.after.filter(|_| data.is_known());
        Wcc { before: None, after: after.map(|after| apparent(data, after)) }
    }
}

/// Returns the caller with all permissions in the names' store.
pub(crate) fn superuser() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

/// Derives the attributes that a client sees from the attributes of the metafile.
pub(crate) fn apparent(data: &Data, attributes: Attributes) -> Attributes {
    match data {
        Data::Inline(_) => {
            Attributes { size: attributes.size.saturating_sub(HEAD_BYTES), ..attributes }
        }
        Data::OnIods(objects) => {
            let extent = objects.extent();
            Attributes { size: extent.size, used: attributes.used + extent.used, ..attributes }
        }
        Data::Nowhere | Data::Unknown | Data::Gone => Attributes { size: 0, ..attributes },
    }
}

/// Returns true if the cached view of the file's objects predates the current metafile.
async fn is_older_than(file: &File, changed: FileTime) -> bool {
    match &*file.read().await {
        Data::OnIods(objects) => objects.is_older_than(changed),
        Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => false,
    }
}
