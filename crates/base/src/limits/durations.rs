//! The durations of the limits table: timeouts, retry delays and intervals.

use core::time::Duration;

/// The longest wait of a call before its client receives NFS3ERR_JUKEBOX (RFC 1813 2.6) and retries:
/// a Linux client sleeps before its retry, so a shorter wait costs it time.
pub const JUKEBOX_AFTER: Duration = Duration::from_secs(2);

/// The delay before a metaserver repeats a request to a peer that has not answered.
pub const PEER_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The interval between health checks of a peer.
pub const PEER_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The longest time in which a home reports the directories above a directory.
pub const ANCESTRY_TIMEOUT: Duration = Duration::from_secs(5);

/// The delay before a metaserver repeats a failed attempt of an operation.
pub const METASERVER_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The interval between probes of a silent iod.
pub const IOD_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// The interval between probes of all iods while all changes succeed.
pub const IOD_HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The delay before the next attempt to find an iod.
pub const IOD_RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// The delay before the rebalance tries files again that it could not move.
pub const REBALANCE_RETRY_DELAY: Duration = Duration::from_secs(10);

/// The delay before a client requests a layout again after a failure. An iod may be back by then,
/// and the cost of one request is negligible against the transfers in that time.
pub const LAYOUT_RETRY_DELAY: Duration = Duration::from_secs(10);

/// The timeout of the messages at the end of a client.
pub const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of each step of a mount: name, portmapper, MOUNT.
pub const MOUNT_STEP_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest time for which calls in progress continue after an unmount.
pub const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time in which a killed server releases its write-ahead log.
pub const LOG_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time in which a killed server releases the lock of its state directory.
pub const STATE_LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest time for which the end of a process waits for log lines to be written.
pub const LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// The timeout of a report of an event loop. A loop blocks on nothing, but it may wait for a
/// processor.
pub const LOOP_REPORT_TIMEOUT: Duration = Duration::from_secs(2);

/// The time after which the server gives up a reply that a control command does not read.
pub const CONTROL_REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of a request for the status of a server: the thread that answers blocks on nothing.
pub const STATUS_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of a whole HTTP request and of its whole reply: slow readers are disconnected.
pub const HTTP_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of a reply of rpcbind.
pub const RPCBIND_TIMEOUT: Duration = Duration::from_secs(10);

/// The timeout of a connection to a portmapper that `doctor` tests.
pub const PORTMAPPER_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout of a connection to the name service and of its reply.
pub const NAME_SERVICE_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of a search for a server by name: a server answers within a fraction of a second, and
/// the question is repeated after a second.
pub const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of the withdrawal of an announcement.
pub const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout of `restart`: the server may have much to write to a slow disk.
pub const RESTART_TIMEOUT: Duration = Duration::from_mins(5);

/// The timeout of an iod's reply in commands on clusters.
pub const CLUSTER_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
