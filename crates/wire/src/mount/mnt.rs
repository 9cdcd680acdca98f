//! MNT, procedure 1: returns the handle of a directory (RFC 1813 5.2.1).

use core::num::NonZeroU32;

use leasehold_base::limits::FLAVORS_MAX;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::{xdr_enum, xdr_struct};

use super::Path;
use crate::outcome::Outcome;
use crate::{nfs2, nfs3};

/// The procedure's number.
pub const NUMBER: u32 = 1;

/// The directory.
pub type Args<'a> = Path<'a>;

/// The reply of version 3.
#[doc(alias = "mountres3")]
pub type Reply = Outcome<Done, Status>;

/// The reply of versions 1 and 2.
#[doc(alias = "fhstatus")]
pub type OldReply = Outcome<nfs2::Handle, ErrorNumber>;

xdr_struct! {
    /// The directory, and the accepted flavours of authentication.
    #[doc(alias = "mountres3_ok")]
    pub struct Done {
        /// The directory.
        pub directory: nfs3::Handle,
        /// Accepted authentication flavours, the preferred one first.
        pub flavors: Flavors,
    }
}

/// Numbers of authentication flavours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavors(pub Vec<u32>);

impl<'a> Decode<'a> for Flavors {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let count = reader.u32()?;
        if count > FLAVORS_MAX {
            return Err(Error::TooLong);
        }
        (0..count).map(|_| reader.u32()).collect::<Result<_, _>>().map(Self)
    }
}

impl Encode for Flavors {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(u32::try_from(self.0.len()).expect("there are few flavours"));
        for flavor in &self.0 {
            writer.u32(*flavor);
        }
    }
}

xdr_enum! {
    /// The error codes of version 3 (RFC 1813 5.1.5).
    #[doc(alias = "mountstat3")]
    pub enum Status {
        /// Not owner.
        #[doc(alias = "MNT3ERR_PERM")]
        NotOwner = 1,
        /// No such file or directory.
        #[doc(alias = "MNT3ERR_NOENT")]
        NotFound = 2,
        /// I/O error.
        #[doc(alias = "MNT3ERR_IO")]
        Io = 5,
        /// Permission denied.
        #[doc(alias = "MNT3ERR_ACCES")]
        Access = 13,
        /// Not a directory.
        #[doc(alias = "MNT3ERR_NOTDIR")]
        NotDirectory = 20,
        /// Invalid argument.
        #[doc(alias = "MNT3ERR_INVAL")]
        Invalid = 22,
        /// Name too long.
        #[doc(alias = "MNT3ERR_NAMETOOLONG")]
        NameTooLong = 63,
        /// The operation is not supported.
        #[doc(alias = "MNT3ERR_NOTSUPP")]
        NotSupported = 10004,
        /// The server failed.
        #[doc(alias = "MNT3ERR_SERVERFAULT")]
        ServerFault = 10006,
    }
}

/// The error code of versions 1 and 2: an error number of Unix (RFC 1094 A.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorNumber(pub NonZeroU32);

impl<'a> Decode<'a> for ErrorNumber {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        NonZeroU32::new(reader.u32()?).map(Self).ok_or(Error::BadValue)
    }
}

impl Encode for ErrorNumber {
    fn encode(&self, writer: &mut Writer) {
        writer.u32(self.0.get());
    }
}

/// Most statuses of version 3 are error numbers of Unix; all others map to an I/O error.
impl From<Status> for ErrorNumber {
    fn from(status: Status) -> Self {
        let number = match status {
            Status::NotSupported | Status::ServerFault => Status::Io as u32,
            Status::NotOwner
            | Status::NotFound
            | Status::Io
            | Status::Access
            | Status::NotDirectory
            | Status::Invalid
            | Status::NameTooLong => status as u32,
        };
        Self(NonZeroU32::new(number).expect("no status is zero"))
    }
}
