//! `leasehold top`.

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;

use leasehold_view::{Snapshot, Span, top};

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::Top;
use crate::status::state_directory;

/// Shows what a running server does, until the user leaves.
pub(crate) fn run(options: &Top) -> Result<(), Failure> {
    let state = state_directory(options.state.as_deref())?;
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
        let text = "stdout is no terminal: use --json for lines that a program can read";
        return Err(Kind::Options.because(text));
    };
    match ended {
        // Whoever read the lines has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended.map_err(|error| Kind::Running.because(error.to_string())),
    }
}

/// Says what happened in each interval as a line of JSON, so often, or for ever.
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
        writeln!(io::stdout(), "{line}")?;
        (before, told) = (after, told + 1);
    }
    Ok(())
}
