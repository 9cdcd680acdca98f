//! Moving a file's data to the location that its layout requires, while clients use the file.
//!
//! One procedure repairs an out-of-date copy, empties an iod, and fills a new iod. The store copies
//! the data to objects of other names, one part at a time with exclusive access to the file;
//! concurrent writes go to both sets of objects. At the end the store commits the old objects, to
//! detect data that they have lost, and one write replaces the old head with a new one. A crash
//! before or after this write leaves objects that belong to no file.

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

/// The number of bytes that the store copies under one exclusive access.
const PART_BYTES: u64 = 4 << 20;

/// A move of data that is in progress.
#[derive(Debug)]
pub(crate) struct Move {
    to: Objects,
    /// The first verifier of each iod: a different verifier means that the iod has lost data.
    said: Mutex<BTreeMap<u16, leasehold_fs::Verifier>>,
}

impl Move {
    fn agrees(&self, said: &[Said]) -> bool {
        let mut known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().all(|&(iod, verifier)| *known.entry(iod).or_insert(verifier) == verifier)
    }
}

impl Striped {
    /// Returns true if data needs rebalancing: it is at the wrong location, or a copy is out of
    /// date.
    pub(crate) fn is_misplaced(&self, shape: &LayoutPolicy, head: &Head, behind: Behind) -> bool {
        !head.inline && (behind.any() || !shape.fits(&self.options, head, &self.full.all()))
    }

    /// Repeats a write at the destination of a move; ends the move if that fails.
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

    /// Moves a file's data if it needs rebalancing; returns true if the store moved it.
    pub(crate) async fn move_file(&self, object: &ObjectId) -> Result<bool, FsError> {
        let file = self.file(object);
        let (moving, making) = {
            let data = self.alone(object, &file).await?;
            let shape = self.shape(object).await?;
            match &*data {
                Data::OnIods(objects)
                    if self.is_misplaced(&shape, &objects.head, objects.behind()) =>
                {
                    // The repair of a copy goes ahead even if the new copy may find no room.
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
        // If the result of the move is in doubt, `switch` has recorded that.
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
            // The file was cut, an iod failed, or another move has started.
            if !objects.moving().is_some_and(|now| Arc::ptr_eq(&now, moving)) {
                return Err(FsError::Delay);
            }
            let length = objects.size().saturating_sub(offset).min(PART_BYTES);
            if length == 0 {
                return self.switch(object, &mut data, moving).await;
            }
            let part = self.gather(object, objects, offset, length).await?;
            // Holes remain holes.
            if part.iter().any(|&byte| byte != 0) {
                self.put(moving, offset, part).await?;
            }
            offset += length;
        }
    }

    /// Makes the copied data the data of the file; returns an error as long as it is not.
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
        // A source may have lost data before or during the copy. No later COMMIT would detect this,
        // since it goes to the new objects. So the store commits the source here, and the verifier
        // reports the loss.
        let said = self.commit_objects(Some(object), from).await?;
        drop(self.heard(&said));
        let caller = superuser();
        let before = self.names.getattr(object).await?;
        let placed = self.put_head(&caller, object, &moving.to, Stability::FileSync).await;
        if placed.is_err() {
            // A later read shows which of the two heads is in place, so both keep their objects.
            self.search.doubt([old.name, moving.to.head.name]);
            *data = Data::Unknown;
            self.tending.found(self.names.identity(object));
            return Ok(());
        }
        // The move has not changed any data.
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
