//! READDIR, procedure 16: returns the names and file ids in a directory (RFC 1094 2.2.17).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Cookie, FileId, Handle, Name};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 16;

xdr_struct! {
    /// The directory, and the position of the listing.
    #[doc(alias = "readdirargs")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The cookie of the last entry that the client has; zero begins at the start.
        pub cookie: Cookie,
        /// The maximum number of bytes of entries.
        pub count: u32,
    }

    /// One name of a directory.
    #[doc(alias = "entry")]
    #[derive(Copy)]
    pub struct Entry<'a> {
        /// The file id of the object with this name.
        pub file_id: FileId,
        /// The name.
        pub name: Name<'a>,
        /// The cookie with which the client continues the listing after this entry.
        pub cookie: Cookie,
    }
}

/// A page of the directory listing.
#[doc(alias = "readdirres")]
pub type Reply<Entries> = super::Reply<Done<Entries>>;

/// The listing as the client decodes it.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory. `Entries` is a [`List`] of [`Entry`] for a client, and for a server any
/// type with the same encoding, such as [`ListOf`](crate::list::ListOf).
#[doc(alias = "readdirok")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Entries> {
    /// The entries.
    pub entries: Entries,
    /// True if the entries reach the end of the directory.
    pub end: bool,
}

impl<'a, Entries: Decode<'a>> Decode<'a> for Done<Entries> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self { entries: Decode::decode(reader)?, end: Decode::decode(reader)? })
    }
}

impl<Entries: Encode> Encode for Done<Entries> {
    fn encode(&self, writer: &mut Writer) {
        self.entries.encode(writer);
        self.end.encode(writer);
    }
}

/// The encoded size of an entry in its list, in bytes, without the bytes of its name. It includes
/// the flag before the entry, the file id, the length of the name, and the cookie.
pub const ENTRY_BYTES: u32 = 4 + 4 + 4 + 4;

/// The encoded size of [`Done`] without entries, in bytes: the flag at the end of the list, and the
/// flag for the end of the directory.
pub const EMPTY_BYTES: u32 = 4 + 4;
