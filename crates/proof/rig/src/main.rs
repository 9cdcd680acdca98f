//! The commands for test servers, faulty links and loads.

mod loading;

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use leasehold_rig::{Cable, EXPORT, Faults, Manners, MemServer};
use leasehold_shell::process::Termination;

/// Run test servers and faulty links until a signal ends them, and loads
#[derive(Debug, Parser)]
#[command(name = "leasehold-rig", max_term_width = 100)]
enum Command {
    /// Open a faulty link to a server, for TCP and UDP
    Cable(CableOptions),
    /// Run programs against a server that record each byte they write, with the caching client
    Load(loading::LoadOptions),
    /// Serve an empty store in memory
    Serve {
        /// The address of the server
        #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
        listen: SocketAddr,

        /// Omit all optional parts of replies, and accept only one byte in each WRITE
        #[arg(long, conflicts_with = "version_2_only")]
        stingy: bool,

        /// Serve only version 2 of NFS
        #[arg(long)]
        version_2_only: bool,
    },
}

#[derive(Debug, clap::Args)]
struct CableOptions {
    /// The address to which clients connect
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2050")]
    listen: SocketAddr,

    /// The address of the server
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2049")]
    server: SocketAddr,

    /// The time that the link adds to each round trip, in milliseconds, such as 0.2
    #[arg(long, value_name = "MS", default_value_t = 0.0, value_parser = milliseconds)]
    round_trip: f64,

    /// The share of datagrams that are lost, in thousandths
    #[arg(long, value_name = "SHARE", default_value_t = 0)]
    lost: u16,

    /// The share of datagrams that are duplicated, in thousandths
    #[arg(long, value_name = "SHARE", default_value_t = 0)]
    doubled: u16,

    /// The share of datagrams that are reordered, in thousandths
    #[arg(long, value_name = "SHARE", default_value_t = 0)]
    reordered: u16,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of milliseconds".to_owned())?;
    let is_in_range = (0.0..=60_000.0).contains(&number);
    is_in_range.then_some(number).ok_or_else(|| "0 to 60000 milliseconds".to_owned())
}

fn main() -> ExitCode {
    let command = Command::parse();
    let outcome = match command {
        Command::Cable(options) => lay(&options, Termination::prepare()),
        Command::Load(options) => loading::run(&options).map(|said| say(&said)),
        Command::Serve { listen, stingy, version_2_only } => {
            let manners = match (stingy, version_2_only) {
                (true, _) => Manners::Stingy,
                (false, true) => Manners::Version2Only,
                (false, false) => Manners::Full,
            };
            serve(listen, manners, Termination::prepare())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "leasehold-rig: {why}");
            ExitCode::FAILURE
        }
    }
}

fn lay(options: &CableOptions, termination: Termination) -> Result<(), String> {
    let faults = Faults {
        round_trip: Duration::from_secs_f64(options.round_trip / 1000.0),
        lost: options.lost,
        doubled: options.doubled,
        reordered: options.reordered,
    };
    let cable = Cable::lay(options.listen, options.server, faults);
    let cable = cable.map_err(|error| format!("{}: {error}", options.listen))?;
    say(&format!("{} leads to {}", cable.address(), options.server));
    termination.wait();
    Ok(())
}

fn serve(listen: SocketAddr, manners: Manners, termination: Termination) -> Result<(), String> {
    let server = MemServer::start_over(listen, Arc::default(), manners);
    let server = server.map_err(|error| error.to_string())?;
    say(&format!("serving /{EXPORT} at {}", server.address()));
    termination.wait();
    Ok(())
}

fn say(line: &str) {
    // If stdout is closed, no program misses the line: ignore the error.
    let _ = writeln!(std::io::stdout(), "{line}");
}
