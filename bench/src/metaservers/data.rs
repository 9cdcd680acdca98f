//! Figures 4 and 5: 1 to 21 clients that read one file and write one each, over 12 iods and 7
//! metaservers, with all data through the metaservers, or with direct data access by clients with
//! leases.

use super::{Result, output, script};
use crate::Options;
use crate::figure::Figure;
use crate::stripes::LINK_MB_S;

const METASERVERS: u32 = 7;
const IODS: u32 = 12;
const CLIENTS: [u32; 8] = [1, 4, 7, 8, 12, 14, 15, 21];

/// The figures, and the operation of their clients.
const FIGURES: [(&str, &str); 2] = [("fig4", "read"), ("fig5", "write")];

/// The target share of the links' limit, and the target beyond as many clients as iods if the iods'
/// links are shared.
const SHARE: f64 = 0.95;
const SHARE_BEYOND: f64 = 0.9;

/// The largest amount of data that metaservers may send, relative to the data, with direct access:
/// sizes, layouts, and data that is written before a file has a layout.
const RELAYED: f64 = 0.1;

/// The smallest ratio of the rate to the rate with one client less, if the path has no steps.
const STEP: f64 = 0.95;

/// The link widths, in Mbit/s.
struct Width {
    /// The prefix of its figures.
    prefix: &'static str,
    mbit: u32,
    of_metaservers: u32,
}

const WIDTHS: [Width; 3] = [
    Width { prefix: "", mbit: 100, of_metaservers: 100 },
    Width { prefix: "gigabit.", mbit: 100, of_metaservers: 1000 },
    // This width reveals limits that are due to the machine that simulates all hosts.
    Width { prefix: "slow.", mbit: 20, of_metaservers: 20 },
];

/// The path of data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Direct,
    Relay,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relay => "relay",
        }
    }
}

/// Measures the selected figures, with all paths for each width.
pub(super) fn measure(options: &Options) -> Result<()> {
    for width in &WIDTHS {
        for way in [Way::Direct, Way::Relay] {
            let name = |figure: &str| format!("{}{figure}.{}", width.prefix, way.name());
            let mut wanted = FIGURES.to_vec();
            wanted.retain(|&(figure, _)| options.wants(&name(figure)));
            if wanted.is_empty() {
                continue;
            }
            let text = run(options, width, way, &wanted)?;
            let points = points(&text)?;
            for (figure, what) in wanted {
                let own: Vec<&Point<'_>> =
                    points.iter().filter(|point| point.what == what).collect();
                print(&name(figure), width, way, &own)?;
            }
        }
    }
    Ok(())
}

fn run(options: &Options, width: &Width, way: Way, wanted: &[(&str, &str)]) -> Result<String> {
    let mut command = script("links.sh")?;
    // On slow links a smaller size takes as long. With whole rows of stripes, all iods have equal
    // amounts.
    let mib = (options.mib * width.mbit / 100).max(1).next_multiple_of(IODS);
    command.arg(mib.to_string()).args(CLIENTS.map(|count| count.to_string()));
    let what: Vec<&str> = wanted.iter().map(|(_, what)| *what).collect();
    command.env("WHAT", what.join(" ")).env("ENTRIES", METASERVERS.to_string());
    command.env("RATE", width.mbit.to_string());
    command.env("META_RATE", width.of_metaservers.to_string());
    if way == Way::Direct {
        command.env("DIRECT", std::env::current_exe()?);
    }
    output(&mut command)
}

/// The result of `links.sh` for a number of clients.
#[derive(Debug)]
struct Point<'a> {
    /// Read or write.
    what: &'a str,
    clients: u32,
    /// MB/s of all clients.
    rate: f64,
    /// The idle share of the machine's processors.
    idle: f64,
    /// The bytes that metaservers have sent, relative to the data.
    sent: f64,
}

