//! Seeds of worlds that found faults.

use serde::Deserialize;

/// A seed that found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// The fault.
    pub found: String,
    /// The mutant that plants the fault again, so that the seed must find it.
    pub mutant: Option<crate::Mutant>,
}

/// A seed of a world of leases that found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundLease {
    /// The seed.
    pub seed: u64,
    /// The fault.
    pub found: String,
    /// The mutant that plants the fault again, so that the seed must find it.
    pub mutant: Option<crate::LeaseMutant>,
}

/// A seed of a world of metaservers that found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundReplica {
    /// The seed.
    pub seed: u64,
    /// The fault.
    pub found: String,
    /// The mutant that plants the fault again, so that the seed must find it.
    pub mutant: Option<crate::ReplicaMutant>,
}

/// A seed of a world of delegable leases (covers) that found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundCover {
    /// The seed.
    pub seed: u64,
    /// The fault.
    pub found: String,
    /// The mutant that plants the fault again, so that the seed must find it.
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
    toml::from_str(include_str!("../seeds.toml")).expect("the file is well-formed")
}

/// Every seed in `seeds.toml`.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found() -> Vec<Found> {
    seeds().world
}

/// Every seed of a world of leases in `seeds.toml`.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_leases() -> Vec<FoundLease> {
    seeds().leases
}

/// Every seed of a world of metaservers in `seeds.toml`.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_replica() -> Vec<FoundReplica> {
    seeds().replica
}

/// Every seed of a world of delegable leases (covers) in `seeds.toml`.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_covers() -> Vec<FoundCover> {
    seeds().covers
}
