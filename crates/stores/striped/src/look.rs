//! What is known of a file, and what a client is to see of it.

use std::sync::Arc;

use leasehold_base::units::FileTime;
use leasehold_fs::{
    Alone, Attributes, Caller, Changed, FileType, FsError, ObjectId, ReadDone, SUPERUSER, Wcc,
};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use crate::Striped as Volume;
use crate::direct::is_given_out;
use crate::file::{Data, File, Objects, Shown};
use crate::iod::Extent;
use crate::metafile::{Behind, Change, Damaged, HEAD_BYTES, Head};

impl Volume {
    pub(crate) fn file(&self, object: &ObjectId) -> Arc<File> {
        self.files.get(self.names.identity(object))
    }

    /// The data of a file, shared with others.
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

    /// The data of a file, with nobody else at it.
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

    /// Asks for the sizes of objects that a client may have written.
    async fn follow_clients(&self, data: &Data) -> Result<(), FsError> {
        match data {
            Data::OnIods(objects) if objects.is_given_out() => self.ask_size(objects).await,
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {
                Ok(())
            }
        }
    }

    /// The head of a file as it stands in its metafile; none where there is none yet.
    pub(crate) async fn head(&self, object: &ObjectId) -> Result<Option<Head>, FsError> {
        Ok(self.whole_head(object).await?.map(|(head, ..)| head))
    }

    /// The head with all its parts, and when the metafile was changed last.
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

    /// Finds out where the data of a file is, of which this was known before.
    async fn look(&self, object: &ObjectId, before: &Data) -> Result<Data, FsError> {
        let Some((head, behind, change, changed)) = self.whole_head(object).await? else {
            return Ok(Data::Nowhere);
        };
        if head.inline {
            return Ok(Data::Inline(head));
        }
        let none = vec![Extent::default(); head.iods.len()];
        let objects = Objects::new(head, none, change.number, behind);
        // Nobody has written to it, as far as its metafile knows.
        let is_new = self.options.shared && change == Change::default();
        if !is_new {
            for (number, extent) in (0..).zip(self.extents(&objects).await?) {
                objects.resized(number, extent);
            }
            // An iod answers alike for a removed object and for an object that was never written.
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
            // A crash came before it was done.
            self.resize(Some(object), &objects, size).await?;
            self.touch_unasked(object, &objects).await?;
        }
        Ok(Data::OnIods(objects))
    }

    /// Ends what a client was told of a file before a start, or by another metaserver that is gone. Where
    /// several serve the same files, the metafile had another change time before a client was told. So
    /// whoever has made something from what it has now is that client: that it is shown is upkeep to him,
    /// and what he brings late is no later than another's change. If nobody else changes it meanwhile.
    async fn take_back_of_before(
        &self,
        object: &ObjectId,
        objects: &Objects,
    ) -> Result<(), FsError> {
        if !self.options.shared {
            return self.take_back(object, objects).await;
        }
        let alone = self.names.alone(object).await;
        let before = self.names.changed(object).await?;
        self.take_back(object, objects).await?;
        let after = self.names.changed(object).await?;
        // Until here.
        if alone.is_ok_and(|alone| alone.number > 0) {
            self.upkeep.note(self.names.identity(object), before, after);
        }
        Ok(())
    }

    /// How objects that clients may write were when the metafile last showed it, where that is known
    /// from what was known of the file before an iod failed. Where clients were sent to none of
    /// them, as not all could be given out, they are as they were.
    fn shown_before(&self, before: &Data, objects: &Objects) -> Option<Shown> {
        match before {
            // Others may have sent clients there.
            Data::OnIods(known) if !self.options.shared && known.head == objects.head => {
                known.last_shown().or_else(|| Some(objects.now()))
            }
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
        }
    }

