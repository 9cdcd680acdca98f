//! The progress of a copy, for people and programs.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use leasehold_base::shown::shown;
use serde::Serialize;

/// The minimum interval between updates of the progress line.
const INTERVAL: Duration = Duration::from_millis(200);

/// The numbers of objects and bytes in a copy.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Copied {
    pub(super) files: u64,
    pub(super) directories: u64,
    pub(super) symlinks: u64,
    pub(super) bytes: u64,
    /// The bytes that were written again because a server restarted.
    pub(super) bytes_written_again: u64,
    /// The number of objects other than files, directories and symbolic links, which a copy skips.
    pub(super) skipped: u64,
    pub(super) failed: u64,
    pub(super) seconds: f64,
}

/// Counts the copied objects, and shows the counts on a terminal.
pub(super) struct Progress {
    copied: RefCell<Copied>,
    begun: Instant,
    shown: Cell<Option<Instant>>,
    is_shown: bool,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        let is_shown = !quiet && io::stderr().is_terminal();
        let (copied, shown) = (RefCell::default(), Cell::new(None));
        Self { copied, begun: Instant::now(), shown, is_shown }
    }

    pub(super) fn add_bytes(&self, bytes: u64, again: bool) {
        self.count(|copied| {
            let sum = if again { &mut copied.bytes_written_again } else { &mut copied.bytes };
            *sum += bytes;
        });
    }

    pub(super) fn count(&self, add: impl FnOnce(&mut Copied)) {
        add(&mut self.copied.borrow_mut());
        self.show();
    }

    /// Clears the progress line, and prints a message.
    pub(super) fn complain(&self, text: &str) {
        self.clear();
        // If stderr is closed, no reader misses the message: ignore the error.
        let _ = writeln!(io::stderr(), "leasehold: {}", shown(text));
    }

    /// Returns the totals.
    pub(super) fn end(&self) -> Copied {
        self.clear();
        Copied { seconds: self.begun.elapsed().as_secs_f64(), ..*self.copied.borrow() }
    }

    fn show(&self) {
        let now = Instant::now();
        let is_due = self.shown.get().is_none_or(|shown| now.duration_since(shown) >= INTERVAL);
        if !self.is_shown || !is_due {
            return;
        }
        self.shown.set(Some(now));
        let Copied { files, bytes, .. } = *self.copied.borrow();
        let seconds = self.begun.elapsed().as_secs_f64().max(0.001);
        // The conversion to a float may lose digits, but the output shows only one digit after the
        // point.
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        let line = format!("{files} files, {mebibytes:.1} MiB, {:.1} MiB/s", mebibytes / seconds);
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }

    fn clear(&self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
