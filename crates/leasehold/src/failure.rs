//! The errors that end the program, and their exit codes.

use std::fmt;
use std::process::ExitCode;

/// The reason why the program failed.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    /// The fault, its place and the remedy.
    text: String,
}

/// The exit codes, as `--help` lists them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Running = 1,
    Options = 2,
    Directory = 3,
    Address = 4,
    State = 5,
}

impl Kind {
    /// Creates a failure of this kind with a message.
    pub(crate) fn because(self, text: impl Into<String>) -> Failure {
        Failure { kind: self, text: text.into() }
    }

    /// Creates a failure without a message, because another process of this program has reported
    /// it.
    pub(crate) fn silently(self) -> Failure {
        Failure { kind: self, text: String::new() }
    }

    /// Returns the kind of an exit code of this program.
    pub(crate) fn of_exit(code: Option<i32>) -> Self {
        let kinds = [Self::Options, Self::Directory, Self::Address, Self::State];
        kinds.into_iter().find(|kind| code == Some(*kind as i32)).unwrap_or(Self::Running)
    }
}

impl Failure {
    /// Returns true if the program still has to print the message.
    pub(crate) fn is_to_be_said(&self) -> bool {
        !self.text.is_empty()
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        self.kind.into()
    }
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind as u8)
    }
}

impl From<leasehold_lab_cli::Failure> for Failure {
    fn from(failure: leasehold_lab_cli::Failure) -> Self {
        let kind = if failure.is_input() { Kind::Options } else { Kind::Running };
        kind.because(failure.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
