//! The rules on files and functions that no other tool checks.

mod rules;
mod source;

use crate::check::Check;
use crate::prose;
use crate::repository::{File, Repository};

/// The largest number of lines of a file.
const FILE_LINES_MAX: usize = 800;

/// The largest number of lines of a function, for one screen.
const FUNCTION_LINES_MAX: usize = 70;

/// The folders whose code does no I/O. The `clippy.toml` of each contains the forbidden items, and
/// begins like the first one.
const PURE: &[&str] = &[
    "base",
    "wire",
    "core",
    "session",
    "fs",
    "lab/des",
    "lab/network",
    "lab/plan",
    "lab/policy",
    "lab/web",
    "service",
    "stores/mem",
];

/// Marks of unfinished work; each in two parts, so that this file obeys its own rule.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Names of constants that do not state the purpose of a duration.
const VAGUE: &[&str] = &["PATIENCE", "AGAIN"];

/// Folders that exist on one machine only.
const PLACES: &[&str] = &["work", "home", "root"];

/// Checks every rule over the whole tree.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let files = repository.texts();
    let over = |rule, paths: fn(&str) -> bool, faults: fn(&str) -> Vec<Fault>| Check {
        rule,
        faults: faults_in(files.iter().filter(|file| paths(&file.path)), faults),
    };
    vec![
        over("a file has at most 800 lines", is_rust, too_long),
        over("a function has at most 70 lines", is_rust, |text| {
            source::functions_over(FUNCTION_LINES_MAX, text)
        }),
        over("unsafe code lies in files called sys.rs", is_safe_rust, source::unsafe_code),
        over("no test is ignored", is_rust, source::ignored_tests),
        over("a crate begins with its purpose", is_crate_root, without_head),
        over("source is ASCII", is_source, not_ascii),
        over("a name of a duration states its purpose", is_rust, vague_durations),
        over("no work is left unfinished", |_| true, unfinished),
        over("no path belongs to one machine", |_| true, machine_paths),
        Check { rule: "folders without I/O ban it", faults: pure_folders(repository) },
        Check {
            rule: "each test of the whole system runs in a step",
            faults: without_step(&files),
        },
        Check {
            rule: "code cites each numbered rule of a state machine",
            faults: rules::uncited(&files),
        },
        prose::check(repository, &files),
    ]
}

/// Returns the system tests that no step of the gate names; a step names each file that it runs.
fn without_step(files: &[File]) -> Vec<String> {
    let steps = files.iter().find(|file| file.path == "xtask/src/test.rs");
    let steps = steps.map_or("", |file| file.text.as_str());
    let test = |file: &File| {
        let name = file.path.strip_prefix("tests/system/tests/")?.strip_suffix(".rs")?;
        let is_named = name.contains('/') || steps.contains(&format!("--test={name}\""));
        (!is_named).then(|| format!("{}: no step of `cargo xtask test` runs the file", file.path))
    };
    files.iter().filter_map(test).collect()
}

/// A violation at a line, counted from 1.
type Fault = (usize, String);

fn faults_in<'a>(
    files: impl Iterator<Item = &'a File>,
    faults: fn(&str) -> Vec<Fault>,
) -> Vec<String> {
    let of_file = |file: &'a File| {
        let place = move |(line, what)| format!("{}:{line}: {what}", file.path);
        faults(&file.text).into_iter().map(place)
    };
    files.flat_map(of_file).collect()
}

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn is_safe_rust(path: &str) -> bool {
    is_rust(path) && !path.ends_with("/sys.rs")
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("src/main.rs")
}

fn is_source(path: &str) -> bool {
    is_rust(path) || path.ends_with(".toml") || path.ends_with(".sh") || path == ".ci/run"
}

fn too_long(text: &str) -> Vec<Fault> {
    let count = text.lines().count();
    if count > FILE_LINES_MAX { vec![(count, format!("{count} lines"))] } else { Vec::new() }
}

fn without_head(text: &str) -> Vec<Fault> {
    if text.starts_with("//! ") { Vec::new() } else { vec![(1, "no head comment".to_owned())] }
}

fn not_ascii(text: &str) -> Vec<Fault> {
    lines_where(text, |line| !line.is_ascii(), "not ASCII")
}

fn vague_durations(text: &str) -> Vec<Fault> {
    let is_vague = |line: &str| VAGUE.iter().any(|name| line.contains(&format!("const {name}:")));
    lines_where(text, is_vague, "name the purpose, and put shared durations into base/limits")
}

fn unfinished(text: &str) -> Vec<Fault> {
    let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    lines_where(text, |line| line.split(word).any(|word| UNFINISHED.contains(&word)), "unfinished")
}

fn machine_paths(text: &str) -> Vec<Fault> {
    let begins = |line: &str, place: &str| {
        let path = format!("/{place}/");
        let mut found = line.match_indices(&path);
        found.any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.'))
    };
    let is_one = |line: &str| PLACES.iter().any(|place| begins(line, place));
    lines_where(text, is_one, "a path of one machine")
}

fn lines_where(text: &str, is_wrong: impl Fn(&str) -> bool, what: &str) -> Vec<Fault> {
    let numbered = (1..).zip(text.lines());
    numbered.filter(|(_, line)| is_wrong(line)).map(|(at, _)| (at, what.to_owned())).collect()
}

fn pure_folders(repository: &Repository) -> Vec<String> {
    let bans = |folder: &str| format!("crates/{folder}/clippy.toml");
    let first = repository.text(&bans(PURE[0])).unwrap_or_default();
    let here = PURE.iter().filter(|folder| repository.exists(&format!("crates/{folder}")));
    here.filter_map(|folder| {
        let text = repository.text(&bans(folder)).unwrap_or_default();
        let kept = !first.is_empty() && text.starts_with(&first);
        (!kept).then(|| format!("{} does not begin as {}", bans(folder), bans(PURE[0])))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_unfinished_work_are_whole_words() {
        assert_eq!(unfinished(&format!("// {}: later", UNFINISHED[0])).len(), 1);
        assert_eq!(unfinished(&format!("mktemp a.{0}{0}", UNFINISHED[2])).len(), 0);
    }

    #[test]
    fn durations_need_a_purpose_in_their_names() {
        assert_eq!(vague_durations(&format!("const {}: Duration = X;", VAGUE[0])).len(), 1);
        assert_eq!(vague_durations("const RETRY_DELAY: Duration = X;").len(), 0);
    }

    #[test]
    fn paths_of_one_machine_begin_at_the_top() {
        assert_eq!(machine_paths(&format!("see /{}/me/x", PLACES[1])).len(), 1);
        assert_eq!(machine_paths(&format!("see net/{}/x", PLACES[0])).len(), 0);
    }

    #[test]
    fn lines_and_heads_and_letters() {
        assert_eq!(too_long(&"\n".repeat(FILE_LINES_MAX)).len(), 0);
        assert_eq!(too_long(&"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
        assert_eq!(without_head("//! What.\n").len(), 0);
        assert_eq!(without_head("use std;\n").len(), 1);
        assert_eq!(not_ascii("a\nb\u{e4}\n"), [(2, "not ASCII".to_owned())]);
    }
}
