//! The book: the documents as pages in `target/book`, in the order of `docs/SUMMARY.md`, and the
//! check of their links.
//!
//! A page is a document at the root, in `docs` or in `examples`. A page has the place of its
//! document, so that a relative link is valid in both.

mod document;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::check::{Check, Tally, report};
use crate::documents::{beside, exists};
use crate::figures;
use crate::repository::Repository;
use crate::setup::{TREE, ensure};
use document::Document;

/// The list of all pages.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The documents of the tree, by path.
type Documents = BTreeMap<String, Document>;

/// Checks the links of all documents, and writes the book.
pub(crate) fn run(repository: &Repository) -> Tally {
    if !ensure(TREE) {
        return Tally::of(false);
    }
    let files = repository.files();
    let documents = documents(repository, &files);
    let folder = repository.target().join("book");
    let written = match write(repository, &documents, &folder) {
        Ok(pages) => {
            println!("{pages} pages in {}", folder.display());
            Vec::new()
        }
        Err(error) => vec![error],
    };
    report(&[
        Check {
            rule: "each link of a document leads to a file and a heading",
            faults: broken(&documents, &files),
        },
        Check { rule: "the summary lists each page once", faults: unlisted(&documents) },
        figures::check(repository),
        Check { rule: "the book can be written", faults: written },
    ])
}

fn documents(repository: &Repository, files: &[String]) -> Documents {
    let paths = files.iter().filter(|path| path.ends_with(".md"));
    let parse = |path: &String| {
        let text = repository.text(path)?;
        Some((path.clone(), Document::parse(&text)))
    };
    paths.filter_map(parse).collect()
}

fn is_page(path: &str) -> bool {
    let in_book = !path.contains('/') || path.starts_with("docs/") || path.starts_with("examples/");
    in_book && path.ends_with(".md") && path != SUMMARY
}

/// Returns the links that lead nowhere.
fn broken(documents: &Documents, files: &[String]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, document) in documents {
        for link in document.links.iter().filter(|link| link.is_local()) {
            let (file, anchor) = link.parts();
            let target = if file.is_empty() { path.clone() } else { beside(path, file) };
            let fault = if !exists(&target, files) {
                Some(format!("no {target}"))
            } else if anchor.is_empty() {
                None
            } else {
                let has_it = |it: &Document| it.anchors.contains(anchor);
                let is_there = documents.get(&target).is_some_and(has_it);
                (!is_there).then(|| format!("no heading #{anchor} in {target}"))
            };
            faults.extend(fault.map(|fault| format!("{path}:{}: {fault}", link.line)));
        }
    }
    faults
}

/// Returns the paths of the pages in the order of the summary.
fn order(documents: &Documents) -> Vec<String> {
    let summary = documents.get(SUMMARY);
    let links = summary.into_iter().flat_map(|summary| &summary.links);
    links.filter(|link| link.is_local()).map(|link| beside(SUMMARY, link.parts().0)).collect()
}

/// Returns the pages that the summary lists never or twice.
fn unlisted(documents: &Documents) -> Vec<String> {
    let mut listed = BTreeSet::new();
    let twice: Vec<_> =
        order(documents).into_iter().filter(|path| !listed.insert(path.clone())).collect();
    let pages = documents.keys().filter(|path| is_page(path));
    let missing = pages.filter(|path| !listed.contains(*path));
    let missing = missing.map(|path| format!("{SUMMARY} does not list {path}"));
    missing.chain(twice.iter().map(|path| format!("{SUMMARY} lists {path} twice"))).collect()
}

/// Writes all pages and the files that they link to, and returns the number of pages.
fn write(repository: &Repository, documents: &Documents, folder: &Path) -> Result<usize, String> {
    let order = order(documents);
    let summary = documents.get(SUMMARY).ok_or_else(|| format!("{SUMMARY} is missing"))?;
    let mut linked = BTreeSet::new();
    for (at, path) in order.iter().enumerate() {
        let document = documents.get(path).ok_or_else(|| format!("{path} is missing"))?;
        let neighbours = [at.checked_sub(1), Some(at + 1)];
        let neighbours = neighbours.map(|at| order.get(at?).map(String::as_str));
        let text = page::render(path, document, summary, neighbours);
        put(&folder.join(page::html(path)), text.as_bytes())?;
        let local = document.links.iter().filter(|link| link.is_local());
        linked.extend(local.map(|link| beside(path, link.parts().0)));
    }
    let copied = linked.iter().filter(|path| repository.root().join(path).is_file());
    for path in copied.filter(|path| !is_page(path)) {
        let bytes = fs::read(repository.root().join(path)).map_err(|error| error.to_string())?;
        put(&folder.join(path), &bytes)?;
    }
    put(&folder.join("style.css"), page::STYLE.as_bytes())?;
    put(&folder.join("index.html"), page::index(&order).as_bytes())?;
    Ok(order.len())
}

fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(texts: &[(&str, &str)]) -> (Documents, Vec<String>) {
        let documents =
            texts.iter().map(|(path, text)| ((*path).to_owned(), Document::parse(text)));
        (documents.collect(), texts.iter().map(|(path, _)| (*path).to_owned()).collect())
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let (documents, files) = tree(&[
            ("README.md", "[a](docs/a.md#a-part) [b](docs/b.md) [c](#here) [web](https://x.org#y)"),
            ("docs/a.md", "# A `part`\n\n[up](../README.md) ![picture](gone.svg)\n"),
        ]);
        let expected = [
            "README.md:1: no docs/b.md",
            "README.md:1: no heading #here in README.md",
            "docs/a.md:3: no docs/gone.svg",
        ];
        assert_eq!(broken(&documents, &files), expected);
    }

    #[test]
    fn each_page_is_listed_once() {
        let (documents, _) = tree(&[
            (SUMMARY, "- [Leasehold](../README.md)\n- [A](a.md)\n- [A](a.md)\n"),
            ("README.md", ""),
            ("docs/a.md", ""),
            ("docs/b.md", ""),
            ("crates/base/notes.md", ""),
        ]);
        let expected =
            ["docs/SUMMARY.md does not list docs/b.md", "docs/SUMMARY.md lists docs/a.md twice"];
        assert_eq!(unlisted(&documents), expected);
    }
}
