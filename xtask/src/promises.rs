//! SEMANTICS.md and SECURITY.md name only existing tests.

use std::path::Path;

use crate::check::Check;
use crate::documents::in_code;
use crate::repository::{Package, Repository};

/// The documents with promises, and with attacks against them.
const DOCUMENTS: [&str; 2] = ["SEMANTICS.md", "SECURITY.md"];

/// Checks every `crate: module::test` after a promise or an attack.
pub(crate) fn checks(repository: &Repository) -> Vec<Check> {
    let (files, packages) = (repository.files(), repository.packages());
    let faults = |document: &&str| faults(repository, &files, &packages, document);
    let faults = DOCUMENTS.iter().flat_map(faults).collect();
    vec![Check { rule: "promises and attacks name only tests that exist", faults }]
}

fn faults(
    repository: &Repository,
    files: &[String],
    packages: &[Package],
    document: &str,
) -> Vec<String> {
    let Some(text) = repository.text(document) else {
        return vec![format!("{document} is missing")];
    };
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let tests = in_code(line).filter_map(|code| Some((code, code.split_once(": ")?)));
        let missing = tests.filter(|(_, (package, test))| {
            let folder = folder(repository, packages, package);
            !folder.is_some_and(|folder| is_there(repository, files, &folder, test))
        });
        faults.extend(missing.map(|(code, _)| format!("{document}:{number}: no test {code}")));
    }
    faults
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
fn is_there(repository: &Repository, files: &[String], folder: &str, test: &str) -> bool {
    let name = test.rsplit("::").next().unwrap_or_default();
    let (function, entry) = (format!("fn {name}("), format!("\"{name}\""));
    files.iter().filter(|path| path.starts_with(folder)).any(|path| {
        let is_file = Path::new(path).file_stem().is_some_and(|stem| stem == name);
        let text = repository.text(path).unwrap_or_default();
        is_file || text.contains(&function) || text.contains(&entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_a_function_or_a_file() {
        let repository = Repository::here();
        let files = ["tests/system/tests/kernel.rs".to_owned(), "xtask/src/promises.rs".to_owned()];
        let has = |folder, test| is_there(&repository, &files, folder, test);
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
