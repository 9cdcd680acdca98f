//! `lab gallery`: draws the seeds' figures from models, with the seeds' points and the error.
//!
//! The seeds' numbers come from the reference files. If a drawing is lost and only its text
//! remains, the gallery shows a curve without an error.

mod canonical;
mod nfsp;
mod nqnfs;
mod rfs;

use crate::output::{Table, line};
use crate::plot::{Chart, Series};
use crate::{Failure, policies};
use leasehold_lab_network::model::{self, Demand, Discipline, FORMAT, Model, Origin, Quantity};
use leasehold_lab_network::{Centre, CentreKind, Class, ClassKind, Network};
use leasehold_lab_policy::{Kind, MabSize, Terms, mab};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// One figure.
#[derive(Serialize)]
pub(crate) struct Exhibit {
    /// The name of its file.
    name: &'static str,
    /// The figure's number, and its seed.
    of: &'static str,
    /// The construction of the model, in a sentence.
    how: String,
    #[serde(flatten)]
    chart: Chart,
    /// Mean relative difference between model and seed; `None` if the seed has no points.
    error: Option<f64>,
    /// The model of the curve, for further experiments.
    model: Model,
}

/// A network of one closed class over single servers.
fn closed(population: usize, think: f64, demands: &[f64]) -> Network {
    let kind = ClassKind::Closed { population, think };
    let centre = |demand: &f64| Centre {
        name: "queue".into(),
        kind: CentreKind::Queue,
        demands: vec![*demand],
    };
    Network {
        classes: vec![Class { name: "customers".into(), kind }],
        centres: demands.iter().map(centre).collect(),
    }
}

/// Returns a network of one closed class as a model that states the source of its numbers. Centres
/// receive the names in `names`; centres without demand are omitted.
fn model_of(title: &str, source: &str, network: &Network, names: &[&str]) -> Model {
    let demand = |seconds: f64| Demand {
        from: Origin::Seed,
        r#where: source.into(),
        ..Demand::assumed_seconds(seconds)
    };
    let (population, think) = match network.classes[0].kind {
        ClassKind::Closed { population, think } => (population, think),
        ClassKind::Open { .. } => (0, 0.0),
    };
    let named = || names.iter().zip(&network.centres).filter(|(_, centre)| centre.demands[0] > 0.0);
    let kind = |kind: &CentreKind| match kind {
        CentreKind::Delay => model::Kind::Delay,
        CentreKind::Servers(count) if *count > 1 => {
            model::Kind::Servers { count: Quantity::assumed(*count as f64) }
        }
        CentreKind::Queue | CentreKind::Servers(_) => model::Kind::Queue,
        CentreKind::LoadDependent(rates) => model::Kind::LoadDependent {
            rates: rates.clone(),
            from: Origin::Seed,
            r#where: source.into(),
        },
    };
    let class = model::Class {
        name: network.classes[0].name.clone(),
        kind: model::ClassKind::Closed {
            population: Quantity::assumed(population as f64),
            think: demand(think),
        },
        demands: named().map(|(name, at)| ((*name).to_owned(), demand(at.demands[0]))).collect(),
        route: Vec::new(),
        priority: 0,
        timeout: None,
        try_again: None,
        cache: None,
    };
    let centres = named().map(|(name, centre)| model::Centre {
        name: (*name).to_owned(),
        kind: kind(&centre.kind),
        discipline: Discipline::Fcfs,
        capacity: None,
        loss: None,
        crashes: None,
    });
    Model {
        format: FORMAT.into(),
        title: title.into(),
        centres: centres.collect(),
        classes: vec![class],
    }
}

/// Returns the time of a cycle, including think time, for each population.
fn cycles(populations: &[usize], network: impl Fn(usize) -> Network) -> Result<Vec<f64>, Failure> {
    let one = |&population: &usize| {
        let solution =
            leasehold_lab_network::solve(&network(population)).map_err(Failure::running)?;
        Ok(population as f64 / solution.throughput[0])
    };
    populations.iter().map(one).collect()
}

/// Returns the mean relative difference between a model and points.
fn mean_error(model: &[f64], points: &[f64]) -> f64 {
    let sum: f64 = model.iter().zip(points).map(|(ours, theirs)| (ours / theirs - 1.0).abs()).sum();
    sum / points.len() as f64
}

fn joined(x: &[usize], y: &[f64]) -> Vec<(f64, f64)> {
    x.iter().map(|x| *x as f64).zip(y.iter().copied()).collect()
}

/// Returns the two parameters, think time and demand at one queue, that fit measured cycle times
/// best: a coarse grid, refined repeatedly around its best point.
fn fit(populations: &[usize], measured: &[f64]) -> Result<(f64, f64), Failure> {
    let largest = measured.iter().copied().fold(0.0, f64::max);
    let (mut best, mut width) = ((largest / 2.0, largest / 2.0), largest / 2.0);
    let mut least = f64::INFINITY;
    while width > 1e-4 * largest {
        let middle = best;
        for row in -4..=4 {
            for column in -4..=4 {
                let at = |middle: f64, step: i32| (middle + width * f64::from(step) / 4.0).max(0.0);
                let (think, demand) = (at(middle.0, row), at(middle.1, column));
                if demand <= 0.0 {
                    continue;
                }
                let model = cycles(populations, |n| closed(n, think, &[demand]))?;
                let error: f64 =
                    model.iter().zip(measured).map(|(a, b)| (a / b - 1.0) * (a / b - 1.0)).sum();
                if error < least {
                    least = error;
                    best = (think, demand);
                }
            }
        }
        width *= 0.5;
    }
    Ok(best)
}

