//! A disk of a guest: an image in a file, with a file system in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::{Scratch, output, program};

/// The kinds of file systems that a server is tried on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileSystem {
    /// Ext4 as it is usually made.
    Ext4,
    /// Ext4 without a journal, which is repaired after each crash.
    Ext4WithoutJournal,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl FileSystem {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Ext4, Self::Ext4WithoutJournal, Self::Xfs, Self::Btrfs];

    /// The program that makes one and the words that go with it.
    const fn maker(self) -> (&'static str, &'static [&'static str]) {
        // Nothing is left to be done in the background when it is mounted.
        match self {
            Self::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0"]),
            Self::Ext4WithoutJournal => {
                ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0", "-O", "^has_journal"])
            }
            Self::Xfs => ("mkfs.xfs", &["-q", "-f"]),
            Self::Btrfs => ("mkfs.btrfs", &["-q", "-f"]),
        }
    }

    /// Whether a change that nobody was told of is there as a whole after a crash, or not at all,
    /// with the change time of what got or lost a name. On btrfs the sync of a directory does not
    /// take along the other one of a move.
    pub(crate) const fn is_atomic(self) -> bool {
        match self {
            Self::Ext4 | Self::Xfs => true,
            Self::Ext4WithoutJournal | Self::Btrfs => false,
        }
    }

    /// Whether what has lost its last name is gone after a crash. A repair keeps it aside.
    pub(crate) const fn forgets_removed(self) -> bool {
        match self {
            Self::Ext4 | Self::Xfs | Self::Btrfs => true,
            Self::Ext4WithoutJournal => false,
        }
    }

    /// Whether a program has to repair it after each crash.
    pub(crate) const fn is_repaired(self) -> bool {
        match self {
            Self::Ext4WithoutJournal => true,
            Self::Ext4 | Self::Xfs | Self::Btrfs => false,
        }
    }

    /// The kernel's name for it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4WithoutJournal => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }
}

/// An image with a file system; goes when this is dropped.
pub(crate) struct Disk {
    folder: Scratch,
    kind: FileSystem,
}

impl Disk {
    /// Makes a disk of a size; `words` go to the program that makes the file system.
    ///
    /// # Panics
    /// If it cannot be made.
    pub(crate) fn new(kind: FileSystem, bytes: u64, words: &[&str]) -> Self {
        let disk = Self { folder: Scratch::new("disk"), kind };
        let image = File::create(disk.path()).expect("a new folder can be written to");
        image.set_len(bytes).expect("a file can have holes");
        let (maker, usual) = kind.maker();
        output(Command::new(program(maker)).args(usual).args(words).arg(disk.path()));
        disk
    }

    /// Where the image is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Makes it fit to be mounted again after a crash, where the file system does not do so itself.
    ///
    /// # Panics
    /// If it is beyond repair.
    pub(crate) fn repair(&self) {
        if self.kind.is_repaired() {
            check(&self.path());
        }
    }
}

/// Repairs an ext4 file system.
pub(crate) fn check(image: &Path) {
    /// The highest exit status that means that all is well now.
    const REPAIRED: i32 = 1;
    let done = Command::new(program("e2fsck")).arg("-fy").arg(image).output();
    let done = done.expect("e2fsck can be run");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.code().is_some_and(|code| code <= REPAIRED), "beyond repair: {said}");
}
