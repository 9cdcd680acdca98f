//! What names an object.

use core::fmt;
use core::hash::{Hash, Hasher};

/// What names an object to its store: bytes that the store made and alone understands. They name
/// the same object for as long as it lives, across rename, restart and upgrade, and no other
/// object ever after.
///
/// At most [`ObjectId::BYTES_MAX`] bytes, so that a handle with export, form and checksum fits
/// the 32 bytes of version 2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    length: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl ObjectId {
    /// The longest that a store may make.
    pub const BYTES_MAX: usize = 20;

    /// The object of these bytes; none when they are too many.
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { length: u8::try_from(id.len()).ok()?, bytes })
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// All bytes as one piece of fixed length, which is quick to hash; those that are not used are zero.
impl Hash for ObjectId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.bytes);
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectId(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}
