//! APPEND, procedure 22: writes data at the end that the file has at the time of the write.

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Answer, Call};
use crate::nfs3::write::Stability;
use crate::nfs3::{self, Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 22;

/// The data to append to a file.
#[doc(alias = "lease_append_args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The file.
    pub file: Handle,
    /// The stability that the data must have before the server replies.
    pub stability: Stability,
    /// The bytes.
    pub data: Bytes,
}

impl<'a> Decode<'a> for Data {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            file: Decode::decode(reader)?,
            stability: Decode::decode(reader)?,
            data: reader.shared(TRANSFER_BYTES_MAX)?,
        })
    }
}

impl Encode for Data {
    fn encode(&self, writer: &mut Writer) {
        self.file.encode(writer);
        self.stability.encode(writer);
        writer.payload(self.data.clone());
    }
}

xdr_struct! {
    /// The result of an append, with its offset.
    #[doc(alias = "lease_append_ok")]
    #[derive(Copy)]
    pub struct Appended {
        /// The offset in the file, in bytes.
        pub offset: u64,
        /// The result of the write.
        pub written: nfs3::write::Done,
    }
}

/// The arguments.
pub type Args = Call<Data>;

/// The result of the append; in case of an error only the file before and after.
pub type Reply = Answer<nfs3::Reply<Appended, Wcc>>;
