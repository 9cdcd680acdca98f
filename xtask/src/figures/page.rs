//! The generated part of a page of figures: its origin, its chart, and the table of chosen rows.
//!
//! The page itself chooses the rows, in a comment that begins with the line `<!-- figures` and has
//! the parts `chart TITLE` (results), `pairs TITLE; OURS; OTHER` (medians) and `table`, each
//! followed by the names of its rows. The table also has each row that misses its target. The
//! generated part ends with the line `<!-- end of figures -->`.

use super::chart::{self, Bar};
use super::rows::{Row, Rows, short};

const BEGIN: &str = "<!-- figures\n";
const CHOSEN: &str = "-->\n";
const END: &str = "<!-- end of figures -->\n";

/// Returns the page with its generated part, and its chart if it chooses one.
pub(super) fn render(
    name: &str,
    page: &str,
    rows: &Rows,
) -> Result<(String, Option<String>), String> {
    let broken = || format!("{name}.md has no part for figures");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(broken)?;
    let (choice, rest) = rest.split_once(CHOSEN).ok_or_else(broken)?;
    let (_, after) = rest.split_once(END).ok_or_else(broken)?;
    let parts = parts(choice);
    let chart = parts.iter().find(|(head, _)| *head != "table");
    let chart = chart.map(|(head, chosen)| drawn(head, chosen, rows)).transpose()?;
    let table = parts.iter().find(|(head, _)| *head == "table").ok_or_else(broken)?;
    let mut text = format!("\nMeasured by {}.\nAll rows: [{name}.tsv]({name}.tsv).\n", rows.origin);
    if let Some((title, _)) = &chart {
        text += &format!("\n![{title}]({name}.svg)\n");
    }
    text += &format!("\n{}\n", self::table(&table.1, rows)?);
    let page = [before, BEGIN, choice, CHOSEN, &text, END, after].concat();
    Ok((page, chart.map(|(_, chart)| chart)))
}

/// Returns the parts of a choice: the head of each, and its rows.
fn parts(choice: &str) -> Vec<(&str, Vec<&str>)> {
    let mut parts: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in choice.lines() {
        let is_head = line == "table" || line.starts_with("chart ") || line.starts_with("pairs ");
        match parts.last_mut() {
            Some((_, rows)) if !is_head => rows.push(line),
            _ => parts.push((line, Vec::new())),
        }
    }
    parts
}

/// Returns the title of a chart, and the chart.
fn drawn(head: &str, chosen: &[&str], rows: &Rows) -> Result<(String, String), String> {
    let rows = chosen.iter().map(|name| found(name, rows)).collect::<Result<Vec<_>, _>>()?;
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(title) = head.strip_prefix("chart ") {
        let target = |row: &Row| number(row.target.trim_start_matches(['<', '>', '=']));
        let bar = |row: &&Row| Bar {
            name: row.figure.clone(),
            values: vec![(number(&row.ours).unwrap_or_default(), short(&row.ours))],
            target: target(row),
        };
        return Ok((
            title.to_owned(),
            chart::svg(title, &[], &rows.iter().map(bar).collect::<Vec<_>>()),
        ));
    }
    let mut words = head.strip_prefix("pairs ").unwrap_or_default().split("; ");
    let title = words.next().unwrap_or_default();
    let bar = |row: &&Row| {
        let values = [&row.median, &row.other];
        let values = values.into_iter().filter_map(|it| Some((number(it)?, short(it)))).collect();
        Bar { name: row.figure.clone(), values, target: None }
    };
    let bars: Vec<_> = rows.iter().map(bar).collect();
    Ok((title.to_owned(), chart::svg(title, &words.collect::<Vec<_>>(), &bars)))
}

fn found<'a>(name: &str, rows: &'a Rows) -> Result<&'a Row, String> {
    // A measurement may repeat a figure: the last row is valid.
    let row = rows.rows.iter().rev().find(|row| row.figure == name);
    row.ok_or_else(|| format!("no figure is called {name}"))
}

/// Returns the table of the chosen rows, and of the rows that miss their targets.
fn table(chosen: &[&str], rows: &Rows) -> Result<String, String> {
    for name in chosen {
        found(name, rows)?;
    }
    let mut text = "| figure | result | unit | target | holds | ours | the other | in |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    let shown =
        rows.rows.iter().filter(|row| row.holds == "no" || chosen.contains(&row.figure.as_str()));
    for row in shown {
        let holds = if row.holds == "no" { "**no**" } else { &row.holds };
        // The result of a row without a ratio is the median of ours.
        let has_ratio = row.unit != row.median_unit;
        let (ours, unit) =
            if has_ratio { (short(&row.median), &*row.median_unit) } else { Default::default() };
        let cells = [
            format!("`{}`", row.figure),
            short(&row.ours),
            row.unit.clone(),
            row.target.clone(),
            holds.to_owned(),
            ours,
            short(&row.other),
            unit.to_owned(),
        ];
        text += &format!("| {} |\n", cells.join(" | "));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# `cargo x`, commit 1\n\
        figure\tours\ttarget\tholds\ttier\tunit\tmedian of ours\tof the other\tin\n\
        a.rate\t2.000\t>=1\tyes\tdisk\tratio\t20.0000\t10.0000\tcalls\n\
        b.rate\t0.500\t>=1\tno\tdisk\tratio\t5.0000\t10.0000\tcalls\n\
        c.calls\t7.000\tprinted\t-\tdisk\tcalls\t7.0000\t-\tcalls\n";

    #[test]
    fn a_page_shows_chosen_rows_and_missed_targets() {
        let rows = Rows::parse(FILE).expect("rows");
        let page = "# A\n\n<!-- figures\nchart Rates\na.rate\ntable\nc.calls\n-->\nold\n\
            <!-- end of figures -->\n\n## Method\n";
        let (page, chart) = render("a", page, &rows).expect("a page");
        assert!(page.contains("Measured by `cargo x`, commit 1.\nAll rows: [a.tsv](a.tsv).\n"));
        assert!(page.contains("![Rates](a.svg)") && page.ends_with("\n## Method\n"));
        assert!(page.contains("| `b.rate` | 0.5 | ratio | >=1 | **no** | 5 | 10 | calls |\n"));
        assert!(page.contains("| `c.calls` | 7 | calls | printed | - |  | - |  |\n"));
        assert!(!page.contains("`a.rate`") && !page.contains("\nold\n"));
        assert!(chart.is_some_and(|chart| chart.contains(">a.rate<")));
        let again = render("a", &page, &rows).expect("a page").0;
        assert_eq!(again, page);
    }

    #[test]
    fn a_page_chooses_only_rows_that_exist() {
        let rows = Rows::parse(FILE).expect("rows");
        let page = "<!-- figures\ntable\ngone\n-->\n<!-- end of figures -->\n";
        assert_eq!(render("a", page, &rows).err().as_deref(), Some("no figure is called gone"));
        assert!(render("a", "# A\n", &rows).is_err());
    }
}
