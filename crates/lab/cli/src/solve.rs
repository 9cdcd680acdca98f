//! `lab solve`: solves a model analytically.

use crate::output::{self, Cell, Format, Table, pretty};
use crate::{Failure, input};
use clap::{Args, ValueEnum};
use core::fmt;
use leasehold_lab_network::{Network, Solution, approximate, bounds, sensitivity};
use serde::Serialize;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// The solution method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Exact: Mean Value Analysis, or normalising constants where rates depend on the load
    Exact,
    /// The fast approximation
    BardSchweitzer,
    /// The more accurate approximation
    Linearizer,
}

/// Solve a model analytically
///
/// Prints throughput and response time of each class, and queue and utilisation of each class at
/// each centre; then the bottleneck of the system.
#[derive(Debug, Args)]
pub struct Solve {
    /// A model file
    file: PathBuf,
    /// The solution method
    #[arg(long, value_enum, default_value = "exact")]
    method: Method,
    /// Print the change of each result with each demand (per cent for one per cent)
    #[arg(long)]
    sensitivity: bool,
    /// Print bounds too (one closed class, single servers)
    #[arg(long)]
    bounds: bool,
    #[command(flatten)]
    format: Format,
}

/// Solves a network by a method.
pub(crate) fn by(method: Method, network: &Network) -> Result<Solution, Failure> {
    match method {
        Method::Exact => leasehold_lab_network::solve(network),
        Method::BardSchweitzer => approximate::bard_schweitzer(network),
        Method::Linearizer => approximate::linearizer(network),
    }
    .map_err(Failure::input)
}

pub(crate) fn run(options: &Solve, out: &mut dyn Write) -> Result<(), Failure> {
    let model = input::model(&options.file)?;
    let network = model.network();
    let solution = by(options.method, &network)?;
    let table = table(&network, &solution);
    if options.format.csv {
        return table.print(options.format, out);
    }
    let error = approximation_error(options.method, &network, &solution)?;
    let bounds =
        if options.bounds { Some(bounds::bounds(&network).map_err(Failure::input)?) } else { None };
    let slopes = if options.sensitivity {
        Some(sensitivity::elasticities(&network).map_err(Failure::input)?)
    } else {
        None
    };
    if options.format.json {
        return output::json(
            out,
            &json!({
                "title": model.title,
                "results": table.json(),
                "bottleneck": solution.bottleneck(&network).map(|at| &network.centres[at].name),
                "left_out": model.left_out(),
                "throughput_error": error,
                "bounds": bounds,
                "sensitivity": slopes.map(|slopes| slope_values(&network, &slopes)),
            }),
        );
    }
    output::line(out, &format!("{}\n\n{}", model.title, table.text()))?;
    if let Some(at) = solution.bottleneck(&network) {
        let used: f64 = solution.utilisation[at].iter().sum();
        let name = &network.centres[at].name;
        output::line(out, &format!("\n\"{name}\" limits the system: busy {:.1} %", used * 100.0))?;
    }
    if let Some(error) = &error {
        output::line(out, &format!("approximation: {error}"))?;
    }
    for note in model.left_out() {
        output::line(out, &format!("note: {note}"))?;
    }
    if let Some(bounds) = bounds {
        output::line(out, &format!("\n{}", bounds_table(&bounds).text()))?;
        output::line(out, &format!("customers begin to wait at {}", pretty(bounds.knee)))?;
    }
    if let Some(slopes) = slopes {
        output::line(out, &format!("\n{}", slope_table(&network, &slopes).text()))?;
    }
    Ok(())
}

/// The error of an approximation.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum ApproximationError {
    /// The largest error relative to the exact throughput of a class.
    Known(f64),
    /// No exact solution exists; the two approximations differ in throughput by this share.
    MethodsDiffer(f64),
}

impl fmt::Display for ApproximationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(error) => {
                write!(f, "throughput is off by {} % at most", pretty(error * 100.0))
            }
            Self::MethodsDiffer(error) => write!(
                f,
                "too large for a comparison with the exact solution; Bard-Schweitzer and \
                 Linearizer differ by {} % of throughput at most, and the error of the latter is \
                 usually ten times smaller",
                pretty(error * 100.0)
            ),
        }
    }
}

fn approximation_error(
    method: Method,
    network: &Network,
    solution: &Solution,
) -> Result<Option<ApproximationError>, Failure> {
    if method == Method::Exact {
        return Ok(None);
    }
    Ok(Some(match leasehold_lab_network::solve(network) {
        Ok(exact) => ApproximationError::Known(approximate::error_against(&exact, solution)),
        Err(_) => {
            let (plain, better) =
                (by(Method::BardSchweitzer, network)?, by(Method::Linearizer, network)?);
            ApproximationError::MethodsDiffer(approximate::error_against(&better, &plain))
        }
    }))
}

/// Returns results by class, then by centre and class.
pub(crate) fn table(network: &Network, solution: &Solution) -> Table {
    let columns = ["class", "centre", "throughput_per_s", "response_s", "present", "utilisation"];
    let mut table = Table::new(&columns);
    for (index, class) in network.classes.iter().enumerate() {
        let (throughput, response) = (solution.throughput[index], solution.response[index]);
        table.row([
            class.name.as_str().into(),
            "".into(),
            throughput.into(),
            response.into(),
            (throughput * response).into(),
            Cell::Text(String::new()),
        ]);
    }
    for (at, centre) in network.centres.iter().enumerate() {
        for (index, class) in network.classes.iter().enumerate() {
            let (queue, throughput) = (solution.queue[at][index], solution.throughput[index]);
            if centre.demands[index] > 0.0 {
                table.row([
                    class.name.as_str().into(),
                    centre.name.as_str().into(),
                    throughput.into(),
                    (queue / throughput).into(),
                    queue.into(),
                    solution.utilisation[at][index].into(),
                ]);
            }
        }
    }
    table
}

fn bounds_table(all: &bounds::AllBounds) -> Table {
    let mut table = Table::new(&["bounds", "throughput_per_s", "to", "response_s", "to"]);
    for (name, bounds) in [("asymptotic", all.asymptotic), ("balanced", all.balanced)] {
        table.row([
            name.into(),
            bounds.throughput.least.into(),
            bounds.throughput.most.into(),
            bounds.response.least.into(),
            bounds.response.most.into(),
        ]);
    }
    table
}

/// Returns every slope by name as JSON.
fn slope_values(network: &Network, slopes: &[sensitivity::Elasticity]) -> serde_json::Value {
    let one = |slope: &sensitivity::Elasticity| {
        json!({
            "centre": network.centres[slope.centre].name,
            "class": network.classes[slope.class].name,
            "throughput": slope.throughput,
            "response": slope.response,
            "utilisation": slope.utilisation,
            "queue": slope.queue,
        })
    };
    slopes.iter().map(one).collect()
}

fn slope_table(network: &Network, slopes: &[sensitivity::Elasticity]) -> Table {
    let mut table = Table::new(&["demand_at", "of_class", "moves_class", "throughput", "response"]);
    for slope in slopes {
        for (index, class) in network.classes.iter().enumerate() {
            table.row([
                network.centres[slope.centre].name.as_str().into(),
                network.classes[slope.class].name.as_str().into(),
                class.name.as_str().into(),
                slope.throughput[index].into(),
                slope.response[index].into(),
            ]);
        }
    }
    table
}
