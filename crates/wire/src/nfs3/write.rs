//! WRITE, procedure 7: data to a file (RFC 1813 3.3.7).

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::{Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 7;

xdr_enum! {
    /// How safe written data must be, or is (RFC 1813 3.3.7).
    #[doc(alias = "stable_how")]
    pub enum Stability {
        /// Anywhere; a COMMIT will follow.
        #[doc(alias = "UNSTABLE")]
        Unstable = 0,
        /// Data on stable storage, with as much as is needed to read it back.
        #[doc(alias = "DATA_SYNC")]
        DataSync = 1,
        /// Data and all attributes on stable storage.
        #[doc(alias = "FILE_SYNC")]
        FileSync = 2,
    }
}

/// Which bytes go where, and how safely.
#[doc(alias = "WRITE3args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Args {
    /// The file.
    pub file: Handle,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// How many bytes; the length of the data says it again.
    pub count: u32,
    /// How safe the data must be before the answer.
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

/// What was written, or the file before and after alone.
#[doc(alias = "WRITE3res")]
pub type Reply = super::Reply<Done, Wcc>;

xdr_struct! {
    /// What was written.
    #[doc(alias = "WRITE3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The file before and after.
        pub file: Wcc,
        /// How many bytes were written.
        pub count: u32,
        /// How safe they are, at least as asked.
        pub stability: Stability,
        /// Changes whenever unstable data may have been lost.
        #[doc(alias = "writeverf3")]
        pub verifier: [u8; 8],
    }
}
