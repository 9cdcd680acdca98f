//! Results of operations: a status, then a body that depends on the status.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

use super::Status;
use crate::outcome::Outcome;

/// The result of an operation: its body, or the error.
pub type Reply<Done> = Outcome<Done, Status>;

/// The body that one error has.
pub trait Detail {
    /// The error with this body.
    const STATUS: Status;
}

/// The result of an operation that has a body for success and for one of the errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetailedReply<Done, Body> {
    /// Success.
    Done(Done),
    /// The error [`Detail::STATUS`].
    Detailed(Body),
    /// Any other error.
    Failed(Status),
}

impl<Done, Body: Detail> DetailedReply<Done, Body> {
    /// Returns the results of a successful operation.
    ///
    /// # Errors
    /// The status of a failed operation.
    pub fn done(self) -> Result<Done, Status> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Detailed(_) => Err(Body::STATUS),
            Self::Failed(status) => Err(status),
        }
    }
}

impl<'a, Done: Decode<'a>, Body: Detail + Decode<'a>> Decode<'a> for DetailedReply<Done, Body> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        match Outcome::<(), Status>::decode(reader)? {
            Outcome::Done(()) => Done::decode(reader).map(Self::Done),
            Outcome::Failed(status) if status == Body::STATUS => {
                Body::decode(reader).map(Self::Detailed)
            }
            Outcome::Failed(status) => Ok(Self::Failed(status)),
        }
    }
}

impl<Done: Encode, Body: Detail + Encode> Encode for DetailedReply<Done, Body> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done(done) => {
                Outcome::<(), Status>::Done(()).encode(writer);
                done.encode(writer);
            }
            Self::Detailed(body) => {
                Body::STATUS.encode(writer);
                body.encode(writer);
            }
            Self::Failed(status) => status.encode(writer),
        }
    }
}
