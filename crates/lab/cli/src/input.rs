//! Input files, and their errors.

use crate::output;
use core::fmt;
use leasehold_lab_network::model::Model;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The reason for which a command of the laboratory failed.
#[derive(Debug)]
pub struct Failure {
    text: String,
    is_input: bool,
    is_unread: bool,
}

impl Failure {
    /// Returns a failure for invalid input.
    pub(crate) fn input(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), is_input: true, is_unread: false }
    }

    /// Returns a failure for an error at run time.
    pub(crate) fn running(text: impl fmt::Display) -> Self {
        Self { text: text.to_string(), is_input: false, is_unread: false }
    }

    /// Returns a failure for an output that cannot be written.
    pub(crate) fn writing(error: &std::io::Error) -> Self {
        let is_unread = error.kind() == std::io::ErrorKind::BrokenPipe;
        Self { text: error.to_string(), is_input: false, is_unread }
    }

    /// Returns true if the only failure is that the reader has closed the output.
    pub(crate) const fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Returns true if the input is at fault, a file or an option.
    #[must_use]
    pub const fn is_input(&self) -> bool {
        self.is_input
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    /// Converts the message of a knob or a template that rejects its input.
    fn from(text: String) -> Self {
        Self::input(text)
    }
}

/// Reads the text of a file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::input(format!("{}: {error}", path.display())))
}

/// Reads the model in a file.
pub(crate) fn model(path: &Path) -> Result<Model, Failure> {
    Model::parse(&read(path)?).map_err(|problems| {
        let lines: Vec<String> =
            problems.iter().map(|problem| format!("{}: {problem}", path.display())).collect();
        Failure::input(lines.join("\n"))
    })
}

/// Checks files; prints the parts of valid models that the solvers omit.
pub(crate) fn check(paths: &[PathBuf], out: &mut dyn Write) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for path in paths {
        match model(path) {
            Ok(model) => {
                output::line(out, &format!("{}: right", path.display()))?;
                for note in model.left_out() {
                    output::line(out, &format!("{}: solve: {note}", path.display()))?;
                }
            }
            Err(failure) => wrong.push(failure.to_string()),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::input(wrong.join("\n"))) }
}
