//! NQNFS, figures 2 and 5: elapsed time of two phases against the number of clients, from two
//! parameters for each curve.

use super::{Exhibit, chart, closed, cycles, joined, mean_error, model_of};
use crate::Failure;
use crate::plot::Series;

pub(super) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    Ok(vec![
        exhibit("nqnfs-fig2", "NFS", "nqnfs-copy-nfs", "NQNFS, figure 2: copying, NFS")?,
        exhibit("nqnfs-fig2", "Leases", "nqnfs-copy-leases", "NQNFS, figure 2: copying, leases")?,
        exhibit("nqnfs-fig5", "NFS", "nqnfs-compile-nfs", "NQNFS, figure 5: compiling, NFS")?,
        exhibit(
            "nqnfs-fig5",
            "Leases",
            "nqnfs-compile-leases",
            "NQNFS, figure 5: compiling, leases",
        )?,
    ])
}

fn exhibit(
    figure: &str,
    series: &str,
    name: &'static str,
    of: &'static str,
) -> Result<Exhibit, Failure> {
    let fits = leasehold_lab_oracles::nqnfs_fits();
    let missing = || Failure::running(format!("{figure} {series}: no such fit"));
    let fit = fits["fits"]
        .as_array()
        .and_then(|fits| {
            fits.iter().find(|fit| {
                fit["figure"] == figure && fit["series"] == series && fit["queues"] == 1
            })
        })
        .ok_or_else(missing)?;
    let think = fit["Z_s"].as_f64().ok_or_else(missing)?;
    let demands = leasehold_lab_oracles::numbers(&fit["D_s"]);
    let measured = leasehold_lab_oracles::numbers(&fit["measured"]);
    let clients = [1, 2, 4, 6, 8, 10];
    let model = cycles(&clients, |n| closed(n, think, &demands))?;
    let all: Vec<usize> = (1..=10).collect();
    let curve = cycles(&all, |n| closed(n, think, &demands))?;
    Ok(Exhibit {
        name,
        of,
        how: format!(
            "Two parameters: {think:.1} s at the client and {:.1} s at the server for a run.",
            demands[0]
        ),
        chart: chart(
            of,
            "clients",
            "elapsed, s",
            vec![
                Series::line("model", joined(&all, &curve)),
                Series::points("seed", joined(&clients, &measured)),
            ],
        ),
        error: Some(mean_error(&model, &measured)),
        model: model_of(of, "fitted to seed 001", &closed(4, think, &demands), &["server"]),
    })
}
