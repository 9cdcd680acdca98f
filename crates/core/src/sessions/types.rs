//! The plain types of sessions: identifiers, owners, principals, errors and limits.

use core::time::Duration;

use bytes::Bytes;
use leasehold_base::limits::sessions as table;

/// Identifies a client to this server; the high half is the epoch of the server.
#[doc(alias = "clientid4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// Identifies a session. No two sessions of a server have equal ids, in any epoch.
#[doc(alias = "sessionid4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

/// The index of a slot in the slot table of a session.
#[doc(alias = "slotid4")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(pub u32);

/// The sequence number of a request in its slot, modulo 2^32.
#[doc(alias = "sequenceid4")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(pub u32);

impl SequenceId {
    /// Returns the number of the next request; zero follows the largest number.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// The verifier by which a client distinguishes its incarnations.
#[doc(alias = "verifier4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verifier(pub [u8; 8]);

/// The name of a client: the field `co_ownerid` of its client owner.
#[doc(alias = "client_owner4")]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(Bytes);

impl Owner {
    /// Creates a name from a copy of its bytes; `None` if the name is too long.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let fits = bytes.len() <= table::OWNER_BYTES_MAX;
        fits.then(|| Self(Bytes::copy_from_slice(bytes)))
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The user on whose behalf a request was sent, after squashing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// A request without credential.
    Anonymous,
    /// The name of a principal of RPCSEC_GSS, which the owner of the state machine has authenticated.
    Named(Bytes),
    /// The user id of an AUTH_SYS credential.
    System(u32),
}

/// The flags of EXCHANGE_ID (RFC 8881 18.35).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeFlags(pub u32);

impl ExchangeFlags {
    /// The client handles NFS4ERR_MOVED for referrals.
    pub const MOVED_REFER: Self = Self(1);
    /// The client handles NFS4ERR_MOVED for migrations.
    pub const MOVED_MIGRATION: Self = Self(1 << 1);
    /// The server supports fencing operations (RFC 7862 14.1).
    pub const FENCE_OPERATIONS: Self = Self(1 << 2);
    /// A stateid is bound to the principal that created it.
    pub const BIND_PRINCIPAL: Self = Self(1 << 8);
    /// The role of a server without pNFS.
    pub const USE_NON_PNFS: Self = Self(1 << 16);
    /// The role of a metadata server of pNFS.
    pub const USE_PNFS_METADATA: Self = Self(1 << 17);
    /// The role of a data server of pNFS.
    pub const USE_PNFS_DATA: Self = Self(1 << 18);
    /// The request updates a confirmed record.
    pub const UPDATE: Self = Self(1 << 30);
    /// The record of the reply is confirmed.
    pub const CONFIRMED: Self = Self(1 << 31);

    /// The flags that a request may contain.
    pub const REQUEST: Self = Self(0x4007_0107);

    /// Returns true if all flags of `others` are set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the flags of both sets.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// The identity of the server, which is equal in all replies to EXCHANGE_ID: a client that receives
/// a different owner or scope considers the server another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The field `so_minor_id`.
    pub minor: u64,
    /// The field `so_major_id`.
    pub major: Bytes,
    /// The field `eir_server_scope`.
    pub scope: Bytes,
    /// The role of the server, and the capabilities that it has.
    pub flags: ExchangeFlags,
}

/// An error; each variant is the status NFS4ERR of the same name (RFC 8881 15.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Error {
    /// The highest slot of the request is above every limit that the server reported.
    BadHighSlot,
    /// No such session exists.
    BadSession,
    /// The slot is above the limit of the session.
    BadSlot,
    /// The client still has sessions or state.
    ClientIdBusy,
    /// Another principal uses the owner or the client id.
    ClientIdInUse,
    /// The client has already sent RECLAIM_COMPLETE.
    CompleteAlready,
    /// The connection is bound to no session of the client.
    ConnectionNotBound,
    /// The client must retry later.
    Delay,
    /// The grace period has not ended, or the client has not sent RECLAIM_COMPLETE.
    Grace,
    /// An argument is invalid.
    Invalid,
    /// The request names a record that does not exist.
    NoEntry,
    /// The client may not reclaim state.
    NoGrace,
    /// The server has no memory for another session.
    NoSpace,
    /// The verifier differs from the verifier of the confirmed record.
    NotSame,
    /// The principal differs from the principal of the confirmed record.
    Permission,
    /// The client wants the reply cached, and the channel caches no reply of its size.
    ReplyTooBigToCache,
    /// The request is larger than the session permits.
    RequestTooBig,
    /// The request reuses slot and sequence number of a different request.
    SequenceFalseRetry,
    /// The sequence number is neither the last one nor the next one.
    SequenceMisordered,
    /// No such client exists.
    StaleClientId,
    /// The channel attributes permit no COMPOUND.
    TooSmall,
    /// The request has more operations than the session permits.
    TooManyOperations,
    /// The principal may not destroy the client id.
    WrongCredential,
}

