//! One run: a number of calls in flight on a number of connections for a time.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::operation::{Operation, Slot, commit};
use crate::{Error, Setting};

/// The operation and the intensity of a load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The operation.
    pub operation: Operation,
    /// Calls in flight on each connection.
    pub in_flight: u32,
    /// Connections, a thread each.
    pub connections: u32,
    /// The duration; the run then waits for the calls in flight.
    pub time: Duration,
    /// The largest number of calls on each connection, except calls already in flight.
    pub calls_max: u64,
}

impl Load {
    /// Returns a load that only its time ends.
    #[must_use]
    pub const fn timed(
        operation: Operation,
        in_flight: u32,
        connections: u32,
        time: Duration,
    ) -> Self {
        Self { operation, in_flight, connections, time, calls_max: u64::MAX }
    }
}

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Calls with a reply.
    pub calls: u64,
    /// Bytes of file data in the calls.
    pub bytes: u64,
    /// Directory entries in the calls.
    pub entries: u64,
    /// The duration.
    pub time: Duration,
    /// The processor time of the server's process.
    pub server_cpu: Duration,
}

impl Sample {
    /// Returns the calls per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    /// Returns the processor time of the server for each call.
    #[must_use]
    pub fn cpu_per_call(&self) -> Duration {
        self.server_cpu.div_f64((self.calls as f64).max(1.0))
    }
}

/// Generates load, and measures the processor time of the process `server_process`.
///
/// # Errors
/// A connection fails or the server sends a wrong reply.
pub fn run(setting: &Setting, load: &Load, server_process: u32) -> Result<Sample, Error> {
    let cpu_before = processor_time(server_process)?;
    let start = Instant::now();
    let workers: Vec<_> = (0..load.connections)
        .map(|connection| {
            let (setting, load) = (*setting, *load);
            thread::spawn(move || work(&setting, &load, connection, start))
        })
        .collect();
    let mut total = Sample::default();
    for worker in workers {
        let sample = worker.join().expect("a worker does not panic")?;
        total.calls += sample.calls;
        total.bytes += sample.bytes;
        total.entries += sample.entries;
    }
    total.time = start.elapsed();
    total.server_cpu = processor_time(server_process)?.saturating_sub(cpu_before);
    Ok(total)
}

fn work(
    setting: &Setting,
    load: &Load,
    connection_number: u32,
    start: Instant,
) -> Result<Sample, Error> {
    let mut connection = Connection::open(setting.server)?;
    let first = connection_number * load.in_flight;
    let mut slots: Vec<Slot> =
        (first..first + load.in_flight).map(|number| Slot::new(load.operation, number)).collect();
    let slot_count = load.in_flight;
    for (slot, xid) in slots.iter_mut().zip(0..) {
        slot.call(setting, &mut connection, xid);
    }
    let (mut sample, mut in_flight) = (Sample::default(), slots.len());
    while in_flight > 0 {
        connection.flush()?;
        // The loop waits for one reply, takes all others that have arrived, and sends the next
        // calls in one batch.
        let mut wait = true;
        let go_on = start.elapsed() < load.time && sample.calls < load.calls_max;
        while in_flight > 0
            && let Some((xid, results)) = connection.reply(wait)?
        {
            wait = false;
            let slot = &mut slots[(xid % slot_count) as usize];
            if !slot.is_answered_by(xid, slot_count) {
                return Err(Error::Wrong(format!("a reply to no call: {xid}")));
            }
            let worth = slot.check(&results)?;
            sample.calls += 1;
            sample.bytes += worth.bytes;
            sample.entries += worth.entries;
            if go_on || !slot.is_tidy() {
                // Each call has a unique number, because a server caches replies by the number.
                slot.call(setting, &mut connection, xid.wrapping_add(slot_count));
            } else {
                in_flight -= 1;
            }
        }
    }
    if matches!(load.operation, Operation::Write { stable: false, .. }) {
        commit(setting, &mut connection)?;
    }
    Ok(sample)
}

/// Returns the processor time of a process, in user and system mode.
///
/// # Errors
/// The process does not exist.
pub fn processor_time(process: u32) -> Result<Duration, Error> {
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may contain any character; times are fields 14 and 15.
    let fields = line.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_nanos(ticks * 1_000_000_000 / per_second))
}
