//! Thesis, appendix A: remote reads and writes of RFS by 1 to 8 concurrent copies of a program.

use super::{Exhibit, chart, closed, cycles, fit, joined, mean_error, model_of};
use crate::Failure;
use crate::plot::Series;

/// One of the two tables, and its model.
struct Subject {
    table: &'static str,
    name: &'static str,
    of: &'static str,
    /// The number of copies at which the server's buffers are full; `None` if all data fits.
    buffered: Option<usize>,
}

pub(super) fn exhibits() -> Result<Vec<Exhibit>, Failure> {
    [
        Subject {
            table: "thesis-A.1",
            name: "rfs-reads",
            of: "Thesis, table and figure A.1: remote reads of RFS",
            buffered: None,
        },
        Subject {
            table: "thesis-A.2",
            name: "rfs-writes",
            of: "Thesis, table and figure A.2: remote writes of RFS",
            // The local times in the same table rise tenfold with the fourth copy.
            buffered: Some(3),
        },
    ]
    .iter()
    .map(exhibit)
    .collect()
}

fn exhibit(subject: &Subject) -> Result<Exhibit, Failure> {
    let item = leasehold_lab_oracles::seed_item(subject.table).unwrap_or_default();
    let seed = |series: usize| leasehold_lab_oracles::numbers(&item["series"][series]["y"]);
    let (local, remote) = (seed(0), seed(1));
    let copies: Vec<usize> = (1..=remote.len()).collect();
    let (mut model, mut words, mut fitted) = (Vec::new(), Vec::new(), Vec::new());
    let split = subject.buffered.unwrap_or(copies.len());
    for part in [0..split, split..copies.len()].into_iter().filter(|part| !part.is_empty()) {
        let (copies, remote) = (&copies[part.clone()], &remote[part]);
        let (think, demand) = fit(copies, remote)?;
        model.extend(cycles(copies, |n| closed(n, think, &[demand]))?);
        fitted.push((think, demand));
        words.push(format!("{think:.1} s at the client and {demand:.1} s at the server"));
    }
    // Further experiments start from the parameters for many copies.
    let (think, demand) = fitted.last().copied().unwrap_or_default();
    let regimes = subject.buffered.map_or(String::new(), |most| {
        format!(
            " Up to {most} copies the server's buffers hold all written data, as the local times \
             show; from there on the disk is written to, and the parameters are others."
        )
    });
    Ok(Exhibit {
        name: subject.name,
        of: subject.of,
        how: format!(
            "Fitted: {} for a run of 500 system calls, each of them carried out at the \
             server.{regimes}",
            words.join(", then ")
        ),
        chart: chart(
            "500 system calls on blocks of 512 bytes",
            "copies at once",
            "seconds for a run",
            vec![
                Series::line("model, remote", joined(&copies, &model)),
                Series::points("seed, remote", joined(&copies, &remote)),
                Series::rings("seed, local", joined(&copies, &local)),
            ],
        ),
        error: Some(mean_error(&model, &remote)),
        model: model_of(
            subject.of,
            "fitted to the thesis, appendix A",
            &closed(copies.len(), think, &[demand]),
            &["server"],
        ),
    })
}
