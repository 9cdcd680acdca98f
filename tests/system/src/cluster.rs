//! A metaserver and its iods, of the built program.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::port;
use crate::{Mount, Scratch, Version, built, output};

/// A function that returns the command line of a program by its role and folder.
type Words = dyn Fn(&str, &str) -> Vec<String>;

/// A metaserver over I/O daemons, all on 127.0.0.1; dropping this value stops them.
pub struct Cluster {
    folder: Scratch,
    iods: Vec<Program>,
    meta: Program,
    words: Box<Words>,
    options: Vec<String>,
}

/// A running program, and its command line.
struct Program {
    words: Vec<String>,
    process: Child,
    port: u16,
}

impl Cluster {
    /// Starts `iods` I/O daemons over new, empty folders, and a metaserver with additional options.
    ///
    /// # Panics
    /// Panics if a program does not become ready.
    #[must_use]
    pub fn start(iods: usize, options: &[&str]) -> Self {
        let folder = Scratch::new("cluster");
        let words = words(folder.path().to_owned());
        let iods: Vec<Program> = (0..iods)
            .map(|number| Program::start(words("iod", &format!("iod{number}")), port()))
            .collect();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let meta = Program::start(meta(words("meta", "export"), iods.iter(), &options), port());
        Self { folder, iods, meta, words, options }
    }

    /// Starts one more I/O daemon, which the metaserver uses after its next start.
    pub fn add_iod(&mut self) {
        let name = format!("iod{}", self.iods.len());
        self.iods.push(Program::start((self.words)("iod", &name), port()));
    }

    /// Restarts the metaserver with additional options and without the lost I/O daemons.
    pub fn restart_meta(&mut self, more: &[&str], lost: &[usize]) {
        let options: Vec<String> =
            self.options.iter().cloned().chain(more.iter().map(|&it| it.to_owned())).collect();
        let iods = self.iods.iter().enumerate();
        let iods = iods.filter(|(number, _)| !lost.contains(number)).map(|(_, iod)| iod);
        let words = meta((self.words)("meta", "export"), iods, &options);
        self.meta.kill();
        self.meta = Program::start(words, self.meta.port);
    }

    /// The folder with the names.
    #[must_use]
    pub fn names(&self) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("export")
    }

    /// Returns the mount parameters for a guest.
    #[must_use]
    pub fn mount(&self, version: Version) -> Mount {
        Mount { port: Some(self.meta.port), export: "/export".to_owned(), version }
    }

    /// Returns the mount source for the built client.
    #[must_use]
    pub fn source(&self) -> String {
        format!("127.0.0.1:{}:/export", self.meta.port)
    }

    /// The address of the cluster's metaserver.
    #[must_use]
    pub fn metaserver(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.meta.port))
    }

    /// The address of an iod of the cluster.
    #[must_use]
    pub fn iod(&self, number: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.iods[number].port))
    }

    /// Kills an iod.
    pub fn kill_iod(&mut self, number: usize) {
        self.iods[number].kill();
    }

    /// Returns the files at I/O daemons that contain the data of a file.
    ///
    /// # Panics
    /// Panics if the file has no data there.
    #[must_use]
    pub fn objects(&self, name: &str) -> Vec<PathBuf> {
        let mut layout = Command::new(built());
        let told = output(layout.args(["layout", "--json"]).arg(self.names().join(name)));
        let told: Value = serde_json::from_str(&told).expect("it tells of a file on iods");
        let object = told["object"].as_str().expect("a name");
        let iods = told["iods"].as_array().expect("those that have it").iter();
        let folder = |iod: &Value| self.folder.path().join(format!("iod{iod}"));
        iods.map(|iod| folder(iod).join(&object[..2]).join(object)).collect()
    }

    /// Waits until all files have their final places and copies.
    ///
    /// # Panics
    /// Panics after a timeout.
    pub fn wait_until_settled(&self) {
        const TIMEOUT: Duration = Duration::from_mins(10);
        let (until, state) = (Instant::now() + TIMEOUT, self.folder.path().join("state-export"));
        loop {
            let mut status = Command::new(built());
            status.args(["cluster", "status", "--json", "--state"]).arg(&state);
            let told = status.output().expect("the program was built").stdout;
            let told: Value = serde_json::from_slice(&told).unwrap_or_default();
            let iods = told[0]["iods"].as_array().cloned().unwrap_or_default();
            let all_are_there =
                iods.iter().all(|iod| iod["what"] == "gone" || iod["away"] == false);
            if told[0]["settled"] == true && all_are_there {
                return;
            }
            assert!(Instant::now() < until, "{told}");
            sleep(Duration::from_millis(50));
        }
    }

    /// Restarts a killed I/O daemon.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    pub fn start_iod(&mut self, number: usize) {
        let Program { words, port, .. } = &self.iods[number];
        self.iods[number] = Program::start(words.clone(), *port);
    }
}

/// Metaservers of one file system over I/O daemons, all on 127.0.0.1; dropping this value stops
/// them.
pub struct Group {
    metaservers: Vec<Program>,
    iods: Vec<Program>,
    folder: Scratch,
}