/// The attributes of a channel (RFC 8881 18.36). Padding and RDMA are not supported.
#[doc(alias = "channel_attrs4")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The largest request in bytes, with its RPC header.
    pub request_bytes: u32,
    /// The largest reply in bytes, with its RPC header.
    pub reply_bytes: u32,
    /// The largest cached reply in bytes.
    pub cached_bytes: u32,
    /// The largest number of operations of a COMPOUND.
    pub operations: u32,
    /// The number of slots.
    pub slots: u32,
}

/// The limits of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of client records.
    pub clients: usize,
    /// The largest number of unconfirmed client records.
    pub unconfirmed: usize,
    /// The largest number of client records of one host.
    pub clients_of_host: usize,
    /// The largest number of unconfirmed client records of one host.
    pub unconfirmed_of_host: usize,
    /// The largest number of sessions.
    pub sessions: usize,
    /// The largest number of sessions of one client.
    pub sessions_of_client: usize,
    /// The largest number of connections of one session.
    pub connections_of_session: usize,
    /// The largest number of slots of a new session.
    pub slots_at_start: u32,
    /// The number of slots that a session keeps under pressure of memory.
    pub slots_min: u32,
    /// The largest number of slots of one session.
    pub slots_of_session: u32,
    /// The largest number of slots of one client.
    pub slots_of_client: usize,
    /// The largest number of slots of all sessions, apart from one slot of each session.
    pub slots: usize,
    /// The attributes of the fore channel that the server grants at most; `slots` is not used.
    pub fore: Channel,
    /// The largest reply that is cached without request, in bytes.
    pub small_reply_bytes: usize,
    /// The size of all cached replies above which a client has only its guaranteed memory.
    pub replies_bytes: usize,
    /// The reply memory that each client may always use, in bytes.
    pub guaranteed_bytes: usize,
    /// The largest number of backchannel slots that the server uses.
    pub back_slots: u32,
    /// The largest number of unfinished callbacks of one client.
    pub callbacks_of_client: usize,
    /// The largest number of unfinished callbacks.
    pub callbacks: usize,
    /// The lease.
    pub lease: Duration,
    /// The longest grace period.
    pub grace: Duration,
    /// The time for which a client with an expired lease keeps its state.
    pub courtesy: Duration,
    /// The time after which an unanswered callback shows that its connection has failed.
    pub answer_timeout: Duration,
}

impl Limits {
    /// The limits of the limits table.
    pub const DEFAULT: Self = Self {
        clients: table::CLIENTS_MAX,
        unconfirmed: table::UNCONFIRMED_MAX,
        clients_of_host: table::CLIENTS_OF_HOST_MAX,
        unconfirmed_of_host: table::UNCONFIRMED_OF_HOST_MAX,
        sessions: table::SESSIONS_MAX,
        sessions_of_client: table::SESSIONS_OF_CLIENT_MAX,
        connections_of_session: table::CONNECTIONS_OF_SESSION_MAX,
        slots_at_start: table::SLOTS_AT_START,
        slots_min: table::SLOTS_MIN,
        slots_of_session: table::SLOTS_OF_SESSION_MAX,
        slots_of_client: table::SLOTS_OF_CLIENT_MAX,
        slots: table::SLOTS_MAX,
        fore: Channel {
            request_bytes: table::COMPOUND_BYTES_MAX,
            reply_bytes: table::COMPOUND_BYTES_MAX,
            cached_bytes: table::CACHED_REPLY_BYTES_MAX,
            operations: table::OPERATIONS_MAX,
            slots: 0,
        },
        small_reply_bytes: table::SMALL_REPLY_BYTES_MAX,
        replies_bytes: table::SLOT_REPLY_BYTES_MAX,
        guaranteed_bytes: table::GUARANTEED_REPLY_BYTES,
        back_slots: table::BACK_SLOTS_MAX,
        callbacks_of_client: table::CALLBACKS_OF_CLIENT_MAX,
        callbacks: table::CALLBACKS_MAX,
        lease: table::LEASE,
        grace: table::GRACE,
        courtesy: table::COURTESY,
        answer_timeout: table::CALLBACK_ANSWER_TIMEOUT,
    };
}
