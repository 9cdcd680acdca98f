//! ACCESS, operation 3: returns the caller's permissions for an object (RFC 8881 18.1).

use leasehold_base::xdr_struct;

flags! {
    /// Kinds of access. The decoder drops a bit that has no name here, because the server cannot
    /// permit an unknown kind of access.
    Access {
        /// The right to read a file, or to list a directory.
        #[doc(alias = "ACCESS4_READ")]
        read = 0x01,
        /// The right to look up a name in a directory.
        #[doc(alias = "ACCESS4_LOOKUP")]
        lookup = 0x02,
        /// The right to overwrite bytes of a file, or to change names in a directory.
        #[doc(alias = "ACCESS4_MODIFY")]
        modify = 0x04,
        /// The right to append to a file, or to add names to a directory.
        #[doc(alias = "ACCESS4_EXTEND")]
        extend = 0x08,
        /// The right to remove names from a directory.
        #[doc(alias = "ACCESS4_DELETE")]
        delete = 0x10,
        /// The right to run a file.
        #[doc(alias = "ACCESS4_EXECUTE")]
        execute = 0x20,
        /// The right to read extended attributes (RFC 8276 8.3).
        #[doc(alias = "ACCESS4_XAREAD")]
        read_xattrs = 0x40,
        /// The right to write extended attributes.
        #[doc(alias = "ACCESS4_XAWRITE")]
        write_xattrs = 0x80,
        /// The right to list extended attributes.
        #[doc(alias = "ACCESS4_XALIST")]
        list_xattrs = 0x100,
    }
}

xdr_struct! {
    /// The requested kinds of access to the current object.
    #[doc(alias = "ACCESS4args")]
    #[derive(Copy)]
    pub struct Args {
        /// The requested kinds of access.
        pub access: Access,
    }
}

/// The results.
#[doc(alias = "ACCESS4res")]
pub type Reply = super::Reply<Done>;

xdr_struct! {
    /// The permitted access.
    #[doc(alias = "ACCESS4resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The requested kinds of access that the server can check.
        pub supported: Access,
        /// The requested kinds of access that the caller has.
        pub access: Access,
    }
}
