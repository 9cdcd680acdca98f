//! Seeds of worlds in which something was found.

use serde::Deserialize;

/// A seed that found something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: String,
    /// The fault to plant where it is to be found again.
    pub mutant: Option<crate::Mutant>,
}

/// A seed of a world of leases that found something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundLease {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: String,
    /// The fault to plant where it is to be found again.
    pub mutant: Option<crate::LeaseMutant>,
}

/// A seed of a world of metaservers that found something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundReplica {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: String,
    /// The fault to plant where it is to be found again.
    pub mutant: Option<crate::ReplicaMutant>,
}

/// A seed of a world of covers that found something.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundCover {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: String,
    /// The fault to plant where it is to be found again.
    pub mutant: Option<crate::CoverMutant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seeds {
    world: Vec<Found>,
    leases: Vec<FoundLease>,
    replica: Vec<FoundReplica>,
    covers: Vec<FoundCover>,
}

fn seeds() -> Seeds {
    toml::from_str(include_str!("../seeds.toml")).expect("the file is in form")
}

/// Every seed in `seeds.toml`.
///
/// # Panics
/// When the file is not as it should be.
#[must_use]
pub fn found() -> Vec<Found> {
    seeds().world
}

/// Every seed of a world of leases in `seeds.toml`.
///
/// # Panics
/// When the file is not as it should be.
#[must_use]
pub fn found_leases() -> Vec<FoundLease> {
    seeds().leases
}

/// Every seed of a world of metaservers in `seeds.toml`.
///
/// # Panics
/// When the file is not as it should be.
#[must_use]
pub fn found_replica() -> Vec<FoundReplica> {
    seeds().replica
}

/// Every seed of a world of covers in `seeds.toml`.
///
/// # Panics
/// When the file is not as it should be.
#[must_use]
pub fn found_covers() -> Vec<FoundCover> {
    seeds().covers
}
