//! ACCESS, procedure 4: returns the caller's permissions for an object (RFC 1813 3.3.4).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 4;

flags! {
    /// Kinds of access. The decoder drops a bit without a name here, because the server cannot know
    /// that it is permitted.
    Access {
        /// Read a file, or list a directory.
        #[doc(alias = "ACCESS3_READ")]
        read = 0x01,
        /// Look up a name in a directory.
        #[doc(alias = "ACCESS3_LOOKUP")]
        lookup = 0x02,
        /// Overwrite bytes of a file, or change names in a directory.
        #[doc(alias = "ACCESS3_MODIFY")]
        modify = 0x04,
        /// Append to a file, or add names to a directory.
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
