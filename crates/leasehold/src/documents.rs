//! The documents generated from the definition of the options: manual pages, completions and the
//! reference.

mod markdown;

use std::fs;
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

use crate::failure::{Failure, Kind};
use crate::help;
use crate::options::{Completions, Documents, Options};
use crate::output::say;

/// The shells that packages have completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// Writes the completions for a shell.
pub(crate) fn completions(options: &Completions) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut definition(), "leasehold", &mut text);
    say(String::from_utf8_lossy(&text))
}

/// Writes all documents into a directory: `man`, `completions` and `commands.md`.
pub(crate) fn run(options: &Documents) -> Result<(), Failure> {
    written(&options.directory).map_err(|error| {
        let place = options.directory.display();
        Kind::Running.because(format!("cannot write to {place}: {error}"))
    })
}

fn written(directory: &Path) -> io::Result<()> {
    let (pages, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let definition = definition();
    clap_mangen::generate_to(definition.clone(), &pages)?;
    let whole = pages.join("leasehold.1");
    fs::write(&whole, help::manual_page(&fs::read_to_string(&whole)?))?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut definition.clone(), "leasehold", &completions)?;
    }
    fs::write(directory.join("commands.md"), markdown::page(&definition))
}

/// Returns the definition of all commands and options.
fn definition() -> Command {
    let mut command = Options::command();
    command.build();
    command
}
