//! The limits table: every bound on input from outside.

pub mod durations;

use core::time::Duration;

/// The largest READ or WRITE of version 3, in bytes, which FSINFO reports.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// The largest READ or WRITE over UDP, in bytes: with headers it stays well under the 65,507
/// bytes that a datagram can hold.
pub const TRANSFER_UDP_BYTES_MAX: u32 = 32 << 10;

/// The largest READ or WRITE of version 2, in bytes (RFC 1094 2.3.1, MAXDATA).
pub const TRANSFER_V2_BYTES_MAX: u32 = 8192;

/// The largest RPC message on a stream, in bytes: the largest WRITE, and 64 KiB for the fields
/// around its data.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + (64 << 10);

/// The largest UDP datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The smallest size of data that a message carries separately from its other fields, in bytes.
/// Smaller data is copied, which costs less.
pub const APART_BYTES_MIN: usize = 512;

/// The smallest size of a message that is sent without a copy, in bytes; a smaller message is
/// copied behind the previous ones, which costs less. The same limit applies to a queued call: a
/// small one must not hold a receive buffer.
pub const COPY_BYTES_MAX: usize = 8 << 10;

/// The largest number of fragments of one record on a stream.
pub const FRAGMENTS_MAX: u32 = 4096;

/// The longest body of a credential or verifier, in bytes (RFC 5531 section 8.2).
pub const AUTH_BYTES_MAX: u32 = 400;

/// The longest machine name in an AUTH_SYS credential, in bytes (RFC 5531 appendix A).
pub const MACHINE_NAME_BYTES_MAX: u32 = 255;

/// The number of supplementary groups in an AUTH_SYS credential (RFC 5531 appendix A).
pub const GROUPS_MAX: usize = 16;

/// The longest file handle of version 3, in bytes (RFC 1813 2.4, NFS3_FHSIZE).
pub const HANDLE_BYTES_MAX: u32 = 64;

/// The length of every file handle of version 2, in bytes (RFC 1094 2.3.3, FHSIZE).
pub const HANDLE_V2_BYTES: usize = 32;

/// The longest decoded name of a directory entry, in bytes. A name that is longer than the limit of
/// a store must still decode, so that the server can reply NAMETOOLONG.
pub const NAME_BYTES_MAX: u32 = 4096;

/// The longest name of one directory entry in version 2, in bytes (RFC 1094 2.3.10, MAXNAMLEN).
pub const NAME_V2_BYTES_MAX: u32 = 255;

/// The longest target of a symbolic link and the longest path to MOUNT, in bytes.
pub const PATH_BYTES_MAX: u32 = 4096;

/// The longest path of version 2 and of MOUNT, in bytes (RFC 1094 2.3.11, MNTPATHLEN).
pub const PATH_V2_BYTES_MAX: u32 = 1024;

/// The largest reply to one READDIR or READDIRPLUS, in bytes.
pub const DIRECTORY_REPLY_BYTES_MAX: u32 = 1 << 20;

/// The largest total number of non-idempotent calls, running or finished, in all duplicate request
/// caches: the number that the fastest disk completes in several seconds, which is longer than a
/// client needs to reconnect.
pub const REPLIES_MAX: usize = 1 << 16;

/// The largest total size of all cached replies, in bytes: half a KiB for each, of which most use a
/// quarter.
pub const REPLIES_BYTES_MAX: usize = REPLIES_MAX << 9;

/// The time for which a reply stays cached after its last use: longer than 10 minutes, the longest
/// retransmission interval of a Linux client.
pub const REPLY_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// The longest persistent entry of the duplicate request cache, in bytes: replies of non-idempotent
/// calls have at most 272 bytes, and 60 more bytes identify the client.
pub const NOTE_BYTES_MAX: usize = 472;

/// The longest name of a machine or group in MOUNT, in bytes (RFC 1094 A.3, MNTNAMLEN).
pub const MOUNT_NAME_BYTES_MAX: u32 = 255;

/// The largest number of authentication flavours in a reply of MOUNT; fewer flavours exist.
pub const FLAVORS_MAX: u32 = 64;

/// The longest address, owner or network name in rpcbind, in bytes: the longest known value is the
/// path of a Unix socket, 108 bytes.
pub const BINDING_TEXT_BYTES_MAX: u32 = 256;

/// The longest name of a server in the binding database, in bytes, equal to the limit of DNS.
pub const BOUND_NAME_BYTES_MAX: u32 = 255;

/// The largest number of names in the binding database: more than the servers of one network, in a
/// few hundred KiB of memory.
pub const BOUND_NAMES_MAX: usize = 1024;

/// The largest number of names of one host, so that one host cannot fill the database.
pub const BOUND_NAMES_OF_HOST_MAX: usize = 16;

/// The longest arguments or results that portmap or rpcbind forward, in bytes: one datagram
/// contains them.
pub const FORWARD_BYTES_MAX: u32 = 65_507;
