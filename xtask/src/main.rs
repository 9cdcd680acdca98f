//! The development tasks of the project: `cargo xtask --help` lists them. Each file contains one
//! task.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to a terminal")]

mod book;
mod build;
mod check;
mod crash;
mod documents;
mod examples;
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

/// The development tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Chore {
    /// Runs the named steps of the test, or all, and counts passed and failed tests.
    Test {
        /// The steps to run [default: all].
        steps: Vec<test::Step>,
    },
    /// Runs the same checks as the CI server: every step of the test.
    Ci,
    /// Checks the links of all documents, and writes them as HTML pages to target/book.
    Book,
    /// Measures the server's speed for a short time next to nfs-ganesha, as JSON lines.
    Bench {
        /// Run only measurements whose names begin with this text, such as read.
        #[arg(default_value = "")]
        only: String,
    },
    /// Cuts the power of a server under load, and checks the remaining data: `--cuts N`, `--seed
    /// N`; with `--iods` also the power of iods.
    #[command(disable_help_flag = true)]
    Crash {
        /// Options of the harness; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Measures the figures of an area next to other servers.
    Figures(figures::Options),
    /// Runs the tester against our server and foreign servers, and writes docs/conform.md.
    ConformScores,
    /// Fuzzes decoders and the whole server, guided by code coverage.
    Fuzz {
        /// The time for all targets together, in seconds.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Makes the Debian package.
    Package(package::Options),
    /// Writes docs/reference/commands.md from the program's definition of its options.
    Reference,
    /// Builds the laboratory's page into the files in the tree.
    Page {
        /// Also build the laboratory for the page, as WebAssembly.
        #[arg(long)]
        lab: bool,
    },
    /// Runs foreign programs on the mount, for minutes: `--only NAME`, `-o OPTIONS`, and `--keep`
    /// to write the results to docs/figures.
    #[command(disable_help_flag = true)]
    Posix {
        /// Options of the program that runs them; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Installs the tools that the tests need.
    Setup,
    /// Simulates worlds with faults, and checks every promise: `--seed N`, `--minutes M`.
    #[command(disable_help_flag = true)]
    Sim {
        /// Options of the simulator; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Runs the server under load for a long time, and checks that its memory and descriptors stay
    /// constant; or, with `--stripes`, kills the iods of a metaserver, and checks that no data is
    /// lost.
    Soak(soak::Options),
    /// Runs several mounts on the same files, for minutes, while the server is killed: `--minutes
    /// M`, `--seed N`.
    #[command(disable_help_flag = true)]
    Sharing {
        /// Options of the program; `--help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Checks that each crate uses only crates of lower layers.
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
        Chore::Book => book::run(&repository),
        Chore::Bench { only } => figures::bench(&repository, &only),
        Chore::Crash { options } => crash::run(&repository, &options),
        Chore::Figures(options) => figures::run(&repository, &options),
        Chore::ConformScores => scores::run(&repository),
        Chore::Fuzz { seconds } => fuzz::run(&repository, seconds),
        Chore::Package(options) => package::build(&repository, &options),
        Chore::Reference => {
            [reference::write(&repository), promises::write(&repository)].into_iter().sum()
        }
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
