//! Where the bytes of a striped file lie (RAID 0, as PVFS and NFSP lay files out).
//!
//! A file is cut into stripes of one size, the unit; stripe `n` lies in object `n mod width`, behind
//! those that came before it there. Objects are dense: what no stripe was written to is a hole or
//! behind the end. So the size of a file follows from the sizes of its objects, and nothing else
//! has to be kept of it.

#[cfg(test)]
mod tests;

/// How a file is spread over objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    unit: u32,
    width: u16,
}

/// Bytes that lie together, in the file and in one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which object, below the width.
    pub object: u16,
    /// Where in the object.
    pub object_offset: u64,
    /// Where in the file.
    pub file_offset: u64,
    /// How many bytes.
    pub length: u64,
}

impl Layout {
    /// Stripes of `unit` bytes over `width` objects; none when either is zero.
    #[must_use]
    pub const fn new(unit: u32, width: u16) -> Option<Self> {
        if unit == 0 || width == 0 { None } else { Some(Self { unit, width }) }
    }

    /// Bytes of a stripe.
    #[must_use]
    pub const fn unit(self) -> u32 {
        self.unit
    }

    /// Number of objects.
    #[must_use]
    pub const fn width(self) -> u16 {
        self.width
    }

    /// The pieces of a range of the file, in its order.
    pub fn pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let end = offset.saturating_add(length);
        let mut next = offset;
        core::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let (object, object_offset) = self.place(next);
            let rest = u64::from(self.unit) - next % u64::from(self.unit);
            // The stripes of a single object follow each other.
            let length = if self.width == 1 { end - next } else { rest.min(end - next) };
            let piece = Piece { object, object_offset, file_offset: next, length };
            next += length;
            Some(piece)
        })
    }

    /// The object of a byte of the file, and its place there.
    #[must_use]
    pub fn place(self, offset: u64) -> (u16, u64) {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let (stripe, within) = (offset / unit, offset % unit);
        let object = u16::try_from(stripe % width).expect("it is below the width");
        (object, stripe / width * unit + within)
    }

    /// How long an object of a file of `size` bytes is at most: bytes behind that are none of the
    /// file's.
    #[must_use]
    pub fn object_size(self, object: u16, size: u64) -> u64 {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let (full, rest) = (size / unit, size % unit);
        // Of the full stripes, and of the one that the file ends in.
        let before = full / width * unit;
        match (full % width).cmp(&u64::from(object)) {
            core::cmp::Ordering::Greater => before + unit,
            core::cmp::Ordering::Equal => before + rest,
            core::cmp::Ordering::Less => before,
        }
    }

    /// Where in the file an object of `size` bytes ends: the file is at least as long. Stops at
    /// the largest number for a size that no file can have.
    #[must_use]
    pub fn file_size(self, object: u16, size: u64) -> u64 {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let Some(last) = size.checked_sub(1) else { return 0 };
        let stripe = (last / unit).saturating_mul(width).saturating_add(u64::from(object));
        stripe.saturating_mul(unit).saturating_add(last % unit).saturating_add(1)
    }
}
