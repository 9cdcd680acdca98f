//! The text of the configuration file, and the reports of faults with their locations.

use std::fs;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::conflicts::Conflict;
use super::options::File;
use super::rules::Wrong;
use crate::failure::{Failure, Kind};

/// A configuration file.
pub(super) struct Source {
    shown: String,
    text: String,
}

impl Source {
    /// Reads and parses a file.
    pub(super) fn read(path: &Path) -> Result<(Self, File), Failure> {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            let advice = "`leasehold config init` writes one";
            Kind::Options.because(format!("cannot read {shown}: {error}; {advice}"))
        })?;
        let source = Self { shown, text };
        let file = toml::from_str(&source.text).map_err(|error| {
            let span = error.span().unwrap_or_default();
            source.at(&Wrong { span, text: plain(error.message().trim_end()) })
        })?;
        Ok((source, file))
    }

    /// Reports a fault with its location in the file.
    pub(super) fn at(&self, wrong: &Wrong) -> Failure {
        let (line, column) = place(&self.text, wrong.span.start);
        Kind::Options.because(format!("{}:{line}:{column}: {}", self.shown, wrong.text))
    }

    /// Reports options that exclude each other, or are out of range, with their location in the
    /// file. An option of the command line has no location in the file.
    pub(super) fn conflict(&self, conflict: Conflict) -> Failure {
        match self.place_of(conflict.table, conflict.key, conflict.at) {
            Some(span) => self.at(&Wrong { span, text: conflict.text }),
            None => conflict.into(),
        }
    }

    /// Returns the byte range of a value, or of one value in its list.
    fn place_of(&self, table: &str, key: &str, at: usize) -> Option<Range<usize>> {
        let whole = DeTable::parse(&self.text).ok()?;
        let value = whole.get_ref().get(table)?.get_ref().as_table()?.get(key)?;
        let in_list = value.get_ref().as_array().and_then(|list| list.get(at));
        Some(in_list.map_or_else(|| value.span(), Spanned::span))
    }

    /// Reports that the file lacks a required part.
    pub(super) fn lacks(&self, text: &str) -> Failure {
        Kind::Options.because(format!("{} {text}", self.shown))
    }
}

/// Translates a message of the parser into the terms of the configuration file.
fn plain(message: &str) -> String {
    const WORDS: &[(&str, &str)] = &[
        ("unknown field", "unknown option"),
        ("unknown variant", "unknown value"),
        ("missing field", "missing option"),
        ("expected a sequence", "expected a list: put it in [ ]"),
        ("expected a string", "expected a text: put it in \" \""),
        ("expected a boolean", "expected true or false"),
        ("expected a nonzero usize", "expected a number of at least 1"),
        ("expected usize", "expected a number of at least 1"),
        ("expected struct Mapping", "expected { from = ..., to = ... }"),
        (
            "invalid socket address syntax",
            "not an address with a port: write it like \"192.0.2.1:2049\"",
        ),
    ];
    let mut text = message.to_owned();
    for (theirs, ours) in WORDS {
        text = text.replace(theirs, ours);
    }
    text
}

/// Returns the line and the column of a byte offset, both counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
