//! Runs worlds of metaservers, with and without mutants.

use leasehold_sim::{ReplicaMutant, ReplicaOptions, found_replica, run_replica};

const fn sound(seed: u64) -> ReplicaOptions {
    ReplicaOptions { seed, mutant: None, strict: false, trace: false }
}

#[test]
fn a_seed_fixes_everything() {
    let runs = [1, 1, 2].map(|seed| run_replica(sound(seed)).0);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
}

#[test]
fn every_promise_holds() {
    let (mut operations, mut crashes, mut backups, mut replaced) = (0, 0, 0, 0);
    for seed in 0..WORLDS {
        let (report, broken) = run_replica(sound(seed));
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        operations += report.operations;
        crashes += report.crashes;
        backups += report.backups;
        replaced += report.replaced;
    }
    // A world without events would keep every promise, so check that enough happened.
    assert!(
        operations > 100_000 && crashes > 500 && backups > 20 && replaced > 500,
        "{operations} operations, {crashes} crashes, {backups} backups, {replaced} replaced"
    );
}

#[test]
fn no_old_data_is_shown_under_leases() {
    for seed in 0..WORLDS / 2 {
        let (_, broken) = run_replica(ReplicaOptions { strict: true, ..sound(seed) });
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
    }
}

/// The number of worlds; the run takes some seconds.
const WORLDS: u64 = 400;

#[test]
fn every_mutant_is_found() {
    for mutant in ReplicaMutant::ALL {
        // The seed that found this mutant before is the most likely to find it again, so try it
        // first.
        let before = found_replica().into_iter().filter(|world| world.mutant == Some(*mutant));
        let mut seeds = before.map(|world| world.seed).chain(0..1000);
        let is_found = |seed: &u64| {
            let (_, broken) = run_replica(ReplicaOptions { mutant: Some(*mutant), ..sound(*seed) });
            broken.iter().any(|broken| mutant.promises().contains(&broken.promise))
        };
        let seed = seeds.find(is_found);
        assert!(seed.is_some(), "{mutant:?} breaks {:?}", mutant.promises());
    }
}

#[test]
fn seeds_of_corrected_faults_pass() {
    for world in found_replica() {
        let (_, broken) = run_replica(sound(world.seed));
        assert!(broken.is_empty(), "seed {}: {}: {broken:#?}", world.seed, world.found);
        if world.mutant.is_some() {
            let options = ReplicaOptions { mutant: world.mutant, ..sound(world.seed) };
            let (_, broken) = run_replica(options);
            assert!(!broken.is_empty(), "seed {} no longer finds: {}", world.seed, world.found);
        }
    }
}
