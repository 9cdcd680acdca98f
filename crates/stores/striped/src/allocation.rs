//! Allocation of a location for file data, and changes of a file's size.

use bytes::{Bytes, BytesMut};
use leasehold_base::units::FileTime;
use leasehold_fs::{
    Attributes, Caller, Changed, FsError, ObjectId, SetAttributes, SetTime, Stability, Store as _,
    Wcc,
};

use crate::Striped;
use crate::file::{Data, Objects};
use crate::full::lacks_space;
use crate::metafile::{Change, HEAD_BYTES, Head};
use crate::objects::resized;

/// The number of bytes in each step when data moves from the metafile to iods.
const MOVED_BYTES: u32 = 1 << 20;

impl Striped {
    pub(crate) fn fits(&self, end: u64) -> Result<(), FsError> {
        let most = self.properties(&self.names.root()).file_bytes_max;
        if end > most { Err(FsError::FileTooBig) } else { Ok(()) }
    }

    /// Prepares a file for data up to the offset `end`: writes a metafile header if there is none,
    /// and moves the data from the metafile to iods if it becomes too large. A new header is
    /// written with the given stability.
    pub(crate) async fn make_room(
        &self,
        caller: &Caller,
        object: &ObjectId,
        data: &mut Data,
        end: u64,
        stability: Stability,
    ) -> Result<(), FsError> {
        let inline = end <= u64::from(self.options.inline_bytes_max);
        match &*data {
            Data::Nowhere => {
                if self.names.getattr(object).await?.size > 0 {
                    // The metafile has data but its header was lost before it was stable. Remove
                    // this data.
                    let none = SetAttributes { size: Some(0), ..SetAttributes::default() };
                    self.names.setattr(caller, object, &none, None).await.result?;
                }
                let head = self.new_head(&self.shape(object).await?, inline);
                // There is no data yet, so the new header lists no out-of-date copy.
                let placed = Objects::empty(head);
                self.put_head(caller, object, &placed, stability).await?;
                *data = Self::placed(placed);
            }
            Data::Inline(head) if !inline => {
                match self.move_out(caller, object, head.clone()).await {
                    Ok(out) => *data = Data::OnIods(out),
                    Err(error) => {
                        // It is unknown which header is in the metafile, so the next operation
                        // reads the header again.
                        *data = Data::Unknown;
                        return Err(error);
                    }
                }
            }
            Data::Inline(_) | Data::OnIods(_) | Data::Unknown | Data::Gone => {}
        }
        Ok(())
    }

    /// Returns the location of a file's data before the first write.
    fn placed(file: Objects) -> Data {
        if file.head.inline { Data::Inline(file.head) } else { Data::OnIods(file) }
    }

    pub(crate) async fn put_head(
        &self,
        caller: &Caller,
        object: &ObjectId,
        file: &Objects,
        stability: Stability,
    ) -> Result<(), FsError> {
        let mut bytes = BytesMut::from(&*file.head.encode());
        bytes.extend_from_slice(&file.behind().encode());
        bytes.extend_from_slice(&Change::default().encode());
        let length = bytes.len();
        let done = self.names.write(caller, object, 0, bytes.freeze(), stability).await.result?;
        if done.count as usize == length { Ok(()) } else { Err(FsError::NoSpace) }
    }

    /// Moves the data of a small file from the metafile to iods.
    async fn move_out(
        &self,
        caller: &Caller,
        object: &ObjectId,
        head: Head,
    ) -> Result<Objects, FsError> {
        let shape = self.shape(object).await?;
        let full = self.full.all();
        let is_full = head.iods.iter().any(|iod| full.contains(iod));
        let is_same = shape.fits(&self.options, &head, &full) && !is_full;
        let here = head.name;
        let (head, making) = self.search.making(|| match is_same {
            true => Head { inline: false, ..head },
            false => self.new_head(&shape, false),
        });
        let file = Objects::empty(head);
        if let Err(error) = self.copy_out(caller, object, &file).await {
            // Remove the objects with a new object name, which no file uses. Objects with the
            // object name of this file could stay for the next attempt. But if an iod is full,
            // remove them to free space, and because a removal of the small file would not remove
            // them.
            if !is_same {
                self.remove_objects(&file.head).await;
            } else if lacks_space(error) {
                self.remove_unused_objects(&file.head).await;
            }
            making.end();
            return Err(error);
        }
        let placed = self.put_head(caller, object, &file, Stability::FileSync).await;
        if placed.is_err() {
            self.search.doubt([here, file.head.name]);
        }
        making.end();
        placed?;
        // The data after the header is obsolete and only uses space. Ignore an error of its
        // removal.
        let cut = SetAttributes { size: Some(HEAD_BYTES), ..SetAttributes::default() };
        let _ = self.names.setattr(caller, object, &cut, None).await;
        Ok(file)
    }