    /// The attributes of a file from those of its metafile.
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
            // The look itself may have changed it, or who had the file in hand.
            Data::OnIods(objects) if objects.has_shown_since(attributes.changed) => {
                self.names.getattr(object).await?
            }
            Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {
                attributes
            }
        };
        Ok(apparent(&data, attributes))
    }

    /// The attributes of a file that SETATTR has begun to cut, where an iod refuses its part: the
    /// size is the size that SETATTR asked for. The cut goes on once the iod takes changes, and the
    /// store reads and writes no data of the file before. None for any other file.
    async fn attributes_amid_cut(
        &self,
        object: &ObjectId,
        attributes: Attributes,
    ) -> Option<Attributes> {
        let (head, _, change, _) = self.whole_head(object).await.ok()??;
        let size = change.cut.filter(|_| !head.inline && !self.options.shared)?;
        Some(Attributes { size, ..attributes })
    }

    /// The same with no iod asked, nor anybody waited for who may ask one; and whether all is true.
    pub(crate) fn known_of(&self, object: &ObjectId, attributes: Attributes) -> (Attributes, bool) {
        if attributes.file_type != FileType::Regular || attributes.size == 0 {
            return (attributes, true);
        }
        let file = self.file(object);
        let Ok(data) = file.try_read() else { return (attributes, false) };
        let is_known = match &*data {
            Data::OnIods(objects) => {
                let changed = attributes.changed;
                !self.has_to_ask(objects, changed) && !objects.has_shown_since(changed)
            }
            Data::Nowhere | Data::Inline(_) => true,
            Data::Unknown | Data::Gone => false,
        };
        (apparent(&data, attributes), is_known)
    }

    /// Whether who wants to know of a file, whose metafile was changed last then, has its iods asked.
    fn has_to_ask(&self, objects: &Objects, changed: FileTime) -> bool {
        let is_older = self.options.shared && objects.is_older_than(changed);
        is_older || objects.is_in_doubt() || objects.is_given_out()
    }

    /// Whether who wants to know of a file, whose metafile was changed last then, would wait for an
    /// iod that is away, or for somebody else who may.
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

    /// Has the iods asked again when another metaserver has changed the file.
    pub(crate) async fn catch_up(
        &self,
        object: &ObjectId,
        file: &File,
        changed: FileTime,
    ) -> Result<(), FsError> {
        if !self.options.shared || !is_older_than(file, changed).await {
            return Ok(());
        }
        // It may be this one that has changed it since that was looked up, as when it gave the file
        // out to a client, which ends where the iods are asked.
        let changed = self.names.changed(object).await?;
        if is_older_than(file, changed).await
            && let Data::OnIods(objects) = &*file.read().await
        {
            objects.doubt();
        }
        Ok(())
    }

    /// Keeps others from a file, and has the iods asked again if some were at it.
    pub(crate) async fn keep_alone(&self, object: &ObjectId) -> Result<Alone, FsError> {
        let alone = self.names.alone(object).await?;
        if alone.number > 0
            && let Data::OnIods(objects) = &*self.file(object).read().await
            && !objects.was_alone(alone.number)
        {
            // Also for clients that others have sent to the iods.
            objects.doubt();
        }
        Ok(alone)
    }

    /// Asks the iods of a file that other metaservers may have made longer just now.
    pub(crate) async fn ask_size(&self, objects: &Objects) -> Result<(), FsError> {
        for (number, extent) in (0..).zip(self.extents(objects).await?) {
            objects.grown(number, extent);
        }
        Ok(())
    }

    /// What a change told of a file, from what it told of its metafile.
    pub(crate) async fn true_wcc(&self, object: &ObjectId, wcc: Wcc) -> Wcc {
        let after = match wcc.after {
            Some(after) => self.true_of(object, after).await.ok(),
            None => None,
        };
        Wcc { before: None, after }
    }

    /// A change of attributes alone, from that of the metafile's.
    pub(crate) async fn true_change(&self, object: &ObjectId, done: Changed<()>) -> Changed<()> {
        match done.wcc.after {
            Some(after) if after.file_type == FileType::Regular => {
                Changed { wcc: self.true_wcc(object, done.wcc).await, ..done }
            }
            Some(_) | None => done,
        }
    }

    /// What a change told of a file that somebody has in hand.
    pub(crate) fn wcc(data: &Data, wcc: &Wcc) -> Wcc {
        let after = wcc.after.filter(|_| data.is_known());
        Wcc { before: None, after: after.map(|after| apparent(data, after)) }
    }
}

/// Who may all in the names' store.
pub(crate) fn superuser() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

/// What a client is to see of a file, from the attributes of its metafile.
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

/// Whether what is known of a file's objects is of before its metafile came to be as it is now.
async fn is_older_than(file: &File, changed: FileTime) -> bool {
    match &*file.read().await {
        Data::OnIods(objects) => objects.is_older_than(changed),
        Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => false,
    }
}
