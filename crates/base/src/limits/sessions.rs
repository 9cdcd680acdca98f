//! The limits of NFS version 4.1 clients, sessions and callbacks.

use core::time::Duration;

/// The largest number of client records: enough for a large site. Their reply memory below the
/// shared limit is bounded by [`GUARANTEED_REPLY_BYTES`] for each record.
pub const CLIENTS_MAX: usize = 1 << 14;

/// The largest number of client records that no CREATE_SESSION has confirmed: all clients of a site
/// that starts at once, and little memory for an attacker.
pub const UNCONFIRMED_MAX: usize = 1 << 10;

/// The largest number of client records of one host: a host with a client in each of its containers,
/// and a sixteenth of all records.
pub const CLIENTS_OF_HOST_MAX: usize = CLIENTS_MAX / 16;

/// The largest number of unconfirmed client records of one host: the containers of a host that
/// start within one round trip, and an eighth of all unconfirmed records.
pub const UNCONFIRMED_OF_HOST_MAX: usize = UNCONFIRMED_MAX / 8;

/// The longest client owner, in bytes.
pub const OWNER_BYTES_MAX: usize = super::OPAQUE_V4_BYTES_MAX as usize;

/// The longest name of a principal of RPCSEC_GSS in a stored client record, in bytes: as long as a
/// client owner.
pub const PRINCIPAL_BYTES_MAX: u32 = super::OPAQUE_V4_BYTES_MAX;

/// The largest number of sessions.
pub const SESSIONS_MAX: usize = 1 << 15;

/// The largest number of sessions of one client: a Linux client has one session for each server.
pub const SESSIONS_OF_CLIENT_MAX: usize = 64;

/// The largest number of connections of one session: four addresses with the 16 connections that a
/// Linux client opens to one address.
pub const CONNECTIONS_OF_SESSION_MAX: usize = 64;

/// The slots that a new session has at most: the number that a Linux client requests.
pub const SLOTS_AT_START: u32 = 64;

/// The slots that a session under pressure of memory keeps at least.
pub const SLOTS_MIN: u32 = 8;

/// The largest number of slots of one session: a Linux client uses no more.
pub const SLOTS_OF_SESSION_MAX: u32 = 1 << 10;

/// The largest number of slots of one client.
pub const SLOTS_OF_CLIENT_MAX: usize = 1 << 11;

/// The largest number of slots of all sessions, apart from one slot that each session has: 100 MiB
/// if all are used.
pub const SLOTS_MAX: usize = 1 << 20;

/// The largest cached reply, in bytes: a Linux client requests 7,584 bytes.
pub const CACHED_REPLY_BYTES_MAX: u32 = 8 << 10;

/// The largest reply that is cached although its client did not request this, in bytes: a GETATTR.
pub const SMALL_REPLY_BYTES_MAX: usize = 256;

/// The size of all cached replies, in bytes, above which a client is limited to
/// [`GUARANTEED_REPLY_BYTES`]: 500 busy clients with 64 of the largest replies.
pub const SLOT_REPLY_BYTES_MAX: usize = 256 << 20;

/// The reply memory that each client may always use, in bytes: one call of the largest reply.
pub const GUARANTEED_REPLY_BYTES: usize = CACHED_REPLY_BYTES_MAX as usize;

/// The largest number of operations of one COMPOUND: twice the largest known request, 64.
pub const OPERATIONS_MAX: u32 = 128;

/// The largest COMPOUND request or reply, in bytes: the largest message of a stream.
pub const COMPOUND_BYTES_MAX: u32 = super::TRANSFER_BYTES_MAX + (64 << 10);

/// The smallest COMPOUND request or reply that a session may have, in bytes: the RPC header and
/// SEQUENCE.
pub const COMPOUND_BYTES_MIN: u32 = 128;

/// The size of a reply that has only the results of SEQUENCE, in bytes: 24 for the RPC header, 12
/// for the head of COMPOUND without a tag, 8 for the head of the result, and 36 for the results.
pub const SEQUENCE_REPLY_BYTES: u32 = 80;

/// The largest number of backchannel slots that the server uses: a Linux client offers 16.
pub const BACK_SLOTS_MAX: u32 = 16;

/// The largest number of unfinished callbacks of one client.
pub const CALLBACKS_OF_CLIENT_MAX: usize = 1 << 10;

/// The largest number of unfinished callbacks of all clients: about 16 MiB.
pub const CALLBACKS_MAX: usize = 1 << 16;

/// The largest number of referring calls of one callback; a callback concerns one object.
pub const REFERRING_CALLS_MAX: usize = 16;

/// The longest callback credential, in bytes: flavour, length and the body of a credential.
pub const CALLBACK_CREDENTIAL_BYTES_MAX: usize = super::AUTH_BYTES_MAX as usize + 8;

/// The lease: the value of the Linux server.
pub const LEASE: Duration = Duration::from_secs(90);

/// The longest grace period after a restart: a client detects the restart within one lease, and
/// needs some time for its reclaims.
pub const GRACE: Duration = Duration::from_secs(120);

/// The interval at which the end of the grace period of leases is looked for after all version 4
/// clients have returned: short in comparison with a grace period.
pub const GRACE_POLL: Duration = Duration::from_secs(1);

/// The time for which a client with an expired lease keeps its state if no other client needs it:
/// one day, as in the Linux server.
pub const COURTESY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time after which an unanswered callback shows that its connection has failed: several
/// retransmissions of TCP.
pub const CALLBACK_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The first pause before a callback is repeated that the client answered with NFS4ERR_DELAY.
pub const CALLBACK_RETRY_FIRST: Duration = Duration::from_millis(100);

/// The longest pause before a callback is repeated that the client answered with NFS4ERR_DELAY.
pub const CALLBACK_RETRY_MAX: Duration = Duration::from_secs(5);

/// The first pause before a failed write of the list of client records is repeated.
pub const RECORD_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause before a failed write of the list of client records is repeated.
pub const RECORD_RETRY_MAX: Duration = Duration::from_secs(16);
