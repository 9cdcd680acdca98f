//! Runs the tester against the server of a Linux kernel, in a guest with that kernel.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;

use clap::Parser;
use leasehold_system_tests::kernel_server;

/// Runs the tester against the server of a Linux kernel, and prints the report
#[derive(Parser)]
struct Arguments {
    /// The program that contains the tester
    tester: String,
    /// Additional options for the tester
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

fn main() -> ExitCode {
    let Arguments { tester, options } = Arguments::parse();
    let run = kernel_server::run(&tester, &options);
    print!("{}", run.report);
    eprint!("{}", run.log);
    if run.succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
