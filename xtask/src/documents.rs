//! The documents name only files that exist.

use crate::check::Check;
use crate::repository::Repository;

/// Checks the paths in every document.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let files = repository.files();
    let mut faults = Vec::new();
    for document in files.iter().filter(|path| path.ends_with(".md")) {
        let text = repository.text(document).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let named = paths_in_code(line).filter(|path| is_path(path, &files));
            let named = named.chain(link_targets(line).map(|target| beside(document, target)));
            let missing = named.filter(|path| !exists(path, &files));
            faults.extend(missing.map(|path| format!("{document}:{number}: no {path}")));
        }
    }
    vec![Check { rule: "documents name only files that exist", faults }]
}

/// What a line has in back quotes.
fn paths_in_code(line: &str) -> impl Iterator<Item = String> {
    line.split('`').skip(1).step_by(2).map(|path| path.trim_end_matches('/').to_owned())
}

/// Whether a piece of code is a path into this tree: its first part is a file or folder at the top
/// that no ordinary word is.
fn is_path(code: &str, files: &[String]) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let top = code.split('/').next().unwrap_or_default();
    let is_folder = files.iter().any(|file| file.split_once('/').is_some_and(|(at, _)| at == top));
    let is_document = !code.contains('/') && code.ends_with(".md");
    code.chars().all(plain) && ((code.contains('/') && is_folder) || is_document)
}

/// The targets of a line's links that point into this tree.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| !target.is_empty() && !target.contains("://"))
}

/// A link's target, which is relative to its document, as a path from the top.
fn beside(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn exists(path: &str, files: &[String]) -> bool {
    let folder = format!("{path}/");
    files.iter().any(|file| file == path || file.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_a_path_when_it_begins_in_the_tree() {
        let files = ["crates/base/src/lib.rs".to_owned(), "README.md".to_owned()];
        assert!(is_path("crates/gone", &files));
        assert!(is_path("GONE.md", &files));
        assert!(!is_path("tcp/udp", &files));
        assert!(!is_path("crates/*/src", &files));
    }

    #[test]
    fn a_line_names_code_and_links() {
        let line = "See `a/b` and [c](../d/e.md#part), [web](https://example.org).";
        assert_eq!(paths_in_code(line).collect::<Vec<_>>(), ["a/b"]);
        let targets: Vec<_> = link_targets(line).map(|to| beside("docs/x/y.md", to)).collect();
        assert_eq!(targets, ["docs/d/e.md"]);
    }

    #[test]
    fn folders_exist_through_their_files() {
        let files = ["crates/base/src/lib.rs".to_owned()];
        assert!(exists("crates/base", &files));
        assert!(!exists("crates/bas", &files));
    }
}
