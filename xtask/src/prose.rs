//! The measure of prose: sentences with an idiom that plain technical English does not use.
//!
//! `xtask/prose.json` has a budget for each area, and a budget only goes down.

mod idiom;
mod text;

use std::collections::BTreeMap;

use crate::check::{Check, Tally};
use crate::repository::Repository;
use text::Piece;

/// The file of budgets, beside this crate's manifest.
const BUDGETS: &str = "xtask/prose.json";

/// The list of idioms and the texts that the tests of this measure use.
const OWN: &str = "xtask/src/prose";

/// The kinds of prose; messages are texts that a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Comment,
    Message,
    Test,
}

/// The sentences of one area and the number of them that have an idiom.
#[derive(Clone, Copy, Default)]
struct Count {
    sentences: usize,
    marked: usize,
}

/// A sentence with an idiom.
struct Mark {
    path: String,
    kind: Kind,
    piece: Piece,
    idiom: String,
}

/// Prints each sentence with an idiom below `paths`, and the share of each area.
pub(crate) fn run(repository: &Repository, paths: &[String]) -> Tally {
    let is_asked = |path: &str| paths.is_empty() || paths.iter().any(|one| path.starts_with(one));
    let (counts, marks) = measure(repository, is_asked);
    for Mark { path, kind, piece, idiom } in &marks {
        println!("{path}:{}: {kind:?}: [{idiom}] {}", piece.line, piece.text);
    }
    for ((area, kind), Count { sentences, marked }) in &counts {
        println!("{area:<28} {kind:?}: {marked} of {sentences}");
    }
    Tally::of(true)
}

/// Writes the present counts as budgets where they are smaller.
pub(crate) fn write(repository: &Repository) -> Tally {
    let (counts, _) = measure(repository, |_| true);
    let before = budgets(repository);
    let smaller = |(key, count): (&(String, Kind), &Count)| {
        let budget = before.get(&name(key)).copied().unwrap_or_default().min(count.marked);
        (budget > 0).then(|| (name(key), budget))
    };
    let budgets: BTreeMap<_, _> = counts.iter().filter_map(smaller).collect();
    let text = serde_json::to_string_pretty(&budgets).expect("numbers can be written");
    Tally::of(repository.write(BUDGETS, &format!("{text}\n")))
}

/// Compares each area with its budget.
pub(crate) fn check(repository: &Repository) -> Check {
    let budgets = budgets(repository);
    let (counts, marks) = measure(repository, |_| true);
    let counts: BTreeMap<_, _> =
        counts.iter().map(|(key, count)| (name(key), count.marked)).collect();
    let mut faults = Vec::new();
    for (area, marked) in &counts {
        let budget = budgets.get(area).copied().unwrap_or_default();
        if *marked > budget {
            let more = format!("{area}: {marked} sentences have an idiom, the budget is {budget}");
            faults.push(more);
            let of_area =
                marks.iter().filter(|mark| name(&(self::area(&mark.path), mark.kind)) == *area);
            faults.extend(of_area.take(20).map(|mark| {
                format!("  {}:{}: [{}] {}", mark.path, mark.piece.line, mark.idiom, mark.piece.text)
            }));
        }
    }
    Check { rule: "prose keeps to plain technical English", faults }
}

fn budgets(repository: &Repository) -> BTreeMap<String, usize> {
    let text = repository.text(BUDGETS);
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn name((area, kind): &(String, Kind)) -> String {
    match kind {
        Kind::Comment => area.clone(),
        Kind::Message => format!("{area}: messages"),
        Kind::Test => format!("{area}: test names"),
    }
}

fn measure(
    repository: &Repository,
    is_asked: impl Fn(&str) -> bool,
) -> (BTreeMap<(String, Kind), Count>, Vec<Mark>) {
    let mut counts: BTreeMap<(String, Kind), Count> = BTreeMap::new();
    let mut marks = Vec::new();
    for path in repository.files() {
        if !is_asked(&path) || path.starts_with(OWN) {
            continue;
        }
        let Some(text) = repository.text(&path) else { continue };
        for (kind, pieces) in prose(&path, &text) {
            let count = counts.entry((area(&path), kind)).or_default();
            count.sentences += pieces.len();
            for piece in pieces {
                if let Some(idiom) = idiom::find(&piece.text) {
                    count.marked += 1;
                    marks.push(Mark { path: path.clone(), kind, piece, idiom });
                }
            }
        }
    }
    (counts, marks)
}

/// The prose of a file by kind; a file without prose has none.
fn prose(path: &str, source: &str) -> Vec<(Kind, Vec<Piece>)> {
    // Generated pages repeat texts of the source.
    if path.starts_with("docs/reference/") {
        return Vec::new();
    }
    if path.ends_with(".md") {
        return vec![(Kind::Comment, text::document(source))];
    }
    if path.ends_with(".x") {
        return vec![(Kind::Comment, text::description(source))];
    }
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let mut prose =
        vec![(Kind::Comment, text::comments(source)), (Kind::Test, text::tests(source))];
    let is_program = path.starts_with("crates/") && !path.contains("/tests");
    if is_program && !path.starts_with("crates/proof/sim") {
        prose.push((Kind::Message, text::messages(source)));
    }
    prose
}

/// The area of a file: its crate, or the folder at the top.
fn area(path: &str) -> String {
    let parts: Vec<_> = path.split('/').collect();
    let depth = match parts.as_slice() {
        ["crates", "base" | "core" | "fs" | "leasehold" | "session" | "wire", ..] => 2,
        ["crates", ..] => 3,
        ["docs", _] => 1,
        ["docs", ..] => 2,
        [_] => return "documents at the root".to_owned(),
        _ => 1,
    };
    // The shell is a crate with crates below it.
    let depth = if parts.starts_with(&["crates", "shell"]) && ["src", "tests"].contains(&parts[2]) {
        2
    } else {
        depth
    };
    parts[..depth.min(parts.len() - 1)].join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_crates_and_folders() {
        assert_eq!(area("crates/core/src/leases/table.rs"), "crates/core");
        assert_eq!(area("crates/stores/dir/src/lib.rs"), "crates/stores/dir");
        assert_eq!(area("crates/shell/src/own.rs"), "crates/shell");
        assert_eq!(area("crates/shell/fuse/src/lib.rs"), "crates/shell/fuse");
        assert_eq!(area("docs/design/0001-tiers.md"), "docs/design");
        assert_eq!(area("docs/cluster.md"), "docs");
        assert_eq!(area("README.md"), "documents at the root");
        assert_eq!(area("tests/system/tests/mount.rs"), "tests");
    }
}
