//! Many connections, each with one call in flight, served equally by one thread, so that
//! differences between them are due to the server.

use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};

use crate::connection::Connection;
use crate::operation::{Operation, Slot};
use crate::{Error, Setting};

/// The run fails if the server sends no reply on any connection for this time.
const REPLY_TIMEOUT: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Returns the number of replies on each connection.
///
/// # Errors
/// A connection fails or the server sends a wrong reply.
pub fn crowd(
    setting: &Setting,
    operation: Operation,
    connections: u32,
    time: Duration,
) -> Result<Vec<u64>, Error> {
    let events = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
    let mut members = Vec::new();
    for number in 0..connections {
        let connection = Connection::open(setting.server)?;
        let data = epoll::EventData::new_u64(number.into());
        epoll::add(&events, &connection, data, epoll::EventFlags::IN)
            .map_err(std::io::Error::from)?;
        members.push((connection, Slot::new(operation, number), 0_u32));
    }
    for (connection, slot, xid) in &mut members {
        slot.call(setting, connection, *xid);
        connection.flush()?;
    }
    let start = Instant::now();
    let mut ready = Vec::with_capacity(members.len());
    while start.elapsed() < time {
        ready.clear();
        epoll::wait(&events, rustix::buffer::spare_capacity(&mut ready), Some(&REPLY_TIMEOUT))
            .map_err(std::io::Error::from)?;
        if ready.is_empty() {
            return Err(Error::Wrong("no reply on any connection".to_owned()));
        }
        for event in &ready {
            let number = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            let Some((connection, slot, xid)) = members.get_mut(number) else { continue };
            let (_, results) = connection.reply(true)?.expect("waits until there is one");
            slot.check(&results)?;
            *xid += 1;
            slot.call(setting, connection, *xid);
            connection.flush()?;
        }
    }
    Ok(members.iter().map(|(.., answered)| u64::from(*answered)).collect())
}
