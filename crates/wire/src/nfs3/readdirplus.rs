//! READDIRPLUS, procedure 17: returns names, handles and attributes in a directory (RFC 1813
//! 3.3.17).

use leasehold_base::units::{Cookie, FileId};
use leasehold_base::xdr_struct;

use super::{ATTRIBUTES_BYTES, Attributes, Handle, Name, readdir};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 17;

xdr_struct! {
    /// The directory, and the position of the listing.
    #[doc(alias = "READDIRPLUS3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The cookie of the last entry that the client has; zero begins at the start.
        pub cookie: Cookie,
        /// The verifier from the reply with the cookie; zero at the start.
        #[doc(alias = "cookieverf3")]
        pub verifier: [u8; 8],
        /// The maximum number of bytes of names, file ids and cookies, without attributes and
        /// handles.
        pub names_count: u32,
        /// The maximum encoded size of [`Done`], in bytes.
        pub count: u32,
    }

    /// One name of a directory, and its object.
    #[doc(alias = "entryplus3")]
    #[derive(Copy)]
    pub struct Entry<'a> {
        /// The file id of the object.
        pub file_id: FileId,
        /// The name.
        pub name: Name<'a>,
        /// The cookie with which the client continues the listing after this entry.
        pub cookie: Cookie,
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The object.
        pub object: Option<Handle>,
    }
}

/// A part of the directory; in case of an error only the directory's attributes.
#[doc(alias = "READDIRPLUS3res")]
pub type Reply<Entries> = super::Reply<Done<Entries>, Option<Attributes>>;

/// The listing as the client decodes it.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory, as in READDIR but with larger entries.
#[doc(alias = "READDIRPLUS3resok")]
pub type Done<Entries> = readdir::Done<Entries>;

/// The encoded size of an entry in its list, in bytes, without the bytes of its name: the fields of
/// READDIR, then attributes and a handle of 32 bytes with the flags before them. A server that also
/// serves version 2 issues no longer handles.
pub const ENTRY_BYTES: u32 = readdir::ENTRY_BYTES + 4 + ATTRIBUTES_BYTES + 4 + 4 + 32;

/// The encoded size of [`Done`] without entries, in bytes.
pub const EMPTY_BYTES: u32 = readdir::EMPTY_BYTES;
