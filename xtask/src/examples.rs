//! The program accepts each file of `examples`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::build;
use crate::check::Check;
use crate::program;
use crate::repository::Repository;

const FOLDER: &str = "examples/";

/// A check does no work beyond its file.
const LIMIT: Duration = Duration::from_mins(1);

/// Checks each example by the command that its reader uses, with its directories below a folder of
/// this tree's output.
pub(crate) fn check(repository: &Repository) -> Check {
    let mut faults = Vec::new();
    if !build::programs(repository, &["leasehold"]) {
        faults.push("the program is not built".to_owned());
    }
    let examples: Vec<_> =
        repository.files().into_iter().filter(|path| path.starts_with(FOLDER)).collect();
    if examples.is_empty() {
        faults.push(format!("{FOLDER} is empty"));
    }
    let programs = repository.target().join("debug");
    let folder = repository.target().join("examples");
    for example in examples {
        let text = repository.text(&example).unwrap_or_default();
        if let Err(error) = one(&example, &text, &programs, &folder) {
            faults.push(format!("{example}: {error}"));
        }
    }
    Check { rule: "the program accepts each example", faults }
}

fn one(example: &str, text: &str, programs: &Path, folder: &Path) -> Result<(), String> {
    let name = example.strip_prefix(FOLDER).unwrap_or(example);
    let copy = folder.join(name);
    let root = folder.display().to_string();
    let text = if name.ends_with(".toml") { moved(text, &root) } else { text.to_owned() };
    let made = fs::create_dir_all(folder).and_then(|()| fs::write(&copy, &text));
    made.map_err(|error| format!("{}: {error}", copy.display()))?;
    for directory in directories(&text).filter(|_| name.ends_with(".toml")) {
        fs::create_dir_all(directory).map_err(|error| format!("{directory}: {error}"))?;
    }
    let (copy, leasehold) = (copy.display().to_string(), programs.join("leasehold"));
    let leasehold = leasehold.display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}", programs.display());
    let mounts = format!("DIR={root}/mounts");
    let words: &[&str] = match name.rsplit('.').next() {
        Some("toml") => &[&leasehold, "check", "--config", &copy],
        Some("json") => &[&leasehold, "lab", "check", &copy],
        // A script mounts, and passes this option on to the mount.
        Some("sh") => &["env", &path, &mounts, "sh", &copy, "--fake"],
        Some("md") => return Ok(()),
        _ => return Err("no command checks a file of this kind".to_owned()),
    };
    let succeeded = program::run(folder, words, LIMIT).succeeded;
    if succeeded { Ok(()) } else { Err(format!("{} fails", words.join(" "))) }
}

/// Moves all paths of a configuration below a folder.
fn moved(text: &str, root: &str) -> String {
    text.replace("\"/", &format!("\"{root}/"))
}

/// Returns the directories of a configuration.
fn directories(text: &str) -> impl Iterator<Item = &str> {
    let value = |line: &str| line.starts_with("directory = ") || line.starts_with("stripe = ");
    text.lines().filter(move |line| value(line)).flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        line.split('"').skip(1).step_by(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_configuration_move_below_a_folder() {
        let text = "directory = \"/srv/a\" # not \"b\"\nstripe = [\"/x\", \"/y\"]\nname = \"z\"\n";
        let text = moved(text, "/t");
        assert_eq!(directories(&text).collect::<Vec<_>>(), ["/t/srv/a", "/t/x", "/t/y"]);
        assert!(text.ends_with("name = \"z\"\n"));
    }
}
