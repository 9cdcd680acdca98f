//! The durations of calls, by procedure.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;

use crate::runner::Finished;
use crate::talk::{Procedure, procedure_name};

/// The times of one procedure.
#[derive(Debug, PartialEq, Serialize)]
struct Times {
    procedure: String,
    calls: usize,
    median_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

/// Writes a table, or a line of JSON for each procedure.
pub(super) fn write(finished: &[Finished], json: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut all = BTreeMap::<Procedure, Vec<Duration>>::new();
    for (procedure, times) in finished.iter().flat_map(|one| &one.timings) {
        all.entry(*procedure).or_default().extend(times);
    }
    let all = all.into_iter().map(|(procedure, times)| times_of(procedure_name(procedure), times));
    if json {
        return all.into_iter().try_for_each(|times| super::write_json(out, &times));
    }
    writeln!(
        out,
        "\n{:24} {:>7} {:>9} {:>9} {:>9}",
        "procedure", "calls", "median", "99 %", "max"
    )?;
    for times in all {
        let Times { procedure, calls, median_ms, p99_ms, max_ms } = times;
        writeln!(
            out,
            "{procedure:24} {calls:7} {median_ms:6.3} ms {p99_ms:6.3} ms {max_ms:6.3} ms"
        )?;
    }
    Ok(())
}

fn times_of(procedure: String, mut times: Vec<Duration>) -> Times {
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 100).min(times.len().saturating_sub(1));
        times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    Times { procedure, calls: times.len(), median_ms: at(50), p99_ms: at(99), max_ms: at(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranked() {
        let times = times_of("X".into(), (1..=200).rev().map(Duration::from_millis).collect());
        assert_eq!(times.calls, 200);
        assert_eq!((times.median_ms, times.p99_ms, times.max_ms), (101.0, 199.0, 200.0));
    }
}