    /// Copies data from the metafile to iods, and makes the data stable there.
    async fn copy_out(
        &self,
        caller: &Caller,
        object: &ObjectId,
        file: &Objects,
    ) -> Result<(), FsError> {
        // An earlier attempt may have left data in these objects, so truncate them first.
        for (number, extent) in (0..).zip(self.extents(file).await?) {
            file.resized(number, extent);
        }
        self.resize(Some(object), file, 0).await?;
        let mut offset = 0;
        loop {
            let from = HEAD_BYTES + offset;
            let part = self.names.read(caller, object, from, MOVED_BYTES).await?;
            let length = part.data.len() as u64;
            self.put_all(object, file, offset, part.data).await?;
            offset += length;
            if part.end || length == 0 {
                return Ok(());
            }
        }
    }

    /// Writes all of the data to stable storage. After a partial write, repeats the write of the
    /// rest to learn the error, because an unreachable iod and a full iod need different treatment.
    async fn put_all(
        &self,
        object: &ObjectId,
        file: &Objects,
        mut offset: u64,
        mut data: Bytes,
    ) -> Result<(), FsError> {
        while !data.is_empty() {
            let (rest, stable) = (data.clone(), Stability::FileSync);
            let (count, _) = self.spread(Some(object), file, offset, rest, stable).await?;
            offset += u64::from(count);
            drop(data.split_to((count as usize).min(data.len())));
        }
        Ok(())
    }

    /// Executes a SETATTR that sets the size of a file.
    pub(crate) async fn set_size(
        &self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        size: u64,
        mut guard: Option<FileTime>,
    ) -> Changed<()> {
        self.set_guarded_size(caller, object, changes, size, &mut guard).await
    }

    /// Like `set_size`. If the caller must retry, sets `guard` to the change time that a retry must
    /// compare with.
    pub(crate) async fn set_guarded_size(
        &self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        size: u64,
        guard: &mut Option<FileTime>,
    ) -> Changed<()> {
        let file = self.file(object);
        let mut data = match self.alone(object, &file).await {
            Ok(data) => data,
            Err(error) => return Changed::failed(error),
        };
        let allowed = self.names.write(caller, object, 0, Bytes::new(), Stability::Unstable).await;
        let done = match allowed.result {
            Ok(_) => self.set_size_alone(caller, object, changes, size, *guard, &mut data).await,
            Err(error) => Err(error),
        };
        let (result, after) = match done {
            Ok(after) => (Ok(()), after),
            Err(error) => (Err(error), self.names.getattr(object).await.ok()),
        };
        if let (Err(FsError::Delay), Some(left)) = (result, after) {
            *guard = Some(left.changed);
        }
        Changed { result, wcc: Self::wcc(&data, &Wcc { before: None, after }) }
    }

    /// Sets the size under the exclusive lock of the file. Returns the attributes of the metafile,
    /// if they are known.
    async fn set_size_alone(
        &self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        size: u64,
        guard: Option<FileTime>,
        data: &mut Data,
    ) -> Result<Option<Attributes>, FsError> {
        self.fits(size)?;
        // Compare the guard now, because the steps below may change the change time.
        if let Some(guard) = guard
            && self.names.getattr(object).await?.changed != guard
        {
            return Err(FsError::NotSynchronized);
        }
        if size > 0 {
            self.make_room(caller, object, data, size, Stability::FileSync).await?;
        }
        let Data::OnIods(objects) = data else {
            let head = if let Data::Inline(_) = data { HEAD_BYTES } else { 0 };
            let behind = SetAttributes { size: Some(size + head), ..*changes };
            let done = self.names.setattr(caller, object, &behind, None).await;
            return done.result.map(|()| done.wcc.after);
        };
        // Cancel a migration in progress: its new objects may contain data beyond the new size.
        objects.set_moving(None);
        let others = SetAttributes { size: None, ..*changes };
        if others != SetAttributes::default() {
            self.upkeep.forget(&self.names.identity(object));
            // Set the other attributes first. If the names' store refuses them, the size stays
            // unchanged.
            self.names.setattr(caller, object, &others, None).await.result?;
        }
        if self.options.shared {
            self.ask_size(objects).await?;
        } else if objects.size() > size && resized(objects, size).len() > 1 {
            // Record the truncation before it begins, so that it continues after a crash and the
            // file is not left partly truncated.
            self.touch(caller, object, objects, Some(size), Stability::FileSync).await.result?;
        }
        if let Err(error) = self.resize(Some(object), objects, size).await {
            objects.doubt();
            return Err(error);
        }
        let touched = self.touch(caller, object, objects, None, Stability::FileSync).await;
        touched.result?;
        let mut after = touched.wcc.after;
        if others.modified != SetTime::Keep || others.accessed != SetTime::Keep {
            let times = SetAttributes {
                accessed: others.accessed,
                modified: others.modified,
                ..SetAttributes::default()
            };
            let done = self.names.setattr(caller, object, &times, None).await;
            done.result?;
            after = done.wcc.after;
        }
        Ok(after)
    }
}
