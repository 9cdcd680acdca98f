//! The identifiers of objects.

use core::fmt;
use core::hash::{Hash, Hasher};

/// The identifier of an object in its store: bytes that only the store interprets. The bytes
/// identify one object for its whole life, across rename, restart and upgrade, and never identify
/// another object.
///
/// The length is at most [`ObjectId::BYTES_MAX`] bytes, so that a handle with the id, the export
/// number, the handle's form and a checksum fits the 32 bytes of NFS version 2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectId {
    length: u8,
    bytes: [u8; Self::BYTES_MAX],
}

impl ObjectId {
    /// The longest identifier that a store may create, in bytes.
    pub const BYTES_MAX: usize = 20;

    /// Returns the object id with these bytes; None if there are more than [`ObjectId::BYTES_MAX`].
    #[must_use]
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { length: u8::try_from(id.len()).ok()?, bytes })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// Hashes all bytes as one block of fixed length, which is fast. Unused bytes are zero.
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
