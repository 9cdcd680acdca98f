//! The output of commands on stdout, for people or programs.

use std::io::{self, Write as _};

use leasehold_base::shown::shown;

use crate::failure::{Failure, Kind};

/// Writes a text to stdout. Escapes control characters, because parts of the text come from servers
/// and clients and could control the terminal.
pub(crate) fn say(text: impl AsRef<str>) -> Result<(), Failure> {
    io::stdout()
        .write_all(shown(text.as_ref()).as_bytes())
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))
}
