//! The state that a worker may find according to the replies: names, objects, and their contents.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    Attributes, DirectoryArgs, FileType, Handle, Name, SetAttributes, create,
};

use super::content::Content;
use super::op::{Done, Key, Op, Spot};

/// The worker's own directory, which no other worker changes.
pub(crate) const OWN: Key = Key(0);
/// The directory in which all workers have names.
pub(crate) const COMMON: Key = Key(1);
/// The file of which each worker has a part.
pub(crate) const SHARED: Key = Key(2);
const FIRST: Key = Key(3);

/// The largest size of a worker's files, in blocks.
pub(crate) const FILE_BLOCKS: usize = 128;

/// The size of each worker's part of the shared file, in blocks.
pub(crate) const PART_BLOCKS: usize = 64;

/// The number of handles of removed objects that the check tries after each outage.
const GONE_MAX: usize = 50;

/// An existing object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) handle: Handle,
    pub(crate) file_type: FileType,
    /// The data of a file.
    pub(crate) content: Option<Content>,
    /// The target of a symbolic link.
    pub(crate) target: Option<String>,
    /// The verifier of an exclusive CREATE if the file has no attributes yet.
    pub(crate) exclusive: Option<[u8; 8]>,
    /// The attributes of the last reply.
    pub(crate) attributes: Option<Attributes>,
    /// True if those attributes are guaranteed.
    pub(crate) is_exact: bool,
}

/// The initial handles of every worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) own: Handle,
    pub(crate) common: Handle,
    pub(crate) shared: Handle,
}

/// The complete state of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) names: BTreeMap<Spot, Key>,
    /// Handles of removed objects.
    pub(crate) gone: Vec<Handle>,
    /// Operations that must precede all others.
    pub(crate) wanted: VecDeque<Op>,
    next: Key,
}

impl Object {
    fn new(handle: Handle, file_type: FileType) -> Self {
        Self {
            handle,
            file_type,
            content: None,
            target: None,
            exclusive: None,
            attributes: None,
            is_exact: false,
        }
    }
}

impl Tree {
    pub(crate) fn new(places: Places, worker: usize) -> Self {
        let own = Object::new(places.own, FileType::Directory);
        let common = Object::new(places.common, FileType::Directory);
        let mut shared = Object::new(places.shared, FileType::Regular);
        shared.content = Some(Content::part(worker * PART_BLOCKS, PART_BLOCKS));
        Self {
            objects: [(OWN, own), (COMMON, common), (SHARED, shared)].into(),
            names: BTreeMap::new(),
            gone: Vec::new(),
            wanted: VecDeque::new(),
            next: FIRST,
        }
    }

    pub(crate) fn object(&self, key: Key) -> &Object {
        &self.objects[&key]
    }

    fn object_mut(&mut self, key: Key) -> &mut Object {
        self.objects.get_mut(&key).expect("operations are about what is there")
    }

    pub(crate) fn handle(&self, key: Key) -> Handle {
        self.object(key).handle
    }

    pub(crate) fn content(&self, key: Key) -> &Content {
        self.object(key).content.as_ref().expect("only files are written")
    }

    pub(crate) fn content_mut(&mut self, key: Key) -> &mut Content {
        self.object_mut(key).content.as_mut().expect("only files are written")
    }

