//! The numbered rules in the heads of the state machines, and their citations in the code.

use std::collections::BTreeSet;

use crate::repository::File;

/// The folder of the state machines.
const CORE: &str = "crates/core/src/";

/// The rules that the code below their head does not cite.
pub(super) fn uncited(files: &[File]) -> Vec<String> {
    let heads = files.iter().filter(|file| file.path.starts_with(CORE));
    heads.flat_map(|file| of_module(file, files)).collect()
}

fn of_module(module: &File, files: &[File]) -> Vec<String> {
    let (head, body) = split(&module.text);
    let rules = numbers(head);
    if rules.is_empty() {
        return Vec::new();
    }
    let folder = module.path.replace(".rs", "/");
    let below = files.iter().filter(|file| {
        let name = file.path.strip_prefix(&folder);
        name.is_some_and(|name| name.ends_with(".rs") && !name.starts_with("tests"))
    });
    let mut cited = citations(body);
    below.for_each(|file| cited.append(&mut citations(&file.text)));
    let missing = rules.into_iter().filter(|rule| !cited.contains(rule));
    missing.map(|rule| format!("{}: no code cites rule {rule}", module.path)).collect()
}

/// The head comment and the code of a module.
fn split(text: &str) -> (&str, &str) {
    let lines = text.split_inclusive('\n').take_while(|line| line.starts_with("//!"));
    text.split_at(lines.map(str::len).sum())
}

/// The numbers of the rules that a head lists after the line `Rules:`.
fn numbers(head: &str) -> Vec<String> {
    let lines = head.lines().map(|line| line.trim_start_matches("//!").trim());
    let rules = lines.skip_while(|line| *line != "Rules:");
    let number = |line: &str| {
        let (number, _) = line.split_once(". ")?;
        is_number(number).then(|| number.to_owned())
    };
    rules.filter_map(number).collect()
}

/// Digits, and a letter for a rule between two others.
fn is_number(word: &str) -> bool {
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    !digits.is_empty()
        && word.len() - digits.len() <= 1
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The numbers in citations such as `Rule 7` and `Rules 2, 3 and 5`.
fn citations(text: &str) -> BTreeSet<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut cited = BTreeSet::new();
    for at in 0..words.len() {
        let word = words[at].trim_start_matches(['(', '`']).to_lowercase();
        if word != "rule" && word != "rules" {
            continue;
        }
        for word in &words[at + 1..] {
            let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_number(word) {
                cited.insert(word.to_owned());
            } else if !["and", "or", ""].contains(&word) {
                break;
            }
        }
    }
    cited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_from_the_head_and_citations_from_the_code() {
        let text =
            "//! A machine.\n//!\n//! Rules:\n//! 1. One.\n//! 2b. Two.\n\n// Rules 1 and 2b.\n";
        let (head, body) = split(text);
        assert_eq!(numbers(head), ["1", "2b"]);
        assert_eq!(citations(body), BTreeSet::from(["1".to_owned(), "2b".to_owned()]));
    }

    #[test]
    fn an_uncited_rule_is_a_fault() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let head = "//! A machine.\n//!\n//! Rules:\n//! 1. One.\n//! 2. Two.\n\n// Rule 1\n";
        let files =
            [file("crates/core/src/a.rs", head), file("crates/core/src/a/tests.rs", "// Rule 2\n")];
        assert_eq!(uncited(&files), ["crates/core/src/a.rs: no code cites rule 2"]);
    }
}
