//! One call on its way to its reply.

use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::rpc::ReplyStatus;

use crate::binding::Carrier;
use crate::{Asked, Portmapper};

/// A call whose procedure is known: what is left to be read of it, and what is written of its
/// reply.
pub(crate) struct Request<'a> {
    pub(crate) portmapper: &'a Portmapper,
    pub(crate) asked: Asked,
    /// The version of this program.
    pub(crate) version: u32,
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer,
}

/// Why a call gets no results.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not answered.
    Silence,
    /// It is answered so.
    Status(ReplyStatus),
}

/// Whether there are results.
pub(crate) type Done = Result<(), Refusal>;

impl<'a> Request<'a> {
    /// Reads the arguments.
    pub(crate) fn args<T: Decode<'a>>(&mut self) -> Result<T, Refusal> {
        let garbage = |_| Refusal::Status(ReplyStatus::GarbageArguments);
        decode_all(&mut self.reader).map_err(garbage)
    }

    /// Writes results, or a part of them.
    pub(crate) fn write(&mut self, results: &impl Encode) {
        results.encode(&mut self.writer);
    }

    /// Lets pass who may be sent a list. The sender of a datagram may be another than the one
    /// that it names, who would be sent a long list for a short question.
    pub(crate) fn may_list(&self) -> Done {
        match self.asked.carrier {
            Carrier::Datagram if !self.asked.from.is_loopback() => Err(Refusal::Silence),
            Carrier::Datagram | Carrier::Stream => Ok(()),
        }
    }
}
