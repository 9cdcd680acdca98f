//! The documents name only existing files and options.

use std::collections::BTreeSet;

use crate::check::Check;
use crate::examples;
use crate::program;
use crate::reference;
use crate::repository::Repository;

/// Checks the paths and the options of our programs in every document.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    vec![
        Check { rule: "documents name only files that exist", faults: paths(repository) },
        Check { rule: "documents name only options that exist", faults: options(repository) },
        reference::check(repository),
        examples::check(repository),
    ]
}

fn paths(repository: &Repository) -> Vec<String> {
    let files = repository.files();
    let mut faults = Vec::new();
    for document in files.iter().filter(|path| path.ends_with(".md")) {
        let text = repository.text(document).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let code = in_code(line).map(|path| path.trim_end_matches('/').to_owned());
            let named = code.filter(|path| is_path(path, &files));
            // A document is named by its path, or relative to another document.
            let is_here =
                |path: &str| exists(path, &files) || exists(&beside(document, path), &files);
            let missing = named.filter(|path| !is_here(path));
            faults.extend(missing.map(|path| format!("{document}:{number}: no {path}")));
        }
    }
    faults
}

fn options(repository: &Repository) -> Vec<String> {
    let known = match known_options(repository, &mut Vec::new()) {
        Ok(known) => known,
        Err(error) => return vec![error],
    };
    let mut faults = Vec::new();
    for document in repository.files().iter().filter(|path| path.ends_with(".md")) {
        let text = repository.text(document).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            let named = in_code(line).flat_map(options_in);
            let unknown = named.filter(|option| !known.contains(*option));
            faults.extend(unknown.map(|option| format!("{document}:{number}: no {option}")));
        }
    }
    faults
}

/// Returns the options of `leasehold` or of one of its commands, and of its subcommands, from the
/// output of `--help`.
fn known_options(
    repository: &Repository,
    command: &mut Vec<String>,
) -> Result<BTreeSet<String>, String> {
    let words = ["cargo", "run", "--quiet", "--package=leasehold", "--"];
    let own = command.iter().map(String::as_str);
    let words: Vec<&str> = words.into_iter().chain(own).chain(["--help"]).collect();
    let help = program::output(repository.root(), &words)?;
    let mut known: BTreeSet<String> = options_in(&help).map(str::to_owned).collect();
    for name in commands_in(&help) {
        command.push(name.to_owned());
        known.append(&mut known_options(repository, command)?);
        command.pop();
    }
    Ok(known)
}

/// Returns the names of the commands in a help text: the lines below `Commands:`, or the lines of
/// groups, each of which begins with a heading or with spaces.
fn commands_in(help: &str) -> Vec<&str> {
    if help.lines().any(|line| line == "Commands:") {
        let below = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let lines = below.take_while(|line| line.starts_with("  "));
        // A line with a deeper indent continues a description.
        return lines
            .filter_map(|line| line[2..].split(' ').next())
            .filter(|name| !name.is_empty())
            .collect();
    }
    if !help.lines().any(|line| line.starts_with("Usage:") && line.ends_with("<COMMAND>")) {
        return Vec::new();
    }
    let groups = help.lines().skip_while(|line| !line.starts_with("Usage:")).skip(1);
    groups
        .take_while(|line| *line != "Options:")
        .filter_map(|line| match line.split_once(": ") {
            Some((heading, rest)) if !heading.contains(' ') => rest.split_whitespace().next(),
            _ => line.strip_prefix("  ").and_then(|rest| rest.split_whitespace().next()),
        })
        .collect()
}

/// Returns the long options in a text.
fn options_in(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !(c.is_ascii_lowercase() || c == '-');
    text.split(part).filter(|word| word.starts_with("--") && !word.ends_with('-'))
}

/// Returns the parts of a line in back quotes.
pub(crate) fn in_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns true if a piece of code is a path into this tree: its first part is a file or folder at
/// the top whose name is not an ordinary word.
fn is_path(code: &str, files: &[String]) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let top = code.split('/').next().unwrap_or_default();
    let is_folder = files.iter().any(|file| file.split_once('/').is_some_and(|(at, _)| at == top));
    let is_document = !code.contains('/') && code.ends_with(".md");
    code.chars().all(plain) && ((code.contains('/') && is_folder) || is_document)
}

/// Converts the target of a link, which is relative to its document, to a path from the top.
pub(crate) fn beside(document: &str, target: &str) -> String {
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

pub(crate) fn exists(path: &str, files: &[String]) -> bool {
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
        assert_eq!(in_code("See `a/b` and [c](d.md).").collect::<Vec<_>>(), ["a/b"]);
        assert_eq!(beside("docs/x/y.md", "../d/e.md"), "docs/d/e.md");
        assert_eq!(beside("y.md", "./e/"), "e");
    }

    #[test]
    fn options_are_found_in_help_and_in_code() {
        let help = "  -s, --state-dir <DIR>  where; [--json]\n---";
        assert_eq!(options_in(help).collect::<Vec<_>>(), ["--state-dir", "--json"]);
    }

    #[test]
    fn commands_are_found_in_lists_and_in_groups() {
        let list = "Usage: x <COMMAND>\n\nCommands:\n  try    A trial: all\n         of it\n  end  End\n\nOptions:\n  -h";
        assert_eq!(commands_in(list), ["try", "end"]);
        let groups = "Text: more\n\nUsage: x <COMMAND>\n\nServers:  serve  Serve: all\n          top    Top\nSet-up:   config  Configure\n\nOptions:\n  -h";
        assert_eq!(commands_in(groups), ["serve", "top", "config"]);
        let none = "Usage: x [OPTIONS]\n\nOptions:\n  --restart <COMMAND>";
        assert_eq!(commands_in(none), [""; 0]);
    }

    #[test]
    fn folders_exist_through_their_files() {
        let files = ["crates/base/src/lib.rs".to_owned()];
        assert!(exists("crates/base", &files));
        assert!(!exists("crates/bas", &files));
    }
}
