//! Runs a program under valgrind's callgrind, and adds up its counts.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The instructions of a run, of all its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    /// Instructions compiled from Rust: equal on every machine, independent of its C library and of
    /// the code that the kernel maps into each process.
    pub(super) own: u64,
    /// All instructions.
    pub(super) all: u64,
}

/// A program, and the place of its counts.
pub(super) struct Counting<'a> {
    pub(super) program: &'a Path,
    pub(super) out: PathBuf,
    /// The only function to count, including its callees.
    pub(super) within: Option<&'static str>,
}

impl Counting<'_> {
    /// Returns the program, which writes its counts at its end.
    pub(super) fn command(&self) -> Command {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--quiet"]);
        valgrind.arg(format!("--callgrind-out-file={}", self.out.display()));
        if let Some(function) = self.within {
            // With this suffix if optimization across crates has exported it.
            for name in [function, &format!("{function}.llvm.*")] {
                valgrind.arg(format!("--toggle-collect={name}"));
            }
        }
        valgrind.arg(self.program);
        valgrind
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> Result<Counts, Box<dyn Error>> {
        let bytes = fs::read(&self.out)?;
        let program = self.program.to_str().ok_or("the program's path is no text")?;
        match (added_up(&String::from_utf8_lossy(&bytes), program), self.within) {
            (None, _) => Err("valgrind reports no instructions".into()),
            (Some(Counts { all: 0, .. }), Some(function)) => {
                Err(format!("valgrind reports no {function}").into())
            }
            (Some(counts), _) => Ok(counts),
        }
    }
}

/// Adds up the output of valgrind ("Callgrind Format Specification" in its manual).
fn added_up(text: &str, program: &str) -> Option<Counts> {
    let mut objects = BTreeMap::new();
    let (mut own, mut all) = (0, None);
    let mut is_own = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(total) = line.strip_prefix("totals: ") {
            all = Some(total.trim().parse().ok()?);
        } else if line.starts_with("calls=") {
            // A callee has its own lines; the next line is their sum.
            lines.next();
        } else if let Some(name) = line.strip_prefix("ob=").or_else(|| line.strip_prefix("cob=")) {
            // A name occurs in full at first, and as a number from then on.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            let object = objects.entry(number).or_insert(name);
            if line.starts_with("ob=") {
                is_own = *object == program;
            }
        } else if is_own && line.starts_with(|first: char| "0123456789+-*".contains(first)) {
            own += line.split_whitespace().nth(1)?.parse::<u64>().ok()?;
        }
    }
    all.map(|all| Counts { own, all })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_counts_exclude_callees_of_other_programs() {
        let text = "version: 1\npositions: line\nevents: Ir\n\n\
            ob=(1) /bin/program\nfl=(1) main.rs\nfn=(1) main\n10 5\n+2 3\n\
            cob=(2) /lib/libc.so\ncfn=(2) memcpy\ncalls=4 0\n* 400\n* 1\n\n\
            ob=(2)\nfn=(2)\n0 400\n\nob=(1)\nfn=(3) other\n-3 1\n\ntotals: 410\n";
        assert_eq!(added_up(text, "/bin/program"), Some(Counts { own: 10, all: 410 }));
        assert_eq!(added_up(text, "/bin/other"), Some(Counts { own: 0, all: 410 }));
        assert_eq!(added_up("version: 1\n", "/bin/program"), None);
    }
}
