//! Removes what cases have made, and nothing else: a name is given, and all below it goes.

use leasehold_wire::nfs3::{self, FileType, Status};
use leasehold_wire::{nfs2, nfs3::remove};

use crate::case::{Stop, ensure};
use crate::v2::{self, V2};
use crate::v3::{self, V3, place, procedure};

/// The size of replies that list what is to be removed, in bytes.
const LIST_BYTES: u32 = 32 << 10;

/// A directory that is being emptied, and where its name is.
struct Level<Handle> {
    parent: Handle,
    name: Vec<u8>,
    directory: Handle,
}

/// Directories within each other that cases make, at most.
const DEPTH_MAX: usize = 64;

/// How often a directory is emptied again, because a call that nobody waited for came late.
const LATE_MAX: usize = 20;

/// Whether a name is one in its directory; a server that lists others is not followed there.
fn is_real(name: &[u8]) -> bool {
    name != b"." && name != b".." && !name.contains(&b'/')
}

/// Removes a name and all below it, with version 3.
pub(crate) fn version3(v3: &mut V3, parent: nfs3::Handle, name: &[u8]) -> Result<(), Stop> {
    let Some(directory) = directory3(v3, parent, name)? else {
        return Ok(());
    };
    let mut levels = vec![Level { parent, name: name.to_vec(), directory }];
    let mut late = 0;
    while let Some(level) = levels.last() {
        let (inside, parent, name) = (level.directory, level.parent, level.name.clone());
        match empty3(v3, inside)? {
            Some((name, directory)) => levels.push(Level { parent: inside, name, directory }),
            None => {
                let removed = v3.rmdir(parent, &name)?;
                if late < LATE_MAX && removed.status() == Some(Status::NotEmpty) {
                    late += 1;
                    continue;
                }
                removed.done()?;
                let gone = !v3.lookup(parent, &name)?.is_done();
                ensure!(gone, "{} is still there after RMDIR", name.escape_ascii());
                levels.pop();
            }
        }
        ensure!(levels.len() < DEPTH_MAX, "directories lie within each other without end");
    }
    Ok(())
}

/// The directory of a name, made usable; where the name is none of a directory it is removed.
fn directory3(
    v3: &mut V3,
    parent: nfs3::Handle,
    name: &[u8],
) -> Result<Option<nfs3::Handle>, Stop> {
    let object = match v3.lookup(parent, name)?.either() {
        Ok(found) => found.object,
        Err((Status::NotFound, _)) => return Ok(None),
        Err((status, _)) => {
            let name = name.escape_ascii();
            return Err(Stop::fail(format!("{name} cannot be removed: LOOKUP gives {status:?}")));
        }
    };
    if v3.is(object, FileType::Directory)? {
        v3.setattr(object, v3::mode(0o700))?.done()?;
        return Ok(Some(object));
    }
    v3.remove(parent, name)?.done()?;
    Ok(None)
}

/// Removes all names in a directory; comes back early with a directory that has to be emptied
/// first.
fn empty3(v3: &mut V3, directory: nfs3::Handle) -> Result<Option<(Vec<u8>, nfs3::Handle)>, Stop> {
    let names = v3.list(directory, LIST_BYTES)?;
    let names: Vec<Vec<u8>> =
        names.into_iter().map(|entry| entry.name).filter(|name| is_real(name)).collect();
    let args: Vec<remove::Args<'_>> = names.iter().map(|name| place(directory, name)).collect();
    // Most names are files; what stays is looked at.
    v3.client.call_many(procedure(remove::NUMBER), &args)?;
    let left = v3.list(directory, LIST_BYTES)?;
    for entry in left.into_iter().filter(|entry| is_real(&entry.name)) {
        if let Some(found) = directory3(v3, directory, &entry.name)? {
            return Ok(Some((entry.name, found)));
        }
    }
    Ok(None)
}

/// Removes a name and all below it, with version 2.
pub(crate) fn version2(v2: &mut V2, parent: nfs2::Handle, name: &[u8]) -> Result<(), Stop> {
    let Some(directory) = directory2(v2, parent, name)? else {
        return Ok(());
    };
    let mut levels = vec![Level { parent, name: name.to_vec(), directory }];
    while let Some(level) = levels.last() {
        let (inside, parent, name) = (level.directory, level.parent, level.name.clone());
        match empty2(v2, inside)? {
            Some((name, directory)) => levels.push(Level { parent: inside, name, directory }),
            None => {
                v2.rmdir(parent, &name)?.done()?;
                let gone = !v2.lookup(parent, &name)?.is_done();
                ensure!(gone, "{} is still there after RMDIR", name.escape_ascii());
                levels.pop();
            }
        }
        ensure!(levels.len() < DEPTH_MAX, "directories lie within each other without end");
    }
    Ok(())
}

fn directory2(
    v2: &mut V2,
    parent: nfs2::Handle,
    name: &[u8],
) -> Result<Option<nfs2::Handle>, Stop> {
    let found = match v2.lookup(parent, name)?.either() {
        Ok(found) => found,
        Err((nfs2::Status::NotFound, ())) => return Ok(None),
        Err((status, ())) => {
            let name = name.escape_ascii();
            return Err(Stop::fail(format!("{name} cannot be removed: LOOKUP gives {status:?}")));
        }
    };
    if found.attributes.file_type == nfs2::FileType::Directory {
        v2.setattr(found.object, v2::mode(0o700))?.done()?;
        return Ok(Some(found.object));
    }
    v2.remove(parent, name)?.done()?;
    Ok(None)
}

fn empty2(v2: &mut V2, directory: nfs2::Handle) -> Result<Option<(Vec<u8>, nfs2::Handle)>, Stop> {
    for entry in v2.list(directory, 8 << 10)?.into_iter().filter(|entry| is_real(&entry.name)) {
        if let Some(found) = directory2(v2, directory, &entry.name)? {
            return Ok(Some((entry.name, found)));
        }
    }
    Ok(None)
}
