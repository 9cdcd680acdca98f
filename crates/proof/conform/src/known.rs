//! Cases that are known to fail for a server.

use std::collections::BTreeMap;

use crate::select;
use crate::server::Problem;

/// A known failure of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) reason: String,
    pub(crate) how: How,
}

/// The kind of a known failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The case fails whenever it runs.
    Always,
    /// The case sometimes fails.
    Sometimes,
    /// The case ends the server, so it does not run.
    Fatally,
}

/// The cases that are known to fail, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(BTreeMap<String, Failing>);

impl Known {
    /// Reads a list: a line is a case and a reason. With `~` in front the case sometimes fails,
    /// with `!` it ends the server; a line that starts with `#` is a comment.
    pub(crate) fn read(text: &str) -> Result<Self, Problem> {
        let mut known = BTreeMap::new();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (how, line) = match line.as_bytes() {
                [b'~', ..] => (How::Sometimes, &line[1..]),
                [b'!', ..] => (How::Fatally, &line[1..]),
                _ => (How::Always, line),
            };
            let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
            if !select::all().any(|case| case.to_string() == name) {
                return Err(Problem(format!("case {name} does not exist; --list shows all")));
            }
            let reason = reason.trim().to_owned();
            known.insert(name.to_owned(), Failing { reason, how });
        }
        Ok(Self(known))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Failing> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let name = select::all().next().expect("there are cases").to_string();
        let known =
            Known::read(&format!("# why\n\n~{name}  a reason\n")).expect("the list is valid");
        let expected = Failing { reason: "a reason".into(), how: How::Sometimes };
        assert_eq!(known.get(&name), Some(&expected));
        assert_eq!(known.get("other"), None);
        assert!(Known::read("no/such reason").is_err());
    }
}
