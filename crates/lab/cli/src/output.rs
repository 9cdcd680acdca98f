//! Results as tables for people, CSV for spreadsheets, JSON for programs.

use crate::Failure;
use clap::Args;
use serde::Serialize;
use std::io::Write;

/// The output format.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Format {
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(crate) csv: bool,
}

/// One cell.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Cell {
    /// Text.
    Text(String),
    /// A number; `None` if it is unknown.
    Number(Option<f64>),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number.is_finite().then_some(number))
    }
}

impl Cell {
    fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.map_or(String::new(), |number| number.to_string()),
        }
    }

    fn pretty(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.map_or("-".into(), pretty),
        }
    }
}

/// Formats a number with as many digits as a reader needs.
pub(crate) fn pretty(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".into()
    } else if number.fract() == 0.0 && size < 1e6 {
        format!("{number:.0}")
    } else if (0.001..1e6).contains(&size) {
        let digits = if size >= 100.0 {
            1
        } else if size >= 1.0 {
            3
        } else {
            5
        };
        format!("{number:.digits$}")
    } else {
        format!("{number:.3e}")
    }
}

/// Rows under named columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&name| name.into()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Formats aligned columns: text to the left, numbers to the right.
    pub(crate) fn text(&self) -> String {
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::pretty).collect()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let longest = cells.iter().filter_map(|row| row.get(column)).map(String::len).max();
                longest.unwrap_or(0).max(self.columns[column].len())
            })
            .collect();
        let is_number = |column: usize| {
            self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))))
        };
        let line = |row: &[String]| -> String {
            let padded = row.iter().enumerate().map(|(column, cell)| {
                let width = widths[column];
                if is_number(column) {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines = vec![line(&self.columns)];
        lines.extend(cells.iter().map(|row| line(row)));
        lines.join("\n")
    }

    fn csv(&self) -> String {
        let quoted = |cell: String| {
            if cell.contains([',', '"', '\n']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell
            }
        };
        let line = |cells: Vec<String>| cells.into_iter().map(quoted).collect::<Vec<_>>().join(",");
        let mut lines = vec![line(self.columns.clone())];
        lines.extend(self.rows.iter().map(|row| line(row.iter().map(Cell::plain).collect())));
        lines.join("\n")
    }

    /// Returns a list of objects keyed by column.
    pub(crate) fn json(&self) -> serde_json::Value {
        let object = |row: &Vec<Cell>| -> serde_json::Value {
            let pairs = self.columns.iter().cloned().zip(row);
            pairs.map(|(key, cell)| (key, serde_json::json!(cell))).collect()
        };
        self.rows.iter().map(object).collect()
    }

    /// Prints the table in the requested format.
    pub(crate) fn print(&self, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
        if format.json {
            json(out, &self.json())
        } else if format.csv {
            line(out, &self.csv())
        } else {
            line(out, &self.text())
        }
    }
}

/// Prints a line.
pub(crate) fn line(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    writeln!(out, "{text}").map_err(|error| Failure::writing(&error))
}

/// Prints a value as JSON.
pub(crate) fn json(out: &mut dyn Write, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::running)?;
    line(out, &text)
}
