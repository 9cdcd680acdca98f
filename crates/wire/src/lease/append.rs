//! APPEND, procedure 22: data to where the file ends when it is written.

use bytes::Bytes;
use leasehold_base::limits::TRANSFER_BYTES_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Answer, Call};
use crate::nfs3::write::Stability;
use crate::nfs3::{self, Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 22;

/// Which bytes go to the end of which file.
#[doc(alias = "lease_append_args")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// The file.
    pub file: Handle,
    /// How safe the data must be before the answer.
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
    /// What was written, and where.
    #[doc(alias = "lease_append_ok")]
    #[derive(Copy)]
    pub struct Appended {
        /// Where in the file, in bytes.
        pub offset: u64,
        /// What was written.
        pub written: nfs3::write::Done,
    }
}

/// The arguments.
pub type Args = Call<Data>;

/// What was written, or the file before and after alone.
pub type Reply = Answer<nfs3::Reply<Appended, Wcc>>;
