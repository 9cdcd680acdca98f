//! Pictures for the pages of figures, from their files of rows: the measured figures 3 to 5 of the paper, next to the paper's
//! values and the limit of the links.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use leasehold_lab_cli::plot::{Chart, Series};
use leasehold_lab_oracles::{numbers, seed_item};

use crate::metaservers::allowed;
use crate::stripes::LINK_MB_S;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The first argument that selects the drawing.
pub(crate) const WORD: &str = "pictures";

/// The name of the paper's points: its drawings are lost.
const PAPER: &str = "the paper (from its text)";

/// The largest number of clients in the paper.
const CLIENTS_MAX: u32 = 21;

/// Draws the rows of an area's figures into their folder.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let [area, folder] = words else { return Err("it is pictures AREA FOLDER".into()) };
    let folder = Path::new(folder);
    let page = Page::parse(&fs::read_to_string(folder.join(format!("{area}.tsv")))?);
    let charts = charts(area, &page);
    if charts.is_empty() {
        return Err(format!("{area} has no pictures").into());
    }
    for (name, chart) in charts {
        chart.write(&folder.join(name))?;
    }
    Ok(())
}

/// Returns the pictures of an area, by the names of their files.
fn charts(area: &str, page: &Page) -> Vec<(&'static str, Chart)> {
    match area {
        "metaservers" => vec![
            ("metaservers-misses.svg", misses(page)),
            ("metaservers-reads.svg", data(page, "fig4", "Reading one file (figure 4)")),
            ("metaservers-writes.svg", data(page, "fig5", "Writing a file each (figure 5)")),
        ],
        "stripes" => vec![
            ("stripes-reads.svg", relayed(page, "read", "fig4", "Reading by entry points")),
            ("stripes-writes.svg", relayed(page, "write", "fig5", "Writing by entry points")),
        ],
        _ => Vec::new(),
    }
}

type Points = Vec<(f64, f64)>;

/// The rows of an area by figure; the last row of a duplicate name applies.
struct Page(BTreeMap<String, Row>);

struct Row {
    ours: f64,
    /// The value of the counterpart, if any.
    other: f64,
}

impl Page {
    fn parse(text: &str) -> Self {
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [figure, ours, _, _, _, _, _, other, _] = *cells else { return None };
            let (ours, other) = (ours.parse().ok()?, other.parse().unwrap_or(f64::NAN));
            Some((figure.to_owned(), Row { ours, other }))
        };
        Self(text.lines().filter_map(row).collect())
    }

    fn ours(&self, figure: &str) -> Points {
        self.points(figure, |row| row.ours)
    }

    fn others(&self, figure: &str) -> Points {
        self.points(figure, |row| row.other)
    }

    /// Returns the points of a figure whose names end in a number, by that number.
    fn points(&self, figure: &str, of: fn(&Row) -> f64) -> Points {
        let own = self.0.iter().filter_map(|(name, row)| {
            let number: u32 = name.strip_prefix(figure)?.strip_prefix('.')?.parse().ok()?;
            Some((f64::from(number), of(row)))
        });
        let mut points: Points = own.filter(|point| point.1.is_finite()).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    }
}

fn paper(item: &str) -> Series {
    let item = seed_item(item).unwrap_or_default();
    let (x, y) = (numbers(&item["x"]["values"]), numbers(&item["series"][0]["y"]));
    Series::dashed(PAPER, x.into_iter().zip(y).collect())
}

/// The marker of a point.
type Mark = fn(&str, Points) -> Series;

/// Returns measured points with a line, and their bound as a thin line; empty without points.
fn curve(mark: Mark, name: &str, measured: Points, bound: Points) -> Vec<Series> {
    if measured.is_empty() {
        return Vec::new();
    }
    vec![mark(name, measured.clone()), Series::line("", measured), Series::thin("", bound)]
}

/// Returns the bound for each number of clients.
fn bound(of: impl Fn(u32) -> f64) -> Points {
    (1..=CLIENTS_MAX).map(|clients| (f64::from(clients), of(clients))).collect()
}

fn misses(page: &Page) -> Chart {
    let orders: [(Mark, &str, &str); 4] = [
        (Series::points, "sequential", "one after the other"),
        (Series::rings, "nearest", "the nearest first"),
        (Series::points, "tree", "by a tree"),
        (Series::points, "constant", "by who notes names"),
    ];
    let mut series = vec![paper("nfsp-fig3")];
    for (mark, order, name) in orders {
        let points = page.ours(&format!("miss.{order}"));
        // A query among `count` metaservers goes to all others.
        let points = points.into_iter().map(|(count, ms)| (count - 1.0, ms)).collect();
        series.extend(curve(mark, name, points, Points::new()));
    }
    Chart::new("Cost of a miss (figure 3)", "other metaservers", "ms a file", series).logarithmic()
}

/// Returns a chart of the total rate of all clients, in which thin lines are bounds.
fn rates(title: &str, series: Vec<Series>) -> Chart {
    let title = format!("{title}; thin: what links allow");
    Chart::new(&title, "clients", "MB/s of all clients", series)
}

