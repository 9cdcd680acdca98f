//! A metaserver and its iods, of the built program.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::port;
use crate::{Mount, Scratch, Version, built};

/// What starts a program of a role over a folder of this name.
type Words = dyn Fn(&str, &str) -> Vec<String>;

/// A metaserver over iods, all on 127.0.0.1; stopped when this is dropped.
pub struct Cluster {
    folder: Scratch,
    iods: Vec<Program>,
    meta: Program,
    words: Box<Words>,
    options: Vec<String>,
}

/// A running program, and how it is started.
struct Program {
    words: Vec<String>,
    process: Child,
    port: u16,
}

impl Cluster {
    /// Starts so many iods over new, empty folders, and a metaserver with these options besides.
    ///
    /// # Panics
    /// If one does not get ready.
    #[must_use]
    pub fn start(iods: usize, options: &[&str]) -> Self {
        let folder = Scratch::new("cluster");
        let below = folder.path().to_owned();
        let path = move |name: &str| {
            let path = below.join(name);
            std::fs::create_dir_all(&path).expect("there is room");
            path.to_str().expect("our own name").to_owned()
        };
        let key = format!("{}/key", path("keys"));
        let words = move |role: &str, name: &str| {
            let state = path(&format!("state-{name}"));
            let words = [role, &path(name), "--state", &state, "--cluster-key", &key];
            words.map(str::to_owned).to_vec()
        };
        let iods: Vec<Program> = (0..iods)
            .map(|number| Program::start(words("iod", &format!("iod{number}")), port()))
            .collect();
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        let meta = Program::start(meta(&words, iods.iter(), &options), port());
        Self { folder, iods, meta, words: Box::new(words), options }
    }

    /// Starts one more iod, which the metaserver knows when it is started again.
    pub fn add_iod(&mut self) {
        let name = format!("iod{}", self.iods.len());
        self.iods.push(Program::start((self.words)("iod", &name), port()));
    }

    /// Starts the metaserver again, with these options more and without the iods that are lost.
    pub fn restart_meta(&mut self, more: &[&str], lost: &[usize]) {
        let options: Vec<String> =
            self.options.iter().cloned().chain(more.iter().map(|&it| it.to_owned())).collect();
        let iods = self.iods.iter().enumerate();
        let iods = iods.filter(|(number, _)| !lost.contains(number)).map(|(_, iod)| iod);
        let words = meta(&self.words, iods, &options);
        self.meta.kill();
        self.meta = Program::start(words, self.meta.port);
    }

    /// The folder with the names.
    #[must_use]
    pub fn names(&self) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("export")
    }

    /// What a guest mounts of it.
    #[must_use]
    pub fn mount(&self, version: Version) -> Mount {
        Mount { port: Some(self.meta.port), export: "/export".to_owned(), version }
    }

    /// Kills an iod.
    pub fn kill_iod(&mut self, number: usize) {
        self.iods[number].kill();
    }

    /// Waits until all files lie where they should, with their copies.
    ///
    /// # Panics
    /// If they do not come to.
    pub fn wait_until_settled(&self) {
        const PATIENCE: Duration = Duration::from_mins(2);
        let (until, state) = (Instant::now() + PATIENCE, self.folder.path().join("state-export"));
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

    /// Starts an iod again that was killed.
    ///
    /// # Panics
    /// If it does not get ready.
    pub fn start_iod(&mut self, number: usize) {
        let Program { words, port, .. } = &self.iods[number];
        self.iods[number] = Program::start(words.clone(), *port);
    }
}

/// What starts a metaserver.
fn meta<'a>(
    words: &Words,
    iods: impl Iterator<Item = &'a Program>,
    options: &[String],
) -> Vec<String> {
    let mut meta = words("meta", "export");
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
