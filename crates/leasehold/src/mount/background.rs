//! A mount in the background: a separate process, which starts before this process has threads.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use leasehold_shell::log::{self, Target};

use super::options::Mount;
use crate::failure::{Failure, Kind};
use crate::logging;
use crate::options::LogFormat;

/// The message that the background process writes to stdout when the mount is complete.
const READY: &[u8] = b"mounted\n";

/// Starts the process that serves the mount, with the same options, and waits until the mount is
/// complete. The process reports errors itself.
pub(crate) fn start(options: &Mount, directory: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Kind::Running.because(format!("cannot start in the background: {error}"))
    };
    let mut command = Command::new(env::current_exe().map_err(failed)?);
    command.arg("mount").arg("--tell").args(["--log", &options.log.to_string()]);
    for list in &options.options {
        command.args(["-o", list]);
    }
    if options.read_only {
        command.arg("--read-only");
    }
    if let Some(file) = &options.log_file {
        command.arg("--log-file").arg(std::path::absolute(file).map_err(failed)?);
    }
    command.arg("--").arg(&options.source.text).arg(directory);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut said = Vec::new();
    let mut stdout = child.stdout.take().expect("standard output is a pipe");
    stdout.read_to_end(&mut said).map_err(failed)?;
    if said == READY {
        return Ok(());
    }
    let status = child.wait().map_err(failed)?;
    Err(Kind::of_exit(status.code()).silently())
}

/// Starts the log: to a file, or to stderr, which the starting process passes on until the mount is
/// complete.
pub(crate) fn log(options: &Mount) -> Result<(), Failure> {
    let target = match &options.log_file {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.map_err(|error| {
                Kind::Options.because(format!("cannot log to {}: {error}", path.display()))
            })?;
            Target::File(file)
        }
        None => Target::Stderr,
    };
    logging::start(target, options.log, LogFormat::Plain)
}

/// Reports that the mount is complete. In the background, the process then releases the terminal,
/// the directory and the output of its parent.
pub(crate) fn ready(options: &Mount) -> Result<(), Failure> {
    if !options.tell {
        return Ok(());
    }
    let failed = |error: io::Error| {
        Kind::Running.because(format!("cannot start in the background: {error}"))
    };
    // `setsid` fails only in the leader of a process group. Such a process was not started in the
    // background by this program, so the error is ignored.
    let _ = rustix::process::setsid();
    env::set_current_dir("/").map_err(failed)?;
    let nowhere = File::options().write(true).open("/dev/null").map_err(failed)?;
    log::flush();
    rustix::stdio::dup2_stderr(&nowhere).map_err(|errno| failed(errno.into()))?;
    // If the parent has ended, the write fails. The mount continues without a parent, so the error
    // is ignored.
    let _ = io::stdout().write_all(READY).and_then(|()| io::stdout().flush());
    rustix::stdio::dup2_stdout(&nowhere).map_err(|errno| failed(errno.into()))
}
