//! ACCESS, procedure 4: returns the caller's permissions for an object (RFC 1813 3.3.4).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 4;

flags! {
    /// Kinds of access. The decoder drops a bit that has no name here, because the server cannot
    /// permit an unknown kind of access.
    Access {
        /// The right to read a file, or to list a directory.
        #[doc(alias = "ACCESS3_READ")]
        read = 0x01,
        /// The right to look up a name in a directory.
        #[doc(alias = "ACCESS3_LOOKUP")]
        lookup = 0x02,
        /// The right to overwrite bytes of a file, or to change names in a directory.
        #[doc(alias = "ACCESS3_MODIFY")]
        modify = 0x04,
        /// The right to append to a file, or to add names to a directory.
        #[doc(alias = "ACCESS3_EXTEND")]
        extend = 0x08,
        /// The right to remove names from a directory.
        #[doc(alias = "ACCESS3_DELETE")]
        delete = 0x10,
        /// The right to run a file.
        #[doc(alias = "ACCESS3_EXECUTE")]
        execute = 0x20,
    }
}

xdr_struct! {
    /// The object, and the requested kinds of access.
    #[doc(alias = "ACCESS3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
        /// The requested kinds of access.
        pub access: Access,
    }
}

/// The permitted access; in case of an error only the object's attributes.
#[doc(alias = "ACCESS3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The permitted access.
    #[doc(alias = "ACCESS3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The requested kinds of access that the caller has.
        pub access: Access,
    }
}
