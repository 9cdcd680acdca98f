//! A call in progress.

use leasehold_base::xdr::{Decode, Encode, Reader, Writer, decode_all};
use leasehold_wire::rpc::ReplyStatus;

use crate::binding::Carrier;
use crate::{Asked, Portmapper};

/// A call whose procedure is known, with its remaining arguments and the partial reply.
pub(crate) struct Request<'a> {
    pub(crate) portmapper: &'a Portmapper,
    pub(crate) asked: Asked,
    /// The version of this program.
    pub(crate) version: u32,
    pub(crate) reader: Reader<'a>,
    pub(crate) writer: Writer,
}

/// The reason for a call without results.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The call gets no reply.
    Silence,
    /// The call gets this status.
    Status(ReplyStatus),
}

/// The outcome of a procedure.
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

    /// Checks that the caller may receive a list. The source address of a datagram may be forged,
    /// and a long reply to a short question would amplify an attack.
    pub(crate) fn may_list(&self) -> Done {
        match self.asked.carrier {
            Carrier::Datagram if !self.asked.from.is_loopback() => Err(Refusal::Silence),
            Carrier::Datagram | Carrier::Stream => Ok(()),
        }
    }
}
