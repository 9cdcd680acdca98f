//! The generated tables of the reference documents. With `REFERENCE=rewrite` in the environment the
//! test writes the tables into the documents; otherwise the test compares the documents with the
//! tables.

#![expect(clippy::disallowed_methods, reason = "a test reads and writes documents")]

use core::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use leasehold_fs::FsError;

use crate::errors::nearest;
use crate::table::{Later, Lease, PROGRAMS, Row, Use};
use crate::{nfs2, nfs3};

pub(crate) fn compare(document: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference").join(document);
    if env::var_os("REFERENCE").is_some_and(|mode| mode == "rewrite") {
        fs::write(path, table).expect("the document can be written");
        return;
    }
    let written = fs::read_to_string(&path).expect("the document is there");
    assert!(
        written == table,
        "{document} differs from the code: run the test with REFERENCE=rewrite to update it"
    );
}

#[test]
fn errors() {
    let mut table = String::from(
        "# Errors\n\n\
         The statuses of each error of a file operation in each protocol version. Version 2 lacks \
         some statuses; for `Later` the server then sends no reply, and the client retransmits.\n\n\
         A procedure returns only errors that its standard lists for it (`procedures.md`). In \
         place of any other error it returns the first permitted error of the column \"else\", \
         and otherwise an I/O error or a server fault.\n\n\
         | error | version 3 | number | version 2 | number | retry | else |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for &error in FsError::ALL {
        let (three, two) = (nfs3::status(error), nfs2::status(error));
        let (three_number, two_number) = (three as u32, two as u32);
        let retry = error.retry();
        let nearest = words(nearest(error).iter().map(ToString::to_string));
        writeln!(
            table,
            "| {error} | {three:?} | {three_number} | {two:?} | {two_number} | {retry:?} | {nearest} |"
        )
        .expect("a string takes all");
    }
    compare("errors.md", &table);
}

fn words(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the errors of a procedure; the retry status has a column of its own.
fn errors_of(row: &Row) -> String {
    let said = |error: &&FsError| row.errors.contains(**error) && **error != FsError::Delay;
    words(FsError::ALL.iter().filter(said).map(|&error| {
        if row.errors.goes_beyond_with(error) { format!("**{error}**") } else { error.to_string() }
    }))
}

#[test]
fn procedures() {
    let mut table = String::from(
        "# Procedures\n\n\
         All procedures of the server. Lease: the lease that the procedure needs, or takes while \
         it runs. Kept: the caching of its reply in the duplicate request cache. Later: the \
         outcome if it would have to wait for too long: a status that requests a retry, or no \
         reply if the version has no such status. Attributes: the attributes before and after \
         that its reply contains. By a client: the use of the procedure by a client at an iod, \
         which accepts all other procedures from metaservers only. Errors: the errors that it may \
         return (`errors.md`); bold face marks errors that its standard does not list.\n",
    );
    for program in PROGRAMS {
        for version in program.versions {
            write!(
                table,
                "\n## {} version {}\n\n\
                 | number | procedure | lease | kept | later | attributes | in version 2 | by a client | errors |\n\
                 | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
                program.name, version.number
            )
            .expect("a string takes all");
            for (number, row) in version.rows.iter().enumerate() {
                let later = match row.later() {
                    Later::Never => "",
                    Later::Unanswered => "unanswered",
                    Later::Said => "said",
                };
                let lease =
                    if row.lease == Lease::Without { "" } else { &format!("{:?}", row.lease) };
                let by_client = match row.by_client {
                    Use::Never | Use::Refused => "",
                    Use::Asks => "asks",
                    Use::Reads => "reads",
                    Use::Writes => "writes",
                };
                let counterpart = row.counterpart.map(|number| number.to_string());
                writeln!(
                    table,
                    "| {number} | {} | {lease} | {:?} | {later} | {:?} | {} | {by_client} | {} |",
                    row.name,
                    row.keep,
                    row.around,
                    counterpart.unwrap_or_default(),
                    errors_of(row),
                )
                .expect("a string takes all");
            }
        }
    }
    compare("procedures.md", &table);
}
