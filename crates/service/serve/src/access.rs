//! Who may do what in an export: the one home of rules for clients, squashing and maps.
//!
//! Criteria in order of weight: nobody gets more than a rule gives; what is served and what
//! `leasehold why` explains is the same code, a function of client, credential and rules alone; a
//! call pays a search among numbers and no lock.
//!
//! 1. The first rule that has the client's address counts, and no other. A client that no rule has
//!    finds the export nowhere: it is not listed, not mounted, and its handles are stale.
//! 2. A word that is not believed is nobody's: the caller is the rule's anonymous user.
//! 3. Squashing looks at what the client said: `all` makes everybody anonymous, `root` makes the
//!    user 0 anonymous, and for others the group 0 the anonymous group.
//! 4. Whoever is not squashed goes through the maps; a number that no range has stays as it is.
//! 5. Groups come from the credential, or from this server's own list for the user after rule 4,
//!    in which case those of the credential do not count, the main one included.

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

/// What some clients are granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which clients, each as it was given and what that means.
    pub clients: Vec<Clients>,
    /// Whether their changes are refused.
    pub read_only: bool,
    /// Whether their word counts that their machine does not vouch for: from any port.
    pub insecure: bool,
    /// Who they are here.
    pub identity: Identity,
}

/// Clients as an administrator names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    /// An address, a network, the name of a host, or `*`.
    pub text: String,
    /// Their addresses; none for a name that has none now.
    pub networks: Vec<Network>,
}

impl Clients {
    /// Every client.
    #[must_use]
    pub fn everybody() -> Self {
        Self { text: "*".to_owned(), networks: Network::EVERYWHERE.to_vec() }
    }
}

/// No credential of the caller's is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Access {
    /// Makes rules ready to be asked for each call; the first that has a client counts.
    #[must_use]
    pub fn new(rules: Vec<Rule>) -> Self {
        let places = Places::new(&rules);
        Self { rules, places }
    }

    /// Everybody may all, as whom they are believed to be.
    #[must_use]
    pub fn everybody(insecure: bool) -> Self {
        Self::new(vec![Rule {
            clients: vec![Clients::everybody()],
            read_only: false,
            insecure,
            identity: Identity::default(),
        }])
    }

    /// The rules in their order.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a rule counts for any client, and is not behind others that have all of its own.
    #[must_use]
    pub fn counts(&self, place: usize) -> bool {
        self.places.have(place)
    }

    /// The place of the rule that counts for a client.
    #[must_use]
    pub fn place(&self, client: IpAddr) -> Option<usize> {
        self.places.find(client)
    }

    /// Whether a rule has a client.
    #[must_use]
    pub fn has(&self, client: IpAddr) -> bool {
        self.place(client).is_some()
    }

    /// The rule that counts for a client.
    #[must_use]
    pub fn rule(&self, client: IpAddr) -> Option<&Rule> {
        self.rules.get(self.place(client)?)
    }
}

impl Rule {
    /// Who a caller is: `claimed` is its own word, none where it gave none, and `trust` what that is
    /// worth.
    ///
    /// # Errors
    /// That it is worth nothing.
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
