//! Thesis, appendix A: remote reads and writes of RFS by 1 to 8 copies of a program at once.

use super::{Exhibit, chart, closed, cycles, fit, joined, mean_error};
use crate::Failure;
use crate::plot::Series;

pub(super) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    Ok(vec![
        exhibit("thesis-A.1", "rfs-reads", "Thesis, table and figure A.1: remote reads of RFS")?,
        exhibit("thesis-A.2", "rfs-writes", "Thesis, table and figure A.2: remote writes of RFS")?,
    ])
}

fn exhibit(id: &str, name: &'static str, of: &'static str) -> Result<Exhibit, Failure> {
    let item = leasehold_lab_oracles::seed_item(id).unwrap_or_default();
    let measured = leasehold_lab_oracles::numbers(&item["series"][1]["y"]);
    let copies: Vec<usize> = (1..=measured.len()).collect();
    let (think, demand) = fit(&copies, &measured)?;
    let model = cycles(&copies, |n| closed(n, think, &[demand]))?;
    Ok(Exhibit {
        name,
        of,
        how: format!(
            "Fitted: {think:.1} s at the client and {demand:.1} s at the server for a run of 500 \
             system calls, each of them carried out at the server."
        ),
        chart: chart(
            "500 system calls on remote blocks of 512 bytes",
            "copies at once",
            "seconds for a run",
            vec![
                Series::line("model", joined(&copies, &model)),
                Series::points("seed", joined(&copies, &measured)),
            ],
        ),
        error: Some(mean_error(&model, &measured)),
    })
}
