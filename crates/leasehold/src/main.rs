//! The command line: options, configuration, printing and wiring.

mod binding;
mod check;
mod checks;
mod clients;
mod cluster;
mod config;
mod control;
mod crossings;
mod defaults;
mod doctor;
mod documents;
mod events;
mod failure;
mod find;
mod help;
mod ids;
mod leases;
mod live;
mod logging;
mod mount;
mod nfs4;
mod notes;
mod options;
mod output;
mod place;
mod portmap;
mod ready;
mod reload;
mod remote;
mod rescue;
mod restart;
mod running;
mod serve;
mod server_state;
mod stable_log;
mod status;
mod stripes;
mod top;
mod verifier;
mod volumes;
mod why;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use clap::Parser as _;
use clap::error::ErrorKind;
use leasehold_base::shown::shown;
use leasehold_shell::log;
use leasehold_shell::process::Termination;

use crate::cluster::options::Cluster;
use crate::failure::Kind;
use crate::options::{Command, Config, Options};

/// With the C library's allocator, a small READ spent a tenth of its instructions on allocation:
/// mimalloc needs fewer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let arguments = mount::options::of_helper(&arguments).unwrap_or(arguments);
    let options = match Options::try_parse_from(&arguments) {
        Ok(options) => options,
        Err(usage) => return explain(&help::with_groups(usage, arguments)),
    };
    let outcome = match options.command {
        Command::Serve(options) => serve::run(&options),
        Command::Meta(options) => serve::meta(&options),
        Command::Iod(options) => serve::iod(&options),
        Command::Cluster(Cluster::Try(options)) => cluster::try_out(&options),
        Command::Cluster(Cluster::Check(options)) => cluster::check(&options),
        Command::Cluster(Cluster::Status(options)) => cluster::status(&options),
        Command::Cluster(Cluster::Repair(options)) => cluster::repair(&options),
        Command::Cluster(Cluster::Believe(options)) => cluster::believe(&options),
        Command::Cluster(Cluster::MoveHome(options)) => cluster::move_home(&options),
        Command::Layout(options) => cluster::layout(&options),
        Command::Mount(options) => mount::run(&options),
        Command::Umount(options) => mount::end(&options),
        Command::Rescue(options) => rescue::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Ls(options) => remote::ls(&options),
        Command::Cat(options) => remote::cat(&options),
        Command::Stat(options) => remote::stat(&options),
        Command::Cp(options) => remote::cp(&options),
        Command::Check(options) => check::run(&options),
        Command::Why(options) => why::run(&options),
        Command::Reload(options) => reload::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Restart(options) => restart::run(&options),
        Command::Leases(options) => leases::run(&options),
        Command::Forget(options) => leases::end_wait(&options),
        Command::Clients(options) => clients::run(&options),
        Command::Config(Config::Init(options)) => config::init(&options),
        Command::Find(options) => find::run(&options),
        Command::Names(options) => binding::run(&options),
        Command::Completions(options) => documents::completions(&options),
        Command::Documents(options) => documents::run(&options),
        Command::Conform(options) => return conform(&options),
        Command::Lab(lab) => leasehold_lab_cli::run(&lab, &mut std::io::stdout().lock())
            .map_err(failure::Failure::from),
    };
    match outcome {
        Ok(()) => {
            log::flush();
            ExitCode::SUCCESS
        }
        Err(failure) => {
            // Write the log lines that explain the failure before the error message.
            log::flush();
            if failure.is_to_be_said() {
                complain(&failure.to_string());
            }
            failure.exit_code()
        }
    }
}

/// Runs the conformance test of a server. If the process is asked to end, the test first removes
/// its files.
fn conform(options: &leasehold_conform::Options) -> ExitCode {
    static STOP: AtomicBool = AtomicBool::new(false);
    let termination = Termination::prepare();
    let waiting = thread::Builder::new().spawn(|| {
        termination.wait();
        complain("stopping: removing the test's files; a second signal skips this");
        STOP.store(true, Ordering::Relaxed);
        // A second signal must end the process at once. Signals reach only a thread that does not
        // block signals, so this thread waits without blocking them.
        loop {
            thread::park();
        }
    });
    match waiting {
        Ok(_) => leasehold_conform::run(options, &STOP),
        Err(error) => {
            complain(&format!("cannot start a thread: {error}"));
            Kind::Running.into()
        }
    }
}

/// Prints help if the user requested it, otherwise the error in the options.
fn explain(usage: &clap::Error) -> ExitCode {
    if !usage.use_stderr() {
        // If stdout is closed, no reader misses the text: ignore the error.
        let _ = usage.print();
        return ExitCode::SUCCESS;
    }
    if usage.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = usage.print();
        return Kind::Options.into();
    }
    let text = usage.render().to_string();
    complain(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    Kind::Options.into()
}

fn complain(text: &str) {
    // If stderr is closed, no reader misses the message: ignore the error.
    let _ = writeln!(std::io::stderr(), "leasehold: {}", shown(text));
}
