//! Access control of exports: the rules for clients, squashing and id maps.
//!
//! Criteria in order of weight: no caller gets more than a rule grants; the server and the command
//! `leasehold why` run the same code, a function of client, credential and rules alone; a call
//! costs a search among numbers and no lock.
//!
//! 1. Only the first rule that contains the client's address applies. A client without a rule
//!    cannot see the export: the server does not list or mount it, and its handles are stale.
//! 2. A caller with an untrusted credential becomes the rule's anonymous user.
//! 3. Squashing examines the claimed credential: `all` makes every caller anonymous; `root` makes
//!    user 0 anonymous, and replaces group 0 of others by the anonymous group.
//! 4. The id maps apply to callers that are not squashed; a number without a range stays.
//! 5. Groups come from the credential, or from this server's own list for the user after rule 4; in
//!    the latter case the groups of the credential, including the main one, do not count.

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
    /// The clients, each as the administrator wrote it and with its networks.
    pub clients: Vec<Clients>,
    /// True if the server refuses their changes.
    pub read_only: bool,
    /// True if the rule trusts credentials without verification, for example from any port.
    pub insecure: bool,
    /// The mapping of their credentials.
    pub identity: Identity,
}

/// Clients as an administrator writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// An address, a network, the name of a host, or `*`.
    pub text: String,
    /// Their addresses; empty for a host name that does not resolve now.
    pub networks: Vec<Network>,
}

impl Clients {
    /// Returns a value for all clients.
    #[must_use]
    pub fn everybody() -> Self {
        Self { text: "*".to_owned(), networks: Network::EVERYWHERE.to_vec() }
    }
}

/// The refusal of the caller's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Access {
    /// Prepares rules for lookups; the first rule that contains a client applies.
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

    /// Returns true if the rule applies to any client, because earlier rules do not cover all its
    /// addresses.
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
