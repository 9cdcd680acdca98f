//! The identity of a client, as far as this machine can determine it.
//!
//! An AUTH_SYS credential is an unproven claim of its sender. A server that acts as its users must
//! not trust the claims of all programs on its machine, or each local user could act as any other.
//! The server therefore queries the kernel for the owner of the sender's socket. For a sender on
//! another machine the kernel has no answer, and the traditional rule applies: a port below 1024
//! requires privilege on that machine, so its credential is trusted.
//!
//! For a datagram the kernel reports the owner of the socket that receives at the source address,
//! which may differ from the sender: a program can bind a port under one address of this machine
//! and send from another address, at which another program owns the same port. For datagrams the
//! kernel's report therefore counts only if the port requires privilege.

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

/// Which AUTH_SYS credentials a server trusts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// True if the server can act as its users.
    pub privileged: bool,
    /// The user that runs the server.
    pub uid: u32,
    /// The first local port that requires no privilege.
    pub reserved_ports_end: u16,
}

/// The owner of a client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// A user of this machine.
    User(u32),
    /// An unknown process on this machine or behind one of this machine's addresses (in a virtual
    /// machine or a container). The kernel has no reliable owner, because the socket is closed,
    /// belongs to another kernel, or sent a datagram.
    Unknown,
    /// A process on this machine, if the kernel of this machine does not support queries for socket
    /// owners.
    Unsaid,
    /// A process on another machine.
    Elsewhere,
}

const ROOT: u32 = 0;

/// The first port that requires no privilege on most machines, by convention.
const RESERVED_PORTS_END: u16 = 1024;

/// Returns the first port of this machine that requires no privilege, but at most the conventional
/// value.
#[must_use]
pub fn reserved_ports_end() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start")
        .ok()
        .and_then(|port| port.trim().parse().ok())
        .map_or(RESERVED_PORTS_END, |port: u16| port.min(RESERVED_PORTS_END))
}

impl Policy {
    /// Returns the trust that a client over TCP would receive: on this machine from a socket of
    /// root, like the kernel's client, or of the given user; on another machine from a privileged
    /// port or not.
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

    /// Returns the trust in a client's credential.
    fn judge(&self, owner: Owner, port: u16) -> Trust {
        let unproven = if self.privileged { Trust::Nobody } else { Trust::Refused };
        let unvouched = Trust::Unvouched { refuse: !self.privileged };
        match owner {
            Owner::User(ROOT) => Trust::Claimed,
            Owner::User(uid) if self.privileged => Trust::Pinned { uid, gid: primary_group(uid) },
            Owner::User(uid) if uid == self.uid => Trust::Claimed,
            Owner::User(_) => unvouched,
            Owner::Unknown | Owner::Unsaid if port < self.reserved_ports_end => Trust::Claimed,
            // The server does not know how many ports of the other machine require privilege, so it
            // uses the conventional limit.
            Owner::Elsewhere if port < RESERVED_PORTS_END => Trust::Claimed,
            Owner::Unsaid | Owner::Elsewhere => unvouched,
            // Even an export rule with `insecure` does not apply here, because any local user can
            // become unknown by closing the socket.
            Owner::Unknown => unproven,
        }
    }

    /// Returns true if the owner of the socket at this local port is the sender.
    fn tells_sender(&self, transport: Transport, port: u16) -> bool {
        match transport {
            Transport::Stream => true,
            Transport::Datagram => port < self.reserved_ports_end,
        }
    }
}

/// Determines the trust in the clients of one loop.
#[derive(Debug)]
pub(crate) struct Judge {
    /// The policy; `None` if no request depends on the caller's identity.
    policy: Option<Policy>,
    /// The query interface of the kernel; `None` if the kernel cannot answer.
    kernel: Option<Kernel>,
    /// For each checked address, true if the address is local, and the time of the check.
    own: BTreeMap<IpAddr, (bool, Time)>,
    complaints: Arc<Rate>,
}

/// The time for which the result of such a check is valid.
const OWN_VALID: Duration = Duration::from_secs(1);

impl Judge {
    /// Creates a judge that shares the rate limit of warnings with the judges of other loops.
    pub(crate) fn new(policy: Option<Policy>, complaints: Arc<Rate>) -> Self {
        let kernel = policy.map(|_| Kernel::open()).and_then(|kernel| {
            let unsaid = "this system does not report the local users of clients";
            kernel.inspect_err(|error| tracing::warn!(%error, "{unsaid}")).ok()
        });
        Self { policy, kernel, own: BTreeMap::new(), complaints }
    }

    /// Returns the trust in the client at `from`, which sent its request to `to`.
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
        // Only these two results are final. For an unvouched client an export rule decides, and the
        // service logs its own warning.
        if matches!(trust, Trust::Nobody | Trust::Refused)
            && let Some(held_back) = self.complaints.pass()
        {
            let outcome = if trust == Trust::Nobody { "treated as anonymous" } else { "refused" };
            let what = "the AUTH_SYS credential of a client is not trusted";
            let advice = "use TCP, or a port below 1024 (option resvport)";
            tracing::warn!(client = %from, held_back, "{what}, {outcome}: {advice}");
        }
        trust
    }

    /// Returns true if an address is local, which means that a socket of this machine can be bound
    /// to the address.
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

/// Returns the main group of a user from the local password file, without network name services.
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
