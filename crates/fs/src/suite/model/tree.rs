//! The model: a tree that is simple enough to be obviously correct.
//!
//! The model favours simplicity over speed: it counts links and searches for parents. If an
//! operation may fail for several reasons, the model accepts each of them, because POSIX leaves
//! their order open.

use std::collections::BTreeMap;

use super::action::{Action, At, How};
use crate::{FsError, NewNode};

/// The directory in which every sequence starts.
const TOP: usize = 0;

const NAME_BYTES_MAX: usize = 255;

/// All objects that ever existed; an object exists as long as a name leads to it.
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// True if the user is the superuser, to which mode bits do not apply.
    superuser: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) mode: u32,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    File {
        data: Vec<u8>,
        verifier: Option<u8>,
        /// True if the file was not changed after its creation, so that the store must still
        /// recognise the verifier of the exclusive CREATE.
        untouched: bool,
    },
    Directory(BTreeMap<&'static [u8], usize>),
    Symlink(&'static [u8]),
    Fifo,
    Socket,
}

/// The set of permitted answers.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) success: Option<Success>,
    pub(super) errors: Vec<FsError>,
}

#[derive(Debug)]
pub(super) enum Success {
    Done,
    /// The operation created an object that the model does not contain yet.
    New,
    Object(usize),
    /// The operation found an object outside the model, such as the parent of the top directory.
    Outside,
    Data {
        data: Vec<u8>,
        end: bool,
    },
    Target(&'static [u8]),
    Names(BTreeMap<Vec<u8>, usize>),
}

impl Expected {
    /// Permits success if `errors` is empty, and otherwise only these errors.
    fn unless(errors: Vec<FsError>, success: impl FnOnce() -> Success) -> Self {
        let success = errors.is_empty().then(success);
        Self { success, errors }
    }

    fn either(success: Success, errors: Vec<FsError>) -> Self {
        Self { success: Some(success), errors }
    }
}

impl Tree {
    pub(super) fn new(superuser: bool) -> Self {
        let top = Node { mode: 0o755, body: Body::Directory(BTreeMap::new()) };
        Self { nodes: vec![top], superuser }
    }

    pub(super) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    fn names(&self, node: usize) -> Option<&BTreeMap<&'static [u8], usize>> {
        match &self.nodes[node].body {
            Body::Directory(names) => Some(names),
            Body::File { .. } | Body::Symlink(_) | Body::Fifo | Body::Socket => None,
        }
    }

