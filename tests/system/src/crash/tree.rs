//! What a worker may find, by what it was told: names, objects, and what they hold.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{
    Attributes, DirectoryArgs, FileType, Handle, Name, SetAttributes, create,
};

use super::content::Content;
use super::op::{Done, Key, Op, Spot};

/// The worker's own directory; no other worker changes anything in it.
pub(crate) const OWN: Key = Key(0);
/// The directory that all workers have names in.
pub(crate) const COMMON: Key = Key(1);
/// The file that all workers have a part of.
pub(crate) const SHARED: Key = Key(2);
const FIRST: Key = Key(3);

/// How large a worker's files get, in blocks.
pub(crate) const FILE_BLOCKS: usize = 128;

/// The size of each worker's part of the shared file, in blocks.
pub(crate) const PART_BLOCKS: usize = 64;

/// So many handles of what is gone are tried after each outage.
const GONE_MAX: usize = 50;

/// An object that is there.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) handle: Handle,
    pub(crate) file_type: FileType,
    /// The data of a file.
    pub(crate) content: Option<Content>,
    /// What a symbolic link says.
    pub(crate) target: Option<String>,
    /// Made by an exclusive CREATE, with this verifier, and not given its attributes yet.
    pub(crate) exclusive: Option<[u8; 8]>,
    /// As last seen.
    pub(crate) attributes: Option<Attributes>,
    /// Whether those attributes were promised to stay.
    pub(crate) is_exact: bool,
}

/// The handles that every worker begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) own: Handle,
    pub(crate) common: Handle,
    pub(crate) shared: Handle,
}

/// All that a worker knows.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) names: BTreeMap<Spot, Key>,
    /// What has no name any more.
    pub(crate) gone: Vec<Handle>,
    /// What has to be done before anything else.
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

    /// How many names an object has.
    pub(crate) fn name_count(&self, key: Key) -> usize {
        self.names.values().filter(|&&named| named == key).count()
    }

    /// The objects that are there before an operation and are changed by it.
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

    /// An operation is about to be asked for: from now on it may have been done, or a part of it.
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

    /// An operation was answered as done: what that promises holds from now on.
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

    /// Notes attributes that are promised to stay. What others change as well promises nothing.
    fn note(&mut self, key: Key, attributes: Option<Attributes>) {
        let object = self.object_mut(key);
        object.is_exact = attributes.is_some() && ![COMMON, SHARED].contains(&key);
        object.attributes = attributes.or(object.attributes);
    }

    /// Notes attributes, unless those of data that is not safe may be lost with it.
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

    /// The size that a new file was to get was never promised.
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

    /// Takes a name away, if it is there, and its object with the last one.
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
        // With it all attributes are safe.
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

/// A size in blocks; workers only use whole ones.
pub(crate) fn in_blocks(size: u64) -> usize {
    usize::try_from(size).expect("files are small") / super::content::BLOCK_BYTES
}
