//! Extended attributes (RFC 8276).

use leasehold_base::limits::{XATTR_BYTES_MAX, XATTR_NAMES_MAX};
use leasehold_base::units::Cookie;
use leasehold_base::{xdr_enum, xdr_struct};

use super::{ChangeInfo, Name, Reply as ReplyOf};
use crate::list::Array;

opaques! {
    /// The value of an extended attribute.
    #[doc(alias = "xattrvalue4")]
    XattrValue <= XATTR_BYTES_MAX;
}

/// GETXATTR, operation 72: returns an extended attribute of the current object (RFC 8276 8.4.1).
pub mod getxattr {
    use super::{Name, ReplyOf, XattrValue};

    /// The name, without the prefix `user.`.
    #[doc(alias("GETXATTR4args", "xattrkey4"))]
    pub type Args<'a> = Name<'a>;

    /// The value.
    #[doc(alias = "GETXATTR4res")]
    pub type Reply<'a> = ReplyOf<XattrValue<'a>>;
}

/// SETXATTR, operation 73: sets an extended attribute of the current object (RFC 8276 8.4.2).
pub mod setxattr {
    use super::{ChangeInfo, Name, ReplyOf, XattrValue, xdr_enum, xdr_struct};

    xdr_enum! {
        /// The action if the attribute exists.
        #[doc(alias = "setxattr_option4")]
        pub enum How {
            /// The server replaces an existing value.
            #[doc(alias = "SETXATTR4_EITHER")]
            Either = 0,
            /// The operation fails if the attribute exists.
            #[doc(alias = "SETXATTR4_CREATE")]
            Create = 1,
            /// The operation fails if the attribute does not exist.
            #[doc(alias = "SETXATTR4_REPLACE")]
            Replace = 2,
        }
    }

    xdr_struct! {
        /// The attribute.
        #[doc(alias = "SETXATTR4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The action if the attribute exists.
            pub how: How,
            /// The name, without the prefix `user.`.
            pub name: Name<'a>,
            /// The value.
            pub value: XattrValue<'a>,
        }
    }

    /// The change of the object.
    #[doc(alias = "SETXATTR4res")]
    pub type Reply = ReplyOf<ChangeInfo>;
}

/// LISTXATTRS, operation 74: returns the names of extended attributes of the current object (RFC
/// 8276 8.4.3).
pub mod listxattrs {
    use super::{Array, Cookie, Name, ReplyOf, XATTR_NAMES_MAX, xdr_struct};

    xdr_struct! {
        /// The position of the listing.
        #[doc(alias = "LISTXATTRS4args")]
        #[derive(Copy)]
        pub struct Args {
            /// The cookie of the last reply; zero begins at the start.
            pub cookie: Cookie,
            /// The maximum encoded size of [`Done`], in bytes.
            pub count: u32,
        }

        /// Some names.
        #[doc(alias = "LISTXATTRS4resok")]
        pub struct Done<'a> {
            /// The cookie with which the client continues the listing.
            pub cookie: Cookie,
            /// The names, without the prefix `user.`.
            pub names: Array<Name<'a>, XATTR_NAMES_MAX>,
            /// True if the listing is complete.
            pub end: bool,
        }
    }

    /// The results.
    #[doc(alias = "LISTXATTRS4res")]
    pub type Reply<'a> = ReplyOf<Done<'a>>;
}

/// REMOVEXATTR, operation 75: removes an extended attribute of the current object (RFC 8276 8.4.4).
pub mod removexattr {
    use super::{ChangeInfo, Name, ReplyOf};

    /// The name, without the prefix `user.`.
    #[doc(alias = "REMOVEXATTR4args")]
    pub type Args<'a> = Name<'a>;

    /// The change of the object.
    #[doc(alias = "REMOVEXATTR4res")]
    pub type Reply = ReplyOf<ChangeInfo>;
}