impl Group {
    /// Starts `count` metaservers over two I/O daemons, all over new, empty folders, with
    /// additional options.
    ///
    /// # Panics
    /// Panics if a program does not become ready.
    #[must_use]
    pub fn start(count: usize, options: &[&str]) -> Self {
        Self::start_over(2, count, options)
    }

    /// Starts `count` metaservers over `iods` I/O daemons.
    ///
    /// # Panics
    /// Panics if a program does not become ready.
    #[must_use]
    pub fn start_over(iods: usize, count: usize, options: &[&str]) -> Self {
        let folder = Scratch::new("group");
        let words = words(folder.path().to_owned());
        let iods: Vec<Program> = (0..iods)
            .map(|number| Program::start(words("iod", &format!("iod{number}")), port()))
            .collect();
        // Each command line contains the ports of all, before the first one starts.
        let ports: Vec<u16> = (0..count).map(|_| port()).collect();
        let mut options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        options.extend(["--name", "export"].map(str::to_owned));
        for port in &ports {
            options.extend(["--peer".to_owned(), format!("127.0.0.1:{port}")]);
        }
        let start = |(number, port): (usize, &u16)| {
            let number = number.to_string();
            let own = [options.clone(), vec!["--number".to_owned(), number.clone()]].concat();
            let role = words("meta", &format!("names{number}"));
            Program::start(meta(role, iods.iter(), &own), *port)
        };
        let metaservers = ports.iter().enumerate().map(start).collect();
        Self { metaservers, iods, folder }
    }

    /// Returns the mount parameters for a guest at one metaserver.
    #[must_use]
    pub fn mount(&self, number: usize, version: Version) -> Mount {
        let port = Some(self.port(number));
        Mount { port, export: "/export".to_owned(), version }
    }

    /// Returns the mount source for the built client at one metaserver.
    #[must_use]
    pub fn source(&self, number: usize) -> String {
        format!("127.0.0.1:{}:/export", self.port(number))
    }

    /// Returns the number of files at the I/O daemons.
    ///
    /// # Panics
    /// Panics if their folders cannot be read.
    #[must_use]
    pub fn files(&self) -> usize {
        let folder = |iod| self.folder.path().join(format!("iod{iod}"));
        (0..self.iods.len()).map(|iod| files(&folder(iod))).sum()
    }

    /// Returns the port of one metaserver.
    #[must_use]
    pub fn port(&self, number: usize) -> u16 {
        self.metaservers[number].port
    }

    /// Kills one metaserver.
    pub fn kill(&mut self, number: usize) {
        self.metaservers[number].kill();
    }

    /// Restarts a killed metaserver.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    pub fn start_again(&mut self, number: usize) {
        let Program { words, port, .. } = &self.metaservers[number];
        self.metaservers[number] = Program::start(words.clone(), *port);
    }

    /// Kills an I/O daemon.
    pub fn kill_iod(&mut self, number: usize) {
        self.iods[number].kill();
    }

    /// Restarts a killed I/O daemon.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    pub fn start_iod(&mut self, number: usize) {
        let Program { words, port, .. } = &self.iods[number];
        self.iods[number] = Program::start(words.clone(), *port);
    }
}

/// Returns the number of files in a folder and its subfolders.
fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("it is there");
    let count = |path: PathBuf| if path.is_dir() { files(&path) } else { 1 };
    entries.map(|entry| count(entry.expect("it can be read").path())).sum()
}

/// Returns the command line of a program of a role, whose folder and key are below this folder.
fn words(below: PathBuf) -> Box<Words> {
    let path = move |name: &str| {
        let path = below.join(name);
        std::fs::create_dir_all(&path).expect("there is room");
        path.to_str().expect("our own name").to_owned()
    };
    let key = format!("{}/key", path("keys"));
    Box::new(move |role: &str, name: &str| {
        let state = path(&format!("state-{name}"));
        let words = [role, &path(name), "--state", &state, "--cluster-key", &key];
        words.map(str::to_owned).to_vec()
    })
}

/// Returns the command line of a metaserver.
fn meta<'a>(
    mut meta: Vec<String>,
    iods: impl Iterator<Item = &'a Program>,
    options: &[String],
) -> Vec<String> {
    for iod in iods {
        meta.extend(["--iod".to_owned(), format!("127.0.0.1:{}", iod.port)]);
    }
    meta.extend(options.iter().cloned());
    meta
}

impl Program {
    fn start(words: Vec<String>, port: u16) -> Self {
        let mut process = Command::new(built())
            .args(&words)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--json", "--log", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let stdout = process.stdout.take().expect("standard output is a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a pipe can be read");
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let port = ready["addresses"][0]["port"].as_u64().and_then(|port| u16::try_from(port).ok());
        let port = port.unwrap_or_else(|| panic!("{words:?} is not ready: it wrote {line:?}"));
        Self { words, process, port }
    }

    fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill();
    }
}
