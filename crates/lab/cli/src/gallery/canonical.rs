//! Thesis, chapters 3 and 4: the canonical system of workstations, Ethernet, server processor and
//! disk, with the textbook parameters of Lazowska et al. 1986.

use super::{Exhibit, chart, closed, joined, mean_error, model_of};
use crate::Failure;
use crate::plot::Series;
use leasehold_lab_des::{Engine, Tally};
use leasehold_lab_network::ethernet::Ethernet;
use leasehold_lab_network::model::Model;
use leasehold_lab_network::{Centre, CentreKind, Class, ClassKind, Network, surface};

const THINK: f64 = 0.9376;
const SERVER_CPU: f64 = 0.040;
const DISK: f64 = 0.0188;
const NETWORK: f64 = 0.0036;
const MOST: usize = 60;

const WORKSTATIONS: &str = "workstations";
const RESPONSE: &str = "response time, s";

/// The canonical model: a load-dependent network, server processor and disk.
fn canonical(population: usize, server_cpu: f64, disk: f64, network: f64) -> Network {
    let ethernet = Ethernet { frame_bytes: 1090.0, bits_per_second: 10e6, slot_seconds: 51.2e-6 };
    let centre = |name: &str, kind: CentreKind, demand: f64| Centre {
        name: name.into(),
        kind,
        demands: vec![demand],
    };
    let kind = ClassKind::Closed { population, think: THINK };
    Network {
        classes: vec![Class { name: "workstation".into(), kind }],
        centres: vec![
            centre("network", CentreKind::LoadDependent(ethernet.rates(population)), network),
            centre("server cpu", CentreKind::Queue, server_cpu),
            centre("disk", CentreKind::Queue, disk),
        ],
    }
}

/// Response time against the number of workstations.
fn responses(server_cpu: f64, disk: f64, network: f64) -> Result<Vec<(f64, f64)>, Failure> {
    let surface = surface(&canonical(MOST, server_cpu, disk, network)).map_err(Failure::running)?;
    Ok((1..=MOST).map(|n| (n as f64, surface.at(&[n]).response[0])).collect())
}

pub(super) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    Ok(vec![
        congestion()?,
        utilisation()?,
        block_size(),
        packet_size()?,
        enhancements()?,
        low_variance()?,
    ])
}

fn congestion() -> Result<Exhibit, Failure> {
    let curve = responses(SERVER_CPU, DISK, NETWORK)?;
    let reference = leasehold_lab_oracles::lazowska();
    let theirs = reference["des_low_variance"]["results"]["10"]["X"].as_f64().unwrap_or(f64::NAN);
    let ours = 10.0 / (THINK + curve[9].1);
    Ok(Exhibit {
        name: "canonical-congestion",
        of: "Thesis, figure 4.1: congestion",
        how: format!(
            "Canonical model: think 937.6 ms, server CPU 40 ms, disk 18.8 ms, Ethernet 3.6 ms. Ten \
             workstations ask for {ours:.2} files a second; with little variance another simulator \
             has {theirs:.2}, a textbook that retells Lazowska et al. 9.87."
        ),
        chart: chart("Congestion", WORKSTATIONS, RESPONSE, vec![Series::line("model", curve)]),
        error: None,
        model: diskless(SERVER_CPU, DISK, NETWORK)?,
    })
}

fn utilisation() -> Result<Exhibit, Failure> {
    let network = canonical(MOST, SERVER_CPU, DISK, NETWORK);
    let surface = surface(&network).map_err(Failure::running)?;
    let curve = |centre: usize| {
        let points = (1..=MOST).map(|n| (n as f64, surface.at(&[n]).utilisation[centre][0]));
        Series::line(&network.centres[centre].name, points.collect())
    };
    Ok(Exhibit {
        name: "canonical-utilisation",
        of: "Thesis, figure 4.2: utilisation",
        how:
            "The same model: the server's processor is busiest, then the disk, the network is far \
              behind."
                .into(),
        chart: chart("Utilisation", WORKSTATIONS, "busy", vec![curve(1), curve(2), curve(0)]),
        error: None,
        model: diskless(SERVER_CPU, DISK, NETWORK)?,
    })
}

/// Draws the time to read 100 KB in blocks: each block has a fixed time, and each byte has a time.
fn block_size() -> Exhibit {
    let item = leasehold_lab_oracles::seed_item("thesis-A.3").unwrap_or_default();
    let sizes = leasehold_lab_oracles::numbers(&item["x"]["values"]);
    let times = leasehold_lab_oracles::numbers(&item["series"][0]["y"]);
    // Least squares of time over 1 / size: one customer, so demands add up and no queue forms.
    let inverse: Vec<f64> = sizes.iter().map(|size| 1.0 / size).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (x, y) = (mean(&inverse), mean(&times));
    let covariance: f64 = inverse.iter().zip(&times).map(|(a, b)| (a - x) * (b - y)).sum();
    let slope = covariance / inverse.iter().map(|a| (a - x) * (a - x)).sum::<f64>();
    let per_file = y - slope * x;
    let model: Vec<f64> = inverse.iter().map(|inverse| per_file + slope * inverse).collect();
    let per_block_ms = slope / 100.0 * 1e3;
    let points: Vec<(f64, f64)> =
        sizes.iter().copied().zip(times.iter().map(|time| time / 100.0)).collect();
    let curve = (8..=64).map(|half| {
        let size = f64::from(half) / 2.0;
        (size, (per_file + slope / size) / 100.0)
    });
    Exhibit {
        name: "block-size",
        of: "Thesis, figure 4.3 and table A.3: block size",
        how: format!(
            "One customer: {per_block_ms:.0} ms for each block and {:.1} ms for each KB.",
            per_file * 10.0
        ),
        chart: chart(
            "Remote access by block size",
            "block, KB",
            "seconds for a KB",
            vec![Series::line("model", curve.collect()), Series::points("seed", points)],
        ),
        error: Some(mean_error(&model, &times)),
        model: model_of(
            "One reader, blocks of 4 KB",
            "fitted to seed 000, table A.3",
            &closed(1, 0.0, &[slope / 100.0, per_file / 100.0 * 4.0]),
            &["each block", "its four KB"],
        ),
    }
}

