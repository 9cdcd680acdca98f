//! File handles.

use core::fmt;

use leasehold_base::limits::{HANDLE_BYTES_MAX, HANDLE_V2_BYTES};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

/// A file handle: at most 64 bytes that only the server interprets (RFC 1813 2.3.3, `nfs_fh3`). The
/// bytes are stored inline, so that the handle outlives the message.
#[doc(alias = "nfs_fh3")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    length: u8,
    bytes: [u8; HANDLE_BYTES_MAX as usize],
}

impl Handle {
    /// Returns the handle with these bytes, or `None` if there are more than 64.
    #[must_use]
    pub fn new(handle: &[u8]) -> Option<Self> {
        let mut bytes = [0; HANDLE_BYTES_MAX as usize];
        bytes.get_mut(..handle.len())?.copy_from_slice(handle);
        Some(Self { length: u8::try_from(handle.len()).ok()?, bytes })
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The handle length that is valid in both version 2 and version 3.
impl From<[u8; HANDLE_V2_BYTES]> for Handle {
    fn from(handle: [u8; HANDLE_V2_BYTES]) -> Self {
        Self::new(&handle).expect("32 bytes are no more than 64")
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
        Self::new(reader.opaque(HANDLE_BYTES_MAX)?).ok_or(Error::TooLong)
    }
}

impl Encode for Handle {
    fn encode(&self, writer: &mut Writer) {
        writer.opaque(self.as_bytes());
    }
}
