//! A separate file system for a measurement: ext4 with a journal, on an image.
//!
//! The cost of file creation and removal differs by a factor of twenty between this file system and
//! some machines' own file systems without a journal. A fixed file system makes the figures
//! comparable.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted image; dropping this value removes it.
pub(crate) struct Disk {
    mounted: PathBuf,
    _folder: TempDir,
}

const BYTES: u64 = 4 << 30;

impl Disk {
    pub(crate) fn make() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let image = folder.path().join("image");
        std::fs::File::create(&image)?.set_len(BYTES)?;
        run(Command::new("mkfs.ext4").arg("-q").arg("-F").arg(&image))?;
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted)?;
        run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mounted))?;
        Ok(Self { mounted, _folder: folder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg("-l").arg(&self.mounted)) {
            eprintln!("bench: {error}");
        }
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?} failed: {status}")))
}
