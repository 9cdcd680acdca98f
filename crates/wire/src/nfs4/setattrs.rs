//! Operations on attributes.

use leasehold_base::xdr_struct;

use super::{Bitmap, Completion, EncodedAttributes, Stateid};

/// GETATTR, operation 9: returns attributes of the current object (RFC 8881 18.7).
pub mod getattr {
    use super::{Bitmap, EncodedAttributes};

    /// The requested attributes.
    #[doc(alias = "GETATTR4args")]
    pub type Args = Bitmap;

    /// The attributes as the client decodes them; a server encodes
    /// [`Selected`](super::super::Selected) in their place.
    #[doc(alias("GETATTR4res", "GETATTR4resok"))]
    pub type Reply<'a> = super::super::Reply<EncodedAttributes<'a>>;
}

/// SETATTR, operation 34: changes attributes of the current object (RFC 8881 18.30).
pub mod setattr {
    use super::{Bitmap, Completion, EncodedAttributes, Stateid, xdr_struct};

    xdr_struct! {
        /// The new attributes.
        #[doc(alias = "SETATTR4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The open or delegation that permits a change of the size.
            pub stateid: Stateid,
            /// The new attributes.
            pub attributes: EncodedAttributes<'a>,
        }

        /// The status, and in success and in failure the attributes that are set.
        #[doc(alias = "SETATTR4res")]
        #[derive(Copy)]
        pub struct Reply {
            /// The status.
            pub status: Completion,
            /// The attributes that the server has set.
            pub set: Bitmap,
        }
    }
}

/// VERIFY, operation 37: fails if the current object has other attributes (RFC 8881 18.31).
pub mod verify {
    /// The attributes.
    #[doc(alias = "VERIFY4args")]
    pub type Args<'a> = super::EncodedAttributes<'a>;

    /// The status.
    #[doc(alias = "VERIFY4res")]
    pub type Reply = super::Completion;
}

/// NVERIFY, operation 17: fails if the current object has the same attributes (RFC 8881 18.15).
pub mod nverify {
    /// The attributes.
    #[doc(alias = "NVERIFY4args")]
    pub type Args<'a> = super::EncodedAttributes<'a>;

    /// The status.
    #[doc(alias = "NVERIFY4res")]
    pub type Reply = super::Completion;
}
