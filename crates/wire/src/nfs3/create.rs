//! CREATE, procedure 8: makes a regular file (RFC 1813 3.3.8).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{DirectoryArgs, Made, SetAttributes, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 8;

xdr_struct! {
    /// The file, and the mode of creation.
    #[doc(alias = "CREATE3args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The directory and the name of the file.
        pub place: DirectoryArgs<'a>,
        /// The action if the name exists.
        pub how: How,
    }
}

/// The action if the name exists (RFC 1813 3.3.8).
#[doc(alias("createhow3", "createmode3"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The server returns the existing file.
    #[doc(alias = "UNCHECKED")]
    Unchecked(SetAttributes),
    /// The call fails.
    #[doc(alias = "GUARDED")]
    Guarded(SetAttributes),
    /// The call fails unless an earlier call with the same verifier made the file.
    #[doc(alias("EXCLUSIVE", "createverf3"))]
    Exclusive([u8; 8]),
}

impl<'a> Decode<'a> for How {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        match reader.u32()? {
            0 => Ok(Self::Unchecked(Decode::decode(reader)?)),
            1 => Ok(Self::Guarded(Decode::decode(reader)?)),
            2 => Ok(Self::Exclusive(Decode::decode(reader)?)),
            _ => Err(Error::BadValue),
        }
    }
}

impl Encode for How {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Unchecked(attributes) => {
                writer.u32(0);
                attributes.encode(writer);
            }
            Self::Guarded(attributes) => {
                writer.u32(1);
                attributes.encode(writer);
            }
            Self::Exclusive(verifier) => {
                writer.u32(2);
                verifier.encode(writer);
            }
        }
    }
}

/// The file; in case of an error only the directory before and after.
#[doc(alias = "CREATE3res")]
pub type Reply = super::Reply<Done, Wcc>;

/// The file.
pub type Done = Made;
