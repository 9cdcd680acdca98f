//! The random choice of a worker's next operation.

use leasehold_base::random::Random;
use leasehold_wire::nfs3::write::Stability;
use leasehold_wire::nfs3::{FileType, SetAttributes, SetTime, Time, create};

use super::content::BLOCK_BYTES;
use super::op::{Key, Op, Spot};
use super::tree::{COMMON, FILE_BLOCKS, OWN, SHARED, Tree};

/// The kinds of operations, distinguished if a server may treat them differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CREATE with no more than a mode.
    CreatePlain,
    /// CREATE with a size and times.
    CreateWithAttributes,
    /// CREATE that leaves its verifier at the file.
    CreateExclusive,
    /// MKDIR with no more than a mode.
    Mkdir,
    /// MKDIR with times and a set-group-id bit.
    MkdirWithAttributes,
    /// SYMLINK.
    Symlink,
    /// MKNOD of a pipe.
    Fifo,
    /// REMOVE of an object's last name.
    RemoveLast,
    /// REMOVE of one of several names.
    RemoveOther,
    /// RMDIR.
    Rmdir,
    /// RENAME within a directory.
    RenameWithin,
    /// RENAME to another directory.
    RenameAcross,
    /// RENAME onto a name that is taken.
    RenameOver,
    /// RENAME of a directory into another one.
    RenameDirectory,
    /// LINK.
    Link,
    /// SETATTR of a file's size.
    Resize,
    /// SETATTR of a file's mode, owner or times.
    SetattrFile,
    /// SETATTR of a directory.
    SetattrDirectory,
    /// SETATTR of an object that cannot be opened: a symbolic link or a pipe.
    SetattrOther,
    /// WRITE that needs a COMMIT.
    WriteUnstable,
    /// WRITE whose data is stable.
    WriteData,
    /// WRITE whose data and attributes are stable.
    WriteFile,
    /// COMMIT of some or all of a file.
    Commit,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 23] = [
        Self::CreatePlain,
        Self::CreateWithAttributes,
        Self::CreateExclusive,
        Self::Mkdir,
        Self::MkdirWithAttributes,
        Self::Symlink,
        Self::Fifo,
        Self::RemoveLast,
        Self::RemoveOther,
        Self::Rmdir,
        Self::RenameWithin,
        Self::RenameAcross,
        Self::RenameOver,
        Self::RenameDirectory,
        Self::Link,
        Self::Resize,
        Self::SetattrFile,
        Self::SetattrDirectory,
        Self::SetattrOther,
        Self::WriteUnstable,
        Self::WriteData,
        Self::WriteFile,
        Self::Commit,
    ];

    /// Returns the relative frequency of the operation.
    const fn weight(self) -> u64 {
        match self {
            Self::WriteUnstable => 12,
            Self::WriteFile | Self::WriteData | Self::Commit | Self::CreatePlain => 6,
            Self::CreateWithAttributes
            | Self::CreateExclusive
            | Self::RemoveLast
            | Self::RenameWithin
            | Self::RenameAcross
            | Self::RenameOver
            | Self::Link
            | Self::Resize
            | Self::SetattrFile => 3,
            Self::Mkdir
            | Self::MkdirWithAttributes
            | Self::Symlink
            | Self::Fifo
            | Self::RemoveOther
            | Self::Rmdir
            | Self::RenameDirectory
            | Self::SetattrDirectory
            | Self::SetattrOther => 2,
        }
    }

    /// Returns a random kind.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let total = Self::ALL.iter().map(|kind| kind.weight()).sum();
        let mut rest = random.below(total);
        for kind in Self::ALL {
            match rest.checked_sub(kind.weight()) {
                Some(left) => rest = left,
                None => return kind,
            }
        }
        Self::WriteUnstable
    }
}

/// The largest number of objects of a worker, including its directory and the shared objects.
const OBJECTS_MAX: usize = 24;

/// Most writes are no longer than this, in blocks.
const SHORT_WRITE: u64 = 9;

/// The state of the random choice besides the tree.
pub(crate) struct Draw {
    pub(crate) random: Random,
    /// Unique for each worker.
    worker: usize,
    /// True if the server can change owners.
    may_give_away: bool,
    /// The number of names and writes so far.
    count: u64,
}

impl Draw {
    pub(crate) const fn new(random: Random, worker: usize, may_give_away: bool) -> Self {
        Self { random, worker, may_give_away, count: 0 }
    }

    /// Returns the next operation: a required one, or a random possible one.
    pub(crate) fn next(&mut self, tree: &mut Tree) -> Op {
        if let Some(op) = tree.wanted.pop_front() {
            return op;
        }
        loop {
            let kind = Kind::draw(&mut self.random);
            if let Some(op) = self.op(kind, tree) {
                return op;
            }
        }
    }

