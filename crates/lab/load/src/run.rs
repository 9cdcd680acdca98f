//! One run: so many calls in flight on so many connections for so long.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::operation::{Operation, Slot, commit};
use crate::{Error, Setting};

/// What is asked, and how hard.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What is asked.
    pub operation: Operation,
    /// Calls in flight on each connection.
    pub in_flight: u32,
    /// Connections, a thread each.
    pub connections: u32,
    /// For how long; calls in flight are waited for.
    pub time: Duration,
    /// How many calls each connection makes at most, but for those that are in flight then.
    pub calls_max: u64,
}

impl Load {
    /// A load that ends with its time alone.
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

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Calls that were answered.
    pub calls: u64,
    /// Bytes of file data in them.
    pub bytes: u64,
    /// Directory entries in them.
    pub entries: u64,
    /// The time that it took.
    pub time: Duration,
    /// The processor time of the server's process.
    pub server_cpu: Duration,
}

impl Sample {
    /// Calls a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.time.as_secs_f64()
    }

    /// Processor time of the server for each call.
    #[must_use]
    pub fn cpu_per_call(&self) -> Duration {
        self.server_cpu.div_f64((self.calls as f64).max(1.0))
    }
}

/// Makes load, and measures the processor time of the process with the server's number.
///
/// # Errors
/// When a connection fails or the server answers wrongly.
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
        // One reply is waited for; what came with it is taken too, and answered in one batch.
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
                // A number of its own for each call: a server keeps replies by it.
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

/// The processor time that a process has had, in user and system mode.
///
/// # Errors
/// When there is no such process.
pub fn processor_time(process: u32) -> Result<Duration, Error> {
    let line = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in parentheses, may hold anything; times are fields 14 and 15.
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
