//! The tables of the reference, written out of the code: with `REFERENCE=rewrite` in the
//! environment they are written anew, else compared.

#![expect(clippy::disallowed_methods, reason = "a test reads and writes documents")]

use core::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use leasehold_fs::FsError;

use crate::table::{Lease, PROGRAMS};
use crate::{nfs2, nfs3};

fn compare(document: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference").join(document);
    if env::var_os("REFERENCE").is_some_and(|mode| mode == "rewrite") {
        fs::write(path, table).expect("the document can be written");
        return;
    }
    let written = fs::read_to_string(&path).expect("the document is there");
    assert!(written == table, "{document} is not what the code says: REFERENCE=rewrite mends it");
}

#[test]
fn errors() {
    let mut table = String::from(
        "# Errors\n\n\
         What each error of a file operation becomes in each protocol version. Version 2 has no \
         word for some; `Later` then goes unanswered, and the client asks again by itself.\n\n\
         | error | version 3 | number | version 2 | number | worth asking again |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for &error in FsError::ALL {
        let (three, two) = (nfs3::status(error), nfs2::status(error));
        let (three_number, two_number) = (three as u32, two as u32);
        let retry = error.retry();
        writeln!(
            table,
            "| {error} | {three:?} | {three_number} | {two:?} | {two_number} | {retry:?} |"
        )
        .expect("a string takes all");
    }
    compare("errors.md", &table);
}

#[test]
fn procedures() {
    let mut table = String::from(
        "# Procedures\n\n\
         Every procedure that is served. Lease: what it needs, or takes for as long as it runs. \
         Kept: whether its reply is kept for a caller that asks again. Later: whether its caller \
         may be told to ask again later (version 3 only). Attributes: which of them, from before \
         and after, are part of its reply.\n",
    );
    for program in PROGRAMS {
        for version in program.versions {
            write!(
                table,
                "\n## {} version {}\n\n\
                 | number | procedure | lease | kept | later | attributes | in version 2 |\n\
                 | --- | --- | --- | --- | --- | --- | --- |\n",
                program.name, version.number
            )
            .expect("a string takes all");
            for (number, row) in version.rows.iter().enumerate() {
                let lease =
                    if row.lease == Lease::Without { "" } else { &format!("{:?}", row.lease) };
                let counterpart = row.counterpart.map(|number| number.to_string());
                writeln!(
                    table,
                    "| {number} | {} | {lease} | {:?} | {} | {:?} | {} |",
                    row.name,
                    row.keep,
                    if row.later { "yes" } else { "" },
                    row.around,
                    counterpart.unwrap_or_default(),
                )
                .expect("a string takes all");
            }
        }
    }
    compare("procedures.md", &table);
}
