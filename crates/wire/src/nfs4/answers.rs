//! The unions of arguments and results over all operations of a program.

use super::{Completion, Detail, DetailedReply, Outcome, Reply, setattr};

/// The results of an operation, which begin with a status.
pub trait Answer {
    /// Returns the status.
    fn status(&self) -> Completion;
}

impl<Done> Answer for Reply<Done> {
    fn status(&self) -> Completion {
        match self {
            Self::Done(_) => Outcome::Done(()),
            Self::Failed(status) => Outcome::Failed(*status),
        }
    }
}

impl<Done, Body: Detail> Answer for DetailedReply<Done, Body> {
    fn status(&self) -> Completion {
        match self {
            Self::Done(_) => Outcome::Done(()),
            Self::Detailed(_) => Outcome::Failed(Body::STATUS),
            Self::Failed(status) => Outcome::Failed(*status),
        }
    }
}

impl Answer for setattr::Reply {
    fn status(&self) -> Completion {
        self.status
    }
}

/// Declares the unions from a table of operations: the variant in the enumeration of operations,
/// the module, and its arguments and results. `untyped` lists the operations outside of the table.
macro_rules! operations {
    (
        untyped: $untyped:pat,
        $($variant:ident $module:ident:
            $args:ident $(<$args_life:lifetime>)? => $reply:ident $(<$reply_life:lifetime>)?;)*
    ) => {
        /// The arguments of an operation, behind its number.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Args<'a> {
            $(
                #[doc = concat!("The arguments of [`mod@", stringify!($module), "`].")]
                $variant($module::$args $(<$args_life>)?),
            )*
        }

        impl<'a> Args<'a> {
            /// Returns the operation.
            #[must_use]
            pub const fn operation(&self) -> Operation {
                match self {
                    $(Self::$variant(_) => Operation::$variant,)*
                }
            }

            /// Decodes the arguments of an operation, the number of which is decoded already.
            ///
            /// # Errors
            /// [`Error::BadValue`] for an operation without a type here; else the errors of the
            /// arguments.
            pub fn decode_of(
                operation: Operation,
                reader: &mut Reader<'a>,
            ) -> Result<Self, Error> {
                match operation {
                    $(Operation::$variant => Decode::decode(reader).map(Self::$variant),)*
                    $untyped => Err(Error::BadValue),
                }
            }
        }

        impl<'a> Decode<'a> for Args<'a> {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
                let operation = Operation::of_number(reader.u32()?).ok_or(Error::BadValue)?;
                Self::decode_of(operation, reader)
            }
        }

        impl Encode for Args<'_> {
            fn encode(&self, writer: &mut Writer) {
                self.operation().encode(writer);
                match self {
                    $(Self::$variant(args) => args.encode(writer),)*
                }
            }
        }

        /// The results of an operation, behind its number.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Results<'a> {
            $(
                #[doc = concat!("The results of [`mod@", stringify!($module), "`].")]
                $variant($module::$reply $(<$reply_life>)?),
            )*
            /// The status of an illegal number, or of an operation without a type here.
            Other(Number, Completion),
        }

        impl<'a> Results<'a> {
            /// Returns the number of the operation.
            #[must_use]
            pub fn number(&self) -> Number {
                match self {
                    $(Self::$variant(_) => Number(Operation::$variant as u32),)*
                    Self::Other(number, _) => *number,
                }
            }

            /// Returns the status.
            #[must_use]
            pub fn status(&self) -> Completion {
                match self {
                    $(Self::$variant(results) => Answer::status(results),)*
                    Self::Other(_, status) => *status,
                }
            }

            /// Decodes the results of an operation, the number of which is decoded already.
            ///
            /// # Errors
            /// The errors of the results.
            pub fn decode_of(
                operation: Operation,
                reader: &mut Reader<'a>,
            ) -> Result<Self, Error> {
                match operation {
                    $(Operation::$variant => Decode::decode(reader).map(Self::$variant),)*
                    $untyped => {
                        let number = Number(operation as u32);
                        Ok(Self::Other(number, Decode::decode(reader)?))
                    }
                }
            }
        }

        impl<'a> Decode<'a> for Results<'a> {
            fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
                let number = Number::decode(reader)?;
                match Operation::of_number(number.0) {
                    Some(operation) => Self::decode_of(operation, reader),
                    None if number == Number::ILLEGAL => {
                        Ok(Self::Other(number, Decode::decode(reader)?))
                    }
                    None => Err(Error::BadValue),
                }
            }
        }

        impl Encode for Results<'_> {
            fn encode(&self, writer: &mut Writer) {
                self.number().encode(writer);
                match self {
                    $(Self::$variant(results) => results.encode(writer),)*
                    Self::Other(_, status) => status.encode(writer),
                }
            }
        }
    };
}

pub(super) use operations;
