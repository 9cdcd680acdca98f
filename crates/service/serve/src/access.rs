//! Access control of exports: the rules for clients, squashing and id maps.
//!
//! Criteria in order of weight: no caller gets more access than a rule grants; the server and the
//! command `leasehold why` run the same code, whose result depends only on the client, the
//! credential and the rules; a call costs one binary search and no lock.
//!
//! 1. Only the first rule that contains the client's address applies. A client without a rule
//!    cannot see the export: the server does not list or mount it, and its handles are stale.
//! 2. A caller with an untrusted credential becomes the rule's anonymous user.
//! 3. Squashing examines the claimed credential: `all` makes every caller anonymous; `root` makes
//!    user 0 anonymous, and replaces group 0 of all other callers by the anonymous group.
//! 4. The id maps apply to callers that are not squashed. An id outside the ranges of the map is
//!    unchanged.
//! 5. The groups come from the credential, or from this machine's own list for the user that rule 4
//!    has determined. With the machine's list, the groups of the credential, including the main
//!    group, do not count.

mod identity;
mod network;
mod places;
#[cfg(test)]
mod tests;

use core::net::IpAddr;

use leasehold_fs::Caller;

pub use self::identity::{Because, Decided, Groups, IdMap, Identity, Range, Squash, User};
pub use self::network::{BadNetwork, Network};
use self::places::Places;
use crate::Trust;

/// The rules of an export.
pub struct Access {
    rules: Vec<Rule>,
    places: Places,
}

/// The rights that a rule grants to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The clients to which the rule applies, each with the text of the configuration and with its
    /// networks.
    pub clients: Vec<Clients>,
    /// True if the server refuses changes by these clients.
    pub read_only: bool,
    /// True if the rule trusts credentials that nothing verifies, for example credentials from an
    /// unprivileged port.
    pub insecure: bool,
    /// The mapping of these clients' credentials.
    pub identity: Identity,
}

/// One entry in a rule's list of clients, as the administrator writes it in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// An address, a network, the name of a host, or `*`.
    pub text: String,
    /// The addresses of these clients; empty for a host name that does not resolve now.
    pub networks: Vec<Network>,
}

impl Clients {
    /// Returns the entry `*`, which means all clients.
    #[must_use]
    pub fn everybody() -> Self {
        Self { text: "*".to_owned(), networks: Network::EVERYWHERE.to_vec() }
    }
}

/// The error if a rule refuses the caller's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Access {
    /// Creates the access rules of an export. The first rule that contains a client's address
    /// applies to the client.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let places = Places::new(&rules);
        Self { rules, places }
    }

    /// Returns rules that grant full access to all clients under their claimed credentials.
    #[must_use]
    pub fn everybody(insecure: bool) -> Self {
        Self::new(vec![Rule {
            clients: vec![Clients::everybody()],
            read_only: false,
            insecure,
            identity: Identity::default(),
        }])
    }

    /// Returns the rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns true if the rule with the index `place` applies to any client. A rule applies to no
    /// client if earlier rules cover all its addresses.
    #[must_use]
    pub fn counts(&self, place: usize) -> bool {
        self.places.have(place)
    }

    /// Returns the index of the rule that applies to a client.
    #[must_use]
    pub fn place(&self, client: IpAddr) -> Option<usize> {
        self.places.find(client)
    }

    /// Returns true if a rule applies to a client.
    #[must_use]
    pub fn has(&self, client: IpAddr) -> bool {
        self.place(client).is_some()
    }

    /// Returns the rule that applies to a client.
    #[must_use]
    pub fn rule(&self, client: IpAddr) -> Option<&Rule> {
        self.rules.get(self.place(client)?)
    }
}

impl Rule {
    /// Returns the identity of a caller. `claimed` is its claimed credential (None without one),
    /// and `trust` the trust in it.
    ///
    /// # Errors
    /// [`Refused`] if the rule refuses the credential.
    pub fn decide(&self, claimed: Option<&Caller>, trust: Trust) -> Result<Decided, Refused> {
        match trust {
            Trust::Claimed => Ok(self.identity.of(claimed)),
            Trust::Pinned { uid, gid } => Ok(self.identity.of_local(uid, gid)),
            Trust::Nobody => Ok(self.identity.anonymous(Because::NotBelieved)),
            Trust::Refused => Err(Refused),
            Trust::Unvouched { .. } if self.insecure => Ok(self.identity.of(claimed)),
            Trust::Unvouched { refuse: true } => Err(Refused),
            Trust::Unvouched { refuse: false } => Ok(self.identity.anonymous(Because::NotBelieved)),
        }
    }
}
