//! Who a client is, as far as this machine can tell.
//!
//! An AUTH_SYS credential is the sender's own word. A server that acts as its callers must not
//! take it from any program of this machine, or every local user would be everybody. So the
//! kernel is asked who owns the sender's socket. Of other machines it knows nothing; there the old
//! rule holds that a port below 1024 takes privilege over there.
//!
//! Of a datagram the kernel tells who receives at its source, not who sent it: any program may send
//! with any address of this machine as the source, from a port of its own that another program
//! has too, under another address. So for datagrams the kernel's word counts only where the port
//! takes privilege.

mod kernel;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;

use leasehold_base::units::Time;
use leasehold_fs::NOBODY;
use leasehold_serve::{Transport, Trust};

use crate::limits::OWN_ADDRESSES_MAX;
use crate::peer::kernel::Kernel;
use crate::rate::Rate;

/// Whose word a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether the server can act as its callers.
    pub privileged: bool,
    /// The user that runs the server.
    pub uid: u32,
    /// The ports of this machine below this one take privilege.
    pub reserved_ports_end: u16,
}

/// Who owns a client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A user of this machine.
    User(u32),
    /// Somebody on this machine, or behind one of its addresses (a virtual machine, a
    /// container): the socket is gone, it is not this kernel's, or it sent a datagram.
    Unknown,
    /// Somebody on this machine, whose kernel does not say who.
    Unsaid,
    /// Somebody on another machine.
    Elsewhere,
}

const ROOT: u32 = 0;

/// Ports below this one take privilege, by custom and on most machines.
const RESERVED_PORTS_END: u16 = 1024;

/// The first port that takes no privilege on this machine, where that is below the custom's.
#[must_use]
pub fn reserved_ports_end() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|port| port.trim().parse().ok())
        .map_or(RESERVED_PORTS_END, |port: u16| port.min(RESERVED_PORTS_END))
}

impl Policy {
    /// What the word of a client would be worth that asks over TCP: on this machine by a socket of
    /// root's, as the kernel's client has, or of that user's; on another from a port that takes
    /// privilege, or not.
    #[must_use]
    pub fn supposed(&self, client: IpAddr, uid: u32, is_privileged: bool) -> Trust {
        let port = if is_privileged { RESERVED_PORTS_END - 1 } else { RESERVED_PORTS_END };
        let is_own = client.is_loopback() || UdpSocket::bind((client, 0)).is_ok();
        let owner = match (is_own, is_privileged) {
            (false, _) => Owner::Elsewhere,
            (true, true) => Owner::User(ROOT),
            (true, false) => Owner::User(uid),
        };
        self.judge(owner, port)
    }

    /// What a client's word is worth.
    fn judge(&self, owner: Owner, port: u16) -> Trust {
        let unproven = if self.privileged { Trust::Nobody } else { Trust::Refused };
        let unvouched = Trust::Unvouched { refuse: !self.privileged };
        match owner {
            Owner::User(ROOT) => Trust::Claimed,
            Owner::User(uid) if self.privileged => Trust::Pinned { uid, gid: primary_group(uid) },
            Owner::User(uid) if uid == self.uid => Trust::Claimed,
            Owner::User(_) => unvouched,
            Owner::Unknown | Owner::Unsaid if port < self.reserved_ports_end => Trust::Claimed,
            // How many ports take privilege there is known there only.
            Owner::Elsewhere if port < RESERVED_PORTS_END => Trust::Claimed,
            Owner::Unsaid | Owner::Elsewhere => unvouched,
            // Whatever a rule says: a local user has but to close its socket to be unknown.
            Owner::Unknown => unproven,
        }
    }

    /// Whether the owner of the socket at this port of this machine is who sent.
    fn tells_sender(&self, transport: Transport, port: u16) -> bool {
        match transport {
            Transport::Stream => true,
            Transport::Datagram => port < self.reserved_ports_end,
        }
    }
}

/// Judges the clients of one loop.
#[derive(Debug)]
pub(crate) struct Judge {
    /// None where nothing depends on who asks.
    policy: Option<Policy>,
    /// What asks the kernel; none where it cannot be asked.
    kernel: Option<Kernel>,
    /// Whether addresses are this machine's, and when that was found out.
    own: BTreeMap<IpAddr, (bool, Time)>,
    complaints: Arc<Rate>,
}

/// How long it is taken as known whether an address is this machine's.
const OWN_VALID: Duration = Duration::from_secs(1);

impl Judge {
    /// A judge who shares with others how often complaints are logged.
    pub(crate) fn new(policy: Option<Policy>, complaints: Arc<Rate>) -> Self {
        let kernel = policy.map(|_| Kernel::open()).and_then(|kernel| {
            let unsaid = "this system does not say which local users clients are";
            kernel.inspect_err(|error| tracing::warn!(%error, "{unsaid}")).ok()
        });
        Self { policy, kernel, own: BTreeMap::new(), complaints }
    }

    /// What the word of the client at `from` is worth, which asked at `to`.
    pub(crate) fn trust(
        &mut self,
        transport: Transport,
        from: SocketAddr,
        to: SocketAddr,
        now: Time,
    ) -> Trust {
        let Some(policy) = self.policy else { return Trust::Nobody };
        let own = self.is_own(from.ip(), now);
        let owner = match &mut self.kernel {
            _ if !own => Owner::Elsewhere,
            Some(_) if !policy.tells_sender(transport, from.port()) => Owner::Unknown,
            Some(kernel) => kernel.owner(transport, from, to).map_or(Owner::Unknown, Owner::User),
            None => Owner::Unsaid,
        };
        let trust = policy.judge(owner, from.port());
        // Of others a rule of an export decides, and whoever asks it complains.
        if matches!(trust, Trust::Nobody | Trust::Refused)
            && let Some(held_back) = self.complaints.pass()
        {
            let outcome = if trust == Trust::Nobody { "it is nobody" } else { "it is refused" };
            let what = "a client's word about its user is not believed";
            let advice = "ask over TCP, or from a port below 1024 (option resvport)";
            tracing::warn!(client = %from, held_back, "{what}, {outcome}: {advice}");
        }
        trust
    }

    /// Whether an address is this machine's: then a socket can be bound to it.
    fn is_own(&mut self, address: IpAddr, now: Time) -> bool {
        if address.is_loopback() {
            return true;
        }
        if let Some((own, since)) = self.own.get(&address)
            && now.since(*since) < OWN_VALID
        {
            return *own;
        }
        let own = UdpSocket::bind((address, 0)).is_ok();
        if self.own.len() >= OWN_ADDRESSES_MAX {
            self.own.clear();
        }
        self.own.insert(address, (own, now));
        own
    }
}

/// The group of a user by the machine's own list; users from elsewhere have none.
fn primary_group(uid: u32) -> u32 {
    std::fs::read_to_string("/etc/passwd")
        .ok()
        .and_then(|list| group_in(&list, uid))
        .unwrap_or(NOBODY)
}

fn group_in(list: &str, uid: u32) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next()?.parse() == Ok(uid)).then(|| fields.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests;
