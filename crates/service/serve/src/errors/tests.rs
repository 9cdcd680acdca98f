use super::*;
use crate::table::{PROGRAMS, Row};

fn rows() -> impl Iterator<Item = (u32, u32, &'static Row)> {
    PROGRAMS.iter().flat_map(|program| {
        program.versions.iter().flat_map(|version| {
            version.rows.iter().map(|row| (program.number, version.number, row))
        })
    })
}

#[test]
fn every_procedure_maps_every_error_to_a_permitted_one() {
    for (program, version, row) in rows() {
        for &error in FsError::ALL {
            let word = row.errors.word(error);
            let place = format!("{program} {version} {} {error}", row.name);
            if row.errors.contains(error) {
                assert_eq!(word, error, "{place}");
            } else if row.errors == Errors::NONE {
                assert_eq!(word, FsError::ServerFault, "{place}");
            } else {
                assert!(row.errors.contains(word), "{place}: {word}");
            }
        }
    }
}

#[test]
fn only_hard_errors_replace_hard_errors() {
    let hard = [FsError::Io, FsError::ServerFault];
    for (_, _, row) in rows().filter(|(_, _, row)| row.errors != Errors::NONE) {
        for error in hard {
            assert!(hard.contains(&row.errors.word(error)), "{} {error}", row.name);
        }
        for error in [FsError::Stale, FsError::Delay] {
            let kept = row.errors.word(error) == error || row.name == "MNT";
            assert!(kept, "{} {error}", row.name);
        }
    }
}

#[test]
fn errors_beyond_the_standard_are_listed() {
    let beyond = |(_, version, row): (u32, u32, &'static Row)| {
        let beyond = move |error: &&FsError| row.errors.goes_beyond_with(**error);
        FsError::ALL.iter().filter(beyond).map(move |&error| (version, row.name, error))
    };
    // The programs with leases have the errors of version 3, so the table contains the standard
    // programs only.
    let with_leases = [leasehold_wire::lease::PROGRAM, leasehold_wire::nqnfs::PROGRAM];
    let standard = rows().filter(|(program, ..)| !with_leases.contains(program));
    let beyond: Vec<_> = standard.flat_map(beyond).collect();
    assert_eq!(
        beyond,
        [
            (2, "READ", FsError::FileTooBig),
            (3, "REMOVE", FsError::IsDirectory),
            (3, "COMMIT", FsError::Invalid),
        ],
        "docs/design/0006-statuses.md says why"
    );
}
