//! The laboratory on the command line: check, solve, simulate, sweep, plan, plot.
//!
//! The library parses only its own options and writes to a given output, so that the binary needs
//! one line for it and tests read its output. Of the laboratory's crates, only this one uses files
//! and threads.

mod gallery;
mod input;
mod jmt;
mod look;
mod output;
mod plan;
pub mod plot;
mod policies;
mod progress;
mod simulate;
mod solve;
mod sweep;
mod transport;
mod ui;

pub use input::Failure;

// Functions that the page also uses are in a crate without I/O.
use leasehold_lab_plan::{knob, slo};

use clap::Subcommand;
use std::io::Write;
use std::path::PathBuf;

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Check model files and report errors
    Check {
        /// Model files (JSON)
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Print the JSON schema of model files
    Schema,
    /// Build a system on a page, move a slider and see the effect
    Ui(ui::Ui),
    /// Show verdict, utilisation of each centre and the most useful upgrades at once
    Look(look::Look),
    /// Print the model of a template, or list the templates
    Template(look::Template),
    /// Solve a model analytically
    Solve(solve::Solve),
    /// Simulate a model, with confidence intervals
    Simulate(simulate::Simulate),
    /// Solve or simulate a model for many values of one number
    Sweep(sweep::Sweep),
    /// Find how many clients a system carries, its bottleneck and the gain of an upgrade
    Plan(plan::Plan),
    /// Draw throughput and response time against the number of customers
    Plot(sweep::Plot),
    /// Count the remote calls of cache consistency policies on one trace
    Policies(policies::Policies),
    /// Turn a file of Java Modelling Tools into a model
    Import {
        /// A JMVA or JSIMgraph file (XML)
        file: PathBuf,
    },
    /// Turn a model into a file of Java Modelling Tools
    Export {
        /// A model file
        file: PathBuf,
        /// The target tool
        #[arg(long, value_enum, default_value = "jmva")]
        to: jmt::Tool,
    },
    /// Draw the seeds' figures from models, beside the seeds' points
    Gallery {
        /// The directory for the pictures and the page
        directory: PathBuf,
    },
}

/// Runs a command and writes its output to `out`.
///
/// # Errors
/// A message for the user.
pub fn run(lab: &Lab, out: &mut dyn Write) -> Result<(), Failure> {
    match answer(lab, out) {
        Err(failure) if failure.is_unread() => Ok(()),
        end => end,
    }
}

fn answer(lab: &Lab, out: &mut dyn Write) -> Result<(), Failure> {
    match lab {
        Lab::Check { files } => input::check(files, out),
        Lab::Schema => {
            output::json(out, &schemars::schema_for!(leasehold_lab_network::model::Model))
        }
        Lab::Ui(options) => ui::run(options, out),
        Lab::Look(options) => look::run(options, out),
        Lab::Template(options) => look::print_template(options, out),
        Lab::Solve(options) => solve::run(options, out),
        Lab::Simulate(options) => simulate::run(options, out),
        Lab::Sweep(options) => sweep::run(options, out),
        Lab::Plan(options) => plan::run(options, out),
        Lab::Plot(options) => sweep::plot(options, out),
        Lab::Policies(options) => policies::run(options, out),
        Lab::Import { file } => {
            let model = jmt::import(&input::read(file)?).map_err(Failure::input)?;
            output::line(out, &model.to_json())
        }
        Lab::Export { file, to } => output::line(out, &jmt::export(&input::model(file)?, *to)?),
        Lab::Gallery { directory } => gallery::write(directory, out),
    }
}
