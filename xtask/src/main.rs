//! Every chore of the project: `cargo xtask --help` lists them. One file holds one chore.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to a terminal")]

mod check;
mod crash;
mod documents;
mod figures;
mod fuzz;
mod layers;
mod licences;
mod package;
mod page;
mod posix;
mod program;
mod promises;
mod prose;
mod recap;
mod reference;
mod repository;
mod scores;
mod setup;
mod sim;
mod soak;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::Parser;

use repository::Repository;

/// Every chore of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Runs every step of the test, or those named, and counts what passed and failed.
    Test {
        /// The steps to run [default: all].
        steps: Vec<test::Step>,
    },
    /// Does what the server does: every step of the test.
    Ci,
    /// Takes a short look at the server's speed beside nfs-ganesha, as JSON lines.
    Bench {
        /// Only what begins so, such as read.
        #[arg(default_value = "")]
        only: String,
    },
    /// Cuts the power of a server under load, and checks what is left: `--cuts N`, `--seed N`;
    /// with `--iods` that of iods, too.
    #[command(disable_help_flag = true)]
    Crash {
        /// Options of the harness; `--help` tells them all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measures the figures of an area beside other servers.
    Figures(figures::Options),
    /// Puts ours and other servers to the tester and writes docs/conform.md.
    ConformScores,
    /// Feeds decoders and the whole server with inputs that reach ever more of their code.
    Fuzz {
        /// How long, in seconds, all targets together.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Makes the Debian package.
    Package(package::Options),
    /// Writes docs/reference/commands.md as the program says it.
    Reference,
    /// Builds the laboratory's page anew, into the files that are kept in the tree.
    Page {
        /// The laboratory behind it too, as WebAssembly.
        #[arg(long)]
        lab: bool,
    },
    /// Tries the mount with programs of others, for minutes: `--only NAME`, `-o OPTIONS`, and
    /// `--keep` to write to docs/figures how each ended.
    #[command(disable_help_flag = true)]
    Posix {
        /// Options of the program that runs them; `--help` tells them all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Installs what the tests need from outside.
    Setup,
    /// Simulates worlds with faults, and checks every promise: `--seed N`, `--minutes M`.
    #[command(disable_help_flag = true)]
    Sim {
        /// Options of the simulator; `--help` tells them all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Soaks the server under load, and checks that its memory and descriptors stay flat; or, with
    /// `--stripes`, kills the iods of a metaserver, and checks that nothing is lost.
    Soak(soak::Options),
    /// Has several mounts work on the same files, for minutes, while the server is killed:
    /// `--minutes M`, `--seed N`.
    #[command(disable_help_flag = true)]
    Sharing {
        /// Options of the program that does so; `--help` tells them all.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Checks that each crate uses only crates of the tiers below its own.
    Layers,
    /// Checks the rules on files and functions that no other tool checks.
    Tidy,
    /// Lists the sentences with an idiom that plain technical English does not use.
    Prose {
        /// The files and folders to read [default: all].
        paths: Vec<String>,
        /// Writes the present counts as budgets.
        #[arg(long)]
        write: bool,
    },
}

fn main() -> ExitCode {
    let chore = Chore::parse();
    let repository = Repository::here();
    let tally = match chore {
        Chore::Test { steps } => test::run(&repository, &steps),
        Chore::Ci => test::run(&repository, &[]),
        Chore::Bench { only } => figures::bench(&repository, &only),
        Chore::Crash { options } => crash::run(&repository, &options),
        Chore::Figures(options) => figures::run(&repository, &options),
        Chore::ConformScores => scores::run(&repository),
        Chore::Fuzz { seconds } => fuzz::run(&repository, seconds),
        Chore::Package(options) => package::build(&repository, &options),
        Chore::Reference => reference::write(&repository),
        Chore::Page { lab } => page::build(&repository, lab),
        Chore::Posix { options } => posix::run(&repository, &options),
        Chore::Sharing { options } => posix::share(&repository, &options),
        Chore::Setup => setup::run(),
        Chore::Soak(options) => soak::run(&repository, &options),
        Chore::Sim { options } => sim::run(&repository, &options),
        Chore::Layers => check::report(&layers::checks(&repository)),
        Chore::Prose { write: true, .. } => prose::write(&repository),
        Chore::Prose { paths, .. } => prose::run(&repository, &paths),
        Chore::Tidy => check::report(&tidy::checks(&repository)),
    };
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
