//! The counts of a copy, and their observer.

use std::cell::RefCell;

/// The numbers of objects and bytes in a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The number of files.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The number of symbolic links.
    pub symlinks: u64,
    /// The bytes of all files.
    pub bytes: u64,
    /// The bytes that were written again because a server restarted.
    pub bytes_written_again: u64,
    /// The number of objects other than files, directories and symbolic links, which a copy skips.
    pub skipped: u64,
    /// The number of objects that were not copied because of an error.
    pub failed: u64,
}

/// The observer of a copy.
pub trait Watch {
    /// Receives the counts so far, after each change.
    fn counted(&self, copied: &Copied);

    /// Receives the reason why an object was not copied. The copy continues with other objects.
    fn complained(&self, text: &str);
}

/// Counts the copied objects for an observer.
pub(crate) struct Tally<'a> {
    copied: RefCell<Copied>,
    watch: &'a dyn Watch,
}

impl<'a> Tally<'a> {
    pub(crate) fn new(watch: &'a dyn Watch) -> Self {
        Self { copied: RefCell::default(), watch }
    }

    pub(crate) fn add_bytes(&self, bytes: u64, again: bool) {
        self.count(|copied| {
            let sum = if again { &mut copied.bytes_written_again } else { &mut copied.bytes };
            *sum += bytes;
        });
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Copied)) {
        add(&mut self.copied.borrow_mut());
        self.watch.counted(&self.total());
    }

    pub(crate) fn complain(&self, text: &str) {
        self.watch.complained(text);
    }

    pub(crate) fn total(&self) -> Copied {
        *self.copied.borrow()
    }
}
