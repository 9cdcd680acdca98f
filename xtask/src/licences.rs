//! The policy on outside crates in `deny.toml`: licences that permit each user to use, change and
//! sell a crate, one version of each crate, and the registry as the only source.

use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{POLICY, ensure, tools_folder};

/// Each check reads the manifests and the crates of the lock file, which takes seconds; the first
/// check may have to download the crates.
const LIMIT: Duration = Duration::from_mins(5);

/// The checks that need only the crates.
const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs every check of the policy.
pub(crate) fn run(repository: &Repository) -> Tally {
    if !ensure(POLICY) {
        return Tally::of(false);
    }
    let advisories = match database() {
        Some(_) => &["advisories"][..],
        None => {
            println!("no database of advisories is at hand: `cargo deny fetch` brings one");
            &[]
        }
    };
    let checks = CHECKS.iter().chain(advisories);
    checks.map(|check| Tally::of(is_kept(repository, check))).sum()
}

fn is_kept(repository: &Repository, check: &str) -> bool {
    let deny = tools_folder().join("bin/cargo-deny").display().to_string();
    let mut words = vec![&*deny, "--log-level", "warn", "check"];
    if check == "advisories" {
        // The gate uses the database of the machine and downloads none, so that a test has one
        // result for each commit.
        words.push("--disable-fetch");
    }
    words.push(check);
    program::run(repository.root(), &words, LIMIT).succeeded
}

/// Returns the folder with databases of advisories, if the machine has one.
fn database() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?;
    let folder = home.join("advisory-dbs");
    let is_filled = fs::read_dir(&folder).is_ok_and(|mut names| names.next().is_some());
    is_filled.then_some(folder)
}
