//! What a command says: to stdout, for people or programs.

use std::io::{self, Write as _};

use crate::failure::{Failure, Kind};

/// Writes to stdout as it is.
pub(crate) fn say(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    io::stdout()
        .write_all(text.as_ref())
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))
}
