//! Runs worlds of metaservers whose clients hold leases, with and without mutants.

use leasehold_sim::{CoverMutant, CoverOptions, found_covers, run_covers};

const fn sound(seed: u64) -> CoverOptions {
    CoverOptions { seed, mutant: None, trace: false }
}

#[test]
fn a_seed_fixes_everything() {
    let runs = [1, 1, 2].map(|seed| run_covers(sound(seed)).0);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
}

#[test]
fn no_client_sees_old_data_or_writes_data_that_another_caches() {
    let (mut operations, mut crashes) = (0, 0);
    for seed in 0..WORLDS {
        let (report, broken) = run_covers(sound(seed));
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        operations += report.operations;
        crashes += report.crashes;
    }
    // A world without events would keep every promise, so check that enough happened.
    assert!(operations > 50_000 && crashes > 200, "{operations} operations, {crashes} crashes");
}

/// The number of worlds; the run takes some seconds.
const WORLDS: u64 = 300;

#[test]
fn every_mutant_is_found() {
    for mutant in CoverMutant::ALL {
        // The seed that found this mutant before is the most likely to find it again, so try it
        // first.
        let before = found_covers().into_iter().filter(|world| world.mutant == Some(*mutant));
        let mut seeds = before.map(|world| world.seed).chain(0..1000);
        let is_found = |seed: &u64| {
            let (_, broken) = run_covers(CoverOptions { mutant: Some(*mutant), ..sound(*seed) });
            broken.iter().any(|broken| mutant.promises().contains(&broken.promise))
        };
        let seed = seeds.find(is_found);
        assert!(seed.is_some(), "{mutant:?} breaks {:?}", mutant.promises());
    }
}

#[test]
fn seeds_of_corrected_faults_pass() {
    for world in found_covers() {
        let (_, broken) = run_covers(sound(world.seed));
        assert!(broken.is_empty(), "seed {}: {}: {broken:#?}", world.seed, world.found);
        if world.mutant.is_some() {
            let options = CoverOptions { mutant: world.mutant, ..sound(world.seed) };
            let (_, broken) = run_covers(options);
            assert!(!broken.is_empty(), "seed {} no longer finds: {}", world.seed, world.found);
        }
    }
}
