//! WRITE, procedure 8: writes data to a file (RFC 1094 2.2.9).

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 8;

/// The data and its offset in a file.
#[doc(alias = "writeargs")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file.
    pub file: Handle,
    /// The server ignores this field.
    pub begin_offset: u32,
    /// The offset in the file, in bytes.
    pub offset: u32,
    /// The server ignores this field.
    pub total_count: u32,
    /// The bytes.
    pub data: Bytes,
}

impl<'a> Decode<'a> for Args {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            file: Decode::decode(reader)?,
            begin_offset: reader.u32()?,
            offset: reader.u32()?,
            total_count: reader.u32()?,
            data: reader.shared(TRANSFER_V2_BYTES_MAX)?,
        })
    }
}

impl Encode for Args {
    fn encode(&self, writer: &mut Writer) {
        self.file.encode(writer);
        writer.words(&[self.begin_offset, self.offset, self.total_count]);
        writer.payload(self.data.clone());
    }
}

/// The attributes after the write.
#[doc(alias = "attrstat")]
pub type Reply = super::Reply<Done>;

/// The attributes after the write.
pub type Done = Attributes;
