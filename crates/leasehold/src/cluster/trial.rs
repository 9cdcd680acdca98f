//! A trial cluster on this machine.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use leasehold_shell::process::Termination;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::options::Try;
use crate::failure::{Failure, Kind};

/// Runs a cluster until a signal ends it.
pub(crate) fn run(options: &Try) -> Result<(), Failure> {
    let termination = Termination::prepare();
    let key = options.directory.join("cluster.key");
    let (mut metas, first) = metaservers(options, &key)?;
    let mut iods = Vec::new();
    for number in 0..options.iods {
        let mut iod = role("iod", &options.directory, &format!("iod{number}"), &key)?;
        iod.args(["--listen", "127.0.0.1:0", "--json"]).stdout(Stdio::piped());
        let mut iod = Running::start(iod)?;
        let port = iod.port()?;
        // The metaserver recognizes each iod by the mark in its directory, so the port of an iod
        // may change at each start.
        for meta in &mut metas {
            meta.args(["--iod", &format!("127.0.0.1:{port}")]);
        }
        iods.push(iod);
    }
    let mut metas = metas.into_iter().map(Running::start).collect::<Result<Vec<_>, _>>()?;
    let mounted = match (&options.mount, &mut *metas) {
        (Some(place), [meta, ..]) => {
            meta.wait_until_reached(first)?;
            Some(Mounted::new(first, place)?)
        }
        (Some(_) | None, _) => None,
    };
    let parts = Arc::new(Mutex::new(metas.into_iter().chain(iods).collect::<Vec<_>>()));
    let watch = Watch::begin(&parts);
    termination.wait();
    let has_failed = watch.end();
    drop(mounted);
    // Dropping the processes sends them SIGTERM. Ctrl-C may have sent them SIGINT too, so they may
    // be ending already: an error is ignored.
    drop(parts);
    if has_failed {
        let text = "a process of the cluster has failed, as its message above reports: the others \
                    were ended";
        return Err(Kind::Running.because(text));
    }
    Ok(())
}

/// A thread that watches processes: if a process fails, the thread ends this process by a signal.
struct Watch {
    is_over: Arc<AtomicBool>,
    /// Returns true if a process has failed.
    thread: JoinHandle<bool>,
}

impl Watch {
    fn begin(parts: &Arc<Mutex<Vec<Running>>>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (parts, over) = (Arc::clone(parts), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Acquire) {
                let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
                if parts.iter_mut().any(Running::has_failed) {
                    let _ = kill_process(rustix::process::getpid(), Signal::TERM);
                    return true;
                }
                drop(parts);
                thread::sleep(LOOK);
            }
            false
        });
        Self { is_over, thread }
    }

    /// Ends the watch; returns true if a process has failed.
    fn end(self) -> bool {
        self.is_over.store(true, Ordering::Release);
        // `join` fails only if the thread panicked: count that as a failure.
        self.thread.join().unwrap_or(true)
    }
}

/// Returns the commands of all metaservers, without the options for iods, and the address of the
/// first metaserver.
fn metaservers(options: &Try, key: &Path) -> Result<(Vec<Command>, SocketAddr), Failure> {
    let first = options.listen;
    let places = (0..options.metaservers).map(|number| match number {
        0 => Ok(first),
        _ => free(first.ip()),
    });
    let mut places: Vec<SocketAddr> = places.collect::<Result<_, _>>()?;
    let several = places.len() > 1;
    if let ([place, ..], true) = (&mut *places, several || options.mount.is_some())
        && place.port() == 0
    {
        *place = free(first.ip())?;
    }
    let command = |(number, place): (usize, &SocketAddr)| {
        let names = if number == 0 { "names".to_owned() } else { format!("names{number}") };
        let mut meta = role("meta", &options.directory, &names, key)?;
        meta.args(["--name", "cluster", "--listen", &place.to_string()]);
        if several {
            meta.args(["--number", &number.to_string()]);
            places.iter().for_each(|peer| {
                meta.args(["--peer", &peer.to_string()]);
            });
        }
        Ok(meta)
    };
    let commands: Result<_, Failure> = places.iter().enumerate().map(command).collect();
    Ok((commands?, places[0]))
}

