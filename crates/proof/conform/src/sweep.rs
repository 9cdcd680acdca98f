//! Removes the objects of cases, and nothing else: it receives a name, and removes everything below
//! it.

use core::fmt::Debug;

use leasehold_wire::nfs3::remove;
use leasehold_wire::{nfs2, nfs3};

use crate::case::{Stop, ensure};
use crate::v2::{self, V2};
use crate::v3::{self, V3, place, procedure};

/// The size of replies that list the objects, in bytes.
const LIST_BYTES: u32 = 32 << 10;

/// A directory that is being emptied, with its parent and name.
struct Level<Handle> {
    parent: Handle,
    name: Vec<u8>,
    directory: Handle,
}

/// The largest depth of directories that cases create.
const DEPTH_MAX: usize = 64;

/// The number of attempts to empty a directory again, because an abandoned call ran late.
const LATE_MAX: usize = 20;

/// Returns true for a plain name in its directory; other listed names are ignored.
fn is_real(name: &[u8]) -> bool {
    name != b"." && name != b".." && !name.contains(&b'/')
}

/// A directory that has to be emptied first, with its name.
type Full<Handle> = Option<(Vec<u8>, Handle)>;

/// The operations of a protocol version that removing needs.
pub(crate) trait Version {
    /// The type of handles.
    type Handle: Copy;

    /// Opens the directory of a name and makes it accessible; removes the name if it is not a
    /// directory.
    fn open_or_remove(
        &mut self,
        parent: Self::Handle,
        name: &[u8],
    ) -> Result<Option<Self::Handle>, Stop>;

    /// Removes all names in a directory; returns early with a directory that has to be emptied
    /// first.
    fn empty(&mut self, directory: Self::Handle) -> Result<Full<Self::Handle>, Stop>;

    /// Removes an empty directory; returns false if it is not empty and that is possible.
    fn remove_directory(
        &mut self,
        parent: Self::Handle,
        name: &[u8],
        may_be_full: bool,
    ) -> Result<bool, Stop>;

    /// Returns true if LOOKUP finds a name.
    fn is_there(&mut self, parent: Self::Handle, name: &[u8]) -> Result<bool, Stop>;
}

/// Removes a name and all below it.
pub(crate) fn sweep<V: Version>(
    version: &mut V,
    parent: V::Handle,
    name: &[u8],
) -> Result<(), Stop> {
    let Some(directory) = version.open_or_remove(parent, name)? else {
        return Ok(());
    };
    let mut levels = vec![Level { parent, name: name.to_vec(), directory }];
    let mut late = 0;
    while let Some(level) = levels.last() {
        let (inside, parent, name) = (level.directory, level.parent, level.name.clone());
        if let Some((name, directory)) = version.empty(inside)? {
            levels.push(Level { parent: inside, name, directory });
        } else if version.remove_directory(parent, &name, late < LATE_MAX)? {
            let gone = !version.is_there(parent, &name)?;
            ensure!(gone, "{} still exists after RMDIR", name.escape_ascii());
            levels.pop();
        } else {
            late += 1;
        }
        ensure!(levels.len() < DEPTH_MAX, "directories are nested without end");
    }
    Ok(())
}

fn unremovable(name: &[u8], status: impl Debug) -> Stop {
    let name = name.escape_ascii();
    Stop::fail(format!("{name} cannot be removed: LOOKUP gives {status:?}"))
}

impl Version for V3 {
    type Handle = nfs3::Handle;

    fn open_or_remove(
        &mut self,
        parent: nfs3::Handle,
        name: &[u8],
    ) -> Result<Option<nfs3::Handle>, Stop> {
        let object = match self.lookup(parent, name)?.either() {
            Ok(found) => found.object,
            Err((nfs3::Status::NotFound, _)) => return Ok(None),
            Err((status, _)) => return Err(unremovable(name, status)),
        };
        if self.is(object, nfs3::FileType::Directory)? {
            self.setattr(object, v3::mode(0o700))?.done()?;
            return Ok(Some(object));
        }
        self.remove(parent, name)?.done()?;
        Ok(None)
    }

    fn empty(&mut self, directory: nfs3::Handle) -> Result<Full<nfs3::Handle>, Stop> {
        let names = self.list(directory, LIST_BYTES)?;
        let names: Vec<Vec<u8>> =
            names.into_iter().map(|entry| entry.name).filter(|name| is_real(name)).collect();
        let args: Vec<remove::Args<'_>> = names.iter().map(|name| place(directory, name)).collect();
        // Most names are files; the remaining names are checked.
        self.client.call_many(procedure(remove::NUMBER), &args)?;
        let left = self.list(directory, LIST_BYTES)?;
        for entry in left.into_iter().filter(|entry| is_real(&entry.name)) {
            if let Some(found) = self.open_or_remove(directory, &entry.name)? {
                return Ok(Some((entry.name, found)));
            }
        }
        Ok(None)
    }

    fn remove_directory(
        &mut self,
        parent: nfs3::Handle,
        name: &[u8],
        may_be_full: bool,
    ) -> Result<bool, Stop> {
        let removed = self.rmdir(parent, name)?;
        let is_full = may_be_full && removed.status() == Some(nfs3::Status::NotEmpty);
        if !is_full {
            removed.done()?;
        }
        Ok(!is_full)
    }

    fn is_there(&mut self, parent: nfs3::Handle, name: &[u8]) -> Result<bool, Stop> {
        Ok(self.lookup(parent, name)?.is_done())
    }
}

impl Version for V2 {
    type Handle = nfs2::Handle;

    fn open_or_remove(
        &mut self,
        parent: nfs2::Handle,
        name: &[u8],
    ) -> Result<Option<nfs2::Handle>, Stop> {
        let found = match self.lookup(parent, name)?.either() {
            Ok(found) => found,
            Err((nfs2::Status::NotFound, ())) => return Ok(None),
            Err((status, ())) => return Err(unremovable(name, status)),
        };
        if found.attributes.file_type == nfs2::FileType::Directory {
            self.setattr(found.object, v2::mode(0o700))?.done()?;
            return Ok(Some(found.object));
        }
        self.remove(parent, name)?.done()?;
        Ok(None)
    }

    fn empty(&mut self, directory: nfs2::Handle) -> Result<Full<nfs2::Handle>, Stop> {
        let entries = self.list(directory, 8 << 10)?;
        for entry in entries.into_iter().filter(|entry| is_real(&entry.name)) {
            if let Some(found) = self.open_or_remove(directory, &entry.name)? {
                return Ok(Some((entry.name, found)));
            }
        }
        Ok(None)
    }

    fn remove_directory(
        &mut self,
        parent: nfs2::Handle,
        name: &[u8],
        may_be_full: bool,
    ) -> Result<bool, Stop> {
        let removed = self.rmdir(parent, name)?;
        let is_full = may_be_full && removed.status() == Some(nfs2::Status::NotEmpty);
        if !is_full {
            removed.done()?;
        }
        Ok(!is_full)
    }

    fn is_there(&mut self, parent: nfs2::Handle, name: &[u8]) -> Result<bool, Stop> {
        Ok(self.lookup(parent, name)?.is_done())
    }
}
