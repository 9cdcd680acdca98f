//! The pages: built into the files that are kept, and tested in a browser.

use std::fs;
use std::time::Duration;

use crate::check::Tally;
use crate::program;
use crate::repository::Repository;
use crate::setup::{PAGE, PAGE_LAB, ensure};
use crate::test::{BUILD_LIMIT, tool};

const FOLDER: &str = "page";
const ASSETS: &str = "crates/lab/page/assets";

/// What is built, and where it is kept.
const BUILT: [(&str, &str); 2] = [
    ("dist/index.html", "crates/lab/page/assets/page.html"),
    ("dist/live.html", "crates/operate/view/assets/live.html"),
];
const LAB: &str = "target/wasm32-unknown-unknown/page/leasehold_lab_web.wasm";

const LIMIT: Duration = Duration::from_mins(10);

/// What npm brings is written down in its lock file; nothing of it runs while it is installed.
const INSTALL: &[&str] =
    &["npm", "ci", "--ignore-scripts", "--prefer-offline", "--fetch-retries=5", "--loglevel=error"];

/// Runs the page's tests within a quarter of an hour, beside what they need.
pub(crate) fn test(repository: &Repository) -> Tally {
    let build = ["cargo", "build", "--quiet", "--package", "leasehold"];
    let folder = repository.root().join(FOLDER);
    let ready = ensure(PAGE)
        && program::run(repository.root(), &build, BUILD_LIMIT).succeeded
        && program::run(&folder, INSTALL, LIMIT).succeeded;
    if !ready {
        return Tally::of(false);
    }
    let types = program::run(&folder, &["npm", "run", "--silent", "check"], LIMIT).succeeded;
    let prefix = ["npm", "--prefix", FOLDER, "run", "--silent", "test"];
    [Tally::of(types), tool(repository, 15, &[], &prefix)].into_iter().sum()
}

/// Builds what is kept: the page, and the laboratory behind it where that is wanted.
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
                println!("{page} was not kept: {error}");
            }
            copied.is_ok()
        })
}

/// The compiler's version shows in what it builds, so the test compares answers, not bytes.
fn build_lab(repository: &Repository) -> bool {
    let words = ["cargo", "build", "--quiet", "--profile", "page", "--package"];
    let target = ["leasehold-lab-web", "--target", "wasm32-unknown-unknown"];
    let words = [&words[..], &target].concat();
    // Where the compiler is another one, it brings its own targets.
    let ready = std::env::var_os("RUSTC").is_some() || ensure(PAGE_LAB);
    let pack = format!("gzip -9 -n -c {LAB} > {ASSETS}/lab.wasm.gz");
    ready
        && program::run(repository.root(), &words, LIMIT).succeeded
        && program::run(repository.root(), &["sh", "-c", &pack], LIMIT).succeeded
}
