//! The server: the front ends of each program over one procedure table.
//!
//! The service maps a message to a reply; the owner of the sockets, threads and clock calls
//! [`Service::answer`]. A front end implements the encoding and the status numbers of one program
//! and version. It does not depend on the store that contains the files.

#![allow(clippy::result_large_err, reason = "the results of a failure go directly to the writer")]

pub mod access;
pub mod account;
mod arrival;
mod context;
mod credential;
mod drc;
mod epochs;
mod errors;
mod events;
mod exports;
mod guesses;
mod iods;
mod lease;
mod mount;
mod nfs2;
mod nfs3;
mod nfs4;
mod nqnfs;
mod procedure;
#[cfg(test)]
mod reference;
mod reply_journal;
mod response;
pub mod router;
mod service;
pub mod table;
mod users;
mod versions;

pub use arrival::{Arrival, Transport, Trust};
pub use drc::ReplyCache;
pub use epochs::{Epoch, EpochKey};
pub use errors::Errors;
pub use events::{Deaf, Event, Observer};
pub use exports::{Exports, Offer};
pub use leasehold_leases::{
    HandleKey, HeldLease, LeaseCounts, LeaseHolder, LeaseView, LeaseWaiter, LeaseWaits, Ledger,
    Post, Remembered,
};
pub use nfs4::{
    ClientLedger, ClientRecords, Nfs4, Nfs4Client, Nfs4Totals, NoClientRecords, OperationCounts,
};
pub use reply_journal::{Noted, ReplyJournal};
pub use response::Response;
pub use router::{Program, Router};
pub use service::Service;
pub use users::{Unknown, Users};
pub use versions::NfsVersions;
