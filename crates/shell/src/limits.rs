//! The shell's limits: what one client can make the server hold or do.

use core::time::Duration;

/// Connections at one time, unless configured otherwise.
pub const CONNECTIONS_MAX: usize = 16_384;

/// Connections above that limit for which others are about to be closed.
pub(crate) const CROWDING_MAX: usize = 64;

/// Bytes of replies that one turn of a connection collects before they are sent. A reply that
/// begins below the limit is finished, so the largest reply comes on top.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// Calls that one turn of a connection answers before another connection has its turn.
pub(crate) const BATCH_CALLS_MAX: usize = 64;

/// Rounds for which calls are put off that wait for others which came in together with them.
pub(crate) const PUT_OFF_MAX: u32 = 4;

/// Datagrams that one turn of a socket answers.
pub(crate) const BATCH_DATAGRAMS_MAX: usize = 64;

/// Room that the kernel is asked to keep for datagrams that come faster than they are read.
pub(crate) const DATAGRAM_BACKLOG_BYTES: usize = 4 << 20;

/// Connections that one turn of a listener accepts.
pub(crate) const BATCH_ACCEPTS_MAX: usize = 64;

/// Calls of one connection that wait at one time; no further one is read until one is answered.
pub(crate) const CONNECTION_PARKED_MAX: u32 = 128;

/// Calls of one socket for datagrams that wait at one time; no further one is read until one is
/// answered.
pub(crate) const SOCKET_PARKED_MAX: u32 = 1024;

/// Calls of one loop that wait at one time; no further one is read until one is answered.
pub(crate) const LOOP_PARKED_MAX: usize = 16_384;

/// Bytes of memory that calls which wait hold at one time: the last of them may come on top. A
/// call of `COPY_BYTES_MAX` or more counts with the buffer that it was received into.
pub(crate) const CONNECTION_PARKED_BYTES_MAX: usize = 32 << 20;
pub(crate) const LOOP_PARKED_BYTES_MAX: usize = 256 << 20;

/// Bytes of memory that the connections of one loop hold for replies that are not all sent: calls
/// that waited may all be answered at once, and their client read nothing. Beyond, no more calls
/// are taken on, and connections are closed that are blocked for longest.
pub(crate) const LOOP_UNSENT_BYTES_MAX: usize = 256 << 20;

/// Bytes that one receive takes where nothing is known of what comes: few enough that the front
/// of a large WRITE is cheap to move to a buffer of its size, enough for hundreds of small calls.
pub(crate) const RECEIVE_BYTES: usize = 64 << 10;

/// How much memory is reserved for a record of which a part has come, as a multiple of that part:
/// the first receive of a fast sender makes room for the largest record, while a slow sender
/// holds little more than it sent.
pub(crate) const RESERVE_FACTOR: usize = 20;

/// Large receive buffers that one loop keeps for the next connection that needs one, for as long as
/// there is traffic: as many as large calls or replies are seldom on their way at once. The pages of
/// a new one cost more than the copy into it.
pub(crate) const LARGE_BUFFERS_MAX: usize = 32;

/// Bytes of memory that the connections of one loop hold at one time for records of which a part
/// has come: the last of them may come on top. Beyond, connections are closed that have been
/// silent for longest: a client that was honest connects again and sends again. The process has up
/// to a third more, as the allocator keeps what was freed a moment ago: 256 MiB in all.
pub(crate) const LOOP_HELD_BYTES_MAX: usize = 192 << 20;

/// Reply buffers that one loop keeps.
pub(crate) const WRITERS_MAX: usize = 64;

/// Pieces of memory in one send.
pub(crate) const SEND_PIECES_MAX: usize = 64;

/// The longest time a connection may leave a record half sent, or a reply half received, unless
/// configured otherwise.
pub const STALL_MAX: Duration = Duration::from_secs(300);

/// How often a loop looks for stalled connections, at least.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Silence after which the kernel asks a peer whether it is still there, how often it asks
/// again, and how many times before the connection is given up.
pub(crate) const KEEPALIVE: (Duration, Duration, u32) =
    (Duration::from_secs(60), Duration::from_secs(15), 6);

/// How long a client tries one connection: what a server's machine takes to answer, thrice lost on
/// the way.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// How long what a client sent may stay unacknowledged before its connection is taken for dead.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// Addresses of which one loop remembers whether they are this machine's.
pub(crate) const OWN_ADDRESSES_MAX: usize = 1024;

/// Users whose groups are remembered.
pub(crate) const KNOWN_USERS_MAX: usize = 65_536;

/// Bytes of the log that wait to be written; further lines are lost and counted. A start writes a
/// few thousand bytes, and a MiB is hours of a busy server's log.
pub(crate) const LOG_BYTES_MAX: usize = 1 << 20;

/// Threads for work that sleeps.
pub(crate) const POOL_THREADS_MAX: usize = 8;

/// Pieces of such work that wait for a thread; beyond, whoever asks does it.
pub(crate) const POOL_JOBS_MAX: usize = 16_384;
