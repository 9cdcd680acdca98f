//! The measure of prose: sentences with an idiom that plain technical English does not use.
//!
//! `xtask/prose.json` has a budget for each area, and a budget only goes down.

mod idiom;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use crate::check::{Check, Tally};
use crate::repository::{File, Repository};
use text::Piece;

/// The file of budgets, beside this crate's manifest.
const BUDGETS: &str = "xtask/prose.json";

/// The list of idioms and the texts that the tests of this measure use.
const OWN: &str = "xtask/src/prose";

/// The kinds of prose, as they follow an area in its name; messages are texts that a user sees.
const COMMENTS: &str = "";
const MESSAGES: &str = ": messages";
const TESTS: &str = ": test names";

/// The prose of one kind in one area.
#[derive(Default)]
struct Area {
    sentences: usize,
    marks: Vec<Mark>,
}

/// A sentence with an idiom.
struct Mark {
    path: String,
    piece: Piece,
    idiom: String,
}

/// Prints each sentence with an idiom below `paths`, and the share of each area.
pub(crate) fn run(repository: &Repository, paths: &[String]) -> Tally {
    let mut files = repository.texts();
    files.retain(|file| paths.is_empty() || paths.iter().any(|path| file.path.starts_with(path)));
    let areas = measure(repository, &files);
    for area in areas.values() {
        area.marks.iter().for_each(|mark| println!("{mark}"));
    }
    for (name, Area { sentences, marks }) in &areas {
        println!("{name:<40} {} of {sentences}", marks.len());
    }
    Tally::of(true)
}

/// Writes the present counts as budgets where they are smaller.
pub(crate) fn write(repository: &Repository) -> Tally {
    let mut budgets = budgets(repository);
    let areas = measure(repository, &repository.texts());
    let marked = |name: &str| areas.get(name).map_or(0, |area| area.marks.len());
    budgets.iter_mut().for_each(|(name, budget)| *budget = marked(name).min(*budget));
    budgets.retain(|_, budget| *budget > 0);
    let text = serde_json::to_string_pretty(&budgets).expect("numbers can be written");
    Tally::of(repository.write(BUDGETS, &format!("{text}\n")))
}

/// Compares each area with its budget.
pub(crate) fn check(repository: &Repository, files: &[File]) -> Check {
    let budgets = budgets(repository);
    let mut faults = Vec::new();
    for (name, Area { marks, .. }) in measure(repository, files) {
        let (marked, budget) = (marks.len(), budgets.get(&name).copied().unwrap_or_default());
        if marked > budget {
            faults
                .push(format!("{name}: {marked} sentences have an idiom, the budget is {budget}"));
            faults.extend(marks.iter().take(20).map(|mark| format!("  {mark}")));
        }
    }
    Check { rule: "prose keeps to plain technical English", faults }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, piece: Piece { line, text }, idiom } = self;
        write!(f, "{path}:{line}: [{idiom}] {text}")
    }
}

fn budgets(repository: &Repository) -> BTreeMap<String, usize> {
    let text = repository.text(BUDGETS);
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

/// Returns the prose of files by area and kind.
fn measure(repository: &Repository, files: &[File]) -> BTreeMap<String, Area> {
    let mut areas: BTreeMap<String, Area> = BTreeMap::new();
    for File { path, text } in files.iter().filter(|file| !file.path.starts_with(OWN)) {
        let folder = area(path, |folder| {
            folder.starts_with("crates/") && repository.exists(&format!("{folder}/Cargo.toml"))
        });
        for (kind, pieces) in prose(path, text) {
            let area = areas.entry(format!("{folder}{kind}")).or_default();
            area.sentences += pieces.len();
            let mark = |piece: Piece| {
                let idiom = idiom::find(&piece.text)?;
                Some(Mark { path: path.clone(), piece, idiom })
            };
            area.marks.extend(pieces.into_iter().filter_map(mark));
        }
    }
    areas
}

/// The prose of a file by kind; a file without prose has none.
fn prose(path: &str, source: &str) -> Vec<(&'static str, Vec<Piece>)> {
    // Generated pages repeat texts of the source.
    if path.starts_with("docs/reference/") {
        return Vec::new();
    }
    if path.ends_with(".md") {
        return vec![(COMMENTS, text::document(source))];
    }
    if path.ends_with(".x") {
        return vec![(COMMENTS, text::description(source))];
    }
    if !path.ends_with(".rs") {
        return Vec::new();
    }
    let mut prose = vec![(COMMENTS, text::comments(source)), (TESTS, text::tests(source))];
    let is_program = path.starts_with("crates/") && !path.contains("/tests");
    if is_program && !path.starts_with("crates/proof/sim") {
        prose.push((MESSAGES, text::messages(source)));
    }
    prose
}

/// Returns the area of a file: the folder of its crate, or a folder at the top or in `docs`.
fn area(path: &str, is_crate: impl Fn(&str) -> bool) -> String {
    let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
    if let Some(folder) = folders.clone().filter(|folder| is_crate(folder)).last() {
        return folder.to_owned();
    }
    let depth = if path.starts_with("docs/") { 2 } else { 1 };
    folders.take(depth).last().unwrap_or("documents at the root").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_crates_and_folders() {
        let crates = ["crates/core", "crates/stores/dir", "crates/shell", "crates/shell/fuse"];
        let area = |path| area(path, |folder| crates.contains(&folder));
        assert_eq!(area("crates/core/src/leases/table.rs"), "crates/core");
        assert_eq!(area("crates/stores/dir/src/lib.rs"), "crates/stores/dir");
        assert_eq!(area("crates/shell/src/own.rs"), "crates/shell");
        assert_eq!(area("crates/shell/fuse/src/lib.rs"), "crates/shell/fuse");
        assert_eq!(area("docs/design/0001-tiers.md"), "docs/design");
        assert_eq!(area("docs/cluster.md"), "docs");
        assert_eq!(area("README.md"), "documents at the root");
        assert_eq!(area("tests/system/tests/mount.rs"), "tests");
        assert_eq!(area("spec/lease.x"), "spec");
    }
}
