//! Comparative measurements: our program and another in turn, in one run, so that the state of the
//! machine affects both. Prints one JSON object per line for each figure.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

mod client;
mod direct;
mod disk;
mod figure;
mod floor;
mod instructions;
mod kernel;
mod leases;
mod metaservers;
mod names;
mod pictures;
mod seed;
mod servers;
mod soak;
mod speed;
mod stripes;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures the figures of an area
#[derive(Parser)]
struct Options {
    /// The area to measure
    area: Area,
    /// How many times each server is measured, in turn: more pairs make a narrower interval.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(2..))]
    pairs: u32,
    /// Duration of one measurement, in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Data that each client reads and writes over narrow links of metaservers, in MiB; rounded up
    /// to whole rows of stripes
    #[arg(long, default_value_t = 144, value_parser = clap::value_parser!(u32).range(1..=4096))]
    mib: u32,
    /// Measure only figures whose names begin with this text
    #[arg(long, default_value = "")]
    only: String,
}

impl Options {
    /// Returns true if a figure, or a figure whose name begins with `name`, is selected.
    fn wants(&self, name: &str) -> bool {
        name.starts_with(&self.only) || self.only.starts_with(name)
    }
}

/// The areas with figures.
#[derive(Clone, Copy, ValueEnum)]
enum Area {
    /// The client's mount against sshfs, the kernel's client and the local disk.
    Client,
    /// The server's instructions for each call.
    Instructions,
    /// The server against nfs-ganesha, under the kernel's client.
    Kernel,
    /// The mount with leases against the mount without, the local disk and memory.
    Leases,
    /// Names, data and a build by several metaservers, in namespaces with narrow links.
    Metaservers,
    /// The measurements of the paper on version 3.
    Seed,
    /// The server against nfs-ganesha.
    Speed,
    /// Stripes, in one process and over iods, against a plain directory.
    Stripes,
    /// Memory and file descriptors of a server under load for `--seconds`.
    Soak,
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if let (Some(word), Some(what)) = (words.next(), words.next()) {
        if word == floor::WORD {
            let served = floor::serve(Path::new(&what));
            eprintln!("bench: the floor broke: {served:?}");
            return ExitCode::FAILURE;
        }
        if word == instructions::WORD {
            instructions::only_count(&what);
            return ExitCode::SUCCESS;
        }
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, words @ ..] = &*words {
        match first.as_str() {
            names::WORD => return ended(names::run(words)),
            direct::WORD => return ended(direct::run(words)),
            pictures::WORD => return ended(pictures::run(words)),
            _ => {}
        }
    }
    let options = Options::parse();
    ended(match options.area {
        Area::Client => client::measure(&options),
        Area::Instructions => instructions::measure(&options),
        Area::Kernel => kernel::measure(&options),
        Area::Leases => leases::measure(&options),
        Area::Metaservers => metaservers::measure(&options),
        Area::Seed => seed::measure(&options),
        Area::Speed => speed::measure(&options),
        Area::Stripes => stripes::measure(&options),
        Area::Soak => soak::soak(Duration::from_secs_f64(options.seconds)).map_err(Into::into),
    })
}

fn ended(done: Result<(), Box<dyn Error>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
