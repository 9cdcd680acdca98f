//! The binding database: a name service for servers (`spec/binding.x`).
//!
//! Servers register at their start, and again before their term ends; clients look them up.
//! Criteria in order of weight: a name belongs to its owner as long as the owner renews it; no
//! client can fill the database or use it against other machines; the database reports only
//! addresses that the caller can reach. The data is only in memory, because servers register again.
//!
//! Like every service it does no I/O: it maps a message to a reply.

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

/// The circumstances of a call.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The caller's address.
    pub from: IpAddr,
    /// True if a stream carried the call.
    pub by_stream: bool,
    /// True if the caller's credential is trusted.
    pub is_believed: bool,
    /// The time of arrival.
    pub now: Time,
}

impl Names {
    /// Creates an empty database, in which trusted callers may register, or all callers if
    /// `believes_all` is set.
    #[must_use]
    pub fn new(believes_all: bool) -> Self {
        Self { registry: Mutex::default(), believes_all }
    }

    /// Answers one RPC message; returns None if the message is not a call or must not be answered.
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

    /// Runs the procedure of a call and encodes its results.
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
        // The connection identifies the caller, but an unknown flavour is refused.
        if ![flavor::NONE, flavor::SYS].contains(&call.credential.flavor) {
            return Err(ReplyStatus::AuthError(AuthStatus::BadCredential));
        }
        // No code panics while it holds the lock, and each change is atomic in any case.
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
