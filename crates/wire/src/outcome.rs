//! Results that follow a status, for which zero means success.

use leasehold_base::xdr::{Decode, Encode, Error, Reader, Writer};

/// The status value of success.
const OK: u32 = 0;

/// A result, or the error status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<Done, Status> {
    /// Success.
    Done(Done),
    /// Any other status, which has no body.
    Failed(Status),
}

impl<Done, Status> Outcome<Done, Status> {
    /// Returns the results of a success.
    ///
    /// # Errors
    /// The status of a failure.
    pub fn done(self) -> Result<Done, Status> {
        match self {
            Self::Done(done) => Ok(done),
            Self::Failed(status) => Err(status),
        }
    }
}

impl<'a, Done: Decode<'a>, Status: Decode<'a>> Decode<'a> for Outcome<Done, Status> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, Error> {
        if reader.clone().u32()? == OK {
            reader.u32()?;
            return Done::decode(reader).map(Self::Done);
        }
        Status::decode(reader).map(Self::Failed)
    }
}

impl<Done: Encode, Status: Encode> Encode for Outcome<Done, Status> {
    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Done(done) => {
                writer.u32(OK);
                done.encode(writer);
            }
            Self::Failed(status) => status.encode(writer),
        }
    }
}