/// Draws packets of 4 KB in place of 1 KB: a block and its request need two packets in place of
/// five.
fn packet_size() -> Result<Exhibit, Failure> {
    // Assumed: half of the processor's work is per packet, and a fifth of the network's time.
    let share = 2.0 / 5.0;
    let cpu = SERVER_CPU * (0.5 + 0.5 * share);
    let network = NETWORK * (0.8 + 0.2 * share);
    let base = Series::line("1 KB packets", responses(SERVER_CPU, DISK, NETWORK)?);
    let large = Series::line("4 KB packets", responses(cpu, DISK, network)?);
    Ok(Exhibit {
        name: "packet-size",
        of: "Thesis, figure 4.4: packet size",
        how: "Assumed: half of the server's processor time and a fifth of the network's go with \
              the number of packets, two instead of five."
            .into(),
        chart: chart("Packet size", WORKSTATIONS, RESPONSE, vec![base, large]),
        error: None,
        model: diskless(cpu, DISK, network)?,
    })
}

/// Draws a second server, a faster server, and a client cache with a hit ratio of one half.
fn enhancements() -> Result<Exhibit, Failure> {
    let second = responses(SERVER_CPU / 2.0, DISK / 2.0, NETWORK)?;
    let cached = responses(SERVER_CPU / 2.0, DISK / 2.0, NETWORK / 2.0)?;
    let apart = second.iter().zip(&cached).map(|(a, b)| a.1 / b.1 - 1.0).fold(0.0, f64::max);
    let series = vec![
        Series::line("as it is", responses(SERVER_CPU, DISK, NETWORK)?),
        Series::line("second server", second),
        Series::line("processor twice as fast", responses(SERVER_CPU / 2.0, DISK, NETWORK)?),
        Series::thin("client cache, half hits", cached),
    ];
    Ok(Exhibit {
        name: "enhancements",
        of: "Thesis, section 4.3: second server, faster server",
        how: format!(
            "A second server halves the demand at the bottleneck. The thesis says that this is as \
             good as a client cache that answers half of the requests: in the model they are at \
             most {:.0} % apart.",
            apart * 100.0
        ),
        chart: chart("Enhancements", WORKSTATIONS, RESPONSE, series),
        error: None,
        model: diskless(SERVER_CPU / 2.0, DISK / 2.0, NETWORK)?,
    })
}

/// Draws the same system with constant processor and network times, simulated, next to an
/// independent simulation of the same system.
fn low_variance() -> Result<Exhibit, Failure> {
    let reference = &leasehold_lab_oracles::lazowska()["des_low_variance"]["results"];
    let populations = [10, 20, 30, 50];
    let theirs: Vec<f64> =
        populations.iter().filter_map(|n| reference[n.to_string()]["X"].as_f64()).collect();
    let ours: Vec<f64> = populations
        .iter()
        .map(|&population| {
            let mut engine = Engine::new(&low_variance_model(population)?, 1);
            engine.run_until(100.0, u64::MAX).map_err(Failure::running)?;
            let _warm_up: Tally = engine.take_tally();
            let start = engine.now();
            engine.run_until(start + 4_000.0, u64::MAX).map_err(Failure::running)?;
            Ok(engine.take_tally().answers() as f64 / 4_000.0)
        })
        .collect::<Result<_, Failure>>()?;
    let surface =
        surface(&closed(MOST, THINK, &[NETWORK, SERVER_CPU, DISK])).map_err(Failure::running)?;
    let exponential = (1..=MOST).map(|n| (n as f64, surface.at(&[n]).throughput[0])).collect();
    Ok(Exhibit {
        name: "low-variance",
        of: "Lazowska et al. 1986 as a textbook retells it: throughput with little variance",
        how: "Constant network and processor times and a two-stage disk, simulated; the line is \
              the solver's for exponential times."
            .into(),
        chart: chart(
            "Throughput with little variance",
            WORKSTATIONS,
            "requests per second",
            vec![
                Series::line("exponential times, solved", exponential),
                Series::rings("little variance, simulated", joined(&populations, &ours)),
                Series::points("another simulator", joined(&populations, &theirs)),
            ],
        ),
        error: Some(mean_error(&ours, &theirs)),
        model: low_variance_model(30)?,
    })
}

/// Returns the canonical model as a file, with other demands in seconds.
fn diskless(server_cpu: f64, disk: f64, network: f64) -> Result<Model, Failure> {
    let mut model = parse(include_str!("../../../../../docs/lab/models/diskless.json"))?;
    for (name, seconds) in [("server cpu", server_cpu), ("disk", disk), ("network", network)] {
        if let Some(demand) = model.classes[0].demands.get_mut(name) {
            demand.value = seconds * 1e3;
        }
    }
    Ok(model)
}

fn parse(text: &str) -> Result<Model, Failure> {
    Model::parse(text).map_err(|problems| {
        Failure::running(problems.iter().map(ToString::to_string).collect::<String>())
    })
}

fn low_variance_model(population: usize) -> Result<Model, Failure> {
    let mut model =
        parse(include_str!("../../../../../docs/lab/models/diskless-low-variance.json"))?;
    if let leasehold_lab_network::model::ClassKind::Closed { population: count, .. } =
        &mut model.classes[0].kind
    {
        count.value = population as f64;
    }
    Ok(model)
}
