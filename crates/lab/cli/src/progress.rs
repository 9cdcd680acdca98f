//! A line on the terminal that shows the progress of long work; no output without a terminal.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// The line, and the time when it was last drawn.
#[derive(Debug)]
pub(crate) struct Progress {
    drawn: Cell<Option<Instant>>,
    begun: Instant,
    is_seen: bool,
}

/// Shorter work needs no line, and a faster refresh is not visible.
const PAUSE: Duration = Duration::from_millis(300);

impl Progress {
    pub(crate) fn new() -> Self {
        let is_seen = std::io::stderr().is_terminal();
        Self { drawn: Cell::new(None), begun: Instant::now(), is_seen }
    }

    /// Shows the current step.
    pub(crate) fn say(&self, text: &str) {
        if self.is_seen && self.drawn.get().unwrap_or(self.begun).elapsed() >= PAUSE {
            self.drawn.set(Some(Instant::now()));
            // A failure to draw the line does not stop the work.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.get().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
