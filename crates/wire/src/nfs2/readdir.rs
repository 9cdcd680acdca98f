//! READDIR, procedure 16: names and numbers in a directory (RFC 1094 2.2.17).

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Cookie, FileId, Handle, Name};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 16;

xdr_struct! {
    /// Which part of which directory.
    #[doc(alias = "readdirargs")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The entry behind which to begin; zero begins at the start.
        pub cookie: Cookie,
        /// How many bytes of entries are wanted at most.
        pub count: u32,
    }

    /// One name of a directory.
    #[doc(alias = "entry")]
    #[derive(Copy)]
    pub struct Entry<'a> {
        /// The number of its object.
        pub file_id: FileId,
        /// The name.
        pub name: Name<'a>,
        /// Where a listing goes on behind it.
        pub cookie: Cookie,
    }
}

/// A part of the directory.
#[doc(alias = "readdirres")]
pub type Reply<Entries> = super::Reply<Done<Entries>>;

/// What a client reads.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory: `Entries` is a [`List`] of [`Entry`] to a client,
/// and to a server whatever encodes as one, such as [`ListOf`](crate::list::ListOf).
#[doc(alias = "readdirok")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Entries> {
    /// The entries.
    pub entries: Entries,
    /// Whether they reach to the end of the directory.
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

/// The encoded size of an entry in its list, in bytes, without the bytes of its name: the flag
/// before it, number, length of the name, cookie.
pub const ENTRY_BYTES: u32 = 4 + 4 + 4 + 4;

/// The encoded size of [`Done`] without entries, in bytes: end of the list, end of the directory.
pub const EMPTY_BYTES: u32 = 4 + 4;
