//! READ, procedure 6: returns data of a file (RFC 1094 2.2.7).

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_V2_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 6;

xdr_struct! {
    /// The range of the file.
    #[doc(alias = "readargs")]
    #[derive(Copy)]
    pub struct Args {
        /// The file.
        pub file: Handle,
        /// The offset in the file, in bytes.
        pub offset: u32,
        /// The maximum number of bytes to read.
        pub count: u32,
        /// The server ignores this field.
        pub total_count: u32,
    }
}

/// The data.
#[doc(alias = "readres")]
pub type Reply = super::Reply<Done>;

/// The data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The attributes of the file after the read.
    pub attributes: Attributes,
    /// The bytes.
    pub data: Bytes,
}

impl<'a> Decode<'a> for Done {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            attributes: Decode::decode(reader)?,
            data: reader.shared(TRANSFER_V2_BYTES_MAX)?,
        })
    }
}

impl Encode for Done {
    fn encode(&self, writer: &mut Writer) {
        self.attributes.encode(writer);
        writer.payload(self.data.clone());
    }
}
