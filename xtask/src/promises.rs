//! Each promise in `docs/semantics` has tests, and all tests that documents name exist.
//!
//! A promise ends with its number, such as `[P-042]`. `docs/semantics/tests.tsv` lists the tests of
//! each promise, and `docs/reference/promises.md` is the table generated from both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::check::{Check, Tally};
use crate::documents::in_code;
use crate::repository::{File, Package, Repository};

/// The pages with the promises, in the order of the index.
const PAGES: [&str; 7] = ["names", "access", "durability", "leases", "cache", "stripes", "cluster"];

/// The tests of the promises: number, test, note.
const TESTS: &str = "docs/semantics/tests.tsv";

/// The generated table.
const TABLE: &str = "docs/reference/promises.md";

/// The document that names tests in its text.
const ATTACKS: &str = "SECURITY.md";

/// A test that proves a promise.
struct Proof {
    test: String,
    note: String,
}

/// Checks the numbers of the promises, their tests, and the generated table.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let (files, packages) = (repository.texts(), repository.packages());
    let is_test = |code: &str| {
        let Some((package, test)) = code.split_once(": ") else { return false };
        let folder = folder(repository, &packages, package);
        folder.is_some_and(|folder| is_there(&files, &folder, test))
    };
    let (promises, proofs) = (promises(repository), proofs(repository));
    let mut faults = Vec::new();
    for (number, tests) in &proofs {
        if !promises.contains_key(number) {
            faults.push(format!("{TESTS}: no page has the promise {number}"));
        }
        let missing = tests.iter().filter(|proof| !is_test(&proof.test));
        faults.extend(missing.map(|proof| format!("{TESTS}: {number}: no test {}", proof.test)));
    }
    for (number, texts) in &promises {
        if texts.len() > 1 {
            faults.push(format!("{} has several promises {number}", texts[0].0));
        }
        if !proofs.contains_key(number) {
            faults.push(format!("{}: {number} has no test in {TESTS}", texts[0].0));
        }
    }
    faults.extend(attacks(repository, is_test));
    let mut table = Vec::new();
    if repository.text(TABLE).as_deref() != Some(&rendered(&promises, &proofs)) {
        table.push(format!("{TABLE} is out of date: `cargo xtask reference` writes it"));
    }
    vec![
        Check { rule: "each promise has tests, and named tests exist", faults },
        Check { rule: "the table of promises is up to date", faults: table },
    ]
}

/// Writes the table of promises.
pub(crate) fn write(repository: &Repository) -> Tally {
    let text = rendered(&promises(repository), &proofs(repository));
    Tally::of(repository.write(TABLE, &text))
}

/// Returns the tests that a document names in its text and that do not exist.
fn attacks(repository: &Repository, is_test: impl Fn(&str) -> bool) -> Vec<String> {
    let Some(text) = repository.text(ATTACKS) else {
        return vec![format!("{ATTACKS} is missing")];
    };
    let lines = (1..).zip(text.lines());
    let missing = |(number, line): (usize, &str)| {
        let named = in_code(line).filter(|code| code.contains(": "));
        let missing = named.filter(|code| !is_test(code)).map(str::to_owned);
        missing.map(|code| format!("{ATTACKS}:{number}: no test {code}")).collect::<Vec<_>>()
    };
    lines.flat_map(missing).collect()
}

/// Returns each promise by its number: the page and the text.
fn promises(repository: &Repository) -> BTreeMap<String, Vec<(String, String)>> {
    let mut promises: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for page in PAGES {
        let page = format!("docs/semantics/{page}.md");
        let text = repository.text(&page).unwrap_or_default();
        for (number, text) in numbered(&text) {
            promises.entry(number).or_default().push((page.clone(), text));
        }
    }
    promises
}

/// Returns the numbered items of a page: number and text.
fn numbered(page: &str) -> Vec<(String, String)> {
    let mut items: Vec<String> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', '|']) {
            is_open = false;
        } else if let (true, false, Some(item)) =
            (is_open, line.starts_with("- "), items.last_mut())
        {
            item.push(' ');
            item.push_str(text);
        } else {
            is_open = true;
            items.push(text.trim_start_matches("- ").to_owned());
        }
    }
    let number = |item: String| {
        let (text, number) = item.rsplit_once(" [P-")?;
        Some((format!("P-{}", number.strip_suffix(']')?), text.to_owned()))
    };
    items.into_iter().filter_map(number).collect()
}

