//! Runs worlds of leases, with and without mutants. `figures leases` reads the printed lines.
#![allow(clippy::print_stdout, reason = "the lines report measurements")]

use leasehold_sim::{LeaseMutant, LeaseOptions, found_leases, run_leases};

const fn sound(seed: u64) -> LeaseOptions {
    LeaseOptions { seed, mutant: None, trace: false }
}

#[test]
fn a_seed_fixes_everything() {
    let runs = [1, 1, 2].map(|seed| run_leases(sound(seed)).0);
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
}

#[test]
fn every_promise_holds() {
    let (mut operations, mut crashes, mut kills) = (0, 0, 0);
    const WORLDS: u64 = 2000;
    for seed in 0..WORLDS {
        let (report, broken) = run_leases(sound(seed));
        assert!(broken.is_empty(), "seed {seed}: {broken:#?}");
        operations += report.operations;
        crashes += report.crashes;
        kills += report.kills;
    }
    // A world without events would keep every promise, so check that enough happened.
    assert!(
        operations > 400_000 && crashes > 1500 && kills > 800,
        "{operations} operations, {crashes} crashes, {kills} kills"
    );
    println!("worlds in which every promise holds: {WORLDS}");
}

#[test]
fn every_mutant_is_found() {
    let mut count = 0;
    for mutant in LeaseMutant::ALL {
        // The seed that found this mutant before is the most likely to find it again, so try it
        // first.
        let before = found_leases().into_iter().filter(|world| world.mutant == Some(*mutant));
        let mut seeds = before.map(|world| world.seed).chain(0..1000);
        let is_found = |seed: &u64| {
            let (_, broken) = run_leases(LeaseOptions { mutant: Some(*mutant), ..sound(*seed) });
            broken.iter().any(|broken| mutant.promises().contains(&broken.promise))
        };
        let seed = seeds.find(is_found);
        assert!(seed.is_some(), "{mutant:?} breaks {:?}", mutant.promises());
        count += 1;
    }
    println!("mutants found: {count} of {}", LeaseMutant::ALL.len());
}

#[test]
fn seeds_of_corrected_faults_pass() {
    let mut not_found = Vec::new();
    for world in found_leases() {
        let (_, broken) = run_leases(sound(world.seed));
        assert!(broken.is_empty(), "seed {}: {}: {broken:#?}", world.seed, world.found);
        if world.mutant.is_some() {
            let options = LeaseOptions { mutant: world.mutant, ..sound(world.seed) };
            let (_, broken) = run_leases(options);
            if broken.is_empty() {
                let finds =
                    |seed: &u64| !run_leases(LeaseOptions { seed: *seed, ..options }).1.is_empty();
                let another = (0..1000).find(finds);
                not_found.push((world.seed, world.mutant, world.found, another));
            }
        }
    }
    assert!(not_found.is_empty(), "seeds no longer find their faults: {not_found:#?}");
}
