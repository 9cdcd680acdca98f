//! The generated tables of the reference documents. With `REFERENCE=rewrite` in the environment the
//! test writes them; otherwise it compares them.

#![expect(clippy::disallowed_methods, reason = "a test reads and writes documents")]

use core::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use leasehold_fs::FsError;

use crate::errors::nearest;
use crate::table::{Later, Lease, PROGRAMS, Row, Use};
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
         A procedure answers only errors that its standard has for it (`procedures.md`). Of others \
         it answers the first that it may of those in the column \"else\", and an I/O error or a \
         server fault where it may none of them.\n\n\
         | error | version 3 | number | version 2 | number | worth asking again | else |\n\
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
    let said = |error: &&FsError| row.errors.contains(**error) && **error != FsError::Later;
    words(FsError::ALL.iter().filter(said).map(|&error| {
        if row.errors.goes_beyond_with(error) { format!("**{error}**") } else { error.to_string() }
    }))
}

#[test]
fn procedures() {
    let mut table = String::from(
        "# Procedures\n\n\
         Every procedure that is served. Lease: what it needs, or takes for as long as it runs. \
         Kept: whether its reply is kept for a caller that asks again. Later: whether its caller, \
         when it has to wait for too long, is told to ask again later or goes unanswered, where \
         the version has no word for that. Attributes: which of them, from before and after, are \
         part of its reply. By a client: the use that a client has for it at an iod, which takes \
         all other procedures from metaservers alone. Errors: all that it may answer (`errors.md`); those in \
         bold face are not in its standard's list.\n",
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
