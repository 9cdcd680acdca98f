//! The limits on opens and byte-range locks.

use core::time::Duration;

/// The longest name of an open-owner or lock-owner, in bytes. A name of NLM also fits: its three
/// fields together are bounded by the owner's front end.
pub const OWNER_NAME_BYTES_MAX: usize = super::OPAQUE_V4_BYTES_MAX as usize;

/// The largest number of byte-range locks of one shard: at 128 bytes each they take 128 MiB.
pub const LOCKS_MAX: usize = 1 << 20;

/// The largest number of byte-range locks on one file. One request examines all of them, which
/// takes some 10 microseconds at this number.
pub const LOCKS_OF_FILE_MAX: usize = 4096;

/// The largest number of byte-range locks of one owner on all files of one shard: an eighth of all
/// locks, so that one program cannot use up the locks of a shard.
pub const LOCKS_OF_OWNER_MAX: usize = LOCKS_MAX / 8;

/// The largest number of lock requests that wait in one shard: more than the calls that the server
/// lets wait.
pub const LOCK_WAITERS_MAX: usize = 1 << 15;

/// The largest number of lock requests that wait for one file. Each release of a lock compares all
/// of them with the locks of the file, which takes about a millisecond at both limits.
pub const LOCK_WAITERS_OF_FILE_MAX: usize = 256;

/// The largest number of lock-owners of one shard, and likewise of open-owners. With names of the
/// greatest length they take 128 MiB; the names of Linux have about 20 bytes.
pub const OWNERS_MAX: usize = 1 << 16;

/// The largest number of lock-owners that one deadlock search examines. A cycle of two or three
/// owners is usual; a longer chain is found by the timeouts of the programs.
pub const DEADLOCK_OWNERS_MAX: usize = 64;

/// The time for which a range stays reserved for a notified lock-owner: several round trips and a
/// retransmission, since the owner requests the lock at once after CB_NOTIFY_LOCK.
pub const LOCK_RESERVATION: Duration = Duration::from_secs(5);

/// The time after which a polling lock request that was not repeated leaves its queue: twice the
/// longest interval between two requests of a Linux client, 30 s.
pub const LOCK_POLL_MAX: Duration = Duration::from_secs(60);

/// The largest number of stateids of one shard, for opens, locks and revoked state together: at
/// 256 bytes each they take 256 MiB.
pub const STATES_MAX: usize = 1 << 20;

/// The largest number of stateids of one client in one shard: a quarter of all, so that one client
/// cannot use up the stateids of a shard.
pub const STATES_OF_CLIENT_MAX: usize = STATES_MAX / 4;

/// The distance from the wraparound of a stateid's sequence number within which a small number
/// counts as later than a great one: the greatest number of slots of one client, which RFC 8881
/// section 8.2.2 requires, and more than any client has.
pub const SEQUENCE_WRAP_WINDOW: u32 = 1 << 16;

/// The largest number of objects whose change attributes of version 4 the server remembers: about
/// 10 MiB. Only an object that was changed twice in one step of the clock of its file system needs
/// an entry for longer than that step.
pub const CHANGES_MAX: usize = 1 << 16;
