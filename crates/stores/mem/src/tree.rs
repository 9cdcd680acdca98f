//! The objects of a store, and the parts that all operations share.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::{FileId, FileTime};
use leasehold_fs::permission::{Rights, rights};
use leasehold_fs::{
    Attributes, Caller, Changed, FsError, Mode, Name, ObjectId, Space, Verifier, Wcc,
};

use crate::Config;
use crate::contents::BLOCK_BYTES;
use crate::node::{Body, Directory, Node, Times};

/// The longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

const ROOT: FileId = FileId(1);
const ROOT_GENERATION: u64 = 1;
const ROOT_MODE: Mode = Mode::from_bits(0o755);

/// All objects of a store.
///
/// The number of a removed object is reused by the next object, as on disks. The generation only
/// grows and distinguishes their ids.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) config: Config,
    pub(crate) nodes: BTreeMap<FileId, Node>,
    /// Numbers below `next_number` without an object.
    free_numbers: BTreeSet<FileId>,
    next_number: FileId,
    next_generation: u64,
    pub(crate) used_blocks: u64,
    pub(crate) now: FileTime,
    last_stamp: FileTime,
    crash_count: u64,
}

impl Tree {
    pub(crate) fn new(config: Config) -> Self {
        let mut tree = Self {
            config,
            nodes: BTreeMap::new(),
            free_numbers: BTreeSet::new(),
            next_number: ROOT,
            next_generation: ROOT_GENERATION,
            used_blocks: 0,
            now: FileTime::default(),
            last_stamp: FileTime::default(),
            crash_count: 0,
        };
        let owner = Caller { uid: 0, gid: 0, ..Caller::nobody() };
        let body = Body::Directory(Directory::new(ROOT));
        let root = tree.add(&owner, ROOT_MODE, body, FileTime::default());
        tree.node_mut(root).link_count = 2;
        tree
    }

    pub(crate) fn root() -> ObjectId {
        id_of(ROOT, ROOT_GENERATION)
    }

    /// Returns the time of a change: the present time, or a later one if necessary, so that it is
    /// later than all earlier changes and no two states of an object have equal times.
    pub(crate) fn stamp(&mut self) -> FileTime {
        let FileTime { seconds, nanoseconds } = self.last_stamp;
        let next = match nanoseconds {
            999_999_999 => FileTime { seconds: seconds + 1, nanoseconds: 0 },
            _ => FileTime { seconds, nanoseconds: nanoseconds + 1 },
        };
        self.last_stamp = next.max(self.now);
        self.last_stamp
    }

    /// Returns the number of crashes so far.
    pub(crate) const fn crash_count(&self) -> u64 {
        self.crash_count
    }

    pub(crate) fn verifier(&self) -> Verifier {
        Verifier(self.crash_count.to_be_bytes())
    }

    pub(crate) fn crash(&mut self) {
        self.crash_count += 1;
        self.drop_holds();
        let mut used_blocks = 0;
        for node in self.nodes.values_mut() {
            if let Body::Regular { contents, .. } = &mut node.body {
                contents.crash();
            }
            if let Some(times) = node.stable_times.take() {
                node.times = times;
            }
            used_blocks += node.block_count();
        }
        self.used_blocks = used_blocks;
    }

    /// Returns the number of an object that exists.
    pub(crate) fn resolve(&self, object: &ObjectId) -> Result<FileId, FsError> {
        let id = <[u8; 16]>::try_from(object.as_bytes()).map_err(|_| FsError::BadHandle)?;
        let (number, generation) = id.split_at(8);
        let word = |half: &[u8]| u64::from_be_bytes(half.try_into().expect("half of 16 bytes"));
        let (number, generation) = (FileId(word(number)), word(generation));
        if number >= self.next_number || generation >= self.next_generation {
            return Err(FsError::BadHandle);
        }
        match self.nodes.get(&number) {
            Some(node) if node.generation == generation => Ok(number),
            Some(_) | None => Err(FsError::Stale),
        }
    }

