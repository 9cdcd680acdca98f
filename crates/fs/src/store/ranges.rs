//! The capability of operations on byte ranges (RFC 7862).

use super::{Changed, Store, WriteDone};
use crate::{Caller, FsError, MaybeReady, ObjectId};

/// Operations on byte ranges of regular files. A store may support some of them only; each other
/// operation fails with [`FsError::NotSupported`]. Another object than a regular file fails with
/// [`FsError::WrongType`].
pub trait Ranges: Send + Sync {
    /// Returns the first offset from `offset` on with data, or in a hole; the end of the file is a
    /// hole. A store may treat a hole as data. Needs the permission of [`Store::read`].
    ///
    /// # Errors
    /// [`FsError::NoSuchDevice`] if the offset is not below the size of the file.
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>>;

    /// Reserves space for a range, and extends the file to the end of the range; new bytes read as
    /// zeros. The change is on stable storage. Needs the permission of [`Store::write`].
    fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>>;

    /// Frees the space of a range, which then reads as zeros; the size of the file stays. The
    /// change is on stable storage. Needs the permission of [`Store::write`].
    fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>>;

    /// Makes a range of a file share its data with a range of another file or of the same file
    /// until one of them changes. The change is on stable storage. Needs the permissions of
    /// [`Store::read`] and [`Store::write`].
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the ranges overlap, if the source range is beyond the end of the
    /// source, or if a boundary is not on a block of the file system, except at the end of the
    /// source; [`FsError::NotSupported`] if the file system cannot share data.
    fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>>;

    /// Copies bytes, without stability, up to the end of the source and up to a limit of the store.
    /// Returns the number of copied bytes; the caller repeats the operation for the rest. Needs the
    /// permissions of [`Store::read`] and [`Store::write`].
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the ranges overlap.
    fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>>;
}

/// A range of bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl ByteRange {
    /// Returns the offset behind the last byte.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for an empty range, [`FsError::FileTooBig`] for an end that is no
    /// offset.
    pub const fn end(self) -> Result<u64, FsError> {
        match self.offset.checked_add(self.length) {
            _ if self.length == 0 => Err(FsError::Invalid),
            Some(end) => Ok(end),
            None => Err(FsError::FileTooBig),
        }
    }
}

/// The content that a SEEK looks for (RFC 7862 11.11, `data_content4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes that the file system stores.
    Data,
    /// Bytes that were never written, which read as zeros.
    Hole,
}

/// The result of a SEEK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// The offset of the content, or the size of the file.
    pub offset: u64,
    /// True if the offset is the end of the file.
    pub end: bool,
}

/// A source range and the place of its copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeCopy {
    /// The source.
    pub from: ObjectId,
    /// The first byte in the source.
    pub from_offset: u64,
    /// The target.
    pub to: ObjectId,
    /// The first byte in the target.
    pub to_offset: u64,
    /// The number of bytes; zero means to the end of the source.
    pub length: u64,
}

impl RangeCopy {
    /// Returns the number of bytes to copy from a source of this size.
    #[must_use]
    pub const fn bytes(&self, source_size: u64) -> u64 {
        let rest = source_size.saturating_sub(self.from_offset);
        if self.length == 0 || self.length > rest { rest } else { self.length }
    }

    /// Returns the number of bytes to clone from a source of this size.
    ///
    /// # Errors
    /// [`FsError::Invalid`] if the range ends behind the end of the source (RFC 7862 15.13.3).
    pub const fn cloned_bytes(&self, source_size: u64) -> Result<u64, FsError> {
        let bytes = self.bytes(source_size);
        let is_inside = self.from_offset <= source_size && self.length <= bytes;
        if is_inside { Ok(bytes) } else { Err(FsError::Invalid) }
    }

    /// Returns true if this number of bytes at both offsets of one file overlap.
    #[must_use]
    pub const fn overlaps(&self, bytes: u64) -> bool {
        self.from_offset.abs_diff(self.to_offset) < bytes
    }
}

impl dyn Store + '_ {
    /// Calls [`Ranges::seek`]; fails with [`FsError::NotSupported`] for a store without operations
    /// on ranges.
    pub fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        match self.capabilities().ranges {
            Some(ranges) => ranges.seek(caller, object, offset, content),
            None => MaybeReady::now(Err(FsError::NotSupported)),
        }
    }

    /// Calls [`Ranges::allocate`]; fails with [`FsError::NotSupported`] for a store without
    /// operations on ranges.
    pub fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        match self.capabilities().ranges {
            Some(ranges) => ranges.allocate(caller, object, range),
            None => MaybeReady::now(Changed::failed(FsError::NotSupported)),
        }
    }

    /// Calls [`Ranges::deallocate`]; fails with [`FsError::NotSupported`] for a store without
    /// operations on ranges.
    pub fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        match self.capabilities().ranges {
            Some(ranges) => ranges.deallocate(caller, object, range),
            None => MaybeReady::now(Changed::failed(FsError::NotSupported)),
        }
    }

    /// Calls [`Ranges::clone_range`]; fails with [`FsError::NotSupported`] for a store without
    /// operations on ranges.
    pub fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        match self.capabilities().ranges {
            Some(ranges) => ranges.clone_range(caller, copy),
            None => MaybeReady::now(Changed::failed(FsError::NotSupported)),
        }
    }

    /// Calls [`Ranges::copy_range`]; fails with [`FsError::NotSupported`] for a store without
    /// operations on ranges.
    pub fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        match self.capabilities().ranges {
            Some(ranges) => ranges.copy_range(caller, copy),
            None => MaybeReady::now(Changed::failed(FsError::NotSupported)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_zero_reaches_the_end_of_the_source() {
        let object = ObjectId::new(b"file").expect("4 bytes are not too many");
        let copy = |from_offset, length| RangeCopy {
            from: object,
            from_offset,
            to: object,
            to_offset: 0,
            length,
        };
        assert_eq!(copy(10, 0).bytes(100), 90);
        assert_eq!(copy(10, 50).bytes(100), 50);
        assert_eq!(copy(90, 50).bytes(100), 10);
        assert_eq!(copy(u64::MAX, u64::MAX).bytes(100), 0);
        assert_eq!(copy(10, 0).cloned_bytes(100), Ok(90));
        assert_eq!(copy(100, 0).cloned_bytes(100), Ok(0));
        for beyond in [copy(101, 0), copy(90, 11), copy(u64::MAX, u64::MAX)] {
            assert_eq!(beyond.cloned_bytes(100), Err(FsError::Invalid));
        }
        assert!(copy(10, 11).overlaps(11) && !copy(10, 10).overlaps(10));
    }

    #[test]
    fn a_range_has_an_end() {
        assert_eq!(ByteRange { offset: 7, length: 0 }.end(), Err(FsError::Invalid));
        assert_eq!(ByteRange { offset: 7, length: 3 }.end(), Ok(10));
        assert_eq!(ByteRange { offset: 7, length: u64::MAX }.end(), Err(FsError::FileTooBig));
    }
}
