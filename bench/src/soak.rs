//! Checks that the server's memory and file descriptors stay constant under load: rounds of every
//! operation on new connections, and a sample of the process after each round. After a warm-up the
//! last part of the run must use no more than the part before.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use leasehold_load::{Error, Load, Operation, Setting, run};
use serde::Serialize;

use crate::servers::Server;

/// The duration of one operation in a round.
const TURN: Duration = Duration::from_secs(1);

/// The permitted growth of memory: a share of the earlier part, and a minimum for the rounding of
/// the allocator.
const GROWTH_MAX: f64 = 0.05;
const GROWTH_KIB: u64 = 2048;

/// The permitted growth of file descriptors: connections that are about to close.
const DESCRIPTORS_MORE: u64 = 8;

const OPERATIONS: [Operation; 8] = [
    Operation::Null,
    Operation::Getattr,
    Operation::Lookup,
    Operation::Read(4096),
    Operation::Read(1 << 20),
    Operation::Write { bytes: 32 << 10, stable: false },
    Operation::Readdirplus,
    Operation::CreateRemove,
];

/// The resources of a process after a round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Held {
    minute: f64,
    calls: u64,
    memory_kib: u64,
    descriptors: u64,
}

/// Runs a server under load for `length`, and compares the resources after each round.
pub(crate) fn soak(length: Duration) -> Result<(), Error> {
    let folder = tempfile::tempdir()?;
    let server = Server::ours(folder.path(), "memory")?;
    let setting = Setting::make(server.nfs, server.mount, &server.export)?;
    let (start, mut calls, mut seen) = (Instant::now(), 0, Vec::new());
    while start.elapsed() < length {
        for operation in OPERATIONS {
            let load = Load::timed(operation, 8, 4, TURN);
            calls += run(&setting, &load, server.process())?.calls;
        }
        let minute = start.elapsed().as_secs_f64() / 60.0;
        let held = held(server.process(), minute, calls)?;
        println!("{}", serde_json::to_string(&held).map_err(io::Error::from)?);
        seen.push(held);
    }
    let verdict = judge(&seen);
    println!("{verdict}");
    if verdict.is_flat {
        Ok(())
    } else {
        Err(Error::Wrong("memory or file descriptors grow".to_owned()))
    }
}

fn held(process: u32, minute: f64, calls: u64) -> io::Result<Held> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory_kib = memory
        .and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok())
        .ok_or_else(|| io::Error::other("the system does not report the memory of the process"))?;
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"))?.count() as u64;
    Ok(Held { minute, calls, memory_kib, descriptors })
}

/// The result of the run.
#[derive(Debug, Serialize)]
struct Verdict {
    rounds: usize,
    memory_kib_before: u64,
    memory_kib_at_last: u64,
    descriptors_before: u64,
    descriptors_at_last: u64,
    is_flat: bool,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| std::fmt::Error)?)
    }
}

/// Compares the maximum of the last third with the maximum of the third before; the first third
/// fills the caches.
fn judge(seen: &[Held]) -> Verdict {
    let third = seen.len() / 3;
    let most = |part: &[Held], of: fn(&Held) -> u64| part.iter().map(of).max().unwrap_or(0);
    let (before, last) = (&seen[third..2 * third], &seen[2 * third..]);
    let memory = [before, last].map(|part| most(part, |held| held.memory_kib));
    let descriptors = [before, last].map(|part| most(part, |held| held.descriptors));
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let more = (memory[0] as f64 * GROWTH_MAX) as u64;
    Verdict {
        rounds: seen.len(),
        memory_kib_before: memory[0],
        memory_kib_at_last: memory[1],
        descriptors_before: descriptors[0],
        descriptors_at_last: descriptors[1],
        is_flat: third > 0
            && memory[1] <= memory[0] + more.max(GROWTH_KIB)
            && descriptors[1] <= descriptors[0] + DESCRIPTORS_MORE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_of(memory: impl Fn(u64) -> u64, descriptors: impl Fn(u64) -> u64) -> Verdict {
        let at = |round: u64| Held {
            minute: 0.0,
            calls: round,
            memory_kib: memory(round),
            descriptors: descriptors(round),
        };
        judge(&(0..30).map(at).collect::<Vec<_>>())
    }

    #[test]
    fn steady_growth_is_found_and_a_filling_cache_is_not() {
        assert!(run_of(|round| 50_000 + 5_000 * round.min(9), |_| 40).is_flat);
        assert!(!run_of(|round| 50_000 + 700 * round, |_| 40).is_flat);
        assert!(!run_of(|_| 50_000, |round| 40 + round).is_flat);
        assert!(!judge(&[]).is_flat, "too short to say");
    }
}
