//! The table is complete, and every decoder stands whatever it is given.

use super::*;

const LISTING: &str = include_str!("../../../../spec/programs.x");

/// The procedures of a listing as (program, version, number, name): the words of numbers come
/// after what they number, so each level waits for its own.
fn listed(listing: &'static str) -> Vec<(u32, u32, u32, &'static str)> {
    let (mut listed, mut program_start, mut version_start) = (Vec::new(), 0, 0);
    for line in listing.lines().map(str::trim) {
        let Some((left, number)) = line.strip_suffix(';').and_then(|l| l.split_once(" = ")) else {
            continue;
        };
        let number = number.parse().expect("a number");
        if let Some(name) = left.strip_prefix("void ").and_then(|l| l.strip_suffix("(void)")) {
            let (_, name) = name.rsplit_once('_').expect("a prefix");
            listed.push((0, 0, number, name));
        } else if listed[version_start..].is_empty() {
            listed[program_start..].iter_mut().for_each(|(program, ..)| *program = number);
            program_start = listed.len();
        } else {
            listed[version_start..].iter_mut().for_each(|(_, version, ..)| *version = number);
            version_start = listed.len();
        }
    }
    listed
}

#[test]
fn every_procedure_of_the_listing_is_in_the_table() {
    let table: Vec<_> =
        PROCEDURES.iter().map(|p| (p.program, p.version, p.number, p.name)).collect();
    assert_eq!(table, listed(LISTING));
    assert_eq!(table.len(), 6 + 9 + 13 + 18 + 22 + 7 + 8 + 6);
}

#[test]
fn words_of_zero_and_one_are_read_as_much() {
    let mut read = 0;
    for length in 0..40 {
        for word in [0, 1] {
            let bytes = Bytes::from([0, 0, 0, word].repeat(length));
            decode_every(&bytes);
            read += PROCEDURES.iter().filter(|p| (p.reply)(&bytes).is_ok()).count();
        }
    }
    assert!(read > 100, "{read}");
}