    /// Returns a path from the root to an object, or `None` if it has none. The search takes linear
    /// time.
    pub(crate) fn path(&self, id: FileId) -> Option<Vec<u8>> {
        let (mut names, mut at) = (Vec::new(), id);
        while at != ROOT {
            let (above, name) = self.nodes.iter().find_map(|(above, node)| {
                let Body::Directory(directory) = &node.body else { return None };
                let mut entries = directory.behind(Directory::PARENT);
                entries.find_map(|(_, name, target)| (target == at).then_some((*above, name)))
            })?;
            names.push(name);
            at = above;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    pub(crate) fn object(&self, id: FileId) -> ObjectId {
        id_of(id, self.node(id).generation)
    }

    pub(crate) fn node(&self, id: FileId) -> &Node {
        self.nodes.get(&id).expect("names and resolved ids lead to objects")
    }

    pub(crate) fn node_mut(&mut self, id: FileId) -> &mut Node {
        self.nodes.get_mut(&id).expect("names and resolved ids lead to objects")
    }

    pub(crate) fn attributes(&self, id: FileId) -> Attributes {
        self.node(id).attributes(self.config.file_system, id)
    }

    pub(crate) fn rights(&self, caller: &Caller, id: FileId) -> Rights {
        rights(&self.attributes(id), caller)
    }

    pub(crate) fn directory(&self, id: FileId) -> Result<&Directory, FsError> {
        match &self.node(id).body {
            Body::Directory(directory) => Ok(directory),
            Body::Regular { .. } | Body::Symlink(_) | Body::Special { .. } => {
                Err(FsError::NotDirectory)
            }
        }
    }

    pub(crate) fn directory_mut(&mut self, id: FileId) -> Result<&mut Directory, FsError> {
        match &mut self.node_mut(id).body {
            Body::Directory(directory) => Ok(directory),
            Body::Regular { .. } | Body::Symlink(_) | Body::Special { .. } => {
                Err(FsError::NotDirectory)
            }
        }
    }

    pub(crate) fn is_directory(&self, id: FileId) -> bool {
        self.directory(id).is_ok()
    }

    /// Returns a directory in which the caller may look up names.
    pub(crate) fn searched(&self, caller: &Caller, id: FileId) -> Result<&Directory, FsError> {
        let directory = self.directory(id)?;
        if self.rights(caller, id).execute { Ok(directory) } else { Err(FsError::Access) }
    }

    /// Returns the object of a name, if there is one.
    pub(crate) fn child(
        &self,
        caller: &Caller,
        directory: FileId,
        name: Name<'_>,
    ) -> Result<Option<FileId>, FsError> {
        let directory = self.searched(caller, directory)?;
        if name.as_bytes().len() > NAME_BYTES_MAX {
            return Err(FsError::NameTooLong);
        }
        Ok(directory.target(name.as_bytes()))
    }

    /// Returns an error unless the caller may change the names in a directory.
    pub(crate) fn may_change(&self, caller: &Caller, directory: FileId) -> Result<(), FsError> {
        let rights = self.rights(caller, directory);
        if rights.write && rights.execute { Ok(()) } else { Err(FsError::Access) }
    }

    /// Returns an error unless this number of blocks is free.
    pub(crate) fn room_for(&self, blocks: u64) -> Result<(), FsError> {
        let all = self.config.capacity_bytes / BLOCK_BYTES;
        if self.used_blocks + blocks <= all { Ok(()) } else { Err(FsError::NoSpace) }
    }

    pub(crate) fn space(&self) -> Space {
        let bytes = self.config.capacity_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let free_bytes = bytes - self.used_blocks * BLOCK_BYTES;
        let files = self.config.capacity_files;
        let free_files = files - self.nodes.len() as u64;
        Space {
            bytes,
            free_bytes,
            available_bytes: free_bytes,
            files,
            free_files,
            available_files: free_files,
        }
    }

    /// Adds an object without a name.
    pub(crate) fn add(
        &mut self,
        owner: &Caller,
        mode: Mode,
        body: Body,
        stamp: FileTime,
    ) -> FileId {
        let id = self.free_numbers.pop_first().unwrap_or(self.next_number);
        self.next_number = self.next_number.max(FileId(id.0 + 1));
        let node = Node {
            generation: self.next_generation,
            mode,
            link_count: 0,
            uid: owner.uid,
            gid: owner.gid,
            times: Times { accessed: stamp, modified: stamp, changed: stamp },
            stable_times: None,
            layout: None,
            xattrs: BTreeMap::new(),
            holds: 0,
            body,
        };
        self.next_generation += 1;
        self.used_blocks += node.block_count();
        self.nodes.insert(id, node);
        id
    }

    /// Removes an object without names.
    pub(crate) fn forget(&mut self, id: FileId) {
        let node = self.nodes.remove(&id).expect("names lead to objects");
        self.used_blocks -= node.block_count();
        self.free_numbers.insert(id);
    }

    /// Sets the change time, and for a change of data also the modification time. Both are stable
    /// at once.
    pub(crate) fn touch(&mut self, id: FileId, stamp: FileTime, data: bool) {
        let node = self.node_mut(id);
        node.times.changed = stamp;
        if data {
            node.times.modified = stamp;
        }
        node.stable_times = None;
    }

    /// Sets the access time.
    pub(crate) fn accessed(&mut self, id: FileId) {
        let now = self.now.max(self.last_stamp);
        self.node_mut(id).times.accessed = now;
    }

    /// Runs `work` on an object, and returns its attributes before and after.
    pub(crate) fn change<T>(
        &mut self,
        object: &ObjectId,
        work: impl FnOnce(&mut Self, FileId) -> Result<T, FsError>,
    ) -> Changed<T> {
        let id = match self.resolve(object) {
            Ok(id) => id,
            Err(error) => return Changed::failed(error),
        };
        let before = Some(self.attributes(id).before());
        let result = work(self, id);
        Changed { result, wcc: Wcc { before, after: Some(self.attributes(id)) } }
    }

    /// Panics unless all parts are consistent.
    pub(crate) fn check(&self) {
        let mut link_counts: BTreeMap<FileId, u32> = BTreeMap::from([(ROOT, 1)]);
        for (id, node) in &self.nodes {
            let Body::Directory(directory) = &node.body else { continue };
            *link_counts.entry(*id).or_default() += 1;
            assert!(self.is_directory(directory.parent), "the parent of {id:?}");
            for (_, name, target) in directory.behind(Directory::PARENT) {
                *link_counts.entry(target).or_default() += 1;
                if let Ok(below) = self.directory(target) {
                    assert_eq!(below.parent, *id, "the parent of {target:?}");
                    *link_counts.entry(*id).or_default() += 1;
                }
                assert_eq!(directory.target(name), Some(target), "{name:?} in {id:?}");
            }
        }
        let counted = self.nodes.iter().map(|(id, node)| (*id, node.link_count));
        let is_named = |(_, link_count): &(FileId, u32)| *link_count > 0;
        assert_eq!(link_counts, counted.filter(is_named).collect(), "link counts");
        for (id, node) in &self.nodes {
            assert!(node.link_count > 0 || node.holds > 0, "{id:?} without a name or a hold");
        }
        let used: u64 = self.nodes.values().map(Node::block_count).sum();
        assert_eq!(self.used_blocks, used, "used blocks");
        for node in self.nodes.values() {
            if let Body::Regular { contents, .. } = &node.body {
                contents.check();
            }
        }
    }
}

fn id_of(id: FileId, generation: u64) -> ObjectId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.0.to_be_bytes());
    bytes[8..].copy_from_slice(&generation.to_be_bytes());
    ObjectId::new(&bytes).expect("16 bytes are not too many")
}
