//! READDIR, operation 26: returns names and attributes in the current directory (RFC 8881 18.23).

use leasehold_base::units::Cookie;
use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};
use leasehold_base::xdr_struct;

use super::{Bitmap, CookieVerifier, EncodedAttributes, Name};
use crate::list::List;

xdr_struct! {
    /// The position of the listing, and the requested attributes.
    #[doc(alias = "READDIR4args")]
    #[derive(Copy)]
    pub struct Args {
        /// The cookie of the last entry that the client has; zero begins at the start.
        pub cookie: Cookie,
        /// The verifier from the reply with the cookie; zero at the start.
        pub verifier: CookieVerifier,
        /// The maximum number of bytes of names and cookies, without attributes; a hint.
        pub names_count: u32,
        /// The maximum encoded size of [`Done`], in bytes.
        pub count: u32,
        /// The requested attributes.
        pub requested: Bitmap,
    }
}

/// One name of a directory, and attributes of its object: [`EncodedAttributes`] for a client, and
/// [`Selected`](super::Selected) for a server.
#[doc(alias = "entry4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a, Values = EncodedAttributes<'a>> {
    /// The cookie with which the client continues the listing after this entry: neither zero, one
    /// nor two.
    pub cookie: Cookie,
    /// The name.
    pub name: Name<'a>,
    /// The attributes.
    pub attributes: Values,
}

impl<'a, Values: Decode<'a>> Decode<'a> for Entry<'a, Values> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            cookie: Decode::decode(reader)?,
            name: Decode::decode(reader)?,
            attributes: Decode::decode(reader)?,
        })
    }
}

impl<Values: Encode> Encode for Entry<'_, Values> {
    fn encode(&self, writer: &mut Writer) {
        self.cookie.encode(writer);
        self.name.encode(writer);
        self.attributes.encode(writer);
    }
}

/// The listing as the client decodes it.
#[doc(alias = "READDIR4res")]
pub type Reply<'a> = super::Reply<Done<List<Entry<'a>>>>;

/// A part of the directory. `Entries` is a [`List`] of [`Entry`] for a client, and for a server any
/// type with the same encoding, such as [`ListOf`](crate::list::ListOf). A server that does not
/// know the sizes of entries beforehand uses [`Listing`].
#[doc(alias("READDIR4resok", "dirlist4"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<Entries> {
    /// The verifier that the client must send with each of the cookies.
    pub verifier: CookieVerifier,
    /// The entries.
    pub entries: Entries,
    /// True if the entries reach the end of the directory.
    pub end: bool,
}

impl<'a, Entries: Decode<'a>> Decode<'a> for Done<Entries> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            verifier: Decode::decode(reader)?,
            entries: Decode::decode(reader)?,
            end: Decode::decode(reader)?,
        })
    }
}

impl<Entries: Encode> Encode for Done<Entries> {
    fn encode(&self, writer: &mut Writer) {
        self.verifier.encode(writer);
        self.entries.encode(writer);
        self.end.encode(writer);
    }
}

/// The encoded size of [`Done`] without entries, in bytes: the verifier, the flag at the end of the
/// list, and the flag for the end of the directory.
pub const EMPTY_BYTES: u32 = 8 + 4 + 4;

/// The encoder of [`Done`] that takes entries until a limit.
#[derive(Debug)]
pub struct Listing<'w> {
    writer: &'w mut Writer,
    bytes_max: usize,
    is_empty: bool,
}

impl<'w> Listing<'w> {
    /// Starts the results. The writer then has at most `bytes_max` bytes in total, of which the
    /// entries leave room for the end of the list.
    pub fn new(writer: &'w mut Writer, verifier: CookieVerifier, bytes_max: usize) -> Self {
        verifier.encode(writer);
        Self { writer, bytes_max, is_empty: true }
    }

    /// Returns true if the results have no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Appends an entry if the limit permits the entry.
    pub fn append<Values: Encode>(&mut self, entry: &Entry<'_, Values>) -> bool {
        let mark = self.writer.mark();
        true.encode(self.writer);
        entry.encode(self.writer);
        let fits = self.writer.len() + LIST_END_BYTES <= self.bytes_max;
        if fits {
            self.is_empty = false;
        } else {
            self.writer.rewind(&mark);
        }
        fits
    }

    /// Ends the list; `end` is true if the entries reach the end of the directory.
    pub fn finish(self, end: bool) {
        false.encode(self.writer);
        end.encode(self.writer);
    }
}

/// The flag at the end of the list, and the flag for the end of the directory.
const LIST_END_BYTES: usize = 8;
