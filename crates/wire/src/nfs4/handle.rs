//! File handles.

use core::fmt;

use leasehold_base::limits::HANDLE_V4_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

use crate::nfs3;

/// A file handle: at most 128 bytes that only the server interprets (RFC 8881 4.2). The bytes are
/// stored inline, so that the handle outlives the message.
#[doc(alias = "nfs_fh4")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE_V4_BYTES_MAX as usize],
}

impl Handle {
    /// Returns the handle with these bytes, or `None` if there are more than 128.
    #[must_use]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_V4_BYTES_MAX as usize];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length: u8::try_from(handle.len()).ok()?, bytes })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl From<nfs3::Handle> for Handle {
    fn from(handle: nfs3::Handle) -> Self {
        Self::new(handle.as_bytes()).expect("a handle of version 3 has at most 64 bytes")
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(")?;
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

impl<'a> Decode<'a> for Handle {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Self::new(reader.opaque(HANDLE_V4_BYTES_MAX)?).ok_or(Error::TooLong)
    }
}

impl Encode for Handle {
    fn encode(&self, writer: &mut Writer) {
        writer.opaque(self.as_bytes());
    }
}
