//! The limits table: every bound on input from outside.

pub mod durations;
pub mod sessions;
pub mod state;

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

/// The longest file handle of version 4, in bytes (RFC 8881 3.1, NFS4_FHSIZE).
pub const HANDLE_V4_BYTES_MAX: u32 = 128;

/// The longest identifier of a client, state owner, server or server scope, in bytes (RFC 8881 3.1,
/// NFS4_OPAQUE_LIMIT). The decoder applies the same limit to fields of version 4 for which the RFC
/// states none and which are shorter in practice: tags, names of servers, and keys of SET_SSV.
pub const OPAQUE_V4_BYTES_MAX: u32 = 1024;

/// The largest number of words of a bitmap on the wire. The RFCs define attributes up to number 92,
/// which takes three words; some clients append words of zeros.
pub const BITMAP_WORDS_MAX: u32 = 64;

/// The number of words of a bitmap that may contain ones: over twice the words that the RFCs use.
pub const BITMAP_WORDS_USED_MAX: u32 = 8;

/// The longest encoded list of attribute values, in bytes: an access control list of
/// [`ACES_MAX`] entries of 300 bytes, and 4 KiB for all other attributes.
pub const ATTRIBUTES_BYTES_MAX: u32 = 81_920;

/// The largest number of entries of an access control list: Linux stores at most 64 KiB of them,
/// and a list from an administrator has fewer than 100.
pub const ACES_MAX: usize = 256;

/// The longest name of an owner or group, in bytes: a user name of 255 bytes, an `@`, and a domain
/// of 255 bytes, the limit of DNS.
pub const OWNER_BYTES_MAX: u32 = 511;

/// The largest number of alternatives in a list of version 4, such as security flavours, parameters
/// for callbacks, algorithms, or servers of a copy: clients and servers list fewer than 10.
pub const ALTERNATIVES_MAX: usize = 16;

/// The largest number of state ids in one TEST_STATEID: clients test one, or a few hundred after a
/// revocation, and can repeat the operation.
pub const STATEIDS_TESTED_MAX: usize = 1024;

/// The longest part of a message whose layout depends on the layout type, in bytes. The largest is
/// the list of errors and statistics in a LAYOUTRETURN of flexible files, with about 200 bytes for
/// each of at most 32 data servers.
pub const LAYOUT_BODY_BYTES_MAX: u32 = 16 << 10;

/// The largest number of layouts, device ids or device errors in one message: more than the
/// segments and data servers of one file.
pub const LAYOUTS_LISTED_MAX: usize = 64;

/// The largest number of segments in a reply of READ_PLUS: data and holes of 4 KiB that alternate
/// over the largest READ, plus one for a range that does not begin at a block.
pub const SEGMENTS_MAX: usize = (TRANSFER_BYTES_MAX >> 12) as usize + 1;

/// The largest number of calls, and of sessions with calls, that one callback refers to: a callback
/// must fit the 4 KiB that Linux receives.
pub const REFERRING_CALLS_MAX: usize = 64;

/// The largest number of notifications in one callback, for the reason of [`REFERRING_CALLS_MAX`].
pub const NOTIFICATIONS_MAX: usize = 64;

/// The longest value of an extended attribute, in bytes: the limit of Linux, XATTR_SIZE_MAX.
pub const XATTR_BYTES_MAX: u32 = 64 << 10;

/// The largest number of names in one reply of LISTXATTRS: Linux lists at most 64 KiB
/// (XATTR_LIST_MAX), and a name with prefix and terminator takes at least 16 bytes in practice.
pub const XATTR_NAMES_MAX: usize = 4096;

/// The largest number of components of a path, and of locations, in the attribute fs_locations.
pub const LOCATIONS_MAX: usize = 64;
