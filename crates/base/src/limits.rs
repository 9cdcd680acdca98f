//! The limits table: every bound on what comes from outside, in one place.

use core::time::Duration;

/// The largest READ or WRITE of version 3, in bytes; what FSINFO answers.
pub const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// The largest READ or WRITE over UDP, in bytes: with headers it stays well under the 65,507
/// bytes that a datagram can hold.
pub const TRANSFER_UDP_BYTES_MAX: u32 = 32 << 10;

/// The largest READ or WRITE of version 2, in bytes (RFC 1094 2.3.1, MAXDATA).
pub const TRANSFER_V2_BYTES_MAX: u32 = 8192;

/// The largest RPC message that is taken from a stream, in bytes: the largest WRITE and 64 KiB
/// for all that stands around its data.
pub const MESSAGE_BYTES_MAX: usize = TRANSFER_BYTES_MAX as usize + (64 << 10);

/// The largest UDP datagram, in bytes.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The size from which on data in a message is carried apart from the words around it: less is
/// copied at once, which is cheaper.
pub const APART_BYTES_MIN: usize = 512;

/// The size from which on a message is sent from where it lies; to copy what is smaller to those
/// before it is cheaper. So it is for a call that waits: a small one must not hold a receive
/// buffer.
pub const COPY_BYTES_MAX: usize = 8 << 10;

/// The number of fragments that one record on a stream may come in.
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

/// The longest name of one directory entry that is decoded, in bytes; a store may take less.
/// Longer ones than a store takes must still decode, to be answered NAMETOOLONG.
pub const NAME_BYTES_MAX: u32 = 4096;

/// The longest name of one directory entry in version 2, in bytes (RFC 1094 2.3.10, MAXNAMLEN).
pub const NAME_V2_BYTES_MAX: u32 = 255;

/// The longest target of a symbolic link and the longest path to MOUNT, in bytes.
pub const PATH_BYTES_MAX: u32 = 4096;

/// The longest path of version 2 and of MOUNT, in bytes (RFC 1094 2.3.11, MNTPATHLEN).
pub const PATH_V2_BYTES_MAX: u32 = 1024;

/// The largest answer to one READDIR or READDIRPLUS, in bytes.
pub const DIRECTORY_REPLY_BYTES_MAX: u32 = 1 << 20;

/// The number of calls that must not run twice, running or finished, that all reply caches
/// remember together: what the fastest disk makes in some seconds, which is longer than a client
/// takes to connect anew.
pub const REPLIES_MAX: usize = 1 << 16;

/// The bytes of all kept replies together: half a KiB for each, where most take a quarter.
pub const REPLIES_BYTES_MAX: usize = REPLIES_MAX << 9;

/// The time that a reply is kept after it was last given: longer than the 10 minutes that a Linux
/// client waits at most between two copies of one call.
pub const REPLY_AGE_MAX: Duration = Duration::from_secs(15 * 60);

/// The longest note of a kept reply that is written down, in bytes: the replies of calls that must
/// not run twice are 272 bytes long at most, and 60 more say whose they are.
pub const NOTE_BYTES_MAX: usize = 472;

/// The longest name of a machine or group in MOUNT, in bytes (RFC 1094 A.3, MNTNAMLEN).
pub const MOUNT_NAME_BYTES_MAX: u32 = 255;

/// The number of authentication flavours that a reply of MOUNT is taken with; there are not even
/// so many flavours.
pub const FLAVORS_MAX: u32 = 64;

/// The longest address, owner or name of a network to rpcbind, in bytes: the longest known is the
/// path of a Unix socket, 108 bytes.
pub const BINDING_TEXT_BYTES_MAX: u32 = 256;

/// The longest name of a server in the binding database, in bytes: as long as names of DNS.
pub const BOUND_NAME_BYTES_MAX: u32 = 255;

/// The names in the binding database: more servers than one network has, in a few hundred KiB.
pub const BOUND_NAMES_MAX: usize = 1024;

/// The names of one host among them, so that no single one takes all.
pub const BOUND_NAMES_OF_HOST_MAX: usize = 16;

/// The longest arguments or results that portmap or rpcbind forward, in bytes: they travel in one
/// datagram.
pub const FORWARD_BYTES_MAX: u32 = 65_507;