    /// Returns an operation of a kind, or `None` if no object is suitable.
    pub(crate) fn op(&mut self, kind: Kind, tree: &Tree) -> Option<Op> {
        match kind {
            Kind::CreatePlain
            | Kind::CreateWithAttributes
            | Kind::CreateExclusive
            | Kind::Mkdir
            | Kind::MkdirWithAttributes
            | Kind::Symlink
            | Kind::Fifo => self.making(kind, tree),
            Kind::RemoveLast | Kind::RemoveOther | Kind::Rmdir => self.removing(kind, tree),
            Kind::RenameWithin | Kind::RenameAcross | Kind::RenameOver | Kind::RenameDirectory => {
                self.renaming(kind, tree)
            }
            Kind::Link => {
                let object = self.pick(tree, |tree, key| {
                    tree.object(key).file_type != FileType::Directory && tree.name_count(key) < 3
                })?;
                Some(Op::Link { object, spot: self.new_spot(tree) })
            }
            Kind::Resize | Kind::SetattrFile | Kind::SetattrDirectory | Kind::SetattrOther => {
                self.setting(kind, tree)
            }
            Kind::WriteUnstable => self.writing(Stability::Unstable, tree),
            Kind::WriteData => self.writing(Stability::DataSync, tree),
            Kind::WriteFile => self.writing(Stability::FileSync, tree),
            Kind::Commit => self.committing(tree),
        }
    }

    fn making(&mut self, kind: Kind, tree: &Tree) -> Option<Op> {
        if tree.objects.len() >= OBJECTS_MAX {
            return None;
        }
        let spot = self.new_spot(tree);
        let plain = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let modified = SetTime::To(self.time());
        let op = if kind == Kind::CreateWithAttributes {
            let size = Some(self.random.below(FILE_BLOCKS as u64) * BLOCK_BYTES as u64);
            let how = create::How::Guarded(SetAttributes { size, modified, ..plain(0o644) });
            Op::Create { spot, how }
        } else if kind == Kind::CreateExclusive {
            let how = create::How::Exclusive(self.random.next_u64().to_be_bytes());
            Op::Create { spot, how }
        } else if kind == Kind::Mkdir {
            Op::Mkdir { spot, attributes: plain(0o755) }
        } else if kind == Kind::MkdirWithAttributes {
            Op::Mkdir { spot, attributes: SetAttributes { modified, ..plain(0o2770) } }
        } else if kind == Kind::Symlink {
            // The longer target does not fit in an inode.
            Op::Symlink { spot, target: "x".repeat(if self.random.one_in(2) { 8 } else { 200 }) }
        } else if kind == Kind::Fifo {
            Op::Fifo { spot }
        } else {
            Op::Create { spot, how: create::How::Unchecked(plain(0o644)) }
        };
        Some(op)
    }

    fn removing(&mut self, kind: Kind, tree: &Tree) -> Option<Op> {
        let spot = self.pick_spot(tree, |tree, key| {
            if kind == Kind::Rmdir {
                is_directory(tree, key) && is_empty(tree, key)
            } else {
                let has_others = tree.name_count(key) > 1;
                !is_directory(tree, key) && has_others == (kind == Kind::RemoveOther)
            }
        })?;
        Some(if kind == Kind::Rmdir { Op::Rmdir { spot } } else { Op::Remove { spot } })
    }

    fn renaming(&mut self, kind: Kind, tree: &Tree) -> Option<Op> {
        let moves_directory = kind == Kind::RenameDirectory;
        let from = self.pick_spot(tree, |tree, key| is_directory(tree, key) == moves_directory)?;
        let moved = tree.names[&from];
        let to = if kind == Kind::RenameWithin {
            Spot { directory: from.directory, ..self.new_spot(tree) }
        } else if kind == Kind::RenameOver {
            // For two names of one object, RENAME has no effect.
            self.pick_spot(tree, |tree, key| !is_directory(tree, key) && key != moved)?
        } else {
            self.new_spot(tree)
        };
        let goes_below_itself = moves_directory && is_within(tree, to.directory, moved);
        let stays = kind != Kind::RenameWithin && kind != Kind::RenameOver;
        let stays = stays && to.directory == from.directory;
        (!goes_below_itself && !stays).then_some(Op::Rename { from, to })
    }

