//! Declarations that produce their own codec, in addition to the declarations in `base`: borrowed
//! opaques, sets of bits, distinct numbers, and unions.

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

/// Declares distinct types for values of 64 bits.
macro_rules! hypers {
    ($($(#[$attribute:meta])* $name:ident;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl<'a> leasehold_base::xdr::Decode<'a> for $name {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                reader.u64().map(Self)
            }
        }

        impl leasehold_base::xdr::Encode for $name {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                writer.u64(self.0);
            }
        }
    )*};
}

/// Declares distinct types for opaques of fixed length.
macro_rules! fixed {
    ($($(#[$attribute:meta])* $name:ident = $length:literal;)*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $length]);

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($name), "("))?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str(")")
            }
        }

        impl<'a> leasehold_base::xdr::Decode<'a> for $name {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                leasehold_base::xdr::Decode::decode(reader).map(Self)
            }
        }

        impl leasehold_base::xdr::Encode for $name {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                writer.fixed(&self.0);
            }
        }
    )*};
}

/// Declares a set of bits as a number with named bits, for sets of which the receiver must see bits
/// without a name.
macro_rules! bits {
    ($(
        $(#[$attribute:meta])*
        $name:ident {
            $($(#[$bit_attribute:meta])* $bit_name:ident = $bit:literal,)*
        }
    )*) => {$(
        words! {
            $(#[$attribute])*
            $name;
        }

        impl $name {
            $(
                $(#[$bit_attribute])*
                pub const $bit_name: Self = Self($bit);
            )*

            /// Returns the set with the bits of both sets.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Returns true if the set has all bits of the other set.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Returns the bits without a name.
            #[must_use]
            pub const fn unnamed(self) -> u32 {
                self.0 & !(0 $(| $bit)*)
            }
        }
    )*};
}

/// Declares closed sets of numbers, each with its name in the standard.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident $standard:literal = $value:literal,)*
        }
    ) => {
        leasehold_base::xdr_enum! {
            $(#[$attribute])*
            pub enum $name {
                $(
                    $(#[$variant_attribute])*
                    #[doc(alias = $standard)]
                    $variant = $value,
                )*
            }
        }

        impl $name {
            /// Returns the name in the standard.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $standard,)*
                }
            }

            /// Returns the value with this number.
            #[must_use]
            pub const fn of_number(number: u32) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

/// The name of a union's body in patterns and expressions that its type repeats.
macro_rules! body {
    ($body:ident $type:ty) => {
        $body
    };
}

/// Declares unions: a number, then the body that the number selects, if any. The decoder rejects
/// other numbers.
macro_rules! unions {
    ($(
        $(#[$attribute:meta])*
        $name:ident $(<$life:lifetime>)? {
            $($(#[$variant_attribute:meta])* $variant:ident $(($type:ty))? = $value:literal,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name $(<$life>)? {
            $($(#[$variant_attribute])* $variant $(($type))?,)*
        }

        impl<'a> leasehold_base::xdr::Decode<'a> for $name $(<$life>)? {
            fn decode(
                reader: &mut leasehold_base::xdr::Reader<'a>,
            ) -> Result<Self, leasehold_base::xdr::Error> {
                match reader.u32()? {
                    $($value => Ok(Self::$variant $((
                        <$type as leasehold_base::xdr::Decode<'_>>::decode(reader)?
                    ))?),)*
                    _ => Err(leasehold_base::xdr::Error::BadValue),
                }
            }
        }

        impl $(<$life>)? leasehold_base::xdr::Encode for $name $(<$life>)? {
            fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
                match self {
                    $(Self::$variant $((body!(body $type)))? => {
                        writer.u32($value);
                        $(leasehold_base::xdr::Encode::encode(body!(body $type), writer);)?
                    })*
                }
            }
        }
    )*};
}
