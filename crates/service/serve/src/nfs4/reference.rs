//! The generated table of operations (`docs/reference/operations.md`).

use core::fmt::Write as _;

use super::operations::{Position, ROWS};
use super::statuses;
use crate::reference::compare;
use leasehold_wire::nfs4::{Operation, Status};

fn names(statuses: &[Status]) -> String {
    let short = |status: &Status| status.name().trim_start_matches("NFS4ERR_").to_owned();
    statuses.iter().map(short).collect::<Vec<_>>().join(", ")
}

#[test]
fn operations() {
    let mut table = format!(
        "# Operations of version 4\n\n\
         All operations that the server supports in the COMPOUND of versions 4.1 and 4.2. Since: \
         the first supported minor version with the operation. Position: the place in a \
         compound, `first`, `alone` (the only operation, or after SEQUENCE where the RFC permits \
         this) or `in a session` (after SEQUENCE). Changes: the operation changes something. \
         Cached: a client should set `sa_cachethis` for a compound with the \
         operation, because a repetition would have another result. Errors: the errors that the \
         RFCs permit for the operation, without the prefix `NFS4ERR_`. Each operation may also \
         return {}.\n\n\
         | number | operation | since | position | changes | cached | errors |\n\
         | --- | --- | --- | --- | --- | --- | --- |\n",
        names(statuses::OF_ANY)
    );
    let mut rows: Vec<_> = ROWS.iter().collect();
    rows.sort_by_key(|row| row.operation as u32);
    for row in rows {
        let yes = |is| if is { "yes" } else { "" };
        let position = match row.position {
            Position::First => "first",
            Position::Alone => "alone",
            Position::InSession => "in a session",
        };
        writeln!(
            table,
            "| {} | {} | 4.{} | {position} | {} | {} | {} |",
            row.operation as u32,
            row.operation.name(),
            row.operation.minor_version().max(1),
            yes(row.changes()),
            yes(row.needs_cached_reply()),
            names(statuses::of(row.operation)),
        )
        .expect("a string takes all");
    }
    compare("operations.md", &table);
}

#[test]
fn each_operation_has_the_statuses_of_its_rfc() {
    for row in ROWS {
        let name = row.operation.name();
        // TEST_STATEID has the statuses of any operation only.
        let has_own = row.operation != Operation::TestStateid;
        assert_eq!(!statuses::of(row.operation).is_empty(), has_own, "{name}");
        assert!(row.permits(Status::Delay) && row.permits(Status::BadXdr), "{name}");
        assert!(!row.permits(Status::IllegalOperation), "{name} is legal");
        assert!(row.changes() || !row.needs_cached_reply(), "{name}");
    }
}
