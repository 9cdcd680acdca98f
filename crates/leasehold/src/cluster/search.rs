//! The option for the order of a search.

use clap::ValueEnum;
use leasehold_store_replica::Order;
use serde::Deserialize;

/// The metaservers to query for a name that this metaserver does not have
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Search {
    /// First the metaserver that owns the directory, then the owner of the object: at most 2
    /// messages
    Constant,
    /// One metaserver after the other, in the order of --peer
    Sequential,
    /// One metaserver after the other, beginning with the one that recently replied fastest
    Nearest,
    /// Two metaservers in parallel; each of them queries half of the remaining ones in the same
    /// manner
    Tree,
}

impl Search {
    /// Returns the order in the form of the metaserver.
    pub(crate) const fn order(self) -> Order {
        match self {
            Self::Constant => Order::Constant,
            Self::Sequential => Order::Sequential,
            Self::Nearest => Order::Nearest,
            Self::Tree => Order::Tree,
        }
    }
}
