//! The binding database: where servers are, by their names (`spec/binding.x`).
//!
//! Servers register when they start, and again before their term is over; clients look them up.
//! Criteria in order of weight: a name stays its owner's while that renews it; nobody fills the
//! database, and nobody uses it against others; whoever asks is told only what it can use. What is
//! known lies in memory alone, for servers say it again.
//!
//! Like every service it does no I/O: a message goes in, a message comes out.

mod registry;
#[cfg(test)]
mod tests;

use core::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use leasehold_base::units::Time;
use leasehold_base::xdr::{Decode, Encode, Message, Reader, Writer, decode_all};
use leasehold_wire::binding::{Status, VERSION, list, lookup, register, withdraw};
use leasehold_wire::list::List;
use leasehold_wire::rpc::{AuthStatus, Call, Reply, ReplyStatus, Versions, flavor, null};

pub use leasehold_wire::binding::PROGRAM;

use registry::Registry;

/// A binding database.
pub struct Names {
    registry: Mutex<Registry>,
    believes_all: bool,
}

/// How a call came in.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Who asks.
    pub from: IpAddr,
    /// Whether a stream carried the call.
    pub by_stream: bool,
    /// Whether the word of who asks is taken.
    pub is_believed: bool,
    /// When it came.
    pub now: Time,
}

impl Names {
    /// An empty database; who may register are those whose word is taken, or all.
    #[must_use]
    pub fn new(believes_all: bool) -> Self {
        Self { registry: Mutex::default(), believes_all }
    }

    /// Answers one RPC message; with nothing, when it is none or must not be answered.
    pub fn answer(&self, asked: Asked, message: &Bytes, mut writer: Writer) -> Option<Message> {
        // Rule 11.
        if !asked.by_stream {
            return None;
        }
        let mut reader = Reader::new(message);
        let call = match Call::decode(&mut reader) {
            Ok(call) => call,
            Err(error) => return error.reply().map(|reply| written(&reply, writer)),
        };
        let xid = call.xid;
        Reply { xid, status: ReplyStatus::Success }.encode(&mut writer);
        match self.run(asked, &call, reader, &mut writer) {
            Ok(()) => Some(writer.finish()),
            Err(status) => Some(written(&Reply { xid, status }, Writer::new())),
        }
    }

    /// Runs the procedure of a call and writes its results.
    fn run(
        &self,
        asked: Asked,
        call: &Call<'_>,
        mut reader: Reader<'_>,
        writer: &mut Writer,
    ) -> Result<(), ReplyStatus> {
        if call.program != PROGRAM {
            return Err(ReplyStatus::ProgramUnavailable);
        }
        if call.version != VERSION {
            return Err(ReplyStatus::ProgramMismatch(Versions { low: VERSION, high: VERSION }));
        }
        // Who asks is known by its connection, but what cannot be understood is not let pass.
        if ![flavor::NONE, flavor::SYS].contains(&call.credential.flavor) {
            return Err(ReplyStatus::AuthError(AuthStatus::BadCredential));
        }
        // Nothing panics while it is held, and if it did each change is one step.
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.forget(asked.now);
        let is_believed = asked.is_believed || self.believes_all;
        match call.procedure {
            null::NUMBER => args::<null::Args>(&mut reader)?,
            register::NUMBER => {
                let claim: register::Args<'_> = args(&mut reader)?;
                let status = match is_believed {
                    true => registry.register(asked.now, asked.from, &claim),
                    false => Status::Refused,
                };
                status.encode(writer);
            }
            withdraw::NUMBER => {
                let claim: withdraw::Args<'_> = args(&mut reader)?;
                (is_believed && registry.withdraw(asked.from, &claim)).encode(writer);
            }
            lookup::NUMBER => {
                let name: lookup::Args<'_> = args(&mut reader)?;
                registry.find(asked.from, name).encode(writer);
            }
            list::NUMBER => {
                let () = args(&mut reader)?;
                List(registry.all(asked.from).collect()).encode(writer);
            }
            _ => return Err(ReplyStatus::ProcedureUnavailable),
        }
        Ok(())
    }
}

fn args<'a, T: Decode<'a>>(reader: &mut Reader<'a>) -> Result<T, ReplyStatus> {
    decode_all(reader).map_err(|_| ReplyStatus::GarbageArguments)
}

fn written(reply: &Reply, mut writer: Writer) -> Message {
    reply.encode(&mut writer);
    writer.finish()
}
