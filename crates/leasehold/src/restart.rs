//! `leasehold restart` and SIGUSR2: the process executes the installed program and keeps its
//! sockets, so that none of them ever closes.

use std::env;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_base::limits::durations::RESTART_TIMEOUT;
use leasehold_shell::inherited_sockets::{Purpose, go_on_as};
use leasehold_shell::log;
use leasehold_shell::process::{self, Asked, Termination};
use leasehold_shell::{Ownership, Running};
use leasehold_view::Snapshot;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::Restart;
use crate::output::say;
use crate::reload;
use crate::running;
use crate::server_state::Serving;

/// The time that a server may take to complete the calls in progress when it ends.
const GRACE: Duration = Duration::from_secs(5);

/// The interval between checks whether the new process serves.
const LOOK: Duration = Duration::from_millis(10);

/// The reply of a server that can be restarted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Successor {
    pid: u32,
    /// The name and version of the program that would run after the restart.
    program: String,
}

/// Restarts a running server, and waits until it serves again.
pub(crate) fn run(options: &Restart) -> Result<(), Failure> {
    let state = options.which.state()?;
    let refused = |text: String| Kind::Running.because(text);
    let mut asker = control::connect(&state).map_err(refused)?;
    let told = control::ask_again(&mut asker, &state, &Request::Successor).map_err(refused)?;
    let successor: Successor = serde_json::from_value(told)
        .map_err(|error| refused(format!("the server is of another version: {error}")))?;
    let asked = Instant::now();
    // Take the process id from the kernel. A process id in the reply of another process could name
    // any process, which would then receive the signal.
    asker
        .pid()
        .and_then(process::request_restart)
        .map_err(|error| refused(format!("cannot signal the server: {error}")))?;
    while !is_back(&state, successor.pid, asked) {
        if asked.elapsed() > RESTART_TIMEOUT {
            let text = "the server does not serve again yet: see its log";
            return Err(refused(text.to_owned()));
        }
        thread::sleep(LOOK);
    }
    let seconds = asked.elapsed().as_secs_f64();
    let Successor { pid, program } = successor;
    let text = match options.json {
        true => format!("{}\n", json!({ "pid": pid, "program": program, "took_s": seconds })),
        false => format!("{program} serves again, after {seconds:.2} s\n"),
    };
    say(text)
}

/// Returns true if a server replies that was started after `asked`. The next version may keep its
/// state directory elsewhere.
fn is_back(state: &Path, pid: u32, asked: Instant) -> bool {
    let moved = || {
        let servers = running::servers().into_iter();
        let mut of_process =
            servers.filter(|one| one.about.as_ref().map(|one| one.pid) == Some(pid));
        control::ask(&of_process.next()?.state, &Request::Status).ok()
    };
    let told = control::ask(state, &Request::Status).ok().or_else(moved);
    let told = told.and_then(|told| serde_json::from_value::<Snapshot>(told).ok());
    told.is_some_and(|told| told.uptime_s < asked.elapsed().as_secs_f64())
}

/// Checks that the program for the restart can run, and that it accepts the configuration.
///
/// # Errors
/// The fault, as text.
pub(crate) fn successor(file: Option<&Path>) -> Result<Successor, String> {
    let name = program();
    let shown = name.to_string_lossy().into_owned();
    let said = |words: &[&Path]| {
        let output = Command::new(&name).args(words).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run {shown}: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => {
                let text = String::from_utf8_lossy(&output.stderr);
                Err(format!("{shown} would not start: {}", text.trim()))
            }
        }
    };
    let program = said(&[Path::new("--version")])?;
    if !program.starts_with("leasehold ") {
        return Err(format!("{shown} is now another program"));
    }
    if let Some(file) = file {
        said(&[Path::new("check"), Path::new("--config"), file])?;
    }
    Ok(Successor { pid: std::process::id(), program })
}

/// Returns the path by which this program was started. After an upgrade, the path leads to the new
/// program.
fn program() -> OsString {
    env::args_os().next().unwrap_or_else(|| "leasehold".into())
}

/// Waits until the server has to end; returns true if a new program continues the server.
pub(crate) fn wait(termination: &Termination, serving: &Serving) -> bool {
    loop {
        match termination.next() {
            Asked::End => return false,
            Asked::Reload => {
                // The reload logs its own result, so the result is dropped here.
                let _ = reload::reload(serving);
            }
            Asked::Restart => match successor(serving.file().as_deref()) {
                Ok(Successor { program, .. }) => {
                    tracing::info!(program, "restarting");
                    return true;
                }
                Err(error) => tracing::error!("not restarted: {error}"),
            },
        }
    }
}

/// The sockets that a restarting server keeps for the next process. Without a restart it holds no
/// socket.
pub(crate) struct Sockets {
    kept: Option<Vec<(Purpose, OwnedFd)>>,
}

impl Sockets {
    pub(crate) fn new(again: bool) -> Self {
        Self { kept: again.then(Vec::new) }
    }

    /// Ends a running service. For a restart, keeps its sockets open.
    pub(crate) fn end(&mut self, purpose: Purpose, running: Running) {
        match &mut self.kept {
            Some(kept) => {
                kept.extend(running.hand_over(GRACE).into_iter().map(|socket| (purpose, socket)));
            }
            None => running.stop(GRACE),
        }
    }

    /// Keeps a socket open for the next process, if this is a restart.
    pub(crate) fn keep(&mut self, purpose: Purpose, socket: Option<OwnedFd>) {
        if let (Some(kept), Some(socket)) = (&mut self.kept, socket) {
            kept.push((purpose, socket));
        }
    }

    /// Executes the next program, if this is a restart; returns only on failure.
    pub(crate) fn go_on(self, state: &Ownership) -> Result<(), Failure> {
        let Some(kept) = self.kept else { return Ok(()) };
        log::flush();
        let error = go_on_as(&program(), &kept, state);
        Err(Kind::Running.because(format!("cannot execute {}: {error}", program().display())))
    }
}
