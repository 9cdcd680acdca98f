//! The reference of commands, which the program generates from the definition of its options.

use std::fs;

use crate::check::{Check, Tally};
use crate::program;
use crate::repository::Repository;

const KEPT: &str = "docs/reference/commands.md";

/// The output folder of the program for the reference, manual pages and completions.
const FOLDER: &str = "target/documents";

/// Writes the reference into the tree.
pub(crate) fn write(repository: &Repository) -> Tally {
    let text = fresh(repository).inspect_err(|error| println!("{KEPT} was not written: {error}"));
    Tally::of(text.is_ok_and(|text| repository.write(KEPT, &text)))
}

/// Checks that the reference in the tree equals the program's output.
pub(crate) fn check(repository: &Repository) -> Check {
    let faults = match fresh(repository) {
        Err(error) => vec![error],
        Ok(text) if repository.text(KEPT).as_ref() == Some(&text) => Vec::new(),
        Ok(_) => vec![format!("{KEPT} is out of date: `cargo xtask reference` writes it")],
    };
    Check { rule: "the reference of commands equals the output of the program", faults }
}

fn fresh(repository: &Repository) -> Result<String, String> {
    let words = ["cargo", "run", "--quiet", "--package=leasehold", "--", "documents", FOLDER];
    program::output(repository.root(), &words)?;
    let path = repository.root().join(FOLDER).join("commands.md");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}