    pub(crate) fn place<'a>(&self, spot: &'a Spot) -> DirectoryArgs<'a> {
        DirectoryArgs { directory: self.handle(spot.directory), name: Name(spot.name.as_bytes()) }
    }

    /// Returns the number of names of an object.
    pub(crate) fn name_count(&self, key: Key) -> usize {
        self.names.values().filter(|&&named| named == key).count()
    }

    /// Returns the existing objects that an operation changes.
    pub(crate) fn touched(&self, op: &Op) -> Vec<Key> {
        let mut touched: Vec<Key> = op.spots().iter().map(|spot| spot.directory).collect();
        touched.extend(op.spots().iter().filter_map(|spot| self.names.get(*spot)));
        match op {
            Op::Link { object, .. } | Op::Setattr { object, .. } => touched.push(*object),
            Op::Write { file, .. } | Op::Commit { file, .. } => touched.push(*file),
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Symlink { .. }
            | Op::Fifo { .. }
            | Op::Remove { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::Getattr { .. } => {}
        }
        touched
    }

    /// Begins an operation: from now on it, or a part of it, may have been done.
    pub(crate) fn begin(&mut self, op: &Op) {
        for key in self.touched(op) {
            self.object_mut(key).is_exact = false;
        }
        match op {
            Op::Write { file, blocks, stamp, .. } => {
                self.content_mut(*file).begin_write(blocks.clone(), *stamp);
            }
            Op::Setattr { object, changes: SetAttributes { size: Some(size), .. } } => {
                self.content_mut(*object).begin_resize(in_blocks(*size));
            }
            Op::Setattr { .. }
            | Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Symlink { .. }
            | Op::Fifo { .. }
            | Op::Remove { .. }
            | Op::Rmdir { .. }
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Commit { .. }
            | Op::Getattr { .. } => {}
        }
    }

    /// Applies the guarantees of a successful operation.
    pub(crate) fn settle(&mut self, op: &Op, done: &Done) {
        match op {
            Op::Create { spot, how } => self.created(spot, *how, done),
            Op::Mkdir { spot, .. } => self.made(spot, FileType::Directory, None, done),
            Op::Symlink { spot, target } => {
                self.made(spot, FileType::Symlink, Some(target.clone()), done);
            }
            Op::Fifo { spot } => self.made(spot, FileType::Fifo, None, done),
            Op::Remove { spot } | Op::Rmdir { spot } => {
                self.unname(spot);
                self.note(spot.directory, done.directory);
            }
            Op::Rename { from, to } => {
                let moved = self.names[from];
                self.unname(to);
                self.names.remove(from);
                self.names.insert(to.clone(), moved);
                self.note(from.directory, done.directory);
                self.note(to.directory, done.target);
                self.wanted.push_back(Op::Getattr { object: moved });
            }
            Op::Link { object, spot } => {
                self.names.insert(spot.clone(), *object);
                self.note_if_settled(*object, done.attributes);
                self.note(spot.directory, done.directory);
            }
            Op::Setattr { object, changes } => {
                if let Some(size) = changes.size {
                    self.content_mut(*object).resized(in_blocks(size));
                }
                self.object_mut(*object).exclusive = None;
                self.note(*object, done.attributes);
            }
            Op::Write { file, blocks, stamp, stability } => {
                self.wrote(*file, blocks, *stamp, *stability, done);
            }
            Op::Commit { file, blocks } => self.committed(*file, blocks, done),
            Op::Getattr { object } => self.note_if_settled(*object, done.attributes),
        }
    }

    /// Records guaranteed attributes. Attributes that other workers change as well are not
    /// guaranteed.
    fn note(&mut self, key: Key, attributes: Option<Attributes>) {
        let object = self.object_mut(key);
        object.is_exact = attributes.is_some() && ![COMMON, SHARED].contains(&key);
        object.attributes = attributes.or(object.attributes);
    }

    /// Records attributes, unless they may be lost together with unstable data.
    fn note_if_settled(&mut self, key: Key, attributes: Option<Attributes>) {
        if self.object(key).content.as_ref().is_none_or(Content::is_settled) {
            self.note(key, attributes);
        }
    }

    fn created(&mut self, spot: &Spot, how: create::How, done: &Done) {
        let key = self.next;
        self.made(spot, FileType::Regular, None, done);
        let mut content = Content::new(FILE_BLOCKS);
        match how {
            create::How::Unchecked(attributes) | create::How::Guarded(attributes) => {
                content.resized(in_blocks(attributes.size.unwrap_or(0)));
            }
            create::How::Exclusive(verifier) => {
                self.object_mut(key).exclusive = Some(verifier);
                let (mode, size) = (Some(0o640), Some(0));
                let changes = SetAttributes { mode, size, ..SetAttributes::default() };
                self.wanted.push_back(Op::Setattr { object: key, changes });
            }
        }
        self.object_mut(key).content = Some(content);
    }

    /// Records that the size of a new file is not guaranteed.
    pub(crate) fn doubt_size(&mut self, spot: &Spot) {
        self.content_mut(self.names[spot]).doubt_size();
    }

    fn made(&mut self, spot: &Spot, file_type: FileType, target: Option<String>, done: &Done) {
        let key = self.next;
        self.next = Key(key.0 + 1);
        let handle = done.object.expect("this server tells what it made");
        let object = Object { target, ..Object::new(handle, file_type) };
        self.objects.insert(key, object);
        self.names.insert(spot.clone(), key);
        self.note(key, done.attributes);
        self.note(spot.directory, done.directory);
    }

    /// Removes a name if it exists, and its object with the last name.
    fn unname(&mut self, spot: &Spot) {
        let Some(key) = self.names.remove(spot) else { return };
        if self.name_count(key) > 0 {
            self.object_mut(key).is_exact = false;
            self.wanted.push_back(Op::Getattr { object: key });
        } else if let Some(object) = self.objects.remove(&key) {
            self.gone.push(object.handle);
            let surplus = self.gone.len().saturating_sub(GONE_MAX);
            self.gone.drain(..surplus);
        }
    }

    fn wrote(
        &mut self,
        file: Key,
        blocks: &Range<usize>,
        stamp: u64,
        stability: Stability,
        done: &Done,
    ) {
        let content = self.content_mut(file);
        let verifier = done.verifier.expect("a WRITE answers one");
        if stability == Stability::Unstable {
            content.wrote(blocks.clone(), stamp, verifier);
        } else {
            content.wrote_stably(blocks.clone(), stamp);
        }
        // A file sync makes all attributes stable.
        if stability == Stability::FileSync {
            self.note_if_settled(file, done.attributes);
        }
    }

    fn committed(&mut self, file: Key, blocks: &Range<usize>, done: &Done) {
        let content = self.content_mut(file);
        let range = if blocks.is_empty() { 0..content.capacity() } else { blocks.clone() };
        content.committed(range, done.verifier.expect("a COMMIT answers one"));
        self.note_if_settled(file, done.attributes);
    }
}

/// Converts a size to blocks; workers only use multiples of a block.
pub(crate) fn in_blocks(size: u64) -> usize {
    usize::try_from(size).expect("files are small") / super::content::BLOCK_BYTES
}
