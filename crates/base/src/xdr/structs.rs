//! Declarations that produce their own codec.

/// Declares structures; the order of the fields is the encoding.
///
/// A structure that borrows from the message must use the lifetime name `'a`.
#[macro_export]
macro_rules! xdr_struct {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
        }
    )*) => {$(
        $crate::xdr_decode! {
            $(#[$attribute])*
            $visibility struct $name $(<$life>)? {
                $($(#[$field_attribute])* pub $field: $type,)*
            }
        }

        impl $(<$life>)? $crate::xdr::Encode for $name $(<$life>)? {
            fn encode(&self, writer: &mut $crate::xdr::Writer) {
                $($crate::xdr::Encode::encode(&self.$field, writer);)*
            }
        }
    )*};
}

/// Declares structures like [`xdr_struct!`](crate::xdr_struct), with a decoder only.
#[macro_export]
macro_rules! xdr_decode {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident $(<$life:lifetime>)? {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $visibility struct $name $(<$life>)? {
            $($(#[$field_attribute])* pub $field: $type,)*
        }

        impl<'a> $crate::xdr::Decode<'a> for $name $(<$life>)? {
            fn decode(reader: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Error> {
                Ok(Self { $($field: $crate::xdr::Decode::decode(reader)?,)* })
            }
        }
    )*};
}

/// Declares closed sets of numbers; any other number is [`BadValue`](crate::xdr::Error::BadValue).
#[macro_export]
macro_rules! xdr_enum {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_attribute:meta])* $variant:ident = $value:literal,)*
        }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name {
            $($(#[$variant_attribute])* $variant = $value,)*
        }

        impl $name {
            /// Every value, in the order of the standard.
            $visibility const ALL: &[Self] = &[$(Self::$variant,)*];
        }

        impl<'a> $crate::xdr::Decode<'a> for $name {
            fn decode(reader: &mut $crate::xdr::Reader<'a>) -> Result<Self, $crate::xdr::Error> {
                match reader.u32()? {
                    $($value => Ok(Self::$variant),)*
                    _ => Err($crate::xdr::Error::BadValue),
                }
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, writer: &mut $crate::xdr::Writer) {
                writer.u32(*self as u32);
            }
        }
    )*};
}
