//! The state of the volumes of a metaserver, as shown by `leasehold cluster status --json`.

use serde::{Deserialize, Serialize};

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeView {
    /// The name that clients mount.
    pub name: String,
    /// Its number.
    pub volume: String,
    /// The number of iods that store each stripe.
    pub copies: u16,
    /// All present and former iods.
    pub iods: Vec<IodView>,
    /// All metaservers, if there are several.
    #[serde(default)]
    pub metaservers: Vec<PeerView>,
    /// `lazy` or `strict`, if there are several metaservers.
    #[serde(default)]
    pub consistency: Option<String>,
    /// Files that are known to lack their intended layout or a copy.
    pub misplaced: usize,
    /// Misplaced files that are known to lack a copy.
    #[serde(default)]
    pub behind: usize,
    /// True if all files have their intended layout.
    pub settled: bool,
    /// Objects of removed files that await removal by their iod.
    #[serde(default)]
    pub waiting_removals: usize,
    /// Objects that belong to no file, as found by the last search; `None` before a search.
    #[serde(default)]
    pub orphans: Option<u64>,
    /// The bytes of these objects.
    #[serde(default)]
    pub orphan_bytes: Option<u64>,
    /// True if objects may belong to no file that no search has found yet.
    #[serde(default)]
    pub orphans_possible: bool,
}

/// An iod of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IodView {
    /// Its number.
    pub number: u16,
    /// Its place: an address, or a directory.
    pub label: String,
    /// `used`, `drained` or `gone`.
    pub what: String,
    /// True if it is unreachable.
    pub away: bool,
    /// Its free space, if it reports it.
    pub free_bytes: Option<u64>,
    /// The reason why the iod rejects changes; `None` if it accepts them.
    #[serde(default)]
    pub refuses: Option<String>,
    /// True if the iod was rolled back, as after a restore from a backup: its data is rejected.
    #[serde(default)]
    pub older: bool,
    /// The number of files whose only good copy lies on the rolled-back iod, as found by the last
    /// walk.
    #[serde(default)]
    pub older_files: Option<u64>,
    /// Objects of removed files that the iod has yet to remove.
    #[serde(default)]
    pub waiting_removals: usize,
}

/// One of several metaservers of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerView {
    /// Its number.
    pub number: u32,
    /// Its address.
    pub address: String,
    /// True for the metaserver that reports.
    pub this: bool,
    /// True if it is unreachable, or does not serve.
    pub away: bool,
    /// The share of its time in which it was busy recently; `None` if it is unreachable or has just
    /// started.
    pub busy_tenths: Option<u32>,
    /// Its open connections; `None` if it is unreachable or has just started.
    pub connections: Option<u32>,
}
