//! The progress of a copy, for people.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use leasehold_base::shown::shown;
use leasehold_files::{Copied, Watch};

/// The minimum interval between updates of the progress line.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows the counts of a copy on a terminal.
pub(super) struct Progress {
    begun: Instant,
    shown: Cell<Option<Instant>>,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let is_shown = !quiet && io::stderr().is_terminal();
        Self { begun: Instant::now(), shown: Cell::new(None), is_shown }
    }

    /// Clears the progress line; returns the seconds since the start.
    pub(super) fn end(&self) -> f64 {
        self.clear();
        self.begun.elapsed().as_secs_f64()
    }

    fn clear(&self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Watch for Progress {
    fn counted(&self, copied: &Copied) {
        let now = Instant::now();
        let is_due = self.shown.get().is_none_or(|shown| now.duration_since(shown) >= INTERVAL);
        if !self.is_shown || !is_due {
            return;
        }
        self.shown.set(Some(now));
        let Copied { files, bytes, .. } = *copied;
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        // The conversion to a float may lose digits, but the output shows only one digit after the
        // point.
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        let line = format!("{files} files, {mebibytes:.1} MiB, {:.1} MiB/s", mebibytes / seconds);
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    /// Clears the progress line, and prints a message.
    fn complained(&self, text: &str) {
        self.clear();
        // If stderr is closed, no reader misses the message: ignore the error.
        let _ = writeln!(io::stderr(), "leasehold: {}", shown(text));
    }
}
