//! The project's files and crates, as listed by git and cargo.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::program;

/// The working tree.
pub(crate) struct Repository {
    root: PathBuf,
}

impl Repository {
    /// Returns the tree for which cargo runs this program, or the tree from which it was built:
    /// several trees may share one output folder of cargo.
    pub(crate) fn here() -> Self {
        let manifest = env::var("CARGO_MANIFEST_DIR");
        let manifest = manifest.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&manifest).parent();
        Self { root: root.expect("this crate lies in the tree").to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the paths of all tracked or new files, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        // The list of files is safe to read, independent of the owner of the tree.
        let git = ["git", "-c", "safe.directory=*", "ls-files"];
        let words = [&git[..], &["--cached", "--others", "--exclude-standard"]].concat();
        let listing = program::output(&self.root, &words).expect("the tree is a git work tree");
        let mut files: Vec<String> = listing.lines().map(str::to_owned).collect();
        files.retain(|path| self.exists(path));
        files.sort();
        files
    }

    pub(crate) fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns a file's text, or `None` if it is not text.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(fs::read(self.root.join(path)).ok()?).ok()
    }

    /// Returns all tracked or new text files, in order.
    pub(crate) fn texts(&self) -> Vec<File> {
        let file = |path: String| Some(File { text: self.text(&path)?, path });
        self.files().into_iter().filter_map(file).collect()
    }

    /// Writes a file; prints a message and returns false on failure.
    pub(crate) fn write(&self, path: &str, text: &str) -> bool {
        let written = fs::write(self.root.join(path), text);
        if let Err(error) = &written {
            println!("cannot write {path}: {error}");
        }
        written.is_ok()
    }

    /// Returns cargo's output folder, which a variable or a setting of cargo may change.
    pub(crate) fn target(&self) -> PathBuf {
        self.metadata().target_directory
    }

    /// Returns the crates of the workspace.
    pub(crate) fn packages(&self) -> Vec<Package> {
        self.metadata().packages
    }

    fn metadata(&self) -> Metadata {
        let words = ["cargo", "metadata", "--format-version=1", "--no-deps"];
        let json = program::output(&self.root, &words).expect("the manifests can be read");
        serde_json::from_str(&json).expect("cargo writes this format")
    }
}

/// A text file of the tree.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

/// A crate in the output of `cargo metadata`.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// A dependency in a manifest.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build` or `None`.
    pub(crate) kind: Option<String>,
    /// The folder of a crate of this workspace.
    pub(crate) path: Option<PathBuf>,
}
