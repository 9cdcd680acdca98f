//! READ, procedure 6: returns data of a file (RFC 1813 3.3.6).

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 6;

xdr_struct! {
    /// The range of the file.
    #[doc(alias = "READ3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The file.
        pub file: Handle,
        /// The offset in the file, in bytes.
        pub offset: u64,
        /// The maximum number of bytes to read.
        pub count: u32,
    }
}

/// The data; in case of an error only the file's attributes.
#[doc(alias = "READ3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

/// The data.
#[doc(alias = "READ3resok")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The attributes of the file after the read.
    pub attributes: Option<Attributes>,
    /// The number of bytes read, equal to the length of the data.
    pub count: u32,
    /// True if the data reaches the end of the file.
    pub end: bool,
    /// The bytes.
    pub data: Bytes,
}

impl<'a> Decode<'a> for Done {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            attributes: Decode::decode(reader)?,
            count: reader.u32()?,
            end: Decode::decode(reader)?,
            data: reader.shared(TRANSFER_BYTES_MAX)?,
        })
    }
}

impl Encode for Done {
    fn encode(&self, writer: &mut Writer) {
        self.attributes.encode(writer);
        writer.u32(self.count);
        self.end.encode(writer);
        writer.payload(self.data.clone());
    }
}