impl<'a> Point<'a> {
    fn parse(words: &[&'a str]) -> Result<Self> {
        let [what, _, clients, rate, idle, sent] = *words else {
            return super::unexpected(words);
        };
        let (clients, rate) = (clients.parse()?, rate.parse()?);
        Ok(Self { what, clients, rate, idle: idle.parse()?, sent: sent.parse()? })
    }
}

fn points(text: &str) -> Result<Vec<Point<'_>>> {
    super::lines(text).map(|words| Point::parse(&words)).collect()
}

/// Returns the limit of the links for a number of clients, in MB/s of all: each client has the same
/// data, and the measurement ends with the last client.
pub(crate) fn allowed(is_direct: bool, mbit: u32, of_metaservers: u32, clients: u32) -> f64 {
    let link = |mbit: u32| LINK_MB_S * f64::from(mbit) / 100.0;
    let by_iods = f64::from(clients.min(IODS)) * link(mbit);
    if is_direct {
        return by_iods;
    }
    // One metaserver has this number of clients.
    let crowd = clients.div_ceil(METASERVERS);
    let each = link(mbit).min(link(of_metaservers) / f64::from(crowd));
    by_iods.min(f64::from(clients) * each)
}

/// Prints the worst share of the links' limit, relative to its target, and each point.
fn print(name: &str, width: &Width, way: Way, points: &[&Point<'_>]) -> Result<()> {
    let first = points.first().ok_or_else(|| format!("nothing was measured of {name}"))?;
    let is_direct = way == Way::Direct;
    let (mut worst, mut busiest) = (f64::INFINITY, first);
    for point in points {
        let Point { clients, rate, .. } = **point;
        let allowed = allowed(is_direct, width.mbit, width.of_metaservers, clients);
        let are_iods_shared = is_direct || width.of_metaservers > width.mbit;
        let is_beyond = are_iods_shared && clients > IODS;
        worst = worst.min(rate / allowed / if is_beyond { SHARE_BEYOND } else { SHARE });
        if point.idle < busiest.idle {
            busiest = point;
        }
        let unit = "MB/s of all clients; that the links allow";
        Figure::beside(format!("{name}.{clients}"), rate, Some(allowed), unit).print();
    }
    Figure::share(name.to_owned(), worst * SHARE, SHARE).print();
    let unit = "share of the processors that was idle at least; with so many clients";
    let clients = f64::from(busiest.clients);
    Figure::beside(format!("{name}.idle"), busiest.idle, Some(clients), unit).print();
    if is_direct {
        let step = points.windows(2).map(|two| two[1].rate / two[0].rate).fold(1.0, f64::min);
        let units = ("ratio to fewer clients, at least", "without steps");
        Figure::least(format!("{name}.steps"), (step, 1.0), STEP, units).print();
        let sent = points.iter().map(|point| point.sent).fold(0.0, f64::max);
        let units = ("times the data, sent by metaservers at most", "times the data, by relay");
        Figure::count(format!("{name}.relayed"), (sent, 1.0), RELAYED, units).print();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_metaserver_or_the_iods_limit_the_rate() {
        let in_links = |is_direct: bool, of_metaservers: u32, clients: u32| {
            allowed(is_direct, 100, of_metaservers, clients) / LINK_MB_S
        };
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        for (clients, relayed) in
            [(1_u32, 1.0), (7, 7.0), (8, 4.0), (14, 7.0), (15, 5.0), (21, 7.0)]
        {
            near(in_links(false, 100, clients), relayed);
            near(in_links(true, 100, clients), f64::from(clients.min(12)));
            near(in_links(false, 1000, clients), f64::from(clients.min(12)));
        }
    }

    #[test]
    fn output_lines_become_points() {
        let points = points("read direct 12 140.5 0.25 0.01\n").expect("read");
        let [Point { what: "read", clients: 12, rate, idle, sent }] = *points else {
            panic!("{points:?}");
        };
        assert_eq!((rate, idle, sent), (140.5, 0.25, 0.01));
        super::points("read direct 12 140.5 0.25\n").expect_err("a word is missing");
    }
}
