//! Names and attributes in the cache of NFS: attributes are trusted for a tenth of the file's age
//! within limits, names until their directory changes.

use crate::world::{Call, World};
use std::collections::{BTreeMap, BTreeSet};

/// One client's names and attributes.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    limits: (f64, f64),
    /// By file: the time of the fetch and the fetched revision.
    fetched: BTreeMap<usize, (f64, u64)>,
    /// Files with a cached name.
    names: BTreeSet<usize>,
    /// By directory: the revision that its names and its listing belong to.
    name_revision: BTreeMap<usize, u64>,
    listed: BTreeSet<usize>,
}

impl Attributes {
    pub(crate) const fn new(limits: (f64, f64)) -> Self {
        Self {
            limits,
            fetched: BTreeMap::new(),
            names: BTreeSet::new(),
            name_revision: BTreeMap::new(),
            listed: BTreeSet::new(),
        }
    }

    pub(crate) fn forget_all(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Stores the file's attributes from a reply.
    pub(crate) fn refresh(&mut self, world: &World, file: usize) {
        self.fetched.insert(file, (world.now, world.revision(file)));
    }

    /// Returns true if the attributes are still trusted.
    pub(crate) fn is_fresh(&self, world: &World, file: usize) -> bool {
        self.fetched.get(&file).is_some_and(|(at, _)| {
            let trusted = (world.age(file) / 10.0).clamp(self.limits.0, self.limits.1);
            world.now - at < trusted
        })
    }

    /// Returns true if the attributes were fetched at this moment.
    pub(crate) fn is_new(&self, world: &World, file: usize) -> bool {
        self.fetched.get(&file).is_some_and(|(at, _)| *at >= world.now)
    }

    pub(crate) fn fetch(&mut self, world: &mut World, file: usize) {
        world.call(Call::Getattr);
        self.refresh(world, file);
    }

    /// Fetches attributes unless they are still trusted.
    pub(crate) fn trust(&mut self, world: &mut World, file: usize) {
        if !self.is_fresh(world, file) {
            self.fetch(world, file);
        }
    }

    /// Returns the revision in the client's cache.
    pub(crate) fn revision(&self, file: usize) -> u64 {
        self.fetched.get(&file).map_or(0, |(_, revision)| *revision)
    }

    /// Drops the cached names of a directory if the cached attributes show a change.
    fn check_directory(&mut self, world: &World, directory: usize) {
        let seen = self.revision(directory);
        if self.name_revision.insert(directory, seen) != Some(seen) {
            self.names.retain(|file| world.directories[*file] != directory);
            self.listed.remove(&directory);
        }
    }

    /// Finds a file by name. `names_hold` states that the client would detect a change of the
    /// directory.
    pub(crate) fn resolve(&mut self, world: &mut World, file: usize, names_hold: bool) {
        let directory = world.directories[file];
        if directory == file {
            return;
        }
        if self.names.contains(&file) && !names_hold {
            self.trust(world, directory);
        }
        self.check_directory(world, directory);
        if self.names.insert(file) {
            // The reply contains the attributes of both.
            world.call(Call::Lookup);
            self.refresh(world, file);
            self.refresh(world, directory);
            self.name_revision.insert(directory, self.revision(directory));
        }
    }

    /// Creates a file: a failed LOOKUP, then CREATE.
    pub(crate) fn create(&mut self, world: &mut World, file: usize) {
        if !self.names.contains(&file) {
            world.call(Call::Lookup);
        }
        self.change(world, file);
        self.names.insert(file);
        world.touch(file);
        self.refresh(world, file);
    }

    pub(crate) fn remove(&mut self, world: &mut World, file: usize) {
        self.change(world, file);
        self.names.remove(&file);
        self.fetched.remove(&file);
    }

    /// Changes a directory by a call; the client distinguishes its own change from others.
    fn change(&mut self, world: &mut World, file: usize) {
        let directory = world.directories[file];
        let unchanged = self.revision(directory) == world.revision(directory);
        world.call(Call::Other);
        let revision = world.touch(directory);
        self.refresh(world, directory);
        self.listed.remove(&directory);
        if unchanged {
            self.name_revision.insert(directory, revision);
        }
    }

    /// Lists a directory, from the cache if it has not changed.
    pub(crate) fn list(&mut self, world: &mut World, directory: usize) {
        self.trust(world, directory);
        self.check_directory(world, directory);
        if self.listed.insert(directory) {
            world.call(Call::Other);
        }
    }
}
