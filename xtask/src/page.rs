//! The pages: built into files in the tree, and tested in a browser.

use std::fs;
use std::time::Duration;

use crate::build;
use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{PAGE, PAGE_LAB, ensure};
use crate::test::tool;

const FOLDER: &str = "page";
const ASSETS: &str = "crates/lab/page/assets";

/// The built files, and their places in the tree.
const BUILT: [(&str, &str); 2] = [
    ("dist/index.html", "crates/lab/page/assets/page.html"),
    ("dist/live.html", "crates/operate/view/assets/live.html"),
];
const LAB: &str = "target/wasm32-unknown-unknown/page/leasehold_lab_web.wasm";

const LIMIT: Duration = Duration::from_mins(10);

/// The lock file fixes the packages of npm; the installation runs no script of theirs.
const INSTALL: &[&str] =
    &["npm", "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries=5", "--loglevel=error"];

/// Installs the prerequisites of the page's tests, and runs the tests within a quarter of an hour.
pub(crate) fn test(repository: &Repository) -> Tally {
    let folder = repository.root().join(FOLDER);
    let ready = ensure(PAGE)
        && build::programs(repository, &["leasehold"])
        && program::run(&folder, INSTALL, LIMIT).succeeded;
    if !ready {
        return Tally::of(false);
    }
    let types = program::run(&folder, &["npm", "run", "--silent", "check"], LIMIT).succeeded;
    let prefix = ["npm", "--prefix", FOLDER, "run", "--silent", "test"];
    [Tally::of(types), tool(repository, 15, &[], &prefix)].into_iter().sum()
}

/// Builds the page, and on request the laboratory for it.
pub(crate) fn build(repository: &Repository, lab: bool) -> Tally {
    Tally::of((!lab || build_lab(repository)) && build_page(repository))
}

fn build_page(repository: &Repository) -> bool {
    let folder = repository.root().join(FOLDER);
    let built = ensure(PAGE)
        && program::run(&folder, INSTALL, LIMIT).succeeded
        && program::run(&folder, &["npm", "run", "--silent", "build"], LIMIT).succeeded;
    built
        && BUILT.iter().all(|(page, kept)| {
            let copied = fs::copy(folder.join(page), repository.root().join(kept));
            if let Err(error) = &copied {
                println!("{page} was not copied: {error}");
            }
            copied.is_ok()
        })
}

/// The version of the compiler changes the output, so the test compares replies, not bytes.
fn build_lab(repository: &Repository) -> bool {
    let words = ["cargo", "build", "--quiet", "--profile", "page", "--package"];
    let target = ["leasehold-lab-web", "--target", "wasm32-unknown-unknown"];
    let words = [&words[..], &target].concat();
    // A compiler other than the default has its own targets.
    let ready = std::env::var_os("RUSTC").is_some() || ensure(PAGE_LAB);
    let pack = format!("gzip -9 -n -c {LAB} > {ASSETS}/lab.wasm.gz");
    ready
        && program::run(repository.root(), &words, LIMIT).succeeded
        && program::run(repository.root(), &["sh", "-c", &pack], LIMIT).succeeded
}
