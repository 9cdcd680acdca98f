//! How the volumes of a metaserver are, as `leasehold cluster status --json` says it.

use serde::{Deserialize, Serialize};

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeView {
    /// What clients mount.
    pub name: String,
    /// Its number.
    pub volume: String,
    /// How many iods have each stripe.
    pub copies: u16,
    /// All that it has or had.
    pub iods: Vec<IodView>,
    /// All of them, where there are several.
    #[serde(default)]
    pub metaservers: Vec<PeerView>,
    /// `lazy` or `strict`, where there are several.
    #[serde(default)]
    pub consistency: Option<String>,
    /// Files that are known not to lie where they should, or to lack a copy.
    pub misplaced: usize,
    /// Those of them that are known to lack a copy.
    #[serde(default)]
    pub behind: usize,
    /// Whether all lie where they should.
    pub settled: bool,
    /// Objects of removed files that wait for their iod.
    #[serde(default)]
    pub waiting_removals: usize,
    /// Objects that no file has, as the last search found them; none before a search.
    #[serde(default)]
    pub orphans: Option<u64>,
    /// The bytes of these objects.
    #[serde(default)]
    pub orphan_bytes: Option<u64>,
    /// True if there may be objects of no file that no search has found yet.
    #[serde(default)]
    pub orphans_possible: bool,
}

/// An iod of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IodView {
    /// Its number.
    pub number: u16,
    /// Where it is: an address, or a directory.
    pub label: String,
    /// `used`, `drained` or `gone`.
    pub what: String,
    /// Whether it does not answer.
    pub away: bool,
    /// The room that it has left, where it says so.
    pub free_bytes: Option<u64>,
    /// The reason for which the iod answers and refuses changes; none where it takes them.
    #[serde(default)]
    pub refuses: Option<String>,
    /// True if the iod is older than its metaserver knows it, as after a restore from a backup: its
    /// data is not used.
    #[serde(default)]
    pub older: bool,
    /// The files whose only good copy lies on the older iod, as the last walk found them.
    #[serde(default)]
    pub older_files: Option<u64>,
    /// Objects of removed files that the iod is still to remove.
    #[serde(default)]
    pub waiting_removals: usize,
}

/// One of several metaservers of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerView {
    /// Its number.
    pub number: u32,
    /// Where it is.
    pub address: String,
    /// Whether it is the one that says this.
    pub this: bool,
    /// Whether it does not answer, or serves nobody.
    pub away: bool,
    /// How much of its time it had something to do lately; none of one that is away, or has just
    /// started.
    pub busy_tenths: Option<u32>,
    /// Its open connections; none of one that is away, or has just started.
    pub connections: Option<u32>,
}
