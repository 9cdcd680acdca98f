//! Declarations that produce their own codec, in addition to the declarations in `base`: borrowed
//! opaques and sets of bits.

/// Declares opaques of variable length that borrow from the message, each with its limit in bytes.
macro_rules! opaques {
    ($($(#[$attribute:meta])* $name:ident <= $limit:expr;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl core::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl<'a> leasehold_base::xdr::Decode<'a> for $name<'a> {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                reader.opaque($limit).map(Self)
            }
        }

        impl leasehold_base::xdr::Encode for $name<'_> {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                writer.opaque(self.0);
            }
        }
    )*};
}

/// Declares a set of bits as named booleans; the decoder drops bits without a name.
macro_rules! flags {
    ($(#[$attribute:meta])* $name:ident {
        $($(#[$field_attribute:meta])* $field:ident = $bit:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: bool,)*
        }

        impl<'a> leasehold_base::xdr::Decode<'a> for $name {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                let bits = reader.u32()?;
                Ok(Self { $($field: bits & $bit != 0,)* })
            }
        }

        impl leasehold_base::xdr::Encode for $name {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                writer.u32(0 $(| if self.$field { $bit } else { 0 })*);
            }
        }
    };
}

/// Declares distinct types for values of 32 bits.
macro_rules! words {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl<'a> leasehold_base::xdr::Decode<'a> for $name {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                reader.u32().map(Self)
            }
        }

        impl leasehold_base::xdr::Encode for $name {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                writer.u32(self.0);
            }
        }
    )*};
}
