//! What was measured of the paper's figures 3 to 5, drawn beside the paper.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

use leasehold_lab_cli::plot::{Chart, Series};
use leasehold_lab_oracles::{numbers, seed_item};
use serde_json::Value;

use crate::metaservers::allowed;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first word for who draws.
pub(crate) const WORD: &str = "pictures";

/// How the paper's points are called: its drawings are lost.
const PAPER: &str = "the paper (from its text)";

/// Draws what lines of figures tell into a folder.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let [lines, folder] = words else { return Err("it is pictures LINES FOLDER".into()) };
    let measured = measured(&std::fs::read_to_string(lines)?)?;
    for (name, chart) in charts(&measured) {
        chart.write(&Path::new(folder).join(format!("metaservers-{name}.svg")))?;
    }
    Ok(())
}

/// Figures and what was measured; of what was measured again, the last.
type Measured = BTreeMap<String, f64>;

fn measured(text: &str) -> Result<Measured> {
    let mut measured = Measured::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line)?;
        if let (Some(figure), Some(ours)) = (line["figure"].as_str(), line["ours"].as_f64()) {
            measured.insert(figure.to_owned(), ours);
        }
    }
    Ok(measured)
}

fn charts(measured: &Measured) -> [(&'static str, Chart); 3] {
    [
        ("misses", misses(measured)),
        ("reads", data(measured, "fig4", "Reading one file (figure 4)")),
        ("writes", data(measured, "fig5", "Writing a file each (figure 5)")),
    ]
}

/// The points of a figure whose names end in a number, by that number.
fn points(measured: &Measured, figure: &str) -> Vec<(f64, f64)> {
    let own = measured.iter().filter_map(|(name, ours)| {
        let number: u32 = name.strip_prefix(figure)?.strip_prefix('.')?.parse().ok()?;
        Some((f64::from(number), *ours))
    });
    let mut points: Vec<_> = own.collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn paper(item: &str) -> Vec<(f64, f64)> {
    let item = seed_item(item).unwrap_or_default();
    let (x, y) = (numbers(&item["x"]["values"]), numbers(&item["series"][0]["y"]));
    x.into_iter().zip(y).collect()
}

fn misses(measured: &Measured) -> Chart {
    let of = |order: &str| -> Vec<(f64, f64)> {
        // Among so many, all others are asked.
        let points = points(measured, &format!("miss.{order}"));
        points.into_iter().map(|(count, ms)| (count - 1.0, ms)).collect()
    };
    let series = vec![
        Series::line(PAPER, paper("nfsp-fig3")),
        Series::points("one after the other", of("sequential")),
        Series::rings("the next first", of("nearest")),
        Series::points("by a tree", of("tree")),
        Series::points("by who notes names", of("constant")),
    ];
    Chart::new("Cost of a miss (figure 3)", "other metaservers", "ms", series).logarithmic()
}

fn data(measured: &Measured, figure: &str, title: &str) -> Chart {
    let bound = |is_direct: bool| -> Vec<(f64, f64)> {
        let at = |clients: u32| (f64::from(clients), allowed(is_direct, 100, 100, clients));
        (1..=21).map(at).collect()
    };
    let of = |width: &str, way: &str| points(measured, &format!("{width}{figure}.{way}"));
    let series = vec![
        Series::line(PAPER, paper(&format!("nfsp-{figure}"))),
        Series::thin("what links allow directly", bound(true)),
        Series::thin("what they allow through metaservers", bound(false)),
        Series::points("directly", of("", "direct")),
        Series::points("through metaservers", of("", "relay")),
        Series::rings("directly, metaservers at 1 Gbit/s", of("gigabit.", "direct")),
        Series::rings("through metaservers at 1 Gbit/s", of("gigabit.", "relay")),
    ];
    Chart::new(title, "clients", "MB/s", series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_drawn_beside_the_paper() {
        let line = |figure: &str, ours: f64| format!(r#"{{"figure":"{figure}","ours":{ours}}}"#);
        let lines = [
            line("miss.sequential.2", 0.5),
            line("miss.ms", 9.0),
            line("fig4.direct", 0.9),
            line("fig4.direct.12", 1.0),
            line("fig4.direct.7", 80.0),
            line("fig4.direct.12", 140.0),
            line("fig4.direct.idle", 0.1),
            "all that is no figure is passed over".to_owned(),
        ];
        let measured = measured(&lines.join("\n")).expect("read");
        assert_eq!(points(&measured, "fig4.direct"), [(7.0, 80.0), (12.0, 140.0)]);
        assert!(points(&measured, "fig5.direct").is_empty());
        assert_eq!(paper("nfsp-fig3").len(), 15);
        for (name, chart) in charts(&measured) {
            let picture = chart.svg().expect("drawn");
            assert!(picture.contains(PAPER) && picture.contains("</svg>"), "{name}");
        }
    }
}
