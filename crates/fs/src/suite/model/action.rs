//! The operations of random sequences.

use leasehold_base::random::Random;

use crate::{NewNode, Stability};

/// The names in sequences. There are few names, so that several operations concern one name. One
/// name has the greatest length, and one name is too long.
const NAMES: [&[u8]; 7] = [b"a", b"b", b"c", b"two words", b"\xff", &[b'l'; 255], &[b'x'; 256]];

const MODES: [u32; 8] = [0o755, 0o755, 0o755, 0o700, 0o777, 0o644, 0o555, 0o311];

/// A name in a directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) directory: usize,
    name: usize,
}

impl At {
    pub(super) fn name(self) -> &'static [u8] {
        NAMES[self.name]
    }
}

/// The mode of a file creation.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Unchecked(Option<u64>),
    Guarded,
    Exclusive(u8),
}

/// One operation. Objects are node numbers of the model; before [`Action::settled`], they are
/// random numbers that select one of the existing objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Create { at: At, how: How },
    Make { at: At, node: NewNode<'static> },
    Write { node: usize, offset: u64, length: usize, fill: u8, stability: Stability },
    Read { node: usize, offset: u64, count: u32 },
    Commit { node: usize },
    Resize { node: usize, bytes: u64 },
    SetMode { node: usize, bits: u32 },
    Lookup { at: At },
    Parent { node: usize },
    Readlink { node: usize },
    List { node: usize },
    Remove { at: At },
    Rmdir { at: At },
    Rename { from: At, to: At },
    Link { node: usize, at: At },
    Restart,
}

impl Action {
    /// Returns the next operation, with random numbers in place of objects.
    pub(super) fn random(random: &mut Random) -> Self {
        let kind = random.below(64);
        let (at, node) = (random_at(random), number(random, 1 << 16));
        match kind {
            0..8 => Self::Create { at, how: random_how(random) },
            8..18 => Self::Make { at, node: random_node(random) },
            18..25 => Self::Write {
                node,
                offset: random.below(10_000),
                length: number(random, 6000),
                fill: random.next_u64().to_be_bytes()[0],
                stability: *pick(
                    random,
                    &[Stability::Unstable, Stability::DataSync, Stability::FileSync],
                ),
            },
            25..28 => {
                let count = u32::try_from(random.below(12_000)).expect("it is small");
                Self::Read { node, offset: random.below(12_000), count }
            }
            28 => Self::Commit { node },
            29..32 => Self::Resize { node, bytes: random.below(12_000) },
            32..35 => Self::SetMode { node, bits: *pick(random, &MODES) },
            35..37 => Self::Lookup { at },
            37 => Self::Parent { node },
            38 => Self::Readlink { node },
            39..41 => Self::List { node },
            41..44 => Self::Remove { at },
            44..47 => Self::Rmdir { at },
            47..59 => Self::Rename { from: at, to: random_at(random) },
            59..63 => Self::Link { node, at },
            _ => Self::Restart,
        }
    }

    /// Replaces the numbers by objects; one function selects a directory, the other any object.
    pub(super) fn settled(
        self,
        directory: impl Fn(usize) -> usize,
        object: impl Fn(usize) -> usize,
    ) -> Self {
        let settle = |at: At| At { directory: directory(at.directory), ..at };
        match self {
            Self::Create { at, how } => Self::Create { at: settle(at), how },
            Self::Make { at, node } => Self::Make { at: settle(at), node },
            Self::Write { node, offset, length, fill, stability } => {
                Self::Write { node: object(node), offset, length, fill, stability }
            }
            Self::Read { node, offset, count } => Self::Read { node: object(node), offset, count },
            Self::Commit { node } => Self::Commit { node: object(node) },
            Self::Resize { node, bytes } => Self::Resize { node: object(node), bytes },
            Self::SetMode { node, bits } => Self::SetMode { node: object(node), bits },
            Self::Lookup { at } => Self::Lookup { at: settle(at) },
            Self::Parent { node } => Self::Parent { node: object(node) },
            Self::Readlink { node } => Self::Readlink { node: object(node) },
            Self::List { node } => Self::List { node: directory(node) },
            Self::Remove { at } => Self::Remove { at: settle(at) },
            Self::Rmdir { at } => Self::Rmdir { at: settle(at) },
            Self::Rename { from, to } => Self::Rename { from: settle(from), to: settle(to) },
            Self::Link { node, at } => Self::Link { node: object(node), at: settle(at) },
            Self::Restart => Self::Restart,
        }
    }
}

fn number(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).expect("it is small")
}

fn pick<'a, T>(random: &mut Random, among: &'a [T]) -> &'a T {
    &among[number(random, among.len() as u64)]
}

fn random_at(random: &mut Random) -> At {
    // The two long names are selected rarely, because most operations on them fail.
    let name = if random.one_in(16) { number(random, 7) } else { number(random, 4) };
    At { directory: number(random, 1 << 16), name }
}

fn random_how(random: &mut Random) -> How {
    match random.below(5) {
        0 => How::Unchecked(None),
        1 => How::Unchecked(Some(random.below(9000))),
        2 => How::Exclusive(1),
        3 => How::Exclusive(2),
        _ => How::Guarded,
    }
}

fn random_node(random: &mut Random) -> NewNode<'static> {
    match random.below(8) {
        0 => NewNode::Symlink(b"a"),
        1 => NewNode::Symlink(b"../b/c"),
        2 => NewNode::Fifo,
        3 => NewNode::Socket,
        _ => NewNode::Directory,
    }
}
