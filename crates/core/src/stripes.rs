//! The positions of a striped file's bytes (RAID 0, as PVFS and NFSP lay files out).
//!
//! A file is divided into stripes of one size, the stripe unit. Stripe `n` is in stripe object `n
//! mod width`, after the earlier stripes of that object. Stripe objects are dense: a range without
//! a written stripe is a hole or lies beyond the end of the object. So the size of a file follows
//! from the sizes of its stripe objects and is not stored separately.

#[cfg(test)]
mod tests;

/// The distribution of a file over stripe objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    unit: u32,
    width: u16,
}

/// Bytes that are contiguous both in the file and in one stripe object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The index of the stripe object, below the stripe width.
    pub object: u16,
    /// The offset in the stripe object.
    pub object_offset: u64,
    /// The offset in the file.
    pub file_offset: u64,
    /// The number of bytes.
    pub length: u64,
}

impl Layout {
    /// Creates a layout of stripes of `unit` bytes over `width` stripe objects; `None` if `unit` or
    /// `width` is zero.
    #[must_use]
    pub const fn new(unit: u32, width: u16) -> Option<Self> {
        if unit == 0 || width == 0 { None } else { Some(Self { unit, width }) }
    }

    /// Returns the number of bytes of a stripe.
    #[must_use]
    pub const fn unit(self) -> u32 {
        self.unit
    }

    /// Returns the number of stripe objects.
    #[must_use]
    pub const fn width(self) -> u16 {
        self.width
    }

    /// Lists the pieces of a range of the file, in file order.
    pub fn pieces(self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let end = offset.saturating_add(length);
        let mut next = offset;
        core::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let (object, object_offset) = self.place(next);
            let rest = u64::from(self.unit) - next % u64::from(self.unit);
            // In a single stripe object consecutive stripes are contiguous, so the whole rest is
            // one piece.
            let length = if self.width == 1 { end - next } else { rest.min(end - next) };
            let piece = Piece { object, object_offset, file_offset: next, length };
            next += length;
            Some(piece)
        })
    }

    /// Returns the index of the stripe object that contains a byte of the file, and the offset of
    /// the byte in that object.
    #[must_use]
    pub fn place(self, offset: u64) -> (u16, u64) {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let (stripe, within) = (offset / unit, offset % unit);
        let object = u16::try_from(stripe % width).expect("it is below the width");
        (object, stripe / width * unit + within)
    }

    /// Returns the largest size of a stripe object of a file of `size` bytes. Bytes of the object
    /// beyond this size do not belong to the file.
    #[must_use]
    pub fn object_size(self, object: u16, size: u64) -> u64 {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let (full, rest) = (size / unit, size % unit);
        // The full stripes in all objects come first; the comparison below adds the object's own
        // last stripe, which may be partial.
        let before = full / width * unit;
        match (full % width).cmp(&u64::from(object)) {
            core::cmp::Ordering::Greater => before + unit,
            core::cmp::Ordering::Equal => before + rest,
            core::cmp::Ordering::Less => before,
        }
    }

    /// Returns the offset in the file at which a stripe object of `size` bytes ends: the file is at
    /// least as long. The result saturates for a size that no file can have.
    #[must_use]
    pub fn file_size(self, object: u16, size: u64) -> u64 {
        let (unit, width) = (u64::from(self.unit), u64::from(self.width));
        let Some(last) = size.checked_sub(1) else { return 0 };
        let stripe = (last / unit).saturating_mul(width).saturating_add(u64::from(object));
        stripe.saturating_mul(unit).saturating_add(last % unit).saturating_add(1)
    }
}
