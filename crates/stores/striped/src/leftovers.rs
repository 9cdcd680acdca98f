//! Leftovers: stripe objects on iods that belong to no file.
//!
//! A search lists the objects of the iods first, and then reads the metafiles. This order is safe
//! because an object is created only after a metafile contains its object name, or while a task is
//! about to write the object name to a metafile. The module `search` handles files that change
//! during the search.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use leasehold_fs::FsError;

use crate::iod::{Extent, Iod, ObjectName};
use crate::metafile::Placed;

/// The maximum number of objects of one iod that a task queries or removes at once.
pub(crate) const AT_ONCE: usize = 16;

/// The objects of the iods that no metafile read so far contains; 16 bytes and some overhead for
/// each object.
#[derive(Debug)]
pub struct Listed {
    volume: u64,
    iods: Vec<Option<ListedOf>>,
    is_volumes: bool,
}

/// The objects of one iod.
#[derive(Debug)]
struct ListedOf {
    all: u64,
    left: BTreeSet<ObjectName>,
}

/// The objects that belong to no file, for each iod in the order of the list; `None` for an iod
/// that did not answer.
#[derive(Debug)]
pub struct Leftovers {
    /// The leftover objects of each iod.
    pub iods: Vec<Option<LeftOf>>,
    /// True if any metafile belongs to the volume.
    pub is_volumes: bool,
}

/// The objects of one iod that belong to no file.
#[derive(Debug)]
pub struct LeftOf {
    /// The number of all objects of the iod.
    pub all: u64,
    /// The objects that belong to no file, with the extents that the search found.
    pub objects: Vec<(ObjectName, Extent)>,
}

/// Lists all objects of an iod.
///
/// # Errors
/// The error of the iod.
pub async fn list(iod: &dyn Iod) -> Result<Vec<ObjectName>, FsError> {
    let mut objects = Vec::new();
    for first in 0..=u8::MAX {
        objects.extend(iod.list(first).await?);
    }
    Ok(objects)
}

/// Removes a leftover object if its extent is still `found`; returns true if the object is gone.
pub async fn remove(iod: &dyn Iod, object: ObjectName, found: &Extent) -> bool {
    match iod.extent(object).await {
        // An unchanged object has no writer, so it is safe to remove the object.
        Ok(now) if is_same(&now, found) => iod.remove(object).await.is_ok(),
        Ok(now) => is_none(&now),
        Err(_) => false,
    }
}

impl Listed {
    /// Lists the objects of the iods of a volume; `None` means that the iod did not answer.
    #[must_use]
    pub fn new(volume: u64, iods: Vec<Option<Vec<ObjectName>>>) -> Self {
        let of = |objects: Vec<ObjectName>| ListedOf {
            all: objects.len() as u64,
            left: objects.into_iter().collect(),
        };
        let iods = iods.into_iter().map(|listed| listed.map(of)).collect();
        Self { volume, iods, is_volumes: false }
    }

    /// Takes the objects of a file off the list.
    pub fn found(&mut self, file: &Placed) {
        self.is_volumes |= file.volume == self.volume;
        file.objects().into_iter().for_each(|object| self.take(object));
    }

    /// Takes an object off the list.
    pub(crate) fn take(&mut self, object: ObjectName) {
        for iod in self.iods.iter_mut().flatten() {
            iod.left.remove(&object);
        }
    }

    /// Returns all remaining objects; an object on several iods occurs several times.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectName> {
        self.iods.iter().flatten().flat_map(|iod| iod.left.iter().copied())
    }

    /// Takes all objects off the list for which `is_left` returns false.
    pub(crate) fn retain(&mut self, is_left: impl Fn(ObjectName) -> bool) {
        for iod in self.iods.iter_mut().flatten() {
            iod.left.retain(|object| is_left(*object));
        }
    }

    /// Returns true if an object remains in the list.
    pub(crate) fn has(&self, object: ObjectName) -> bool {
        self.iods.iter().flatten().any(|iod| iod.left.contains(&object))
    }

    /// Returns true if no object remains.
    pub(crate) fn is_empty(&self) -> bool {
        self.iods.iter().flatten().all(|iod| iod.left.is_empty())
    }

    /// Returns the remaining objects with their current extents on these iods, without objects that
    /// no longer exist.
    pub async fn measured(self, iods: &[&dyn Iod]) -> Leftovers {
        let mut measured = Vec::new();
        for (listed, iod) in self.iods.into_iter().zip(iods) {
            let Some(ListedOf { all, left }) = listed else {
                measured.push(None);
                continue;
            };
            let asked = stream::iter(left).map(|object| async move {
                iod.extent(object).await.map(|extent| (object, extent))
            });
            let found: Result<Vec<_>, FsError> = asked.buffered(AT_ONCE).try_collect().await;
            // An iod that stops answering now counts like an iod that never answered.
            measured.push(found.ok().map(|mut objects| {
                objects.retain(|(_, extent)| !is_none(extent));
                LeftOf { all, objects }
            }));
        }
        Leftovers { iods: measured, is_volumes: self.is_volumes }
    }
}

impl Leftovers {
    /// Returns the number of objects of all iods that answered.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.iods.iter().flatten().map(|iod| iod.all).sum()
    }

    /// Returns the number of objects that belong to no file.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.iods.iter().flatten().map(LeftOf::count).sum()
    }

    /// Returns true if most objects belong to no file, as when the metafiles belong to another
    /// volume, or when some of them are missing.
    #[must_use]
    pub fn are_most(&self) -> bool {
        let count = self.count();
        count > 0 && (!self.is_volumes || 2 * count > self.all())
    }
}

impl LeftOf {
    /// Returns the number of objects that belong to no file.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Returns the total size in bytes of the leftover objects.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|(_, extent)| extent.size).sum()
    }
}

/// Returns true if an object has not changed. Ignores the disk usage, which may become exact some
/// time after a write.
fn is_same(now: &Extent, then: &Extent) -> bool {
    (now.size, now.owner, now.modified) == (then.size, then.owner, then.modified)
}

/// Returns true if this is the extent that an iod reports for an object that does not exist.
fn is_none(extent: &Extent) -> bool {
    *extent == Extent::default()
}