    fn names_mut(&mut self, node: usize) -> &mut BTreeMap<&'static [u8], usize> {
        match &mut self.nodes[node].body {
            Body::Directory(names) => names,
            Body::File { .. } | Body::Symlink(_) | Body::Fifo | Body::Socket => {
                panic!("the model changes names in directories only")
            }
        }
    }

    pub(super) fn is_directory(&self, node: usize) -> bool {
        self.names(node).is_some()
    }

    pub(super) fn is_file(&self, node: usize) -> bool {
        matches!(self.nodes[node].body, Body::File { .. })
    }

    /// Returns the number of names that lead to an object. A removed directory contains no names,
    /// because only empty directories can be removed.
    pub(super) fn links(&self, node: usize) -> u32 {
        let names = (0..self.nodes.len()).filter_map(|directory| self.names(directory));
        let leading = names.flat_map(BTreeMap::values).filter(|target| **target == node);
        leading.map(|_| 1).sum()
    }

    pub(super) fn lives(&self, node: usize) -> bool {
        node == TOP || self.links(node) > 0
    }

    pub(super) fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.nodes.len()).filter(|node| self.lives(*node))
    }

    fn parent(&self, node: usize) -> Option<usize> {
        let holds = |directory: &usize| {
            self.names(*directory).is_some_and(|names| names.values().any(|below| *below == node))
        };
        (0..self.nodes.len()).find(holds)
    }

    fn is_within(&self, node: usize, above: usize) -> bool {
        node == above || self.parent(node).is_some_and(|parent| self.is_within(parent, above))
    }

    fn may(&self, node: usize, bits: u32) -> bool {
        self.superuser || (self.nodes[node].mode >> 6) & bits == bits
    }

    /// Selects objects: mostly existing ones, and directories where an operation needs one.
    pub(super) fn resolve(&self, action: &Action) -> Action {
        let object = |pick: usize| {
            let all = pick.is_multiple_of(16);
            let among: Vec<_> =
                (0..self.nodes.len()).filter(|node| all || self.lives(*node)).collect();
            among[pick / 16 % among.len()]
        };
        let directory = |pick: usize| {
            let fits = |node: &usize| self.is_directory(*node) && self.lives(*node);
            let among: Vec<_> = (0..self.nodes.len()).filter(fits).collect();
            if pick.is_multiple_of(16) { object(pick / 16) } else { among[pick / 16 % among.len()] }
        };
        let mut action = action.settled(directory, object);
        if let Action::SetMode { node, .. } = &mut action
            && matches!(self.nodes[*node].body, Body::Symlink(_))
        {
            // Systems differ in the mode of symbolic links, so a directory is selected instead.
            *node = TOP;
        }
        action
    }

    /// Returns the permitted answers to an operation.
    pub(super) fn expect(&self, action: &Action) -> Expected {
        match *action {
            Action::Create { at, how } => self.expect_create(at, how),
            Action::Make { at, .. } => {
                let mut errors = self.against_change(at);
                errors.extend(self.target(at).map(|_| FsError::AlreadyExists));
                Expected::unless(errors, || Success::New)
            }
            Action::Read { node, offset, count } => {
                Expected::unless(self.against_data(node), || self.read(node, offset, count))
            }
            Action::Write { node, .. } | Action::Commit { node } | Action::Resize { node, .. } => {
                Expected::unless(self.against_data(node), || Success::Done)
            }
            Action::SetMode { node, .. } => Expected::unless(self.gone(node), || Success::Done),
            Action::Lookup { at } => {
                let mut errors = self.against_search(at);
                let found = self.target(at);
                if errors.is_empty() && found.is_none() {
                    errors.push(FsError::NotFound);
                }
                let success = found.filter(|_| errors.is_empty()).map(Success::Object);
                Expected { success, errors }
            }
            Action::Parent { node } => Expected::unless(self.against_directory(node, 1), || {
                self.parent(node).map_or(Success::Outside, Success::Object)
            }),
            Action::List { node } => Expected::unless(self.against_directory(node, 4), || {
                let names = self.names(node).into_iter().flatten();
                Success::Names(names.map(|(name, node)| (name.to_vec(), *node)).collect())
            }),
            Action::Readlink { node } => match self.nodes[node].body {
                _ if !self.lives(node) => Expected::unless(self.gone(node), || Success::Done),
                Body::Symlink(target) => Expected::either(Success::Target(target), vec![]),
                Body::File { .. } | Body::Directory(_) | Body::Fifo | Body::Socket => {
                    Expected { success: None, errors: vec![FsError::Invalid] }
                }
            },
            Action::Remove { at } => self.expect_removal(at, |tree, target| {
                tree.is_directory(target).then_some(FsError::IsDirectory)
            }),
            Action::Rmdir { at } => {
                self.expect_removal(at, |tree, target| match tree.names(target) {
                    None => Some(FsError::NotDirectory),
                    Some(names) => (!names.is_empty()).then_some(FsError::NotEmpty),
                })
            }
            Action::Rename { from, to } => self.expect_rename(from, to),
            Action::Link { node, at } => {
                let mut errors = self.against_change(at);
                errors.extend(self.gone(node));
                errors.extend(self.target(at).map(|_| FsError::AlreadyExists));
                errors.extend(self.is_directory(node).then_some(FsError::Invalid));
                Expected::unless(errors, || Success::Done)
            }
            Action::Restart => Expected::either(Success::Done, vec![]),
        }
    }

    fn gone(&self, node: usize) -> Vec<FsError> {
        if self.lives(node) { vec![] } else { vec![FsError::Stale] }
    }

    /// Returns the errors of using an object as a directory with a permission bit.
    fn against_directory(&self, node: usize, right: u32) -> Vec<FsError> {
        if !self.lives(node) {
            return vec![FsError::Stale];
        }
        match self.names(node) {
            None => vec![FsError::NotDirectory],
            Some(_) if !self.may(node, right) => vec![FsError::Access],
            Some(_) => vec![],
        }
    }

    fn against_search(&self, at: At) -> Vec<FsError> {
        let mut errors = self.against_directory(at.directory, 1);
        errors.extend((at.name().len() > NAME_BYTES_MAX).then_some(FsError::NameTooLong));
        errors
    }

    fn against_change(&self, at: At) -> Vec<FsError> {
        let mut errors = self.against_search(at);
        errors.extend(self.against_directory(at.directory, 3));
        errors
    }

    /// The owner may read and write regardless of the mode.
    fn against_data(&self, node: usize) -> Vec<FsError> {
        let mut errors = self.gone(node);
        if errors.is_empty() && self.is_directory(node) {
            errors.push(FsError::IsDirectory);
        } else if errors.is_empty() && !self.is_file(node) {
            errors.push(FsError::Invalid);
        }
        errors
    }

    /// Returns the object of a name, if the name can be looked up.
    fn target(&self, at: At) -> Option<usize> {
        let names = self.names(at.directory).filter(|_| self.against_search(at).is_empty());
        names.and_then(|names| names.get(at.name()).copied())
    }

    fn read(&self, node: usize, offset: u64, count: u32) -> Success {
        let Body::File { data, .. } = &self.nodes[node].body else { return Success::Done };
        let start = usize::try_from(offset).expect("it is small").min(data.len());
        let end = data.len().min(start + count as usize);
        Success::Data { data: data[start..end].to_vec(), end: end == data.len() }
    }

    fn expect_create(&self, at: At, how: How) -> Expected {
        let Some(target) = self.target(at) else {
            return Expected::unless(self.against_change(at), || Success::New);
        };
        let mut errors = self.against_change(at);
        match (how, &self.nodes[target].body) {
            (How::Unchecked(_), Body::File { .. }) => {
                Expected::either(Success::Object(target), vec![])
            }
            (How::Exclusive(wanted), Body::File { verifier, untouched, .. })
                if Some(wanted) == *verifier =>
            {
                let known = if *untouched { vec![] } else { vec![FsError::AlreadyExists] };
                Expected::either(Success::Object(target), known)
            }
            (How::Unchecked(_) | How::Exclusive(_) | How::Guarded, _) => {
                errors.push(FsError::AlreadyExists);
                Expected { success: None, errors }
            }
        }
    }

    fn expect_removal(
        &self,
        at: At,
        against: impl FnOnce(&Self, usize) -> Option<FsError>,
    ) -> Expected {
        let mut errors = self.against_change(at);
        match self.target(at) {
            Some(target) => errors.extend(against(self, target)),
            None if self.against_search(at).is_empty() => errors.push(FsError::NotFound),
            None => {}
        }
        Expected::unless(errors, || Success::Done)
    }

    fn expect_rename(&self, from: At, to: At) -> Expected {
        let mut errors = self.against_change(from);
        errors.extend(self.against_change(to));
        let (source, target) = (self.target(from), self.target(to));
        let Some(source) = source else {
            if self.against_search(from).is_empty() {
                errors.push(FsError::NotFound);
            }
            return Expected { success: None, errors };
        };
        if target == Some(source) {
            // The operation changes nothing, so a store may require the permission or not.
            return Expected::either(Success::Done, errors);
        }
        if self.is_directory(source) {
            let below = self.lives(to.directory) && self.is_within(to.directory, source);
            errors.extend(below.then_some(FsError::Invalid));
            let moves = from.directory != to.directory;
            errors.extend((moves && !self.may(source, 2)).then_some(FsError::Access));
        }
        if let Some(target) = target {
            match (self.is_directory(source), self.names(target)) {
                (false, Some(_)) => errors.push(FsError::IsDirectory),
                (true, None) => errors.push(FsError::NotDirectory),
                (true, Some(_)) | (false, None) => {}
            }
            let full = self.names(target).is_some_and(|names| !names.is_empty());
            errors.extend(full.then_some(FsError::NotEmpty));
        }
        Expected::unless(errors, || Success::Done)
    }

    /// Applies a successful operation; returns true if it created an object.
    pub(super) fn apply(&mut self, action: &Action) -> bool {
        match *action {
            Action::Create { at, how } => return self.apply_create(at, how),
            Action::Make { at, node } => {
                let (body, mode) = match node {
                    NewNode::Directory => (Body::Directory(BTreeMap::new()), 0o755),
                    NewNode::Symlink(target) => (Body::Symlink(target), 0o777),
                    NewNode::Socket => (Body::Socket, 0o755),
                    NewNode::Fifo | NewNode::BlockDevice(_) | NewNode::CharacterDevice(_) => {
                        (Body::Fifo, 0o755)
                    }
                };
                self.add(at, Node { mode, body });
                return true;
            }
            Action::Write { node, offset, length, fill, .. } => {
                self.apply_write(node, offset, length, fill);
            }
            Action::Resize { node, bytes } => self.resize(node, bytes),
            Action::SetMode { node, bits } => {
                self.nodes[node].mode = bits;
                if let Body::File { untouched, .. } = &mut self.nodes[node].body {
                    *untouched = false;
                }
            }
            Action::Remove { at } | Action::Rmdir { at } => {
                self.names_mut(at.directory).remove(at.name());
            }
            Action::Rename { from, to } => {
                if self.target(from) != self.target(to) {
                    let source = self.names_mut(from.directory).remove(from.name());
                    let source = source.expect("the model knew it");
                    self.names_mut(to.directory).insert(to.name(), source);
                }
            }
            Action::Link { node, at } => {
                self.names_mut(at.directory).insert(at.name(), node);
            }
            Action::Read { .. }
            | Action::Commit { .. }
            | Action::Lookup { .. }
            | Action::Parent { .. }
            | Action::Readlink { .. }
            | Action::List { .. }
            | Action::Restart => {}
        }
        false
    }

    fn add(&mut self, at: At, node: Node) {
        let number = self.nodes.len();
        self.nodes.push(node);
        self.names_mut(at.directory).insert(at.name(), number);
    }

    fn apply_create(&mut self, at: At, how: How) -> bool {
        let bytes = if let How::Unchecked(bytes) = how { bytes } else { None };
        if let Some(target) = self.target(at) {
            if let Some(bytes) = bytes {
                self.resize(target, bytes);
            }
            return false;
        }
        let verifier = if let How::Exclusive(verifier) = how { Some(verifier) } else { None };
        let mode = if verifier.is_some() { 0o600 } else { 0o644 };
        let data = vec![0; usize::try_from(bytes.unwrap_or(0)).expect("it is small")];
        self.add(at, Node { mode, body: Body::File { data, verifier, untouched: true } });
        true
    }

    fn resize(&mut self, node: usize, bytes: u64) {
        if let Body::File { data, untouched, .. } = &mut self.nodes[node].body {
            data.resize(usize::try_from(bytes).expect("it is small"), 0);
            *untouched = false;
        }
    }

    fn apply_write(&mut self, node: usize, offset: u64, length: usize, fill: u8) {
        if let Body::File { data, untouched, .. } = &mut self.nodes[node].body
            && length > 0
        {
            let start = usize::try_from(offset).expect("it is small");
            data.resize(data.len().max(start + length), 0);
            data[start..start + length].fill(fill);
            *untouched = false;
        }
    }
}
