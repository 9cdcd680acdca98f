//! A disk of a guest: an image in a file, with a file system in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::{Scratch, output, program};

/// The kinds of file systems under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// Ext4 with default options.
    Ext4,
    /// Ext4 without a journal, which needs a repair after each crash.
    Ext4WithoutJournal,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Ext4, Self::Ext4WithoutJournal, Self::Xfs, Self::Btrfs];

    /// Returns the program that makes the file system, and its arguments.
    const fn maker(self) -> (&'static str, &'static [&'static str]) {
        // Options that leave no background work after the mount.
        match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0"]),
            Self::Ext4WithoutJournal => {
                ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", "-O", "^has_journal"])
            }
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }

    /// Returns true if an unacknowledged change is complete or absent after a crash, together with
    /// the change time of the affected objects. On btrfs the sync of one directory of a rename does
    /// not include the other directory.
    pub(crate) const fn is_atomic(self) -> bool {
        match self {
            Self::Ext4 | Self::Xfs => true,
            Self::Ext4WithoutJournal | Self::Btrfs => false,
        }
    }

    /// Returns true if an object without names is gone after a crash. A repair keeps it in another
    /// place.
    pub(crate) const fn forgets_removed(self) -> bool {
        match self {
            Self::Ext4 | Self::Xfs | Self::Btrfs => true,
            Self::Ext4WithoutJournal => false,
        }
    }

    /// Returns true if a program must repair the file system after each crash.
    pub(crate) const fn is_repaired(self) -> bool {
        match self {
            Self::Ext4WithoutJournal => true,
            Self::Ext4 | Self::Xfs | Self::Btrfs => false,
        }
    }

    /// Returns the kernel's name of the file system.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4WithoutJournal => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

/// An image with a file system; dropping this value removes it.
pub(crate) struct Disk {
    folder: Scratch,
    kind: FileSystem,
}

impl Disk {
    /// Makes a disk of a size; `words` are arguments for the program that makes the file system.
    ///
    /// # Panics
    /// Panics if the image cannot be made.
    pub(crate) fn new(kind: FileSystem, bytes: u64, words: &[&str]) -> Self {
        let disk = Self { folder: Scratch::new("disk"), kind };
        let image = File::create(disk.path()).expect("a new folder can be written to");
        image.set_len(bytes).expect("a file can have holes");
        let (maker, usual) = kind.maker();
        output(Command::new(program(maker)).args(usual).args(words).arg(disk.path()));
        disk
    }

    /// Returns the path of the image.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Prepares the file system for a mount after a crash, if it does not recover by itself.
    ///
    /// # Panics
    /// Panics if the repair fails.
    pub(crate) fn repair(&self) {
        if self.kind.is_repaired() {
            check(&self.path());
        }
    }
}

/// Repairs an ext4 file system.
pub(crate) fn check(image: &Path) {
    /// The highest exit status of a successful repair.
    const REPAIRED: i32 = 1;
    let done = Command::new(program("e2fsck")).arg("-fy").arg(image).output();
    let done = done.expect("e2fsck can be run");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.code().is_some_and(|code| code <= REPAIRED), "beyond repair: {said}");
}
