//! ACCESS, procedure 4: what the caller may do with an object (RFC 1813 3.3.4).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 4;

flags! {
    /// Kinds of access. A bit that has no name here is not known to be allowed, so reading drops
    /// it.
    Access {
        /// Read a file, or list a directory.
        #[doc(alias = "ACCESS3_READ")]
        read = 0x01,
        /// Look up a name in a directory.
        #[doc(alias = "ACCESS3_LOOKUP")]
        lookup = 0x02,
        /// Write where a file has bytes, or change names in a directory.
        #[doc(alias = "ACCESS3_MODIFY")]
        modify = 0x04,
        /// Write behind the end of a file, or add names to a directory.
        #[doc(alias = "ACCESS3_EXTEND")]
        extend = 0x08,
        /// Remove names from a directory.
        #[doc(alias = "ACCESS3_DELETE")]
        delete = 0x10,
        /// Run a file.
        #[doc(alias = "ACCESS3_EXECUTE")]
        execute = 0x20,
    }
}

xdr_struct! {
    /// What is asked of which object.
    #[doc(alias = "ACCESS3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// The kinds of access that are asked for.
        pub access: Access,
    }
}

/// What is allowed, or the object's attributes alone.
#[doc(alias = "ACCESS3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// What is allowed.
    #[doc(alias = "ACCESS3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// Those kinds of access asked for that the caller has.
        pub access: Access,
    }
}
