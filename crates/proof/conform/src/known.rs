//! Cases that are known to fail for a server.

use std::collections::BTreeMap;

use crate::select;
use crate::server::Problem;

/// What is known of a case that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) reason: String,
    pub(crate) how: How,
}

/// How a case fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// Whenever it runs.
    Always,
    /// Now and then.
    Sometimes,
    /// In a way that ends the server, so it is not run.
    Fatally,
}

/// The cases that are known to fail, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(BTreeMap<String, Failing>);

impl Known {
    /// Reads a list: a line is a case and a reason. With `~` in front it fails sometimes, with `!`
    /// it ends the server; what follows a `#` at the start of a line is a comment.
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
                return Err(Problem(format!("there is no case {name}; --list shows all")));
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
        let known = Known::read(&format!("# why\n\n~{name}  a reason\n")).expect("it is right");
        let expected = Failing { reason: "a reason".into(), how: How::Sometimes };
        assert_eq!(known.get(&name), Some(&expected));
        assert_eq!(known.get("other"), None);
        assert!(Known::read("no/such reason").is_err());
    }
}
