//! Runs other programs within a time limit.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::recap;

/// The result of a program.
pub(crate) struct Outcome {
    /// True if it ended by itself and with status 0.
    pub(crate) succeeded: bool,
    /// Its standard output, which was also shown immediately.
    pub(crate) output: String,
}

/// Runs a program in a folder, and kills it with all its children after the time limit.
pub(crate) fn run(folder: &Path, words: &[&str], limit: Duration) -> Outcome {
    println!("$ {}", words.join(" "));
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &limit.as_secs().to_string()]).args(words);
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot run timeout: {error}");
            return Outcome { succeeded: false, output: String::new() };
        }
    };
    let stdout = child.stdout.take().expect("standard output is a pipe");
    let mut output = String::new();
    for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    let status = child.wait().expect("a child can be waited for once");
    match status.code() {
        Some(0) => {}
        Some(124) => println!("ended after its time box of {} s", limit.as_secs()),
        _ => println!("ended with {status}"),
    }
    if !status.success() {
        recap::keep(&format!("{}: {status}", words.join(" ")), &recap::explanation(&output));
    }
    Outcome { succeeded: status.success(), output }
}

/// The processor time of all programs that this program has run and that have ended, in seconds; zero
/// where the system does not report it.
pub(crate) fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces. The times of ended children are fields 16 and 17
    // of proc(5), in hundredths of a second.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: u32 = fields.skip(13).take(2).filter_map(|field| field.parse::<u32>().ok()).sum();
    f64::from(ticks) / 100.0
}

/// Returns the standard output of a short program, or the reason of its failure.
pub(crate) fn output(folder: &Path, words: &[&str]) -> Result<String, String> {
    let (name, arguments) = words.split_first().expect("a program has a name");
    let done = Command::new(name)
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot run {name}: {error}"))?;
    if !done.status.success() {
        let complaint = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}: {}: {complaint}", words.join(" "), done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
