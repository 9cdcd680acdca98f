//! WRITE, procedure 7: writes data to a file (RFC 1813 3.3.7).

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::{Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 7;

xdr_enum! {
    /// The stability of written data (RFC 1813 3.3.7).
    #[doc(alias = "stable_how")]
    pub enum Stability {
        /// The data need not be stable; the client sends a COMMIT later.
        #[doc(alias = "UNSTABLE")]
        Unstable = 0,
        /// The data is on stable storage, with the metadata that a later read needs.
        #[doc(alias = "DATA_SYNC")]
        DataSync = 1,
        /// The data and all attributes are on stable storage.
        #[doc(alias = "FILE_SYNC")]
        FileSync = 2,
    }
}

/// The data, its offset in a file, and the required stability.
#[doc(alias = "WRITE3args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file.
    pub file: Handle,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The number of bytes, equal to the length of the data.
    pub count: u32,
    /// The stability that the data must have before the server replies.
    pub stability: Stability,
    /// The bytes.
    pub data: Bytes,
}

impl<'a> Decode<'a> for Args {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            file: Decode::decode(reader)?,
            offset: reader.u64()?,
            count: reader.u32()?,
            stability: Decode::decode(reader)?,
            data: reader.shared(TRANSFER_BYTES_MAX)?,
        })
    }
}

impl Encode for Args {
    fn encode(&self, writer: &mut Writer) {
        self.file.encode(writer);
        writer.u64(self.offset);
        writer.u32(self.count);
        self.stability.encode(writer);
        writer.payload(self.data.clone());
    }
}

/// The result of the write; in case of an error only the file before and after.
#[doc(alias = "WRITE3res")]
pub type Reply = super::Reply<Done, Wcc>;

xdr_struct! {
    /// The result of the write.
    #[doc(alias = "WRITE3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The file before and after.
        pub file: Wcc,
        /// The number of bytes written.
        pub count: u32,
        /// The stability of the data, which is at least the requested stability.
        pub stability: Stability,
        /// The write verifier, which changes whenever the server may have lost unstable data.
        #[doc(alias = "writeverf3")]
        pub verifier: [u8; 8],
    }
}
