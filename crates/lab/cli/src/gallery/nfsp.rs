//! NFSP, figures 3 to 5: the cost of a failed handle guess at a metaserver, and the bandwidth of
//! reads and writes of 1 to 21 clients over 12 I/O daemons and 7 metaservers.

use super::{Exhibit, chart, joined, mean_error, model_of};
use crate::Failure;
use crate::plot::Series;
use leasehold_lab_network::{Centre, CentreKind, Class, ClassKind, Network, solve};

/// Megabytes per second of every link, and megabytes of a block.
const LINK: f64 = 11.0;
const BLOCK: f64 = 8.0 / 1024.0;
const IODS: usize = 12;
const METASERVERS: usize = 7;

/// Blocks that a client reads ahead: assumed.
const WINDOW: usize = 4;

/// Processor time of a metaserver for a written block relative to its time on the link, chosen so
/// that the mean efficiency of a client is 33 %, as in the text.
const COPY: f64 = 0.6;

pub(super) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    Ok(vec![misses(), reads()?, writes()?])
}

fn centre(name: &str, kind: CentreKind, demand: f64) -> Centre {
    Centre { name: name.into(), kind, demands: vec![demand] }
}

fn network(population: usize, centres: Vec<Centre>) -> Network {
    let kind = ClassKind::Closed { population, think: 0.0 };
    Network { classes: vec![Class { name: "block".into(), kind }], centres }
}

fn throughput(population: usize, centres: Vec<Centre>) -> Result<f64, Failure> {
    Ok(solve(&network(population, centres)).map_err(Failure::running)?.throughput[0])
}

/// Draws queries to one metaserver after another: a line through the origin.
fn misses() -> Exhibit {
    let item = leasehold_lab_oracles::seed_item("nfsp-fig3").unwrap_or_default();
    let slope = item["model"]["slope_ms"].as_f64().unwrap_or(0.0);
    let asked = leasehold_lab_oracles::numbers(&item["x"]["values"]);
    let seed = leasehold_lab_oracles::numbers(&item["series"][0]["y"]);
    let model: Vec<f64> = asked.iter().map(|count| count * slope).collect();
    let points: Vec<(f64, f64)> = asked.iter().copied().zip(seed.iter().copied()).collect();
    let line = asked.iter().copied().zip(model.iter().copied()).collect();
    Exhibit {
        name: "nfsp-misses",
        of: "NFSP, figure 3: a miss at a metaserver",
        how: format!(
            "One parameter: {slope:.0} ms for each metaserver asked, one after the other."
        ),
        chart: chart(
            "Cost of a miss",
            "metaservers asked",
            "ms",
            vec![Series::line("model", line), Series::points("seed (from its text)", points)],
        ),
        error: Some(mean_error(&model, &seed)),
        model: model_of(
            "NFSP: a miss asks three metaservers, one after the other",
            "fitted to seed 002, figure 3",
            &network(1, vec![centre("metaservers", CentreKind::Delay, slope * 3.0 / 1e3)]),
            &["metaservers"],
        ),
    }
}

/// Draws reads, which go from the I/O daemons to the clients: two sets of links.
fn reads() -> Result<Exhibit, Failure> {
    let item = leasehold_lab_oracles::seed_item("nfsp-fig4").unwrap_or_default();
    let seed = leasehold_lab_oracles::numbers(&item["series"][0]["y"]);
    let clients: Vec<usize> = (1..=seed.len()).collect();
    let time = BLOCK / LINK;
    let centres = |count: usize| {
        let mut centres = vec![centre("client links", CentreKind::Servers(count), time)];
        for _ in 0..IODS {
            centres.push(centre("iod", CentreKind::Queue, time / IODS as f64));
        }
        centres
    };
    let bandwidth = |count: &usize| Ok(throughput(count * WINDOW, centres(*count))? * BLOCK);
    let names: Vec<String> = core::iter::once("client links".to_owned())
        .chain((1..=IODS).map(|number| format!("iod {number}")))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let model: Vec<f64> = clients.iter().map(bandwidth).collect::<Result<_, Failure>>()?;
    Ok(Exhibit {
        name: "nfsp-reads",
        of: "NFSP, figure 4: read bandwidth",
        how: format!(
            "Client links and {IODS} I/O daemons of {LINK:.0} MB/s, blocks of 8 KB at random \
             daemons, {WINDOW} asked for at a time by each client (assumed)."
        ),
        chart: chart(
            "Read bandwidth",
            "clients",
            "MB/s",
            vec![
                Series::line("model", joined(&clients, &model)),
                Series::points("seed (from its text)", joined(&clients, &seed)),
            ],
        ),
        error: Some(mean_error(&model, &seed)),
        model: model_of(
            "NFSP: ten clients read, four blocks asked for by each",
            "seed 002: links of 11 MB/s, blocks of 8 KB",
            &network(10 * WINDOW, centres(10)),
            &names,
        ),
    })
}

/// Draws writes, which pass through a metaserver: they use its link twice, and its processor copies
/// them. The most loaded metaserver limits the rate, as in the measurement.
fn writes() -> Result<Exhibit, Failure> {
    let item = leasehold_lab_oracles::seed_item("nfsp-fig5").unwrap_or_default();
    let wanted = item["anchors"]["mean per-client efficiency"].as_f64().unwrap_or(0.0);
    let clients: Vec<usize> = (1..=21).collect();
    let time = BLOCK / LINK;
    let centres = || {
        vec![
            centre("client link", CentreKind::Delay, time),
            centre("metaserver link in", CentreKind::Queue, time),
            centre("metaserver cpu", CentreKind::Queue, time * COPY),
            centre("metaserver link out", CentreKind::Queue, time),
            centre("iods", CentreKind::Delay, time),
        ]
    };
    let bandwidth = |count: &usize| {
        let crowd = count.div_ceil(METASERVERS);
        let share = throughput(crowd * 2, centres())? * BLOCK / crowd as f64;
        Ok(share * *count as f64)
    };
    let model: Vec<f64> = clients.iter().map(bandwidth).collect::<Result<_, Failure>>()?;
    let efficiency: f64 = model
        .iter()
        .zip(&clients)
        .map(|(bandwidth, count)| bandwidth / (*count as f64 * LINK))
        .sum::<f64>()
        / clients.len() as f64;
    let bound = leasehold_lab_oracles::numbers(&item["series"][0]["y"]);
    Ok(Exhibit {
        name: "nfsp-writes",
        of: "NFSP, figure 5: write bandwidth",
        how: format!(
            "Each block crosses a metaserver's link twice and is copied by its processor, in {:.0} % \
             of the time of one crossing (fitted); two blocks on their way for each client. Mean \
             efficiency of a client: {:.0} %, in the text {:.0} %; the error is that of this mean.",
            COPY * 100.0,
            efficiency * 100.0,
            wanted * 100.0
        ),
        chart: chart(
            "Write bandwidth",
            "clients",
            "MB/s",
            vec![
                Series::line("model", joined(&clients, &model)),
                Series::thin("links alone", joined(&clients, &bound)),
            ],
        ),
        error: Some((efficiency / wanted - 1.0).abs()),
        model: model_of(
            "NFSP: three clients write through one metaserver, two blocks on their way for each",
            "seed 002: links of 11 MB/s, blocks of 8 KB; copying fitted",
            &network(6, centres()),
            &["client link", "metaserver link in", "metaserver cpu", "metaserver link out", "iods"],
        ),
    })
}
