//! The latency of successive calls.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::operation::{Operation, Slot};
use crate::{Error, Setting};

/// Returns the latencies of calls on one connection with one call in flight, in ascending order.
///
/// # Errors
/// The connection fails or the server sends a wrong reply.
/// When the connection fails or the server answers wrongly.
pub fn latencies(
    setting: &Setting,
    operation: Operation,
    time: Duration,
) -> Result<Vec<Duration>, Error> {
    let mut connection = Connection::open(setting.server)?;
    let mut slot = Slot::new(operation, 0);
    let (start, mut all) = (Instant::now(), Vec::new());
    for xid in 0.. {
        slot.call(setting, &mut connection, xid);
        let before = Instant::now();
        connection.flush()?;
        let (_, results) = connection.reply(true)?.expect("waits until there is one");
        all.push(before.elapsed());
        slot.check(&results)?;
        if start.elapsed() >= time && slot.is_tidy() {
            break;
        }
    }
    all.sort_unstable();
    Ok(all)
}
