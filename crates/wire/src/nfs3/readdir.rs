//! READDIR, procedure 16: returns the names and file ids in a directory (RFC 1813 3.3.16).

use leasehold_base::units::{Cookie, FileId};
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{ATTRIBUTES_BYTES, Attributes, Handle, Name};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 16;

xdr_struct! {
    /// The directory, and the position of the listing.
    #[doc(alias = "READDIR3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The cookie of the last entry that the client has; zero begins at the start.
        pub cookie: Cookie,
        /// The verifier from the reply with the cookie; zero at the start.
        #[doc(alias = "cookieverf3")]
        pub verifier: [u8; 8],
        /// The maximum encoded size of [`Done`], in bytes.
        pub count: u32,
    }

    /// One name of a directory.
    #[doc(alias = "entry3")]
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

/// A part of the directory; in case of an error only the directory's attributes.
#[doc(alias = "READDIR3res")]
pub type Reply<Entries> = super::Reply<Done<Entries>, Option<Attributes>>;

/// The listing as the client decodes it.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory. `Entries` is a [`List`] of [`Entry`] for a client, and for a server any
/// type with the same encoding, such as [`ListOf`](crate::list::ListOf).
#[doc(alias = "READDIR3resok")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Entries> {
    /// The directory's attributes.
    pub attributes: Option<Attributes>,
    /// The verifier that the client must send with each of the cookies.
    #[doc(alias = "cookieverf3")]
    pub verifier: [u8; 8],
    /// The entries.
    pub entries: Entries,
    /// True if the entries reach the end of the directory.
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

/// The encoded size of an entry in its list, in bytes, without the bytes of its name. It includes
/// the flag before the entry, the file id, the length of the name, and the cookie.
pub const ENTRY_BYTES: u32 = 4 + 8 + 4 + 8;

/// The encoded size of [`Done`] without entries, in bytes: the attributes and the flag before them,
/// the verifier, the flag at the end of the list, and the flag for the end of the directory.
pub const EMPTY_BYTES: u32 = 4 + ATTRIBUTES_BYTES + 8 + 4 + 4;
