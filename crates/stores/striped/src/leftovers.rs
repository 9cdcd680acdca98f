//! Objects that no file has: what of what iods list is left when all metafiles were looked at.
//!
//! Whoever looks lists what iods have first, and then looks at the metafiles: an object is made
//! after its file says so, or for a file that is about to say so. What is known of that while files
//! are used, `search` knows.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use leasehold_fs::FsError;

use crate::iod::{Extent, Iod, ObjectName};
use crate::metafile::Placed;

/// How many objects of an iod are asked for, or removed, at once.
pub(crate) const AT_ONCE: usize = 16;

/// What iods have, without what files were found to have; 16 bytes and some for each object.
#[derive(Debug)]
pub struct Listed {
    volume: u64,
    iods: Vec<Option<ListedOf>>,
    is_volumes: bool,
}

/// What one iod has.
#[derive(Debug)]
struct ListedOf {
    all: u64,
    left: BTreeSet<ObjectName>,
}

/// What no file has, on each iod in the order that they were listed in; none of one that could not
/// be asked.
#[derive(Debug)]
pub struct Leftovers {
    /// What is left of each iod's objects.
    pub iods: Vec<Option<LeftOf>>,
    /// Whether any metafile was of the volume.
    pub is_volumes: bool,
}

/// What no file has of the objects of one iod.
#[derive(Debug)]
pub struct LeftOf {
    /// How many objects it has.
    pub all: u64,
    /// Those of no file, as they were found.
    pub objects: Vec<(ObjectName, Extent)>,
}

/// The objects that an iod has.
///
/// # Errors
/// It failed.
pub async fn list(iod: &dyn Iod) -> Result<Vec<ObjectName>, FsError> {
    let mut objects = Vec::new();
    for first in 0..=u8::MAX {
        objects.extend(iod.list(first).await?);
    }
    Ok(objects)
}

/// Removes an object of no file, if it is as it was found; whether it is gone.
pub async fn remove(iod: &dyn Iod, object: ObjectName, found: &Extent) -> bool {
    match iod.extent(object).await {
        // Whoever writes it would know of a file that has it.
        Ok(now) if is_same(&now, found) => iod.remove(object).await.is_ok(),
        Ok(now) => is_none(&now),
        Err(_) => false,
    }
}

impl Listed {
    /// What the iods of a volume have; none of one that could not be asked.
    #[must_use]
    pub fn new(volume: u64, iods: Vec<Option<Vec<ObjectName>>>) -> Self {
        let of = |objects: Vec<ObjectName>| ListedOf {
            all: objects.len() as u64,
            left: objects.into_iter().collect(),
        };
        let iods = iods.into_iter().map(|listed| listed.map(of)).collect();
        Self { volume, iods, is_volumes: false }
    }

    /// Takes out what a file has.
    pub fn found(&mut self, file: &Placed) {
        self.is_volumes |= file.volume == self.volume;
        file.objects().into_iter().for_each(|object| self.take(object));
    }

    /// Takes an object out.
    pub(crate) fn take(&mut self, object: ObjectName) {
        for iod in self.iods.iter_mut().flatten() {
            iod.left.remove(&object);
        }
    }

    /// All objects that are left; one that several iods have as often.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectName> {
        self.iods.iter().flatten().flat_map(|iod| iod.left.iter().copied())
    }

    /// Takes out all but some objects.
    pub(crate) fn retain(&mut self, is_left: impl Fn(ObjectName) -> bool) {
        for iod in self.iods.iter_mut().flatten() {
            iod.left.retain(|object| is_left(*object));
        }
    }

    /// Whether an object is still there.
    pub(crate) fn has(&self, object: ObjectName) -> bool {
        self.iods.iter().flatten().any(|iod| iod.left.contains(&object))
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.iods.iter().flatten().all(|iod| iod.left.is_empty())
    }

    /// What is left, and how large it is on these iods; what is gone by now is not.
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
            // One that does not answer any more is as one that did not before.
            measured.push(found.ok().map(|mut objects| {
                objects.retain(|(_, extent)| !is_none(extent));
                LeftOf { all, objects }
            }));
        }
        Leftovers { iods: measured, is_volumes: self.is_volumes }
    }
}

impl Leftovers {
    /// How many objects the iods have that were asked.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.iods.iter().flatten().map(|iod| iod.all).sum()
    }

    /// How many of them are of no file.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.iods.iter().flatten().map(LeftOf::count).sum()
    }

    /// Whether most objects are of no file, as where the metafiles are those of another volume, or
    /// not all of them.
    #[must_use]
    pub fn are_most(&self) -> bool {
        let count = self.count();
        count > 0 && (!self.is_volumes || 2 * count > self.all())
    }
}

impl LeftOf {
    /// How many objects are of no file.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.objects.len() as u64
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|(_, extent)| extent.size).sum()
    }
}

/// Whether an object was not changed; how much room it takes may be known later.
fn is_same(now: &Extent, then: &Extent) -> bool {
    (now.size, now.owner, now.modified) == (then.size, then.owner, then.modified)
}

/// Whether it is what is said of an object that is not there.
fn is_none(extent: &Extent) -> bool {
    *extent == Extent::default()
}
