//! The measured servers, each a separate program that ends with the measurement.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

/// A running server.
pub(crate) struct Server {
    process: Child,
    pub(crate) nfs: SocketAddr,
    pub(crate) mount: SocketAddr,
    pub(crate) export: String,
    /// The folder that is removed with the server.
    folder: Option<TempDir>,
}

impl Server {
    /// Starts our server over a directory; `durability` is the value of its option.
    pub(crate) fn ours(directory: &Path, durability: &str) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut server = Self::serve(Command::new(ours()?), directory, durability, folder.path())?;
        server.folder = Some(folder);
        Ok(server)
    }

    /// Starts our server by a command, with its state in a folder.
    pub(crate) fn serve(
        mut command: Command,
        directory: &Path,
        durability: &str,
        state: &Path,
    ) -> io::Result<Self> {
        command.arg("serve").arg(directory);
        Self::started(command, durability, state)
    }

    /// Starts our program in one of its roles by a command, with its state in a folder.
    pub(crate) fn started(
        mut command: Command,
        durability: &str,
        state: &Path,
    ) -> io::Result<Self> {
        let mut process = command
            .args(["--listen", "127.0.0.1:0", "--json", "--log", "error", "--durability"])
            .args([durability, "--state"])
            .arg(state)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().expect("it was asked for");
        BufReader::new(output).read_line(&mut line)?;
        let ready: serde_json::Value = serde_json::from_str(&line)?;
        let port = ready["addresses"][0]["port"].as_u64().and_then(|port| port.try_into().ok());
        let port = port.ok_or_else(|| io::Error::other(format!("not a ready line: {line}")))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { process, nfs: address, mount: address, export: "/".to_owned(), folder: None })
    }

    /// Returns the number of calls that our server has processed, by procedure.
    pub(crate) fn calls(&self) -> io::Result<BTreeMap<String, u64>> {
        let state = self.folder.as_ref().expect("it was started with a folder of its own");
        let mut command = Command::new(ours()?);
        let told = command.args(["status", "--json", "--state"]).arg(state.path()).output()?;
        let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
        let mut calls = BTreeMap::new();
        for procedure in told["procedures"].as_array().into_iter().flatten() {
            let name = procedure["name"].as_str().unwrap_or_default().to_owned();
            *calls.entry(name).or_default() += procedure["calls"].as_u64().unwrap_or_default();
        }
        Ok(calls)
    }

    /// Ends the server gracefully.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        let process = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(process.expect("a child has a number"), Signal::TERM)?;
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(format!("it ended: {status}"))) }
    }

    /// Starts nfs-ganesha over a directory, with its VFS back end.
    pub(crate) fn ganesha(directory: &Path) -> io::Result<Self> {
        start_rpcbind()?;
        let folder = tempfile::tempdir()?;
        let (nfs, mount) = (free_port()?, free_port()?);
        let configuration = folder.path().join("ganesha.conf");
        let mut file = fs::File::create(&configuration)?;
        let export = directory.display();
        write!(
            file,
            "NFS_CORE_PARAM {{ NFS_Port = {nfs}; MNT_Port = {mount}; Protocols = 3; \
             Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }}\n\
             EXPORT {{ Export_Id = 1; Path = {export}; Pseudo = {export}; Access_Type = RW; \
             Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP; \
             FSAL {{ Name = VFS; }} }}\n"
        )?;
        let process = Command::new("ganesha.nfsd")
            .args(["-F", "-N", "CRIT", "-f"])
            .arg(&configuration)
            .arg("-L")
            .arg(folder.path().join("log"))
            .arg("-p")
            .arg(folder.path().join("pid"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Self {
            process,
            nfs: local(nfs),
            mount: local(mount),
            export: directory.display().to_string(),
            folder: Some(folder),
        };
        wait_for(server.nfs)?;
        wait_for(server.mount)?;
        Ok(server)
    }

    /// Returns its process id.
    pub(crate) fn process(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended, which the measurement detects.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Returns our program, built next to this one.
pub(crate) fn ours() -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("leasehold"))
}

/// Runs a function on the first processor only.
pub(crate) fn on_the_first<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    set.set(0);
    sched_setaffinity(None, &set)?;
    let done = work();
    sched_setaffinity(None, &before)?;
    Ok(done)
}

/// Restricts all threads of a process to one processor.
pub(crate) fn pin(process: u32, processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let task: i32 = task?.file_name().to_string_lossy().parse().map_err(io::Error::other)?;
        sched_setaffinity(Pid::from_raw(task), &set)?;
    }
    Ok(())
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts rpcbind: nfs-ganesha registers with it, and does not start otherwise.
fn start_rpcbind() -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 111));
    if TcpStream::connect(address).is_ok() {
        return Ok(());
    }
    fs::create_dir_all("/run/rpcbind")?;
    crate::disk::run(Command::new("rpcbind").arg("-w"))?;
    wait_for(address)
}

fn wait_for(address: SocketAddr) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(30) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
