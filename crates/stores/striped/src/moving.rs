//! Moving a file's data to where it is to lie, while clients use it.
//!
//! There is one way to mend a copy that is behind, to leave an iod, and to go to one that is new:
//! the data is copied to objects of other names, a part at a time with nobody else at the file;
//! what is written meanwhile goes to both. At the end the old objects are committed, so that it shows
//! if they have lost anything, and a new head takes the place of the old one in one write. A crash before leaves objects of no file, one after it too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use leasehold_fs::{FsError, ObjectId, SetAttributes, SetTime, Stability};

use crate::Striped as Volume;
use crate::file::{Data, File, Objects};
use crate::look::superuser;
use crate::metafile::{Behind, Head};
use crate::objects::Said;
use crate::shape::Shape;

/// Bytes that are copied with nobody else at the file.
const PART_BYTES: u64 = 4 << 20;

/// Where data is being moved.
#[derive(Debug)]
pub(crate) struct Move {
    to: Objects,
    /// What the iods said of stable storage: when one says something else, data was lost.
    said: Mutex<BTreeMap<u16, leasehold_fs::Verifier>>,
}

impl Move {
    fn agrees(&self, said: &[Said]) -> bool {
        let mut known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().all(|&(iod, verifier)| *known.entry(iod).or_insert(verifier) == verifier)
    }
}

impl Volume {
    /// Whether data lies where it should not, or lacks a copy.
    pub(crate) fn is_misplaced(&self, shape: &Shape, head: &Head, behind: Behind) -> bool {
        !head.inline && (behind.any() || !shape.fits(&self.options, head, &self.full.all()))
    }

    /// Writes to where data is being moved what was written to where it is; ends the move where
    /// that fails.
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

    /// Moves a file's data, if it is to be moved; whether it was.
    pub(crate) async fn move_file(&self, object: &ObjectId) -> Result<bool, FsError> {
        let file = self.file(object);
        let (moving, making) = {
            let data = self.alone(object, &file).await?;
            let shape = self.shape(object).await?;
            match &*data {
                Data::OnIods(objects)
                    if self.is_misplaced(&shape, &objects.head, objects.behind()) =>
                {
                    // The loss of a copy outweighs a copy that may find no room: the attempt tells.
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
        // Where it is in doubt that was said.
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
                return Err(FsError::Later);
            }
            let mut data = file.write().await;
            let Data::OnIods(objects) = &*data else { return Err(FsError::Later) };
            // It was cut, an iod failed, or it is another one already.
            if !objects.moving().is_some_and(|now| Arc::ptr_eq(&now, moving)) {
                return Err(FsError::Later);
            }
            let length = objects.size().saturating_sub(offset).min(PART_BYTES);
            if length == 0 {
                return self.switch(object, &mut data, moving).await;
            }
            let part = self.gather(object, objects, offset, length).await?;
            // Holes stay such.
            if part.iter().any(|&byte| byte != 0) {
                self.put(moving, offset, part).await?;
            }
            offset += length;
        }
    }

    /// Has the file lie where its data was copied to; fails as long as it does not.
    async fn switch(
        &self,
        object: &ObjectId,
        data: &mut Data,
        moving: &Move,
    ) -> Result<(), FsError> {
        let Data::OnIods(from) = &*data else { return Err(FsError::Later) };
        let old = from.head.clone();
        self.resize(None, &moving.to, from.size()).await?;
        if !moving.agrees(&self.commit_objects(None, &moving.to).await?) {
            return Err(FsError::Io);
        }
        // What a source has lost before or meanwhile would show to nobody: a COMMIT asks the new
        // objects from now on. So it is asked here, and the verifier says it.
        let said = self.commit_objects(Some(object), from).await?;
        drop(self.heard(&said));
        let caller = superuser();
        let before = self.names.getattr(object).await?;
        let placed = self.put_head(&caller, object, &moving.to, Stability::FileSync).await;
        if placed.is_err() {
            // Which of both heads stands there is to be seen, so both have their objects.
            self.search.doubt([old.name, moving.to.head.name]);
            *data = Data::Unknown;
            self.tending.found(self.names.identity(object));
            return Ok(());
        }
        // No data was changed.
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
