//! Operations on byte ranges. The iods have no such operations, so the store treats the data of a
//! file as one range without holes, and supports SEEK only.

use leasehold_fs::{
    ByteRange, Caller, Changed, Content, FileType, FsError, MaybeReady, ObjectId, RangeCopy,
    Ranges, Seek, WriteDone,
};

use crate::Striped;

impl Striped {
    async fn seek_data(
        &self,
        caller: &Caller,
        object: &ObjectId,
        offset: u64,
        content: Content,
    ) -> Result<Seek, FsError> {
        if self.names.getattr(object).await?.file_type != FileType::Regular {
            return Err(FsError::WrongType);
        }
        // A read of zero bytes checks the caller's permission.
        let attributes = self.names.read(caller, object, 0, 0).await?.attributes;
        let size = self.true_of(object, attributes).await?.size;
        if offset >= size {
            return Err(FsError::NoSuchDevice);
        }
        Ok(match content {
            Content::Data => Seek { offset, end: false },
            Content::Hole => Seek { offset: size, end: true },
        })
    }
}

impl Ranges for Striped {
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        MaybeReady::later(async move {
            let found = self.seek_data(caller, object, offset, content).await;
            self.unless_gone(object, found).await
        })
    }

    fn allocate<'a>(
        &'a self,
        _caller: &'a Caller,
        _object: &'a ObjectId,
        _range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(Changed::failed(FsError::NotSupported))
    }

    fn deallocate<'a>(
        &'a self,
        _caller: &'a Caller,
        _object: &'a ObjectId,
        _range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(Changed::failed(FsError::NotSupported))
    }

    fn clone_range<'a>(
        &'a self,
        _caller: &'a Caller,
        _copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(Changed::failed(FsError::NotSupported))
    }

    fn copy_range<'a>(
        &'a self,
        _caller: &'a Caller,
        _copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::now(Changed::failed(FsError::NotSupported))
    }
}
