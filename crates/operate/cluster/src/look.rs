//! The state of one iod, as a command sees it.

use leasehold_fs::FsError;
use leasehold_store_striped::{Files as _, Mark, probe};

use crate::{Cluster, IodAddress, Part, words_of};

/// The state of the iod at one address.
pub struct Found {
    /// The address.
    pub address: String,
    /// `iod` for an iod of a volume, `new` for an empty directory, `read-only` for an iod that
    /// rejects changes, `other` for another directory, `refuses` for a server that rejects this
    /// machine, `away` for an unreachable one.
    pub what: &'static str,
    /// The reason for the state.
    pub why: Option<String>,
    /// The mark in the directory, with volume and number.
    pub mark: Option<Mark>,
    /// The free space for stripes, if known.
    pub free_bytes: Option<u64>,
}

impl Found {
    /// Returns true if a metaserver can use the iod.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.what == "iod" || self.what == "new"
    }
}

/// Queries the iod at an address.
pub async fn look(cluster: &Cluster, address: &IodAddress) -> Found {
    let none = Found {
        address: address.to_string(),
        what: "away",
        why: None,
        mark: None,
        free_bytes: None,
    };
    let files = match cluster.find(address).await {
        Err(refused) => return Found { what: "refuses", why: Some(refused.to_string()), ..none },
        Ok(Part { files: None, .. }) => return none,
        Ok(Part { files: Some(files), .. }) => files,
    };
    let free_bytes = files.space().await.ok().map(|room| room.space.available_bytes);
    match Mark::of(&files).await {
        Ok(None) => Found { what: "new", free_bytes, ..none },
        // An iod rejects the change that the probe requests from all callers but its metaserver.
        // Such an error says nothing about the disk, so only the errors below count as faults.
        Ok(Some(mark)) => match probe(&files).await {
            Err(error @ FsError::ReadOnly) => {
                let why = Some(format!("rejects changes: {}", words_of(error)));
                Found { what: "read-only", why, mark: Some(mark), free_bytes, ..none }
            }
            Ok(()) | Err(_) => Found { what: "iod", mark: Some(mark), free_bytes, ..none },
        },
        Err(_) => {
            Found { what: "other", why: Some("not a directory for stripes".to_owned()), ..none }
        }
    }
}