/// Returns an address with a free port.
fn free(address: IpAddr) -> Result<SocketAddr, Failure> {
    let socket = TcpListener::bind((address, 0)).and_then(|socket| socket.local_addr());
    socket.map_err(|error| Kind::Address.because(format!("no free port: {error}")))
}

/// Builds the command that starts one server of the cluster with its own directory.
fn role(role: &str, below: &Path, name: &str, key: &Path) -> Result<Command, Failure> {
    let directory = below.join(name);
    fs::create_dir_all(&directory).map_err(|error| {
        Kind::Directory.because(format!("cannot create {}: {error}", directory.display()))
    })?;
    let mut command = this_program()?;
    command.arg(role).arg(&directory).arg("--state").arg(below.join(format!("state-{name}")));
    command.arg("--cluster-key").arg(key).args(["--log", "warn"]).stdin(Stdio::null());
    Ok(command)
}

fn this_program() -> Result<Command, Failure> {
    let program = std::env::current_exe();
    program
        .map(Command::new)
        .map_err(|error| Kind::Running.because(format!("cannot find this program: {error}")))
}

/// A mount of the cluster; dropping it unmounts the cluster.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(at: SocketAddr, place: &'a Path) -> Result<Self, Failure> {
        fs::create_dir_all(place).map_err(|error| {
            Kind::Directory.because(format!("cannot create {}: {error}", place.display()))
        })?;
        let source = format!("{at}:/cluster");
        let mut command = this_program()?;
        let done = command.arg("mount").arg(source).arg(place).status();
        // The mount command has printed its failure, so this failure prints no message.
        let is_mounted = done.is_ok_and(|status| status.success());
        is_mounted.then_some(Self(place)).ok_or_else(|| Kind::Running.silently())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // Ignore an error: a mount that is still in use ends when the programs that use it end.
        let _ = this_program().map(|mut program| program.arg("umount").arg(self.0).status());
    }
}

/// The maximum time that a metaserver may take to start.
const START: Duration = Duration::from_secs(60);

/// The interval between two checks whether the metaserver serves.
const GLANCE: Duration = Duration::from_millis(20);

/// The interval between checks of a running cluster.
const LOOK: Duration = Duration::from_millis(200);

/// A process of the cluster; dropping it sends SIGTERM and waits for the end.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Result<Self, Failure> {
        let child = command.spawn();
        child.map(Self).map_err(|error| {
            Kind::Running.because(format!("cannot start another process: {error}"))
        })
    }

    /// Returns true if the process has ended with a failure. A process that ends because of a
    /// signal exits with success, so it has not failed.
    fn has_failed(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(status)) if !status.success())
    }

    /// Reads the port from the ready message.
    fn port(&mut self) -> Result<u64, Failure> {
        let mut line = String::new();
        if let Some(stdout) = self.0.stdout.take() {
            // If the line cannot be read, it contains no port, and the missing port is reported
            // below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let port = ready["addresses"][0]["port"].as_u64();
        // The iod has printed the reason on stderr, so this text is short.
        port.ok_or_else(|| Kind::Running.because("an iod did not start"))
    }
}

impl Running {
    /// Waits until the process accepts connections at an address.
    fn wait_until_reached(&mut self, at: SocketAddr) -> Result<(), Failure> {
        let start = Instant::now();
        while TcpStream::connect(at).is_err() {
            // If the process has ended, it has printed the reason, so this text is short.
            if !matches!(self.0.try_wait(), Ok(None)) || start.elapsed() > START {
                return Err(Kind::Running.because("the metaserver did not start"));
            }
            thread::sleep(GLANCE);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ignore an error: a process that has already ended cannot receive the signal.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
