//! The writer of the log, which neither fails nor blocks its callers.
//!
//! Standard error may be a full disk, a pipe without a reader or a closed pipe. The server
//! continues in each case.
//!
//! Rules:
//! 1. A thread that logs puts its line into a queue in memory. One thread, the writer, takes lines
//!    from the queue and writes them. Only the writer waits for standard error.
//! 2. A line is lost and counted if the queue is full or if the line cannot be written.
//! 3. When lines can be written again, the log reports the number of lost lines.
//! 4. At the end of the process, the process waits a bounded time for the lines in the queue to be
//!    written.
//! 5. The log reports each panic in a line. The process ends after a panic of a loop even if that
//!    line cannot be written.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::LOG_FLUSH_TIMEOUT;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::limits::LOG_BYTES_MAX;
use crate::own;

/// The target to which the log writes lines.
#[derive(Debug)]
pub enum Target {
    /// Standard error: the file to which descriptor 2 refers when a line is written.
    Stderr,
    /// A file.
    File(File),
}

/// The log's queue as a writer: each write is one line and succeeds at once.
#[derive(Clone)]
pub struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signals that there is a line to write.
    filled: Condvar,
    /// Signals that every line was written or lost.
    emptied: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// True while the writer writes a line.
    is_busy: bool,
}

/// The log of the process.
static LOG: OnceLock<Lines> = OnceLock::new();

/// Starts the thread that writes the log of the process, and directs panics to the log. A second
/// call returns the same log.
///
/// # Errors
/// The system cannot start a thread.
pub fn start(target: Target) -> io::Result<Lines> {
    if let Some(lines) = LOG.get() {
        return Ok(lines.clone());
    }
    let lines = Lines::to(target)?;
    panic::set_hook(Box::new(log_panic));
    Ok(LOG.get_or_init(|| lines).clone())
}

/// Returns the number of lost lines of the log so far.
#[must_use]
pub fn lost() -> u64 {
    LOG.get().map_or(0, Lines::lost)
}

/// Waits until the log is written, for at most half a second. A program calls this function before
/// its process ends.
pub fn flush() {
    if let Some(lines) = LOG.get() {
        lines.flush(LOG_FLUSH_TIMEOUT);
    }
}

/// Aborts the process, for example after a broken invariant. First logs the reason, if the log
/// accepts the line.
pub(crate) fn end_the_process(reason: &'static str) -> ! {
    // `catch_unwind` stops a panic of the log, so that no failure of the log keeps the process
    // alive.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        tracing::error!("{reason}");
        flush();
    }));
    process::abort()
}

/// Logs a panic.
fn log_panic(info: &PanicHookInfo<'_>) {
    let text = info.payload_as_str().unwrap_or("the panic has no text");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = thread::current().name().unwrap_or("unnamed").to_owned();
    // `capture` records a backtrace only if the environment variable RUST_BACKTRACE requests it.
    // Otherwise the log line has no backtrace.
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        tracing::error!(thread, place, "panic: {text}\n{trace}");
    } else {
        tracing::error!(thread, place, "panic: {text}");
    }
}

impl Lines {
    fn to(target: Target) -> io::Result<Self> {
        let lines = Self(Arc::new(Shared::default()));
        let shared = Arc::clone(&lines.0);
        own::spawn("log", move || {
            Writer { target, is_torn: false, told: 0, failure: None }.run(&shared);
        })?;
        Ok(lines)
    }

    fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    fn flush(&self, patience: Duration) {
        let end = Instant::now() + patience;
        let mut queue = self.0.lock();
        while queue.is_busy || !queue.lines.is_empty() {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            let waited = self.0.emptied.wait_timeout(queue, rest);
            (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.lock();
        if queue.bytes + line.len() > LOG_BYTES_MAX {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            queue.bytes += line.len();
            queue.lines.push_back(line.into());
            if !queue.is_busy {
                self.0.filled.notify_one();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Each change of the queue is complete when the mutex is released, so the queue is usable
        // even after a panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next line to write, and waits if there is none. Before the wait, signals that
    /// all earlier lines were written or lost.
    fn next(&self) -> Box<[u8]> {
        let mut queue = self.lock();
        queue.is_busy = false;
        loop {
            if let Some(line) = queue.lines.pop_front() {
                queue.bytes -= line.len();
                queue.is_busy = true;
                return line;
            }
            self.emptied.notify_all();
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The writer of lines.
struct Writer {
    target: Target,
    /// True if the last line was written in part.
    is_torn: bool,
    /// The number of lost lines that the log has reported.
    told: u64,
    /// The reason why the last lost line could not be written.
    failure: Option<io::Error>,
}

impl Writer {
    fn run(mut self, shared: &Shared) {
        loop {
            let line = shared.next();
            if let Err(error) = self.write(&line) {
                shared.lost.fetch_add(1, Ordering::Relaxed);
                self.is_torn |= error.is_torn;
                self.failure = Some(error.error);
                continue;
            }
            let lost = shared.lost.load(Ordering::Relaxed);
            if lost != self.told {
                // The report of lost lines is queued as a separate line behind the other lines. If
                // the report itself is lost, the next line that is written causes another report.
                let lines = lost - self.told;
                let full = "lines arrived faster than they could be written".to_owned();
                let reason = self.failure.take().map_or(full, |error| error.to_string());
                tracing::warn!(lines, since_start = lost, reason, "lines of the log were lost");
                self.told = lost;
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> Result<(), Unwritten> {
        if self.is_torn {
            self.put(b"\n")?;
            self.is_torn = false;
        }
        self.put(line)
    }

    /// Writes all bytes, and waits without a limit while the target accepts no bytes.
    fn put(&self, mut bytes: &[u8]) -> Result<(), Unwritten> {
        let length = bytes.len();
        while !bytes.is_empty() {
            match self.put_some(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Another process that shares standard error may have made it non-blocking, so the
                // writer waits until it accepts bytes.
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait_for_room(),
                Err(error) => return Err(Unwritten { is_torn: bytes.len() < length, error }),
            }
        }
        Ok(())
    }

    fn put_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &self.target {
            Target::Stderr => rustix::io::write(io::stderr(), bytes)?,
            Target::File(file) => (&*file).write(bytes)?,
        };
        if count == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(count) }
    }

    fn wait_for_room(&self) {
        let a_second = Timespec { tv_sec: 1, tv_nsec: 0 };
        let stderr = io::stderr();
        let place = match &self.target {
            Target::Stderr => stderr.as_fd(),
            Target::File(file) => file.as_fd(),
        };
        let mut ready = [PollFd::from_borrowed_fd(place, PollFlags::OUT)];
        // The result of the wait is ignored, because the next write reports an error if there is
        // one.
        let _ = poll(&mut ready, Some(&a_second));
    }
}

/// A line that could not be written.
struct Unwritten {
    /// True if a part of the line was written.
    is_torn: bool,
    error: io::Error,
}

#[cfg(test)]
mod tests;
