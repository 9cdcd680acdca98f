//! Migration of a file's data to the iods that its layout policy requires, while clients use the
//! file.
//!
//! The same procedure repairs an out-of-date copy, empties an iod, and fills a new iod. The store
//! copies the data to new objects with a new object name, one part at a time with exclusive access
//! to the file. Concurrent writes go to the old and the new objects. At the end the store commits
//! the old objects, to detect unstable data that an iod has lost. Then one write replaces the old
//! header of the metafile. A crash before or after this write leaves objects that belong to no
//! file; the module `search` finds them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use leasehold_fs::{FsError, ObjectId, SetAttributes, SetTime, Stability};

use crate::Striped;
use crate::file::{Data, File, Objects};
use crate::layout_policy::LayoutPolicy;
use crate::metafile::{Behind, Head};
use crate::objects::Said;
use crate::visible::superuser;

/// The maximum number of bytes that the store copies under one exclusive lock of the file.
const PART_BYTES: u64 = 4 << 20;

/// A migration of data that is in progress.
#[derive(Debug)]
pub(crate) struct Move {
    to: Objects,
    /// The first verifier that each iod returned during the migration. A different verifier later
    /// means that the iod may have lost the new data.
    said: Mutex<BTreeMap<u16, leasehold_fs::Verifier>>,
}

impl Move {
    fn agrees(&self, said: &[Said]) -> bool {
        let mut known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().all(|&(iod, verifier)| *known.entry(iod).or_insert(verifier) == verifier)
    }
}

impl Striped {
    /// Returns true if a file needs rebalancing: its location does not match its layout policy, or
    /// a copy is out of date.
    pub(crate) fn is_misplaced(&self, shape: &LayoutPolicy, head: &Head, behind: Behind) -> bool {
        !head.inline && (behind.any() || !shape.fits(&self.options, head, &self.full.all()))
    }

    /// Repeats a client's write at the new objects of a migration. If this fails, cancels the
    /// migration, but not the client's write.
    pub(crate) async fn follow(&self, file: &Objects, offset: u64, data: Bytes) {
        if let Some(moving) = file.moving()
            && self.put(&moving, offset, data).await.is_err()
        {
            file.set_moving(None);
        }
    }

    async fn put(&self, moving: &Move, offset: u64, data: Bytes) -> Result<(), FsError> {
        let length = data.len();
        let (count, said) =
            self.spread(None, &moving.to, offset, data, Stability::Unstable).await?;
        if count as usize == length && moving.agrees(&said) { Ok(()) } else { Err(FsError::Io) }
    }

    /// Migrates a file's data if the file needs rebalancing; returns true if the data was migrated.
    pub(crate) async fn move_file(&self, object: &ObjectId) -> Result<bool, FsError> {
        let file = self.file(object);
        let (moving, making) = {
            let data = self.alone(object, &file).await?;
            let shape = self.shape(object).await?;
            match &*data {
                Data::OnIods(objects)
                    if self.is_misplaced(&shape, &objects.head, objects.behind()) =>
                {
                    // Check the free space first, but not before the repair of an out-of-date copy,
                    // which is too urgent.
                    if !objects.behind().any() && self.lacks_room(&shape, objects.size()).await {
                        return Err(FsError::NoSpace);
                    }
                    self.refuse_clients(object, objects).await?;
                    let (head, making) = self.search.making(|| self.new_head(&shape, false));
                    let to = Objects::empty(head);
                    let moving = Arc::new(Move { to, said: Mutex::default() });
                    objects.set_moving(Some(Arc::clone(&moving)));
                    (moving, making)
                }
                Data::OnIods(_) | Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => {
                    return Ok(false);
                }
            }
        };
        let done = self.copy_over(object, &file, &moving).await;
        if done.is_err() {
            let data = file.write().await;
            if let Data::OnIods(objects) = &*data {
                objects.set_moving(None);
            }
            drop(data);
            self.remove_objects(&moving.to.head).await;
        }
        // If it is unknown which header the metafile contains, `switch` has recorded both object
        // names as doubtful, so the creation can end in any case.
        making.end();
        done.map(|()| true)
    }

    async fn copy_over(
        &self,
        object: &ObjectId,
        file: &File,
        moving: &Arc<Move>,
    ) -> Result<(), FsError> {
        let mut offset = 0;
        loop {
            if self.tending.is_ending() {
                return Err(FsError::Delay);
            }
            let mut data = file.write().await;
            let Data::OnIods(objects) = &*data else { return Err(FsError::Delay) };
            // Stop if the migration was cancelled: the file was truncated, a write to the new
            // objects failed, or another migration has started.
            if !objects.moving().is_some_and(|now| Arc::ptr_eq(&now, moving)) {
                return Err(FsError::Delay);
            }
            let length = objects.size().saturating_sub(offset).min(PART_BYTES);
            if length == 0 {
                return self.switch(object, &mut data, moving).await;
            }
            let part = self.gather(object, objects, offset, length).await?;
            // Do not write zeros, so that holes remain holes.
            if part.iter().any(|&byte| byte != 0) {
                self.put(moving, offset, part).await?;
            }
            offset += length;
        }
    }

    /// Makes the new objects the data of the file. After an error the file keeps its old objects.
    async fn switch(
        &self,
        object: &ObjectId,
        data: &mut Data,
        moving: &Move,
    ) -> Result<(), FsError> {
        let Data::OnIods(from) = &*data else { return Err(FsError::Delay) };
        let old = from.head.clone();
        self.resize(None, &moving.to, from.size()).await?;
        if !moving.agrees(&self.commit_objects(None, &moving.to).await?) {
            return Err(FsError::Io);
        }
        // An iod with an old object may have lost unstable data before or during the copy. A
        // client's later COMMIT would not detect this loss, since it commits the new objects only.
        // So commit the old objects here and record their verifiers: the verifier of the client's
        // COMMIT then differs and reports the loss.
        let said = self.commit_objects(Some(object), from).await?;
        drop(self.heard(&said));
        let caller = superuser();
        let before = self.names.getattr(object).await?;
        let placed = self.put_head(&caller, object, &moving.to, Stability::FileSync).await;
        if placed.is_err() {
            // It is unknown which of the two headers is in the metafile until it is read again. So
            // keep the objects of both, and mark them as doubtful for searches.
            self.search.doubt([old.name, moving.to.head.name]);
            *data = Data::Unknown;
            self.tending.found(self.names.identity(object));
            return Ok(());
        }
        // The migration has not changed the contents of the file, so restore its times.
        let times = SetAttributes {
            accessed: SetTime::To(before.accessed),
            modified: SetTime::To(before.modified),
            ..SetAttributes::default()
        };
        let done = self.names.setattr(&caller, object, &times, None).await;
        let identity = self.names.identity(object);
        if let Some(after) = done.wcc.after {
            self.kept_up(identity, before.changed, after.changed);
        }
        let head = moving.to.head.clone();
        *data = Data::OnIods(Objects::new(head, moving.to.extents(), 0, Behind::default()));
        self.tending.done(&identity);
        self.remove_objects(&old).await;
        Ok(())
    }
}
