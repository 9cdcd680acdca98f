//! `lab policies`: remote calls of cache consistency policies on one trace.

use crate::output::{Format, Table};
use crate::{Failure, input};
use clap::{Args, ValueEnum};
use leasehold_lab_policy::{Kind, MabSize, Terms, Trace, mab, sharing};
use std::io::Write;
use std::path::PathBuf;

/// Count the remote calls of cache consistency policies on one trace
///
/// Without a trace the workload resembles the Modified Andrew Benchmark: one client, no sharing.
/// Stale reads, recalls and losses in crashes occur only in the workload with shared files.
#[derive(Debug, Args)]
pub struct Policies {
    /// A trace of file operations (JSON)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// The workload if no trace is given
    #[arg(long, value_enum, default_value = "andrew", conflicts_with = "trace")]
    workload: Workload,
    #[command(flatten)]
    format: Format,
}

/// Built-in workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// The Modified Andrew Benchmark at one client
    Andrew,
    /// Four clients with three shared files, with crashes
    Sharing,
}

impl Workload {
    fn trace(self) -> Trace {
        match self {
            Self::Andrew => mab(MabSize::default()),
            Self::Sharing => sharing(4, 3, 20_000, 1),
        }
    }
}

pub(crate) fn run(options: &Policies, out: &mut dyn Write) -> Result<(), Failure> {
    let trace = match &options.trace {
        Some(path) => Trace::parse(&input::read(path)?).map_err(Failure::input)?,
        None => options.workload.trace(),
    };
    table(&trace).print(options.format, out)
}

/// Returns one row for each policy.
pub(crate) fn table(trace: &Trace) -> Table {
    let mut table = Table::new(&[
        "policy",
        "getattr",
        "read",
        "write",
        "lookup",
        "other",
        "consistency",
        "callback",
        "total",
        "server_work",
        "stale_reads",
        "stale_s_max",
        "lost_blocks",
        "refused",
        "cleaned_up",
    ]);
    for kind in Kind::ALL {
        let report = kind.run(trace, Terms::default());
        let counts = report.calls.iter().map(|count| *count as f64);
        let rest = [
            report.total() as f64,
            report.server_work,
            report.stale_reads as f64,
            report.stale_seconds_max,
            report.lost_blocks as f64,
            report.refused as f64,
            report.cleaned_up as f64,
        ];
        table.row(core::iter::once(kind.name().into()).chain(counts.chain(rest).map(Into::into)));
    }
    table
}
