//! Puts the server of a Linux kernel to the tester, in a guest that has that kernel.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]

use std::process::ExitCode;

use clap::Parser;
use leasehold_system_tests::kernel_server;

/// Puts the server of a Linux kernel to the tester, and prints the report.
#[derive(Parser)]
struct Arguments {
    /// The program that has the tester.
    tester: String,
    /// What the tester is told besides.
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
