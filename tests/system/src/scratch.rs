//! Temporary folders that are removed at the end of a test.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A new empty folder; dropping this value removes it with its contents.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates a folder; `name` is only for human readers.
    ///
    /// # Panics
    /// Panics if the folder cannot be created.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("leasehold-{name}-{}-{number}", process::id()));
        // A killed process with the same number may have left the folder.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("the folder for temporary files can be written to");
        Self(path)
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover folder costs only space, and the test may have failed already.
        let _ = fs::remove_dir_all(&self.0);
    }
}
