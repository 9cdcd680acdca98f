//! The metrics of NFS version 4, which exist if the server serves the version.

use super::{Page, histogram, number, size};
use crate::nfs4::Nfs4View;
use crate::snapshot::{Snapshot, Work};

/// A count of each operation: its name, its help and its value.
type Counted<'a> = (&'a str, &'a str, fn(&Work) -> f64);

pub(super) fn nfs4(page: &mut Page, told: &Snapshot) {
    let Some(nfs4) = &told.nfs4 else { return };
    gauges(page, nfs4);
    operations(page, nfs4);
}

fn gauges(page: &mut Page, nfs4: &Nfs4View) {
    let gauges = [
        ("leasehold_nfs4_clients", "Clients of NFS version 4.", nfs4.clients),
        (
            "leasehold_nfs4_expired_clients",
            "Clients of NFS version 4 that keep their state after their lease has expired.",
            nfs4.courteous,
        ),
        ("leasehold_nfs4_sessions", "Sessions of NFS version 4.", nfs4.sessions),
        ("leasehold_nfs4_busy_slots", "Slots of sessions in which requests run.", nfs4.busy_slots),
        ("leasehold_nfs4_opens", "Opens of clients of NFS version 4.", nfs4.opens),
        ("leasehold_nfs4_locks", "Ranges that clients of NFS version 4 have locked.", nfs4.locks),
        (
            "leasehold_nfs4_waiters",
            "Requests of clients of NFS version 4 that wait for a lock.",
            nfs4.waiters,
        ),
    ];
    for (name, help, value) in gauges {
        page.single((name, "gauge", help), size(value));
    }
}

fn operations(page: &mut Page, nfs4: &Nfs4View) {
    let counted: [Counted<'_>; 4] = [
        ("leasehold_nfs4_operations_total", "Completed operations of COMPOUND.", |work| {
            number(work.calls)
        }),
        ("leasehold_nfs4_operation_received_bytes_total", "Bytes of arguments.", |work| {
            number(work.bytes_in)
        }),
        ("leasehold_nfs4_operation_sent_bytes_total", "Bytes of results.", |work| {
            number(work.bytes_out)
        }),
        (
            "leasehold_nfs4_operation_busy_seconds_total",
            "The time that threads spent on operations, estimated from one compound in sixteen.",
            Work::busy_of_all_s,
        ),
    ];
    for (name, help, read) in counted {
        page.begin(name, "counter", help);
        for one in &nfs4.operations {
            page.value(name, &[("operation", &one.name)], read(&one.work));
        }
    }
    let name = "leasehold_nfs4_operation_errors_total";
    page.begin(name, "counter", "Failed operations, by status.");
    for one in &nfs4.operations {
        for (status, count) in &one.errors {
            page.value(name, &[("operation", &one.name), ("status", status)], number(*count));
        }
    }
    let name = "leasehold_nfs4_operation_seconds";
    let help = "The duration of operations, of one compound in sixteen.";
    page.begin(name, "histogram", help);
    for one in &nfs4.operations {
        histogram(page, name, &[("operation", &one.name)], &one.work.latency.0);
    }
}
