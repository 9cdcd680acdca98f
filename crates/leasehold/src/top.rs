//! `leasehold top`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Instant;

use leasehold_base::shown::shown as plain;
use leasehold_view::{Snapshot, Span, top};
use serde_json::Value;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::mount;
use crate::options::Top;

/// Shows the activity of a running server, until the user quits.
pub(crate) fn run(options: &Top) -> Result<(), Failure> {
    if let Some(directory) = &options.mount {
        return match watch_mount(options, directory) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            ended => ended.map_err(|error| Kind::Running.because(error.to_string())),
        };
    }
    let state = options.which.state()?;
    let ask = || -> io::Result<Snapshot> {
        let told = control::ask(&state, &Request::Status).map_err(io::Error::other)?;
        serde_json::from_value(told).map_err(io::Error::other)
    };
    let interval = options.interval.0;
    let ended = if options.json {
        tell(|| thread::sleep(interval), ask, options.count)
    } else if io::stdout().is_terminal() {
        top::watch(interval, ask)
    } else {
        let text = "stdout is not a terminal: use --json for the output of a program";
        return Err(Kind::Options.because(text));
    };
    match ended {
        // The reader of stdout has closed the pipe because it needs no more data, so this is not a
        // failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended.map_err(|error| Kind::Running.because(error.to_string())),
    }
}

/// Shows the activity of a mount, on the terminal or as JSON, up to the requested number of times.
fn watch_mount(options: &Top, directory: &Path) -> io::Result<()> {
    /// Clears the terminal, and moves the cursor to the top.
    const CLEAR: &str = "\x1b[2J\x1b[H";
    let ask = || mount::ask(directory).map_err(io::Error::other);
    let replies = |told: &Value| told["calls"]["replies"].as_u64().unwrap_or_default();
    let mut before = ask()?;
    let mut shown = 0;
    while options.count.is_none_or(|count| shown < count) {
        let start = Instant::now();
        thread::sleep(options.interval.0);
        let mut told = ask()?;
        let calls = u32::try_from(replies(&told).saturating_sub(replies(&before)));
        let rate = f64::from(calls.unwrap_or(u32::MAX)) / start.elapsed().as_secs_f64();
        before = told.clone();
        let text = if options.json {
            told["calls_per_s"] = rate.into();
            plain(&format!("{told}\n")).into_owned()
        } else {
            format!("{CLEAR}{}{rate:.0} calls/s\n", plain(&mount::page(&told)))
        };
        io::stdout().write_all(text.as_bytes())?;
        io::stdout().flush()?;
        shown += 1;
    }
    Ok(())
}

/// Prints the activity of each interval as a line of JSON, up to the requested number of lines.
fn tell(
    wait: impl Fn(),
    ask: impl Fn() -> io::Result<Snapshot>,
    count: Option<u64>,
) -> io::Result<()> {
    let mut before = ask()?;
    let mut told = 0;
    while count.is_none_or(|count| told < count) {
        wait();
        let after = ask()?;
        let line = serde_json::to_string(&Span::between(&before, &after))?;
        writeln!(io::stdout(), "{}", plain(&line))?;
        (before, told) = (after, told + 1);
    }
    Ok(())
}
