//! READDIRPLUS, procedure 17: names in a directory, with handles and attributes (RFC 1813 3.3.17).

use leasehold_base::units::{Cookie, FileId};
use leasehold_base::xdr_struct;

use super::{ATTRIBUTES_BYTES, Attributes, Handle, Name, readdir};
use crate::list::List;

/// The procedure's number.
pub const NUMBER: u32 = 17;

xdr_struct! {
    /// Which part of which directory.
    #[doc(alias = "READDIRPLUS3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The directory.
        pub directory: Handle,
        /// The entry behind which to begin; zero begins at the start.
        pub cookie: Cookie,
        /// The verifier that came with the cookie; zero at the start.
        #[doc(alias = "cookieverf3")]
        pub verifier: [u8; 8],
        /// How many bytes of names and numbers are wanted at most, attributes and handles not
        /// counted.
        pub names_count: u32,
        /// The largest [`Done`] that is wanted, in bytes.
        pub count: u32,
    }

    /// One name of a directory, and its object.
    #[doc(alias = "entryplus3")]
    #[derive(Copy)]
    pub struct Entry<'a> {
        /// The number of the object.
        pub file_id: FileId,
        /// The name.
        pub name: Name<'a>,
        /// Where a listing goes on behind it.
        pub cookie: Cookie,
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The object.
        pub object: Option<Handle>,
    }
}

/// A part of the directory, or its attributes alone.
#[doc(alias = "READDIRPLUS3res")]
pub type Reply<Entries> = super::Reply<Done<Entries>, Option<Attributes>>;

/// What a client reads.
pub type Listing<'a> = Reply<List<Entry<'a>>>;

/// A part of the directory, as READDIR has it but with other entries.
#[doc(alias = "READDIRPLUS3resok")]
pub type Done<Entries> = readdir::Done<Entries>;

/// The encoded size of an entry in its list, in bytes, without the bytes of its name: what READDIR
/// has, then attributes and a handle of 32 bytes with the flags before them. A server that serves
/// version 2 as well has no longer handles.
pub const ENTRY_BYTES: u32 = readdir::ENTRY_BYTES + 4 + ATTRIBUTES_BYTES + 4 + 4 + 32;

/// The encoded size of [`Done`] without entries, in bytes.
pub const EMPTY_BYTES: u32 = readdir::EMPTY_BYTES;
