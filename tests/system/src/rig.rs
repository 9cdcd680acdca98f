//! The servers and links of the test harness, as processes.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::built_rig;

/// A server or a link of the test harness; dropping this value ends it.
pub struct Rig {
    process: Child,
    address: SocketAddr,
}

impl Rig {
    /// Starts a server over memory. Options: `--stingy`, `--version-2-only`.
    ///
    /// # Panics
    /// Panics if it does not become ready.
    #[must_use]
    pub fn serve(options: &[&str]) -> Self {
        let mut command = Command::new(built_rig());
        Self::start(command.args(["serve", "--listen", "127.0.0.1:0"]).args(options))
    }

    /// Starts a link to a server.
    ///
    /// # Panics
    /// See [`Rig::serve`].
    #[must_use]
    pub fn cable(server: SocketAddr, options: &[&str]) -> Self {
        let mut command = Command::new(built_rig());
        command.args(["cable", "--listen", "127.0.0.1:0", "--server", &server.to_string()]);
        Self::start(command.args(options))
    }

    fn start(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("it was built");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it is a pipe");
        let address = line.split_whitespace().find_map(|word| word.parse().ok());
        let address = address.unwrap_or_else(|| panic!("no address is said: {line}"));
        Self { process, address }
    }

    /// Returns its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its mount source.
    #[must_use]
    pub fn source(&self) -> String {
        format!("{}:/data", self.address)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
