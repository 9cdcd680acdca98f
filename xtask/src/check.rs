//! The faults that a check found, and the counts of passed and failed checks.

use std::iter::Sum;

use crate::recap;

/// A rule and its violations.
pub(crate) struct Check {
    /// The rule, as a sentence that is true without violations.
    pub(crate) rule: &'static str,
    /// The place of each violation.
    pub(crate) faults: Vec<String>,
}

/// The counts of passed and failed tests and checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Returns the count of one test or check.
    pub(crate) fn of(passed: bool) -> Self {
        Self { passed: u64::from(passed), failed: u64::from(!passed) }
    }

    /// Reads the summaries that test runners print: `test result: ok. 3 passed; 0 failed; ...`.
    pub(crate) fn of_output(output: &str) -> Self {
        output.lines().filter_map(Self::of_summary).sum()
    }

    fn of_summary(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let count = |word: &str| {
            let item = counts.split("; ").find_map(|item| item.strip_suffix(word))?;
            item.parse().ok()
        };
        Some(Self { passed: count(" passed")?, failed: count(" failed")? })
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| Self {
            passed: sum.passed + tally.passed,
            failed: sum.failed + tally.failed,
        })
    }
}

/// Prints each check with its faults and counts them.
pub(crate) fn report(checks: &[Check]) -> Tally {
    checks
        .iter()
        .map(|check| {
            let kept = check.faults.is_empty();
            println!("{} {}", if kept { "ok    " } else { "FAILED" }, check.rule);
            for fault in &check.faults {
                println!("         {fault}");
            }
            if !kept {
                let faults: Vec<_> = check.faults.iter().map(String::as_str).collect();
                recap::keep(check.rule, &faults);
            }
            Tally::of(kept)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_several_runners_add_up() {
        let output = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; 0.00s\n\
            test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(Tally::of_output(output), Tally { passed: 14, failed: 3 });
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(Tally::of_output("test result\n5 passed; 0 failed\n"), Tally::default());
    }
}