    fn setting(&mut self, kind: Kind, tree: &Tree) -> Option<Op> {
        let object = self.pick(tree, |tree, key| match tree.object(key).file_type {
            FileType::Regular => matches!(kind, Kind::Resize | Kind::SetattrFile),
            FileType::Directory => kind == Kind::SetattrDirectory,
            FileType::BlockDevice
            | FileType::CharacterDevice
            | FileType::Symlink
            | FileType::Socket
            | FileType::Fifo => kind == Kind::SetattrOther,
        })?;
        let mut changes = SetAttributes::default();
        let is_link = tree.object(object).file_type == FileType::Symlink;
        match self.random.below(3) {
            _ if kind == Kind::Resize => {
                changes.size = Some(self.random.below(FILE_BLOCKS as u64) * BLOCK_BYTES as u64);
            }
            0 if !is_link => changes.mode = Some(0o700 + u32::from(self.random.one_in(2)) * 0o44),
            choice if choice == 1 || !self.may_give_away => {
                changes.accessed = SetTime::To(self.time());
                changes.modified = SetTime::To(self.time());
            }
            _ => {
                changes.uid = Some(self.number());
                changes.gid = Some(self.number());
            }
        }
        Some(Op::Setattr { object, changes })
    }

    fn writing(&mut self, stability: Stability, tree: &Tree) -> Option<Op> {
        let file = self.pick_file(tree)?;
        let content = tree.content(file);
        let longest = if self.random.one_in(8) { 64 } else { SHORT_WRITE };
        let start = self.random.below(content.capacity() as u64);
        let end = (start + 1 + self.random.below(longest)).min(content.capacity() as u64);
        let place = |block| usize::try_from(block).expect("files are small");
        self.count += 1;
        let stamp = (self.worker as u64 + 1) << 32 | self.count;
        Some(Op::Write { file, blocks: place(start)..place(end), stamp, stability })
    }

    fn committing(&mut self, tree: &Tree) -> Option<Op> {
        let mut files: Vec<Key> = tree.objects.keys().copied().collect();
        let is_pending = |key: &Key| {
            let content = tree.object(*key).content.as_ref();
            content.is_some_and(|content| !content.pending().is_empty())
        };
        files.retain(is_pending);
        let file = self.one_of(&files)?;
        let (blocks, _) = self.one_of(&tree.content(file).pending())?;
        // A count of zero means the whole file.
        Some(Op::Commit { file, blocks: if self.random.one_in(2) { 0..0 } else { blocks } })
    }

    /// Returns an unused name, usually in the worker's own directory.
    fn new_spot(&mut self, tree: &Tree) -> Spot {
        self.count += 1;
        let name = format!("w{}-{}", self.worker, self.count);
        let directories = self.directories(tree);
        let directory = match self.random.below(4) {
            0 => COMMON,
            1 | 2 => self.one_of(&directories).unwrap_or(OWN),
            _ => OWN,
        };
        Spot { directory, name }
    }

    fn directories(&self, tree: &Tree) -> Vec<Key> {
        tree.names.values().copied().filter(|&key| is_directory(tree, key)).collect()
    }

    /// Returns the shared file occasionally, otherwise one of the worker's own files.
    fn pick_file(&mut self, tree: &Tree) -> Option<Key> {
        if self.random.one_in(5) {
            return Some(SHARED);
        }
        self.pick(tree, |tree, key| {
            let object = tree.object(key);
            object.file_type == FileType::Regular && object.exclusive.is_none()
        })
    }

    /// Returns one of the worker's own objects.
    fn pick(&mut self, tree: &Tree, is_fit: impl Fn(&Tree, Key) -> bool) -> Option<Key> {
        self.pick_spot(tree, is_fit).map(|spot| tree.names[&spot])
    }

    /// Returns a name of one of the worker's own objects.
    fn pick_spot(&mut self, tree: &Tree, is_fit: impl Fn(&Tree, Key) -> bool) -> Option<Spot> {
        let fit = tree.names.iter().filter(|(_, key)| is_fit(tree, **key));
        let spots: Vec<Spot> = fit.map(|(spot, _)| spot.clone()).collect();
        self.one_of(&spots)
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let place = self.random.below(all.len() as u64);
        all.get(usize::try_from(place).ok()?).cloned()
    }

    /// Returns a time in the past.
    fn time(&mut self) -> Time {
        let small = |value: u64| u32::try_from(value).expect("it is below 32 bits");
        let seconds = small(self.random.below(1 << 30));
        Time { seconds, nanoseconds: small(self.random.below(1_000_000_000)) }
    }

    /// Returns the id of a user or a group.
    fn number(&mut self) -> u32 {
        1000 + u32::try_from(self.random.below(100)).expect("it is below 100")
    }
}

fn is_directory(tree: &Tree, key: Key) -> bool {
    tree.object(key).file_type == FileType::Directory
}

fn is_empty(tree: &Tree, directory: Key) -> bool {
    tree.names.keys().all(|spot| spot.directory != directory)
}

/// Returns true if a directory is equal to another one or below it.
fn is_within(tree: &Tree, mut directory: Key, other: Key) -> bool {
    loop {
        if directory == other {
            return true;
        }
        let above = tree.names.iter().find(|(_, key)| **key == directory);
        match above {
            Some((spot, _)) => directory = spot.directory,
            None => return false,
        }
    }
}
