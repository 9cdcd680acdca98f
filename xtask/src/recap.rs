//! The failures of a run, which the test prints again before its counts: the end of a long output
//! is often the only part that a reader receives.

use std::sync::Mutex;

/// The number of stored lines for each failed program.
const LINES: usize = 120;

static FAILURES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Stores a failure: the program or rule, and the lines that explain it.
pub(crate) fn keep(title: &str, lines: &[&str]) {
    let mut text = format!("{title}\n");
    lines.iter().for_each(|line| text.extend(["    ", line, "\n"]));
    FAILURES.lock().expect("no thread panics while it holds this lock").push(text);
}

/// Prints all stored failures.
pub(crate) fn print() {
    for text in FAILURES.lock().expect("no thread panics while it holds this lock").iter() {
        println!("\nFAILED {text}");
    }
}

/// Returns the lines of a program's output that explain its failure: the sections in which a test
/// runner lists failed tests, or the last lines of another program.
pub(crate) fn explanation(output: &str) -> Vec<&str> {
    let mut failures = Vec::new();
    let mut inside = false;
    for line in output.lines() {
        inside |= line == "failures:";
        if inside {
            failures.push(line);
        }
        inside &= !line.starts_with("test result: ");
    }
    if !failures.is_empty() {
        failures.truncate(LINES);
        return failures;
    }
    let lines: Vec<_> = output.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_explain_a_failure() {
        let output = "test a ... ok\ntest result: ok. 1 passed; 0 failed\ntest b ... FAILED\n\
            failures:\n---- b stdout ----\nassertion failed\n\
            test result: FAILED. 0 passed; 1 failed\nlater\n";
        let lines = explanation(output);
        assert_eq!(lines.first(), Some(&"failures:"));
        assert_eq!(lines.last(), Some(&"test result: FAILED. 0 passed; 1 failed"));
    }

    #[test]
    fn the_last_lines_explain_a_failure_without_tests() {
        let output: String = (0..200).map(|line| format!("{line}\n")).collect();
        let lines = explanation(&output);
        assert_eq!((lines.len(), lines.last()), (LINES, Some(&"199")));
    }
}
