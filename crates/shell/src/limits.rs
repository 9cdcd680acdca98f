//! The shell's limits: they bound the memory and the work that one client can cause.

use core::time::Duration;

/// The maximum number of connections, unless configured otherwise.
pub const CONNECTIONS_MAX: usize = 16_384;

/// The maximum number of connections above [`CONNECTIONS_MAX`]. The server accepts such connections
/// while it is about to close other connections for them.
pub(crate) const CROWDING_MAX: usize = 64;

/// The number of bytes of replies at which one turn of a connection answers no further call and
/// sends. A reply that begins below this limit may exceed it.
pub(crate) const BATCH_BYTES_MAX: usize = 256 << 10;

/// The maximum number of calls that one turn of a connection answers before another connection has
/// its turn.
pub(crate) const BATCH_CALLS_MAX: usize = 64;

/// The maximum number of rounds for which a loop defers woken calls in favour of connections with
/// received calls.
pub(crate) const PUT_OFF_MAX: u32 = 4;

/// The maximum number of datagrams that one turn of a socket answers.
pub(crate) const BATCH_DATAGRAMS_MAX: usize = 64;

/// The size of the kernel's receive buffer for datagrams.
pub(crate) const DATAGRAM_BACKLOG_BYTES: usize = 4 << 20;

/// The maximum number of connections that one turn of a listening socket accepts.
pub(crate) const BATCH_ACCEPTS_MAX: usize = 64;

/// The maximum number of waiting calls of one connection. At this limit the loop reads no further
/// call of the connection.
pub(crate) const CONNECTION_PARKED_MAX: u32 = 128;

/// The maximum number of waiting calls of one datagram socket. At this limit the loop reads no
/// further call from the socket.
pub(crate) const SOCKET_PARKED_MAX: u32 = 1024;

/// The maximum number of waiting calls of one loop. At this limit the loop reads no further call.
pub(crate) const LOOP_PARKED_MAX: usize = 16_384;

/// The maximum number of bytes of memory that the waiting calls of one connection hold. The last
/// call may exceed this limit. A call of `COPY_BYTES_MAX` or more counts with its whole receive
/// buffer.
pub(crate) const CONNECTION_PARKED_BYTES_MAX: usize = 32 << 20;
pub(crate) const LOOP_PARKED_BYTES_MAX: usize = 256 << 20;

/// The maximum number of bytes of memory that the connections of one loop hold for unsent replies:
/// many waiting calls may complete at once while their clients do not read. Beyond this limit, the
/// loop accepts no more calls and closes the connections that have been blocked for longest.
pub(crate) const LOOP_UNSENT_BYTES_MAX: usize = 256 << 20;

/// The buffer size of a receive whose amount of data is unknown, in bytes. The size is small enough
/// that a copy of the start of a large WRITE into a larger buffer is cheap, and large enough for
/// hundreds of small calls.
pub(crate) const RECEIVE_BYTES: usize = 64 << 10;

/// The size of the buffer for a partly received record, as a multiple of the received part. After
/// the first receive from a fast sender the buffer is large enough for the largest record, while a
/// slow sender occupies little more memory than the data that it has sent.
pub(crate) const RESERVE_FACTOR: usize = 20;

/// The maximum number of large receive buffers that one loop keeps for reuse while there is
/// traffic. A greater number of large calls or replies is seldom in progress at once. The page
/// faults of a new buffer cost more than a copy of the data into the buffer.
pub(crate) const LARGE_BUFFERS_MAX: usize = 32;

/// The maximum number of bytes of memory that the connections of one loop hold for partly received
/// records; the last record may exceed this limit. Beyond this limit, the loop closes the
/// connections that have been idle for longest: an honest client reconnects and retransmits. The
/// allocator keeps recently freed memory, so the process may use a third more: 256 MiB for each
/// loop.
pub(crate) const LOOP_HELD_BYTES_MAX: usize = 192 << 20;

/// The maximum number of reply buffers that one loop keeps for reuse.
pub(crate) const WRITERS_MAX: usize = 64;

/// The maximum number of memory pieces in one send.
pub(crate) const SEND_PIECES_MAX: usize = 64;

/// The maximum time for which a client may leave a record partly sent, or a reply partly received,
/// unless configured otherwise.
pub const STALL_MAX: Duration = Duration::from_secs(300);

/// The maximum interval between two checks for stalled connections.
pub(crate) const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// TCP keepalive: the idle time before the first probe, the interval of probes, and the number of
/// probes before the connection is closed.
pub(crate) const KEEPALIVE: (Duration, Duration, u32) =
    (Duration::from_secs(60), Duration::from_secs(15), 6);

/// The timeout of a connection attempt, which permits three lost packets.
pub(crate) const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// The maximum time for which sent data may stay unacknowledged before the connection counts as
/// dead.
pub(crate) const USER_TIMEOUT: Duration = Duration::from_secs(20);

/// The maximum number of addresses for which one loop caches if the address is local.
pub(crate) const OWN_ADDRESSES_MAX: usize = 1024;

/// The maximum number of users whose groups are cached.
pub(crate) const KNOWN_USERS_MAX: usize = 65_536;

/// The maximum number of bytes of queued log lines; further lines are lost and counted. A start
/// writes a few thousand bytes, and a busy server takes hours for a MiB.
pub(crate) const LOG_BYTES_MAX: usize = 1 << 20;

/// The maximum number of threads for blocking work.
pub(crate) const POOL_THREADS_MAX: usize = 8;

/// The maximum number of queued jobs of blocking work. Beyond this number the caller runs the job
/// itself.
pub(crate) const POOL_JOBS_MAX: usize = 16_384;
