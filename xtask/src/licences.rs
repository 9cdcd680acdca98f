//! Everything that we are built from may be used, changed and sold by anybody.

use crate::check::Check;
use crate::repository::Repository;

/// Licences that ask for no more than to be named; MPL-2.0 asks it of changed files only.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "NCSA",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Checks the licence that each crate declares, our own and those from outside.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let faults = repository.packages(true).into_iter().filter_map(|package| {
        let licence = package.license.unwrap_or_default();
        (!is_allowed(&licence)).then(|| format!("{}: licence {licence:?}", package.name))
    });
    vec![Check { rule: "every licence is a permissive one", faults: faults.collect() }]
}

/// Whether a licence expression (SPDX) leaves us a choice that is allowed.
fn is_allowed(expression: &str) -> bool {
    // Old manifests separate alternatives by a slash.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest) == Some(true) && rest.is_empty()
}

fn any_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = all_of(words)?;
    while let Some(("OR", rest)) = split_first(words) {
        *words = rest;
        allowed |= all_of(words)?;
    }
    Some(allowed)
}

fn all_of(words: &mut &[&str]) -> Option<bool> {
    let mut allowed = one(words)?;
    while let Some(("AND", rest)) = split_first(words) {
        *words = rest;
        allowed &= one(words)?;
    }
    Some(allowed)
}

/// One licence, with its exception, or an expression in parentheses.
fn one(words: &mut &[&str]) -> Option<bool> {
    let (word, rest) = split_first(words)?;
    *words = rest;
    if word == "(" {
        let allowed = any_of(words)?;
        let (")", rest) = split_first(words)? else { return None };
        *words = rest;
        return Some(allowed);
    }
    if let ["WITH", exception, rest @ ..] = *words {
        *words = rest;
        return Some(ALLOWED.contains(&format!("{word} WITH {exception}").as_str()));
    }
    Some(ALLOWED.contains(&word))
}

fn split_first<'a, 'w>(words: &'a [&'w str]) -> Option<(&'w str, &'a [&'w str])> {
    words.split_first().map(|(word, rest)| (*word, rest))
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn one_allowed_choice_is_enough() {
        assert!(is_allowed("MIT"));
        assert!(is_allowed("GPL-3.0 OR MIT"));
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_allowed("GPL-2.0 OR Apache-2.0 WITH LLVM-exception"));
    }

    #[test]
    fn every_licence_that_must_be_kept_counts() {
        assert!(!is_allowed("GPL-3.0"));
        assert!(!is_allowed("MIT AND GPL-3.0"));
        assert!(!is_allowed("(MIT AND AGPL-3.0) OR SSPL-1.0"));
        assert!(!is_allowed("GPL-2.0 WITH Classpath-exception-2.0"));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(!is_allowed(""));
        assert!(!is_allowed("(MIT"));
        assert!(!is_allowed("MIT MIT"));
    }
}
