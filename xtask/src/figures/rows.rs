//! The measured rows of an area, as `docs/figures/AREA.tsv` stores them.

use serde_json::Value;

/// The names of the columns.
const HEAD: [&str; 9] =
    ["figure", "ours", "target", "holds", "tier", "unit", "median of ours", "of the other", "in"];

/// The rows, and the line on their origin: command, commit and machine.
pub(super) struct Rows {
    pub(super) origin: String,
    pub(super) rows: Vec<Row>,
}

/// A figure. Numbers are texts, as they were measured; a missing one is `-`.
pub(super) struct Row {
    pub(super) figure: String,
    pub(super) ours: String,
    pub(super) target: String,
    /// `yes`, `no`, or `-` without a target.
    pub(super) holds: String,
    pub(super) tier: String,
    pub(super) unit: String,
    pub(super) median: String,
    pub(super) other: String,
    pub(super) median_unit: String,
}

impl Rows {
    /// Reads a file of rows.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (origin, rest) = text.split_once('\n').unwrap_or_default();
        let origin = origin.strip_prefix("# ").ok_or("the first line has no origin")?.to_owned();
        let (head, rest) = rest.split_once('\n').unwrap_or_default();
        if head != HEAD.join("\t") {
            return Err("the second line does not name the columns".to_owned());
        }
        let row = |line: &str| Row::parse(line).ok_or_else(|| format!("no row: {line}"));
        Ok(Self { origin, rows: rest.lines().map(row).collect::<Result<_, _>>()? })
    }

    /// Reads the JSON lines of a measurement.
    pub(super) fn measured(origin: String, lines: &str) -> Result<Self, String> {
        let lines = lines.lines().filter(|line| line.starts_with('{'));
        let row = |line: &str| {
            serde_json::from_str(line).map_err(|error| error.to_string()).map(|it| Row::new(&it))
        };
        Ok(Self { origin, rows: lines.map(row).collect::<Result<_, _>>()? })
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.cells().join("\t"));
        let lines = [format!("# {}", self.origin), HEAD.join("\t")].into_iter().chain(rows);
        lines.map(|line| line + "\n").collect()
    }
}

impl Row {
    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        let cells: [String; 9] = cells.try_into().ok()?;
        let [figure, ours, target, holds, tier, unit, median, other, median_unit] = cells;
        Some(Self { figure, ours, target, holds, tier, unit, median, other, median_unit })
    }

    fn cells(&self) -> [&str; 9] {
        let Self { figure, ours, target, holds, tier, unit, median, other, median_unit } = self;
        [figure, ours, target, holds, tier, unit, median, other, median_unit].map(String::as_str)
    }

    fn new(figure: &Value) -> Self {
        let word = |name: &str| figure[name].as_str().unwrap_or("").to_owned();
        let holds = match (&figure["target"], &figure["holds"]) {
            (Value::String(target), _) if target == "printed" => "-",
            (_, Value::Bool(true)) => "yes",
            _ => "no",
        };
        let median = |of: &str| {
            figure["medians"][of].as_f64().map_or("-".to_owned(), |it| format!("{it:.4}"))
        };
        Self {
            figure: word("figure"),
            ours: readable(figure["ours"].as_f64().unwrap_or(f64::NAN)),
            target: word("target"),
            holds: holds.to_owned(),
            tier: word("tier"),
            unit: word("unit"),
            median: median("ours"),
            other: median("other"),
            median_unit: figure["medians"]["unit"].as_str().unwrap_or("-").to_owned(),
        }
    }
}

/// Formats a number with significant digits, independent of its size.
fn readable(number: f64) -> String {
    if number == 0.0 || (1e-3..1e6).contains(&number.abs()) {
        format!("{number:.3}")
    } else {
        format!("{number:.3e}")
    }
}

/// Shortens a number to four digits for a reader, and never drops digits before the point.
pub(super) fn short(text: &str) -> String {
    let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) else {
        return text.to_owned();
    };
    if number != 0.0 && !(1e-3..1e7).contains(&number.abs()) {
        return format!("{number:.2e}");
    }
    let decimals = match number.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    let text = format!("{number:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_rows_come_back_from_their_file() {
        let line = r#"{"figure":"a.b","ours":0.5,"target":">=1","holds":false,"tier":"disk",
            "unit":"ratio","medians":{"ours":208,"other":416,"unit":"calls"}}"#;
        let rows = Rows::measured("here".to_owned(), &line.replace('\n', "")).expect("a row");
        let text = rows.text();
        assert!(text.ends_with("a.b\t0.500\t>=1\tno\tdisk\tratio\t208.0000\t416.0000\tcalls\n"));
        assert_eq!(Rows::parse(&text).map(|rows| rows.text()), Ok(text));
        assert!(Rows::parse("# here\nfigure\n").is_err());
    }

    #[test]
    fn numbers_are_short_for_readers() {
        let numbers = ["208.0000", "678229.4999", "0.058", "12.4567", "3.909e-16", "-", "0.000"];
        let expected = ["208", "678229", "0.058", "12.46", "3.91e-16", "-", "0"];
        assert_eq!(numbers.map(short), expected);
    }
}
