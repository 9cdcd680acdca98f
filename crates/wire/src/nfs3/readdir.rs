//! READDIR, procedure 16: names and numbers in a directory (RFC 1813 3.3.16).

use leasehold_base::units::{Cookie, FileId};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{ATTRIBUTES_BYTES, Attributes, Handle, Name};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 16;

xdr_struct! {
    /// Which part of which directory.
    #[doc(alias = "READDIR3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The entry behind which to begin; zero begins at the start.
        pub cookie: Cookie,
        /// The verifier that came with the cookie; zero at the start.
        #[doc(alias = "cookieverf3")]
        pub verifier: [u8; 8],
        /// The largest [`Done`] that is wanted, in bytes.
        pub count: u32,
    }

    /// One name of a directory.
    #[doc(alias = "entry3")]
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

/// A part of the directory, or its attributes alone.
#[doc(alias = "READDIR3res")]
pub type Reply<Entries> = super::Reply<Done<Entries>, Option<Attributes>>;

/// What a client reads.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory: `Entries` is a [`List`] of [`Entry`] to a client,
/// and to a server whatever encodes as one, such as [`ListOf`](crate::list::ListOf).
#[doc(alias = "READDIR3resok")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Entries> {
    /// The directory's attributes.
    pub attributes: Option<Attributes>,
    /// To be given back with any of the cookies.
    #[doc(alias = "cookieverf3")]
    pub verifier: [u8; 8],
    /// The entries.
    pub entries: Entries,
    /// Whether they reach to the end of the directory.
    pub end: bool,
}

impl<'a, Entries: Decode<'a>> Decode<'a> for Done<Entries> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            attributes: Decode::decode(reader)?,
            verifier: Decode::decode(reader)?,
            entries: Decode::decode(reader)?,
            end: Decode::decode(reader)?,
        })
    }
}

impl<Entries: Encode> Encode for Done<Entries> {
    fn encode(&self, writer: &mut Writer) {
        self.attributes.encode(writer);
        self.verifier.encode(writer);
        self.entries.encode(writer);
        self.end.encode(writer);
    }
}

/// The encoded size of an entry in its list, in bytes, without the bytes of its name: the flag
/// before it, number, length of the name, cookie.
pub const ENTRY_BYTES: u32 = 4 + 8 + 4 + 8;

/// The encoded size of [`Done`] without entries, in bytes: attributes and the flag before them,
/// verifier, end of the list, end of the directory.
pub const EMPTY_BYTES: u32 = 4 + ATTRIBUTES_BYTES + 8 + 4 + 4;
