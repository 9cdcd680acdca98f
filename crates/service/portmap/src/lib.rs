//! The built-in portmapper: portmap version 2, rpcbind versions 3 and 4 (RFC 1833).
//!
//! It reports the addresses of this server's programs only; its list is fixed at the start.
//! Criteria in order of weight: no attacker can use it against other machines or against this
//! server; it reports only addresses that the caller can reach; every procedure answers as the RFC
//! specifies. `docs/design/0008-portmapper.md` describes the treatment of procedures that helped
//! attackers.
//!
//! Like every service it does no I/O: it maps a message to a reply.

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

/// The supported versions.
pub const VERSIONS: [u32; 3] = [2, 3, 4];

/// A portmapper.
pub struct Portmapper {
    bindings: Vec<Binding>,
    time: fn() -> u32,
    statistics: Statistics,
}

/// The circumstances of a call.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The caller's address.
    pub from: IpAddr,
    /// The destination address on this machine.
    pub to: IpAddr,
    /// The transport of the call.
    pub carrier: Carrier,
}

impl Portmapper {
    /// Creates a portmapper for these programs, which should include the portmapper itself. `time`
    /// returns the seconds since 1970.
    #[must_use]
    pub fn new(bindings: Vec<Binding>, time: fn() -> u32) -> Self {
        Self { bindings, time, statistics: Statistics::default() }
    }

    /// Answers one RPC message; returns None if the message is not a call or must not be answered.
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

    /// Finds and runs the procedure of a call; returns the whole reply.
    fn run<'a>(
        &'a self,
        asked: Asked,
        call: &Call<'_>,
        reader: Reader<'a>,
        mut writer: Writer,
    ) -> Result<Message, Refusal> {
        let procedure = procedures::find(call).map_err(Refusal::Status)?;
        // The caller's identity does not matter, but an unknown flavour is refused.
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

    /// Returns the bindings that a caller at this address of the machine can reach.
    fn reached_by(&self, host: IpAddr) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().filter(move |binding| binding.is_reached_by(host))
    }

    /// Returns the bindings that the caller can reach in the address family of its call.
    fn of_family(&self, asked: Asked) -> impl Iterator<Item = &Binding> {
        let family = asked.network().family();
        self.reached_by(asked.to).filter(move |binding| binding.network().family() == family)
    }

    /// Returns the binding of a program for the caller, preferably at the destination address of
    /// the call.
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

/// The wanted versions of a program.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// Exactly this version.
    Just(u32),
    /// Any version, preferably this one: the program itself reports its versions.
    Any { rather: u32 },
}

fn written(reply: &Reply, mut writer: Writer) -> Message {
    reply.encode(&mut writer);
    writer.finish()
}