/// Returns the tests of each promise.
fn proofs(repository: &Repository) -> BTreeMap<String, Vec<Proof>> {
    let text = repository.text(TESTS).unwrap_or_default();
    let mut proofs: BTreeMap<String, Vec<Proof>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut field = || fields.next().unwrap_or_default();
        let (number, test, note) = (field(), field(), field());
        proofs.entry(number).or_default().push(Proof { test, note });
    }
    proofs
}

fn rendered(
    promises: &BTreeMap<String, Vec<(String, String)>>,
    proofs: &BTreeMap<String, Vec<Proof>>,
) -> String {
    let mut text = format!(
        "# Promises and their tests\n\n\
         Generated from the pages in `docs/semantics` and from `{TESTS}`. A test is named by its crate \
         and its path.\n\n\
         | promise | beginning of the text | tests |\n| --- | --- | --- |\n"
    );
    for (number, texts) in promises {
        let Some((page, promise)) = texts.first() else { continue };
        let page = page.trim_start_matches("docs/");
        let tests = proofs.get(number).map(Vec::as_slice).unwrap_or_default();
        let test = |Proof { test, note }: &Proof| match note.as_str() {
            "" => format!("`{test}`"),
            note => format!("`{test}` ({note})"),
        };
        let tests: Vec<_> = tests.iter().map(test).collect();
        let beginning = beginning(promise).replace('|', "\\|");
        let tests = tests.join(", ");
        writeln!(text, "| [{number}](../{page}) | {beginning} | {tests} |")
            .expect("there is memory");
    }
    text
}

/// Returns the first sentence of a promise, or its first words if that is long.
fn beginning(text: &str) -> String {
    const WORDS_MAX: usize = 20;
    let sentence = text.split_inclusive(". ").next().unwrap_or_default().trim();
    let words: Vec<_> = sentence.split(' ').collect();
    if words.len() <= WORDS_MAX {
        return sentence.to_owned();
    }
    let mut short = words[..WORDS_MAX].join(" ");
    // A span of code must not stay open.
    if short.matches('`').count() % 2 == 1 {
        short.push('`');
    }
    format!("{short} ...")
}

/// Returns the folder of one of our crates, whose names omit the project's name.
fn folder(repository: &Repository, packages: &[Package], name: &str) -> Option<String> {
    let is_it = |package: &&Package| {
        package.name.strip_prefix("leasehold-").unwrap_or(&package.name) == name
    };
    let folder = packages.iter().find(is_it)?.manifest_path.parent()?;
    Some(format!("{}/", folder.strip_prefix(repository.root()).ok()?.to_str()?))
}

/// Returns true if a folder has a test: a function, a file, or a name in a table with the last part
/// of the test's path as its name.
fn is_there(files: &[File], folder: &str, test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or_default();
    let (function, entry) = (format!("fn {name}("), format!("\"{name}\""));
    files.iter().filter(|file| file.path.starts_with(folder)).any(|file| {
        let is_file = Path::new(&file.path).file_stem().is_some_and(|stem| stem == name);
        is_file || file.text.contains(&function) || file.text.contains(&entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_items_are_promises() {
        let page = "# A title\n\n- The first\n  promise. [P-001]\n- No promise.\n\nAnother one.\n[P-002]\n";
        let expected = [("P-001", "The first promise."), ("P-002", "Another one.")];
        let expected = expected.map(|(number, text)| (number.to_owned(), text.to_owned()));
        assert_eq!(numbered(page), expected);
    }

    #[test]
    fn long_promises_are_cut_after_some_words() {
        assert_eq!(beginning("Short. Another."), "Short.");
        let long = format!("`a b{}", " word".repeat(30));
        assert!(beginning(&long).ends_with(" word` ..."));
    }

    #[test]
    fn a_test_is_a_function_or_a_file() {
        let repository = Repository::here();
        let files = ["tests/system/tests/kernel.rs", "xtask/src/promises.rs"].map(|path| File {
            text: repository.text(path).unwrap_or_default(),
            path: path.to_owned(),
        });
        let has = |folder, test| is_there(&files, folder, test);
        assert!(has("tests/system/", "kernel"));
        assert!(has("xtask/", "tests::a_test_is_a_function_or_a_file"));
        assert!(!has("xtask/", concat!("an", "other")));
        assert!(!has("tests/system/", "promises"));
    }

    #[test]
    fn a_crate_is_found_by_its_own_name() {
        let repository = Repository::here();
        let packages = repository.packages();
        let system = folder(&repository, &packages, "system-tests");
        assert_eq!(system.as_deref(), Some("tests/system/"));
        assert_eq!(
            folder(&repository, &packages, "leasehold").as_deref(),
            Some("crates/leasehold/")
        );
        assert_eq!(folder(&repository, &packages, "nothing"), None);
    }
}
