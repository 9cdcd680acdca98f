//! The semantics of file operations, independent of protocol versions and of storage.
//!
//! The layer above contains the front ends, which know the bytes and status numbers of a version.
//! The layer below contains the stores, which keep the files. This crate has one file for each
//! operation, the [`Store`] trait that every store implements, and the conformance suite of the
//! trait ([`suite`]).
//!
//! All functions are plain `async` functions that never spawn, sleep or time out, so the same
//! futures run on the shell's event loops and on the simulator's single thread.

mod blocking;
mod caller;
mod error;
mod export;
mod maybe_ready;
mod name;
mod object;
pub mod ops;
pub mod permission;
mod store;
pub mod suite;
mod turn;
pub mod unsettled;
mod yield_now;

pub use blocking::{Blocking, Inline, Job, offload};
#[doc(hidden)]
pub use bytes::Bytes;
pub use caller::{Caller, NO_USER, NOBODY, SUPERUSER, shown_owner};
pub use error::{FsError, Retry};
pub use export::{Export, ExportId, Request};
pub use leasehold_base::attributes::{
    Attributes, Before, Device, FileType, Mode, SetAttributes, SetTime, Wcc,
};
#[doc(hidden)]
pub use leasehold_base::units::{Cookie, FileTime};
pub use maybe_ready::MaybeReady;
pub use name::{Name, Step};
pub use object::ObjectId;
pub use store::{
    Access, Allowance, Budget, ByteRange, Capabilities, Capability, Changed, ClientKey, Coherence,
    Committed, Completeness, Content, DirectLayouts, Disturbance, Entries, Entry, ExclusiveAccess,
    ExtendedAttributes, Found, Guard, Held, LaidOut, Layout, LayoutPolicies, Linked, LocalGuard,
    LocalMetadata, NewFile, NewNode, OpenFiles, Owner, Page, Place, Properties, Purpose, RangeCopy,
    Ranges, ReadDone, Renamed, Reservations, Seek, SetXattr, Space, Spot, Stability, Store, Target,
    Verifier, Wanted, WriteDone, XATTR_BYTES_MAX, XattrName, XattrPage,
};
pub use turn::{NotedTurns, TURN_NOTE, TURN_NOTE_BYTES, noted_turn};
pub use yield_now::yield_now;
