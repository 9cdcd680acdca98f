//! Runs worlds of one server, with and without mutants.

use leasehold_sim::{Mutant, Options, found, run};

#[test]
fn a_seed_fixes_everything() {
    let runs = [1, 1, 2].map(|seed| run(Options::of_seed(seed)).0);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
}

#[test]
fn every_promise_holds() {
    let (mut operations, mut crashes, mut kills) = (0, 0, 0);
    for seed in 0..200 {
        let (report, broken) = run(Options::of_seed(seed));
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        operations += report.operations;
        crashes += report.crashes;
        kills += report.kills;
    }
    // A world without events would keep every promise, so check that enough happened.
    assert!(
        operations > 50_000 && crashes > 200 && kills > 200,
        "{operations} operations, {crashes} crashes, {kills} kills"
    );
}

#[test]
fn every_mutant_is_found() {
    for mutant in Mutant::ALL {
        // The seed that found this mutant before is the most likely to find it again, so try it
        // first.
        let before = found().into_iter().filter(|world| world.mutant == Some(*mutant));
        let seeds = before.map(|world| world.seed).chain(0..500);
        let is_found = seeds.into_iter().any(|seed| {
            let options = Options { mutant: Some(*mutant), ..Options::of_seed(seed) };
            run(options).1.iter().any(|broken| broken.promise == mutant.promise())
        });
        assert!(is_found, "{mutant:?} breaks {}", mutant.promise());
    }
}

#[test]
fn seeds_of_corrected_faults_pass() {
    for world in found() {
        let sound = Options::of_seed(world.seed);
        let (_, broken) = run(sound);
        assert!(broken.is_empty(), "seed {}: {}: {broken:#?}", world.seed, world.found);
        if world.mutant.is_some() {
            let (_, broken) = run(Options { mutant: world.mutant, ..sound });
            assert!(!broken.is_empty(), "seed {} no longer finds: {}", world.seed, world.found);
        }
    }
}
