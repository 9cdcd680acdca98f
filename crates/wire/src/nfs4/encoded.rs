//! Attributes in the form in which messages contain them.

use bytes::Bytes;
use leasehold_base::limits::ATTRIBUTES_BYTES_MAX;
use leasehold_base::xdr_struct;

use super::Bitmap;

opaques! {
    /// The values of attributes, in the order of their numbers (RFC 8881 3.3.1).
    #[doc(alias = "attrlist4")]
    AttributeValues <= ATTRIBUTES_BYTES_MAX;
}

xdr_struct! {
    /// Attributes with their encoded values (RFC 8881 3.3.9).
    #[doc(alias = "fattr4")]
    #[derive(Copy)]
    pub struct EncodedAttributes<'a> {
        /// The attributes.
        pub mask: Bitmap,
        /// Their values, which need not be valid.
        pub values: AttributeValues<'a>,
    }
}

/// Attributes with encoded values that do not borrow from a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedAttributes {
    /// The attributes.
    pub mask: Bitmap,
    /// Their values.
    pub values: Bytes,
}

impl OwnedAttributes {
    /// Returns the attributes as a field of a message.
    #[must_use]
    pub fn borrow(&self) -> EncodedAttributes<'_> {
        EncodedAttributes { mask: self.mask, values: AttributeValues(&self.values) }
    }
}
