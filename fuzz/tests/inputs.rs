//! The targets with inputs that do not come from a fuzzer: starters, inputs that once failed, and
//! random bytes.

use std::fs;
use std::path::Path;

use leasehold_base::random::Random;
use leasehold_fuzz::{TARGETS, calls};
use leasehold_serve::table::PROGRAMS;
use leasehold_wire::every::Procedure;
use leasehold_wire::nfs3;

#[test]
fn starters_pass() {
    for target in TARGETS {
        (target.starters)().iter().for_each(|input| (target.run)(input));
    }
}

/// Without this property a fuzzer would have to find the way to success by itself.
#[test]
fn a_starter_calls_each_procedure_with_success() {
    let done: Vec<_> =
        calls::starters().iter().flat_map(|script| calls::exchange(script)).collect();
    for (program, version, number, name) in rows() {
        let is_it =
            |one: &&Procedure| (one.program, one.version, one.number) == (program, version, number);
        let mut its = done.iter().filter(|done| done.procedure.filter(is_it).is_some());
        // These lists, and the properties of a path, do not begin with a status.
        let has_status =
            !["EXPORT", "EXPORTALL", "PATHCONF"].contains(&name) || program == nfs3::PROGRAM;
        let succeeded = its.any(|done| {
            let results = done.results();
            results
                .is_some_and(|results| !has_status || results.iter().take(4).all(|byte| *byte == 0))
        });
        assert!(succeeded, "{program} version {version} {name}");
    }
}

/// Every procedure of the server.
fn rows() -> impl Iterator<Item = (u32, u32, u32, &'static str)> {
    let versions = PROGRAMS
        .iter()
        .flat_map(|program| program.versions.iter().map(|version| (program.number, version)));
    versions.flat_map(|(program, version)| {
        (0..)
            .zip(version.rows)
            .filter(|(_, row)| row.is_answered)
            .map(move |(number, row)| (program, version.number, number, row.name))
    })
}

#[test]
fn random_inputs_pass() {
    let mut random = Random::from_seed(1);
    for _ in 0..300 {
        let length = random.below(600);
        let input: Vec<u8> = (0..length).map(|_| random.next_u64().to_le_bytes()[0]).collect();
        TARGETS.iter().for_each(|target| (target.run)(&input));
    }
}

#[test]
fn inputs_that_once_failed_pass() {
    for target in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("the folder can be read").path();
            (target.run)(&fs::read(path).expect("the input can be read"));
        }
    }
}
