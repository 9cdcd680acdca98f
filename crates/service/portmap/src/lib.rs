//! A portmapper of our own: portmap version 2, rpcbind versions 3 and 4 (RFC 1833).
//!
//! It tells where the programs of this server are, and nothing else: what is in its list is fixed
//! when it starts. Criteria in order of weight: nobody can use it against others, or against this
//! server; it says only what whoever asks can use; every procedure is answered as the RFC has it.
//! `docs/design/0008-portmapper.md` says what became of the procedures that served attackers.
//!
//! Like every service it does no I/O: a message goes in, a message comes out.

mod address;
mod binding;
mod procedures;
mod request;
mod statistics;
#[cfg(test)]
mod tests;

use core::net::IpAddr;

use bytes::Bytes;
use leasehold_base::xdr::{Encode as _, Message, Reader, Writer};
use leasehold_wire::rpc::{AuthStatus, Call, Reply, ReplyStatus, flavor};

pub use leasehold_wire::portmap::{PORT, PROGRAM};

pub use address::universal;
pub use binding::{Binding, Carrier};

use binding::Network;
use request::{Refusal, Request};
use statistics::Statistics;

/// The versions that are served of it.
pub const VERSIONS: [u32; 3] = [2, 3, 4];

/// A portmapper.
pub struct Portmapper {
    bindings: Vec<Binding>,
    time: fn() -> u32,
    statistics: Statistics,
}

/// How a call came in.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Who asks.
    pub from: IpAddr,
    /// The address of this machine that was asked.
    pub to: IpAddr,
    /// What carried the call.
    pub carrier: Carrier,
}

impl Portmapper {
    /// Tells of these programs, of which it should be one itself. `time` says how many seconds
    /// have passed since 1970.
    #[must_use]
    pub fn new(bindings: Vec<Binding>, time: fn() -> u32) -> Self {
        Self { bindings, time, statistics: Statistics::default() }
    }

    /// Answers one RPC message; with nothing, when it is none or must not be answered.
    pub fn answer(&self, asked: Asked, message: &Bytes, writer: Writer) -> Option<Message> {
        let mut reader = Reader::new(message);
        let call = match Call::decode(&mut reader) {
            Ok(call) => call,
            Err(error) => return error.reply().map(|reply| written(&reply, writer)),
        };
        let xid = call.xid;
        match self.run(asked, &call, reader, writer) {
            Ok(reply) => Some(reply),
            Err(Refusal::Silence) => None,
            Err(Refusal::Status(status)) => Some(written(&Reply { xid, status }, Writer::new())),
        }
    }

    /// Finds the procedure of a call and runs it; the whole reply.
    fn run<'a>(
        &'a self,
        asked: Asked,
        call: &Call<'_>,
        reader: Reader<'a>,
        mut writer: Writer,
    ) -> Result<Message, Refusal> {
        let procedure = procedures::find(call).map_err(Refusal::Status)?;
        // Who asks makes no difference, but what cannot be understood is not let pass.
        if ![flavor::NONE, flavor::SYS].contains(&call.credential.flavor) {
            return Err(Refusal::Status(ReplyStatus::AuthError(AuthStatus::BadCredential)));
        }
        self.statistics.call(call.version, call.procedure);
        Reply { xid: call.xid, status: ReplyStatus::Success }.encode(&mut writer);
        let mut request =
            Request { portmapper: self, asked, version: call.version, reader, writer };
        procedure(&mut request)?;
        Ok(request.writer.finish())
    }

    /// What is of use to whom reaches this machine by an address.
    fn reached_by(&self, host: IpAddr) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.is_reached_by(host))
    }

    /// What is of use to whoever asks and has an address of the same family as it asked by.
    fn of_family(&self, asked: Asked) -> impl Iterator<Item = &Binding> {
        let family = asked.network().family();
        self.reached_by(asked.to).filter(move |binding| binding.network().family() == family)
    }

    /// Where a program is, for whoever asks: preferably at the address that was asked.
    fn find(
        &self,
        asked: Asked,
        network: Network,
        program: u32,
        versions: Wanted,
    ) -> Option<&Binding> {
        let (Wanted::Just(version) | Wanted::Any { rather: version }) = versions;
        let fits = |binding: &&Binding| {
            binding.program == program
                && binding.network() == network
                && (binding.version == version || matches!(versions, Wanted::Any { .. }))
        };
        self.reached_by(asked.to)
            .filter(fits)
            .min_by_key(|binding| (binding.version != version, !binding.is_at(asked.to)))
    }
}

/// Which versions of a program are wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// This one.
    Just(u32),
    /// Any, this one if it is there: the program itself tells which versions it has.
    Any { rather: u32 },
}

fn written(reply: &Reply, mut writer: Writer) -> Message {
    reply.encode(&mut writer);
    writer.finish()
}
