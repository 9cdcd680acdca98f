//! A whole cluster on this machine, to try.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leasehold_shell::process::Termination;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::options::Try;
use crate::failure::{Failure, Kind};

/// Runs a cluster until it is asked to end.
pub(crate) fn run(options: &Try) -> Result<(), Failure> {
    let termination = Termination::prepare();
    let key = options.directory.join("cluster.key");
    let mut meta = role("meta", &options.directory, "names", &key)?;
    meta.args(["--name", "cluster", "--listen", &options.listen.to_string()]);
    let mut iods = Vec::new();
    for number in 0..options.iods {
        let mut iod = role("iod", &options.directory, &format!("iod{number}"), &key)?;
        iod.args(["--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut iod = Running::start(iod)?;
        let port = iod.port()?;
        // Iods keep their places by their marks, and may come back at other ports.
        meta.args(["--iod", &format!("127.0.0.1:{port}")]);
        iods.push(iod);
    }
    let metaserver = Running::start(meta)?;
    termination.wait();
    // It may have got the signal too, and then ends already.
    drop(metaserver);
    Ok(())
}

/// The command of a role over a directory of its own.
fn role(role: &str, below: &Path, name: &str, key: &Path) -> Result<Command, Failure> {
    let directory = below.join(name);
    fs::create_dir_all(&directory).map_err(|error| {
        Kind::Directory.because(format!("cannot make {}: {error}", directory.display()))
    })?;
    let program = std::env::current_exe()
        .map_err(|error| Kind::Running.because(format!("cannot find this program: {error}")))?;
    let mut command = Command::new(program);
    command.arg(role).arg(&directory).arg("--state").arg(below.join(format!("state-{name}")));
    command.arg("--cluster-key").arg(key).args(["--log", "warn"]).stdin(Stdio::null());
    Ok(command)
}

/// A process that is asked to end when this is dropped.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let child = command.spawn();
        child.map(Self).map_err(|error| {
            Kind::Running.because(format!("cannot start another process: {error}"))
        })
    }

    /// The port of the line that it says.
    fn port(&mut self) -> Result<u64, Failure> {
        let mut line = String::new();
        if let Some(stdout) = self.0.stdout.take() {
            // What cannot be read is no line, which is told below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let port = ready["addresses"][0]["port"].as_u64();
        // It has said why.
        port.ok_or_else(|| Kind::Running.because("an iod did not start"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that ended by itself is not there any more.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
