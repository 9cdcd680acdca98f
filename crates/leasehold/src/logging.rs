//! The log of a long-running command.

use leasehold_shell::log::{self, Target};
use tracing_subscriber::filter::LevelFilter;

use crate::failure::{Failure, Kind};
use crate::options::LogFormat;

/// Starts the log. A line that cannot be written is lost; no command waits for the log.
pub(crate) fn start(target: Target, level: LevelFilter, format: LogFormat) -> Result<(), Failure> {
    let lines = log::start(target)
        .map_err(|error| Kind::Running.because(format!("cannot start a thread: {error}")))?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || lines.clone())
        // Without this setting the subscriber would report a failed write on standard error, and
        // panic if standard error accepts no output.
        .log_internal_errors(false)
        .with_target(false)
        .with_ansi(false);
    match format {
        LogFormat::Plain => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