/// Returns every exhibit.
pub(crate) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    let mut all = canonical::exhibits()?;
    all.extend(rfs::exhibits()?);
    all.extend(nqnfs::exhibits()?);
    all.extend(nfsp::exhibits()?);
    Ok(all)
}

/// Draws every exhibit and writes a page with all of them.
pub(crate) fn write(directory: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::running(format!("{}: {error}", directory.display())))?;
    let mut page = String::from(
        "# The seeds' figures from models\n\nEach picture is drawn by `leasehold lab gallery`. The \
         error is the mean relative difference between model and seed.\n",
    );
    let mut table = Table::new(&["figure", "of", "error_percent"]);
    let exhibits = exhibits()?;
    let data = serde_json::to_string(&exhibits).map_err(Failure::running)? + "\n";
    let file = directory.join("gallery.json");
    std::fs::write(&file, data)
        .map_err(|error| Failure::running(format!("{}: {error}", file.display())))?;
    for exhibit in exhibits {
        let file = format!("{}.svg", exhibit.name);
        exhibit.chart.write(&directory.join(&file))?;
        let error = exhibit.error.map(|error| error * 100.0);
        table.row([exhibit.name.into(), exhibit.of.into(), error.unwrap_or(f64::NAN).into()]);
        let error = error.map_or("The seed has no numbers to compare with.".into(), |e| {
            format!("Error {e:.1} %.")
        });
        page += &format!(
            "\n## {}\n\n![{}]({file})\n\n{} {error}\n",
            exhibit.of, exhibit.name, exhibit.how
        );
    }
    let (text, error) = table_one();
    let of = "NQNFS, Table 1: remote calls by policy";
    page += &format!("\n## {of}\n\n{text}\n");
    table.row(["nqnfs-table1".into(), of.into(), (error * 100.0).into()]);
    let readme = directory.join("README.md");
    std::fs::write(&readme, page)
        .map_err(|error| Failure::running(format!("{}: {error}", readme.display())))?;
    line(out, &table.text())
}

/// The columns of the remote calls table in the paper.
const CALLS: [&str; 7] = ["getattr", "read", "write", "lookup", "other", "consistency", "total"];

/// Returns the remote calls table of the paper and the simulated one as text, and the mean error of
/// their ratios.
fn table_one() -> (String, f64) {
    let trace = mab(MabSize::default());
    let item = leasehold_lab_oracles::seed_item("nqnfs-table1").unwrap_or_default();
    let paper = |row: &str| leasehold_lab_oracles::numbers(&item["rows"][row]);
    let mut counts = Table::new(&[&["paper"][..], &CALLS].concat());
    for row in ["BSD/NFS", "BSD/NQNFS", "Spritely NFS"] {
        counts.row(core::iter::once(row.into()).chain(paper(row).into_iter().map(Into::into)));
    }
    let ours = |kind: Kind| -> Vec<f64> {
        let report = kind.run(&trace, Terms::default());
        // The paper has no column for call-backs.
        let mut counts: Vec<f64> = report.calls[..6].iter().map(|count| *count as f64).collect();
        counts.push(counts.iter().sum());
        counts
    };
    let (nfs, nqnfs, spritely) = (ours(Kind::Nfs), ours(Kind::Nqnfs), ours(Kind::Spritely));
    let (paper_nfs, paper_nqnfs) = (paper("BSD/NFS"), paper("BSD/NQNFS"));
    let mut ratios = Table::new(&["ratio", "of", "paper", "ours", "error_percent"]);
    let mut errors = Vec::new();
    let mut ratio = |name: &str, of: &str, theirs: f64, ours: f64| {
        let error = (ours / theirs - 1.0).abs();
        errors.push(error);
        ratios.row([name.into(), of.into(), theirs.into(), ours.into(), (error * 100.0).into()]);
    };
    for (index, call) in CALLS.iter().enumerate().filter(|(index, _)| *index != 5) {
        let theirs = paper_nqnfs[index] / paper_nfs[index];
        ratio("nqnfs / nfs", call, theirs, nqnfs[index] / nfs[index]);
    }
    let theirs = paper("Spritely NFS")[5] / paper_nqnfs[5];
    ratio("spritely / nqnfs", CALLS[5], theirs, spritely[5] / nqnfs[5]);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let text = format!(
        "The workload is built from the benchmark's description and sized on plain NFS; nothing is \
         fitted to the other rows. The paper measured Spritely NFS on another operating system \
         with another cache, so its reads are not comparable. Mean error of the ratios \
         {:.1} %.\n\n```text\n{}\n\n{}\n\n{}\n```",
        mean * 100.0,
        counts.text(),
        policies::table(&trace).text(),
        ratios.text()
    );
    (text, mean)
}

/// A chart of model curves and seed points.
fn chart(title: &str, x: &str, y: &str, series: Vec<Series>) -> Chart {
    Chart::new(title, x, y, series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_the_seeds_come_out_of_models() {
        let exhibits = exhibits().expect("every model can be solved");
        assert_eq!(exhibits.len(), 15);
        for exhibit in &exhibits {
            assert!(exhibit.chart.svg().expect("drawn").contains("</svg>"));
            assert_eq!(exhibit.model.check(), [], "{}", exhibit.name);
            let Some(error) = exhibit.error else { continue };
            assert!(error < 0.1, "{}: {error}", exhibit.name);
        }
    }

    #[test]
    fn a_fit_finds_the_parameters_that_made_the_points() {
        let populations = [1, 2, 4, 6, 8, 10];
        let points = cycles(&populations, |n| closed(n, 14.0, &[11.0])).expect("solved");
        let (think, demand) = fit(&populations, &points).expect("fitted");
        assert!((think - 14.0).abs() < 0.2 && (demand - 11.0).abs() < 0.1, "{think} {demand}");
    }
}
