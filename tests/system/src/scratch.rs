//! Folders that go when the test ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A new empty folder, removed with all in it when this is dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes a folder; `name` only helps whoever looks.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("leasehold-{name}-{}-{number}", process::id()));
        // It may be left from a process of the same number that was killed.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the folder for temporary files can be written to");
        Self(path)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left costs no more than space, and the test may be failing already.
        let _ = fs::remove_dir_all(&self.0);
    }
}
