//! The counts of the lease proofs: worlds of the simulator, detected mutants, and the memory of a
//! lease. Separate programs measure them, built with faults and counters that no server has.

use std::process::{Command, Stdio};

use super::Result;
use crate::Options;
use crate::figure::Figure;

/// A count, its test, and the beginning of its output line.
struct Proof {
    figure: &'static str,
    words: &'static [&'static str],
    says: &'static str,
    target: Bound,
    unit: &'static str,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// All existing mutants.
    All,
}

const PROOFS: [Proof; 3] = [
    Proof {
        figure: "sim.worlds",
        words: &["-p", "leasehold-sim", "--test", "leases", "every_promise_holds"],
        says: "worlds in which every promise holds: ",
        target: Bound::AtLeast(2000.0),
        unit: "worlds in which every promise holds",
    },
    Proof {
        figure: "mutants.found",
        words: &["-p", "leasehold-sim", "--test", "leases", "every_mutant_is_found"],
        says: "mutants found: ",
        target: Bound::All,
        unit: "mutants",
    },
    Proof {
        figure: "lease.bytes",
        words: &["-p", "leasehold-leases", "--lib", "a_lease_costs_memory_and_no_work"],
        says: "bytes for a lease: ",
        target: Bound::AtMost(256.0),
        unit: "bytes of the server for a lease on an object of its own",
    },
];

/// Runs the proofs, and prints their figures.
pub(super) fn measure(options: &Options) -> Result<()> {
    PROOFS.iter().filter(|proof| options.wants(proof.figure)).try_for_each(Proof::run)
}

impl Proof {
    fn run(&self) -> Result<()> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--quiet"]).args(self.words).args(["--", "--nocapture"]);
        cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let done = cargo.stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&done.stdout);
        if !done.status.success() {
            return Err(format!("{}: {text}", self.figure).into());
        }
        let said = text.lines().find_map(|line| line.split_once(self.says));
        let (_, said) =
            said.ok_or_else(|| format!("{} is not in the output: {text}", self.figure))?;
        let numbers: Vec<f64> =
            said.split(" of ").filter_map(|it| it.trim().parse().ok()).collect();
        let (Some(&ours), Some(&all)) = (numbers.first(), numbers.last()) else {
            return Err(format!("{}: {said}", self.figure).into());
        };
        let (target, holds) = match self.target {
            Bound::AtLeast(least) => (format!(">={least}"), ours >= least),
            Bound::AtMost(most) => (format!("<={most}"), ours <= most),
            Bound::All => (format!("all {all}"), ours >= all),
        };
        let mut figure = Figure::beside(self.figure.to_owned(), ours, None, self.unit);
        (figure.target, figure.holds, figure.tier) = (target, holds, "memory");
        figure.print();
        Ok(())
    }
}
