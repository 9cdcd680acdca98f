//! The seeds of worlds that found faults, as recorded in `seeds.toml`.

use serde::Deserialize;

/// A seed whose world found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The seed.
    pub seed: u64,
    /// A description of the fault.
    pub found: String,
    /// The mutant that plants the fault in the corrected code, so that a test can check that the
    /// seed still finds it.
    pub mutant: Option<crate::Mutant>,
}

/// A seed whose world of leases found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundLease {
    /// The seed.
    pub seed: u64,
    /// A description of the fault.
    pub found: String,
    /// The mutant that plants the fault in the corrected code, so that a test can check that the
    /// seed still finds it.
    pub mutant: Option<crate::LeaseMutant>,
}

/// A seed whose world of metaservers found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundReplica {
    /// The seed.
    pub seed: u64,
    /// A description of the fault.
    pub found: String,
    /// The mutant that plants the fault in the corrected code, so that a test can check that the
    /// seed still finds it.
    pub mutant: Option<crate::ReplicaMutant>,
}

/// A seed whose world of delegable leases (covers) found a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FoundCover {
    /// The seed.
    pub seed: u64,
    /// A description of the fault.
    pub found: String,
    /// The mutant that plants the fault in the corrected code, so that a test can check that the
    /// seed still finds it.
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

/// Returns every seed in `seeds.toml` for a world of one server.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found() -> Vec<Found> {
    seeds().world
}

/// Returns every seed in `seeds.toml` for a world of leases.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_leases() -> Vec<FoundLease> {
    seeds().leases
}

/// Returns every seed in `seeds.toml` for a world of metaservers.
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_replica() -> Vec<FoundReplica> {
    seeds().replica
}

/// Returns every seed in `seeds.toml` for a world of delegable leases (covers).
///
/// # Panics
/// Panics if the file is malformed.
#[must_use]
pub fn found_covers() -> Vec<FoundCover> {
    seeds().covers
}
