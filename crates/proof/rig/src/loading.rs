//! The command that runs a load against any server.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_base::units::FileTime;
use leasehold_client::{Client, Credential, Options, Variant};
use leasehold_rig::{Ledger, Load};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};

/// The options of the load, and of the server that it uses.
#[derive(Debug, clap::Args)]
pub(crate) struct LoadOptions {
    /// The server's name or address
    #[arg(value_name = "HOST")]
    host: String,

    /// The directory on the server; it must contain no name that begins with `load-`
    #[arg(value_name = "PATH")]
    path: String,

    /// The port of NFS and MOUNT [default: the ports that the portmapper reports]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// The number of concurrent programs
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    files: u64,

    /// The number of steps of each program
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    steps: u32,

    /// A command that kills the server and starts it again; the load continues until the command
    /// has run `--restarts` times
    #[arg(long, value_name = "COMMAND")]
    restart_command: Option<String>,

    /// The number of times that the restart command runs
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    restarts: u32,
}

/// The maximum length of a file, in bytes.
const BYTES_MAX: usize = 4 << 20;

/// The pause between two restarts: some thousand calls fit in it.
const PAUSE: Duration = Duration::from_millis(300);

/// Runs the load, and returns a summary; fails if a byte is wrong or missing.
pub(crate) fn run(options: &LoadOptions) -> Result<String, String> {
    let runtime = Runtime::start().map_err(|error| error.to_string())?;
    let who = Credential::system("rig", 0, 0, &[]);
    let target = Target {
        port: options.port,
        ..Target::new(&options.host, options.path.as_bytes(), leasehold_session::Options::stream())
    };
    let mounted = block_on(mount(&runtime, &target, &who)).map_err(|error| error.to_string())?;
    if !mounted.rest.is_empty() {
        return Err(format!("{} is not a directory that the server exports", options.path));
    }
    let caching = client(&mounted, &who, Variant::CloseToOpen)?;
    let rounds = under_restarts(options, |seed| {
        let (files, steps) = (options.files, options.steps);
        let load = Load { files, steps, bytes_max: BYTES_MAX, exclusive: false, seed };
        block_on(load.run(&caching, &who)).map_err(|error| error.to_string())
    })?;
    let reading = client(&mounted, &who, Variant::None)?;
    let mut total = Ledger::default();
    for (files, ledger) in &rounds {
        let found = block_on(files.compare(&reading, &who)).map_err(|error| error.to_string())?;
        total = total.plus(*ledger).plus(found);
    }
    let Ledger { written_bytes, read_bytes, lost_bytes } = total;
    let again = caching.counters().rewritten_bytes;
    let said = format!(
        "{written_bytes} bytes written, {again} of them again, {read_bytes} read, {lost_bytes} lost"
    );
    if lost_bytes == 0 { Ok(said) } else { Err(said) }
}

fn client(mounted: &Mounted, who: &Credential, variant: Variant) -> Result<Client, String> {
    let seed = u64::from(std::process::id());
    let options = Options { variant, ..Options::new(FileTime::default, seed) };
    let Mounted { nfs, root, bounds, .. } = mounted.clone();
    block_on(Client::new(nfs, root, bounds, who, options)).map_err(|error| error.to_string())
}

/// Runs rounds of the load until the server was restarted as often as requested; runs at least one
/// round.
fn under_restarts<T>(
    options: &LoadOptions,
    round: impl Fn(u64) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let is_over = AtomicBool::new(options.restart_command.is_none());
    std::thread::scope(|scope| {
        let restarting = scope.spawn(|| {
            let outcome = restart(options);
            is_over.store(true, Ordering::Release);
            outcome
        });
        let mut rounds = Vec::new();
        loop {
            let is_last = is_over.load(Ordering::Acquire);
            rounds.push(round(rounds.len() as u64)?);
            if is_last {
                break;
            }
        }
        restarting
            .join()
            .map_err(|_| "the thread that restarts the server failed".to_owned())??;
        Ok(rounds)
    })
}

fn restart(options: &LoadOptions) -> Result<(), String> {
    let Some(command) = &options.restart_command else { return Ok(()) };
    for _ in 0..options.restarts {
        std::thread::sleep(PAUSE);
        let status = Command::new("sh").args(["-c", command]).status();
        let status = status.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{command}: {status}"));
        }
    }
    Ok(())
}
