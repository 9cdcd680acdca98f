//! The directories below an exported directory where other file systems begin: mount points, and
//! subvolumes of btrfs.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_base::units::FileTime;
use leasehold_fs::Attributes;
use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use serde::Serialize;

use crate::mountinfo::{self, Mount};

/// The maximum number of names in the search for subvolumes, which the system does not list for
/// unprivileged users.
const NAMES_MAX: usize = 10_000;

/// A directory where another file system begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Begins {
    /// The directory.
    pub path: PathBuf,
    /// The kind of the file system: `ext4`; `subvolume` for a subvolume that is not mounted.
    pub kind: String,
}

/// The kind of a subvolume that is not a mount.
const SUBVOLUME: &str = "subvolume";

impl Begins {
    /// Describes the file system.
    #[must_use]
    pub fn thing(&self) -> String {
        match &*self.kind {
            SUBVOLUME => "a subvolume begins there".to_owned(),
            kind => format!("a file system ({kind}) is mounted there"),
        }
    }

    /// Describes the directory that clients see where the other file system begins. `crosses` is
    /// true if the export lets clients enter that file system.
    #[must_use]
    pub fn words(&self, crosses: bool) -> String {
        let thing = self.thing();
        if crosses {
            return format!("{thing}, which this export crosses (cross = true)");
        }
        let text =
            "which this export does not cross (cross = true): clients see an empty directory";
        format!("{thing}, {text}")
    }

    /// Returns the path, followed by the description of [`Self::words`].
    #[must_use]
    pub fn line(&self, crosses: bool) -> String {
        format!("{}: {}", self.path.display(), self.words(crosses))
    }
}

/// Returns true if a store generated these attributes for a placeholder: the empty directory that
/// clients see in place of a file system that they cannot enter.
#[must_use]
pub fn is_placeholder(attributes: &Attributes) -> bool {
    let never = FileTime { seconds: 0, nanoseconds: 0 };
    (attributes.changed, attributes.mode.bits() & 0o7777) == (never, 0o555)
}

/// Returns the directories below `directory` where other file systems begin. The search for
/// subvolumes covers the first 10,000 names.
#[must_use]
pub fn find(directory: &Path, mounts: &[Mount]) -> Vec<Begins> {
    let points = mounts.iter().filter(|mount| {
        mount.point != directory
            && mount.point.starts_with(directory)
            // A later mount may hide this mount point: a hidden mount has another id than the path.
            && seen(&mount.point).is_some_and(|seen| seen.stx_mnt_id == mount.id)
    });
    let mut all: Vec<_> = points
        .map(|mount| Begins { path: mount.point.clone(), kind: mount.kind.clone() })
        .collect();
    let is_btrfs = mountinfo::below(directory, mounts).is_some_and(|mount| mount.kind == "btrfs");
    if is_btrfs {
        all.extend(subvolumes(directory));
    }
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

/// Returns the first directory on the path from `directory` down to `path` where another file
/// system begins.
#[must_use]
pub fn on_the_way(directory: &Path, path: &Path) -> Option<Begins> {
    let below = path.strip_prefix(directory).ok()?;
    let mut place = directory.to_path_buf();
    for name in below {
        let above = place.clone();
        place.push(name);
        if let Some(begins) = between(&above, &place) {
            return Some(begins);
        }
    }
    None
}

/// Returns the directory `place`, if `place` lies on another file system than the directory
/// `above`.
#[must_use]
pub fn between(above: &Path, place: &Path) -> Option<Begins> {
    let (above, there) = (seen(above)?, seen(place)?);
    let kind = if above.stx_mnt_id != there.stx_mnt_id {
        let mounts = mountinfo::read();
        let mount = mounts.into_iter().find(|mount| mount.id == there.stx_mnt_id);
        mount.map_or_else(|| "unknown".to_owned(), |mount| mount.kind)
    } else if device(&above) != device(&there) {
        SUBVOLUME.to_owned()
    } else {
        return None;
    };
    Some(Begins { path: place.to_path_buf(), kind })
}

/// Returns the subvolumes on the mount of a directory.
fn subvolumes(directory: &Path) -> Vec<Begins> {
    let Some(top) = seen(directory) else { return Vec::new() };
    let mut found = Vec::new();
    let mut queue = VecDeque::from([directory.to_path_buf()]);
    let mut names = 0;
    while let Some(next) = queue.pop_front() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            names += 1;
            if names > NAMES_MAX {
                return found;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let path = entry.path();
            let Some(there) = seen(&path).filter(|_| is_directory) else { continue };
            if there.stx_mnt_id != top.stx_mnt_id {
                continue;
            }
            if device(&there) == device(&top) {
                queue.push_back(path);
            } else {
                found.push(Begins { path, kind: SUBVOLUME.to_owned() });
            }
        }
    }
    found
}

fn device(seen: &Statx) -> (u32, u32) {
    (seen.stx_dev_major, seen.stx_dev_minor)
}

fn seen(path: &Path) -> Option<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(CWD, path, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()
}
