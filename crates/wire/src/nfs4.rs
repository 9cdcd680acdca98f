//! NFS versions 4.1 and 4.2 (RFC 8881 with RFC 5662, RFC 7862 with RFC 7863), with extended
//! attributes (RFC 8276): program 100003, version 4, and the client's program for callbacks.
//!
//! The version has one procedure besides NULL: COMPOUND, which contains several operations. Each
//! operation has a module with its `Args` and its `Reply`, a status and the results; small
//! operations share a file by family. [`compound`] has the calls and replies. A server decodes them
//! operation by operation, because an invalid operation must not prevent the operations before it.
//! [`callback`] has the same for callbacks. `spec/nfs4.x` lists all numbers.

mod acl;
mod answers;
mod attribute;
mod attribute_types;
mod attributes;
mod bitmap;
mod copies;
mod delegations;
mod encoded;
mod handle;
mod handles;
mod ids;
mod io;
mod layouts;
mod locations;
mod locks;
mod names;
mod opens;
mod operation;
mod outcome;
mod ranges;
mod secinfos;
mod sessions;
mod setattrs;
mod sizes;
mod stateids;
mod status;
mod xattrs;

pub mod access;
pub mod callback;
pub mod compound;
pub mod create;
pub mod create_session;
pub mod exchange_id;
pub mod open;
pub mod readdir;
pub mod sequence;

pub use acl::{Ace, AceFlags, AceMask, AceType, Acl, FlaggedAcl};
pub use answers::Answer;
pub use attribute::Attribute;
pub use attribute_types::{
    ChangeKind, ChangePolicy, Device, FileType, LayoutTypes, ModeMasked, ModeUmask, OpenArguments,
    SetTime, Time,
};
pub use attributes::{AttributeError, Attributes, Selected};
pub use bitmap::Bitmap;
pub use copies::{
    NetworkLocation, NetworkLocations, Requirements, WriteResponse, clone, copy, copy_notify,
    offload_cancel, offload_status,
};
pub use delegations::{
    Delegation, DelegationKind, ReadDelegation, SpaceLimit, WhyNone, WriteDelegation,
    WrittenBlocks, delegpurge, delegreturn, get_dir_delegation, want_delegation,
};
pub use encoded::{AttributeValues, EncodedAttributes, OwnedAttributes};
pub use handle::Handle;
pub use handles::{
    getfh, lookup, lookupp, openattr, putfh, putpubfh, putrootfh, restorefh, savefh,
};
pub use ids::{
    ChangeId, ClientId, ClientOwner, ClientVerifier, CookieVerifier, CreateVerifier, DeviceId,
    FileSystemId, LayoutType, OwnerSequence, SequenceId, ServerOwner, SessionId, SlotId,
    SpecialStateid, StateOther, StateOwner, StateSequence, Stateid, WriteVerifier,
};
pub use io::{commit, read, write};
pub use layouts::{
    DeviceAddress, DeviceError, IoMode, IoStatistics, Layout, LayoutBody, LayoutUpdate,
    getdeviceinfo, getdevicelist, layoutcommit, layouterror, layoutget, layoutreturn, layoutstats,
};
pub use locations::{FsLocation, FsLocations, PathName};
pub use locks::{Denied, LockKind, lock, lockt, locku};
pub use names::{ChangeInfo, link, readlink, remove, rename};
pub use opens::{close, open_downgrade};
pub use operation::{Number, Operation};
pub use outcome::{Detail, DetailedReply, Reply};
pub use ranges::{Content, allocate, deallocate, io_advise, read_plus, seek, write_same};
pub use secinfos::{Flavor, Flavors, GssInfo, GssService, Oid, secinfo, secinfo_no_name};
pub use sessions::{
    CallbackSecurities, CallbackSecurity, ChannelAttributes, GssHandle, GssHandles,
    backchannel_ctl, bind_conn_to_session, destroy_clientid, destroy_session, reclaim_complete,
    set_ssv,
};
pub use setattrs::{getattr, nverify, setattr, verify};
pub use stateids::{free_stateid, test_stateid};
pub use status::{Completion, OK, Status};
pub use xattrs::{XattrValue, getxattr, listxattrs, removexattr, setxattr};

pub use crate::nfs3::write::Stability;
pub use crate::nfs3::{Name, PROGRAM, Path};
pub use crate::outcome::Outcome;

use leasehold_base::limits::{BINDING_TEXT_BYTES_MAX, OPAQUE_V4_BYTES_MAX, OWNER_BYTES_MAX};
use leasehold_base::xdr_struct;

/// The program's version.
pub const VERSION: u32 = 4;

/// The number of the procedure COMPOUND; procedure 0 is NULL.
#[doc(alias = "NFSPROC4_COMPOUND")]
pub const COMPOUND: u32 = 1;

opaques! {
    /// The bytes by which a client, server or state owner names itself (RFC 8881 2.4, 2.5, 8.5).
    Identifier <= OPAQUE_V4_BYTES_MAX;

    /// A text of one machine for people or programs at another, not validated.
    #[doc(alias("utf8str_cs", "utf8str_cis"))]
    Text <= OPAQUE_V4_BYTES_MAX;

    /// The tag of a compound, which the reply repeats (RFC 8881 16.2.3).
    Tag <= OPAQUE_V4_BYTES_MAX;

    /// The name of a user or group, such as `user@domain` or a number; not validated (RFC 8881
    /// 5.9).
    #[doc(alias = "utf8str_mixed")]
    OwnerName <= OWNER_BYTES_MAX;

    /// The name of a network, such as `tcp6`, or an address in universal form (RFC 5665).
    NetworkText <= BINDING_TEXT_BYTES_MAX;
}

xdr_struct! {
    /// The address of a server (RFC 8881 3.3.9).
    #[doc(alias = "netaddr4")]
    #[derive(Copy)]
    pub struct NetworkAddress<'a> {
        /// The network.
        pub network: NetworkText<'a>,
        /// The address on this network.
        pub address: NetworkText<'a>,
    }
}

#[cfg(test)]
mod tests;