fn data(page: &Page, figure: &str, title: &str) -> Chart {
    let measured = |width: &str, way: &str| page.ours(&format!("{width}{figure}.{way}"));
    let by_links = |is_direct: bool| bound(|clients| allowed(is_direct, 100, 100, clients));
    let mut series = vec![paper(&format!("nfsp-{figure}"))];
    series.extend(curve(Series::points, "directly", measured("", "direct"), by_links(true)));
    let name = "through metaservers";
    series.extend(curve(Series::points, name, measured("", "relay"), by_links(false)));
    // The iods' links alone limit these, as with direct access.
    for (way, name) in [
        ("direct", "directly, metaservers at 1 Gbit/s"),
        ("relay", "through metaservers at 1 Gbit/s"),
    ] {
        series.extend(curve(Series::rings, name, measured("gigabit.", way), Points::new()));
    }
    rates(title, series)
}

/// Returns a chart of the rate through the narrow links of entry points, next to a server without
/// stripes.
fn relayed(page: &Page, what: &str, figure: &str, title: &str) -> Chart {
    let figures = |entries: u32| format!("{what}.links.{entries}");
    let mut series = vec![paper(&format!("nfsp-{figure}"))];
    let of_seven = bound(|clients| allowed(false, 100, 100, clients));
    series.extend(curve(Series::points, "7 entry points", page.ours(&figures(7)), of_seven));
    let of_one = bound(|_| LINK_MB_S);
    series.extend(curve(Series::points, "1 entry point", page.ours(&figures(1)), of_one));
    let alone = page.others(&figures(1));
    series.extend(curve(Series::rings, "one server alone", alone, Points::new()));
    rates(title, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a page with the rows of these figures.
    fn page(figures: &[(&str, &str, &str)]) -> Page {
        let head = "# a machine\nfigure\tours\ttarget\tholds\ttier\tunit\tmedian of ours\t\
                    of the other\tin\n";
        let row = |(figure, ours, other): &(&str, &str, &str)| {
            format!("{figure}\t{ours}\tprinted\t-\tdisk\tMB/s\t{ours}\t{other}\tMB/s\n")
        };
        Page::parse(&(head.to_owned() + &figures.iter().map(row).collect::<String>()))
    }

    #[test]
    fn points_are_a_figures_rows_by_number() {
        let page = page(&[
            ("fig4.direct", "0.9", "0.95"),
            ("fig4.direct.12", "1.000", "143.5"),
            ("fig4.direct.7", "80.5", "-"),
            ("fig4.direct.12", "1.4e2", "143.5"),
            ("fig4.direct.14", "NaN", "143.5"),
            ("fig4.direct.idle", "0.1", "21"),
        ]);
        assert_eq!(page.0.len(), 5);
        assert_eq!(page.ours("fig4.direct"), [(7.0, 80.5), (12.0, 140.0)]);
        assert_eq!(page.others("fig4.direct"), [(12.0, 143.5), (14.0, 143.5)]);
        assert!(page.ours("fig5.direct").is_empty());
    }

    /// Returns the legend of a picture.
    fn names(page: &Page, picture: &str) -> Vec<&'static str> {
        let area = picture.split('-').next().unwrap_or_default();
        let charts = charts(area, page);
        let chart = charts.iter().find(|(name, _)| *name == picture);
        let text = chart.expect("it is a picture").1.svg().expect("drawn");
        let all = [PAPER, "directly", "through metaservers", "7 entry points", "1 entry point"];
        all.into_iter().filter(|name| text.contains(&format!("\n{name}\n"))).collect()
    }

    #[test]
    fn measurements_are_drawn_with_the_papers_values() {
        let page = page(&[
            ("miss.constant.16", "0.061", "990.0"),
            ("fig4.direct.7", "80.5", "83.7"),
            ("fig5.relay.21", "63.4", "83.7"),
            ("read.links.1.7", "11.3", "11.7"),
            ("read.links.7.7", "60.1", "11.7"),
        ]);
        assert_eq!(names(&page, "metaservers-misses.svg"), [PAPER]);
        assert_eq!(names(&page, "metaservers-reads.svg"), [PAPER, "directly"]);
        assert_eq!(names(&page, "metaservers-writes.svg"), [PAPER, "through metaservers"]);
        let of_stripes = [PAPER, "7 entry points", "1 entry point"];
        assert_eq!(names(&page, "stripes-reads.svg"), of_stripes);
        assert_eq!(names(&page, "stripes-writes.svg"), [PAPER]);
        assert!(charts("speed", &page).is_empty());
    }

    #[test]
    fn the_paper_has_its_points() {
        for (item, count) in [("nfsp-fig3", 15), ("nfsp-fig4", 21), ("nfsp-fig5", 21)] {
            let item = seed_item(item).expect("it is among the references");
            assert_eq!(numbers(&item["x"]["values"]).len(), count);
            assert_eq!(numbers(&item["series"][0]["y"]).len(), count);
        }
    }

    #[test]
    fn pictures_agree_with_their_pages() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
        for area in ["metaservers", "stripes"] {
            let read = |ending| fs::read_to_string(folder.join(format!("{area}.{ending}")));
            let (text, rows) = (read("md").expect("a page"), read("tsv").expect("rows"));
            for (name, chart) in charts(area, &Page::parse(&rows)) {
                // A page from a version without pictures shows none.
                if text.contains(&format!("]({name})")) {
                    let kept = fs::read_to_string(folder.join(name)).unwrap_or_default();
                    let drawn = chart.svg().expect("drawn");
                    assert!(kept == drawn, "{name}: cargo xtask figures {area} --draw");
                }
            }
        }
    }
}
