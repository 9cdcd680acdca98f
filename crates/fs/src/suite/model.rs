//! Random operations on a store and on a model of it, which must agree.
//!
//! The seed determines the sequence. If the store and the model differ, the test removes steps as
//! long as they still differ, and prints the remaining steps.

mod action;
mod tree;

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_base::random::Random;
use leasehold_base::units::{Cookie, FileId};

use self::action::{Action, At, How};
use self::tree::{Body, Expected, Success, Tree};
use super::world::{World, mode, raw_name, size};
use super::{Subject, block_on};
use crate::{Allowance, Budget, FileType, FsError, NewFile, ObjectId, Place, SetAttributes, Store};

/// The largest number of runs that shrink a failing sequence.
const SHRINK_RUNS_MAX: u32 = 2000;

/// Runs a random sequence of `steps` operations on a subject and on the model.
///
/// # Panics
/// Panics if the store and the model differ, with the shortest failing sequence found.
pub fn run_model(make_subject: impl Fn() -> Subject, seed: u64, steps: usize) {
    let mut random = Random::from_seed(seed);
    let actions: Vec<_> = (0..steps).map(|_| Action::random(&mut random)).collect();
    let run = |actions: &[Action]| block_on(Run::sequence(&make_subject(), actions));
    if let Err(difference) = run(&actions) {
        let difference = shrink(actions, run).unwrap_or(difference);
        panic!("seed {seed}, {steps} steps; shortened:\n{difference}");
    }
}

/// Shrinks a sequence; returns the difference of the shortest failing part, or None if no part
/// fails.
fn shrink(
    mut actions: Vec<Action>,
    run: impl Fn(&[Action]) -> Result<(), String>,
) -> Option<String> {
    let (mut difference, mut runs) = (None, 0);
    let mut length = actions.len() / 2;
    while length > 0 && runs < SHRINK_RUNS_MAX {
        let mut start = 0;
        while start < actions.len() {
            let end = (start + length).min(actions.len());
            let rest = [&actions[..start], &actions[end..]].concat();
            runs += 1;
            match run(&rest) {
                Ok(()) => start += length,
                Err(shown) => (actions, difference) = (rest, Some(shown)),
            }
        }
        length /= 2;
    }
    difference
}

/// The answer of a store, in the terms of the model.
#[derive(Debug)]
enum Got {
    Done,
    Object(ObjectId),
    Data {
        data: Vec<u8>,
        end: bool,
    },
    Target(Vec<u8>),
    Names(BTreeMap<Vec<u8>, FileId>),
    /// A result that is wrong for every store.
    Wrong(String),
}

/// The state of a running sequence.
struct Run<'a> {
    subject: &'a Subject,
    store: Arc<dyn Store>,
    tree: Tree,
    /// The id of each object of the model.
    ids: Vec<ObjectId>,
    shown: Vec<String>,
}

impl<'a> Run<'a> {
    async fn sequence(subject: &'a Subject, actions: &[Action]) -> Result<(), String> {
        let top = World::new(subject, "model").await.top;
        let store = Arc::clone(&subject.store);
        let tree = Tree::new(subject.owner.uid == 0);
        let mut run = Self { subject, store, tree, ids: vec![top], shown: Vec::new() };
        for action in actions {
            run.step(&run.tree.resolve(action)).await?;
            run.compare_attributes().await?;
        }
        run.compare_all().await
    }

    fn world(&self) -> World<'_> {
        World { subject: self.subject, store: &*self.store, top: self.ids[0] }
    }

    fn differs(&self, what: &str) -> String {
        format!("{}\n  differs: {what}", self.shown.join("\n"))
    }

    async fn step(&mut self, action: &Action) -> Result<(), String> {
        let expected = self.tree.expect(action);
        let restart = matches!(action, Action::Restart);
        let got = if restart { self.restart().await } else { self.perform(action).await };
        self.shown.push(format!("  {action:?} -> {got:?}"));
        match got {
            Err(error) if expected.errors.contains(&error) => Ok(()),
            Err(_) => Err(self.differs(&format!("expected {expected:?}"))),
            Ok(Got::Wrong(what)) => Err(self.differs(&what)),
            Ok(got) => {
                if !self.fits(&expected, &got).await {
                    return Err(self.differs(&format!("expected {expected:?}")));
                }
                let added = self.tree.apply(action);
                if let (true, Got::Object(object)) = (added, got) {
                    self.ids.push(object);
                }
                Ok(())
            }
        }
    }

    async fn fits(&self, expected: &Expected, got: &Got) -> bool {
        let world = self.world();
        match (&expected.success, got) {
            (Some(Success::Done), Got::Done) | (Some(Success::Outside), Got::Object(_)) => true,
            (Some(Success::New), Got::Object(new)) => {
                !self.ids.iter().any(|known| world.same(known, new))
            }
            (Some(Success::Object(node)), Got::Object(object)) => {
                world.same(&self.ids[*node], object)
            }
            (Some(Success::Data { data: all, end: at_end }), Got::Data { data, end }) => {
                all == data && at_end == end
            }
            (Some(Success::Target(target)), Got::Target(said)) => target == said,
            (Some(Success::Names(names)), Got::Names(listed)) => {
                let mut truth = BTreeMap::new();
                for (name, node) in names {
                    let attributes = self.store.getattr(&self.ids[*node]).await;
                    truth.insert(name.clone(), attributes.map(|it| it.file_id));
                }
                let listed = listed.iter().map(|(name, number)| (name.clone(), Ok(*number)));
                truth == listed.collect()
            }
            (
                None
                | Some(
                    Success::Done
                    | Success::Outside
                    | Success::New
                    | Success::Object(_)
                    | Success::Data { .. }
                    | Success::Target(_)
                    | Success::Names(_),
                ),
                _,
            ) => false,
        }
    }

    fn place(&self, at: At) -> Place<'static> {
        Place { directory: self.ids[at.directory], name: raw_name(at.name()) }
    }

    async fn perform(&self, action: &Action) -> Result<Got, FsError> {
        let world = self.world();
        let (store, owner) = (world.store, world.owner());
        let done = |()| Got::Done;
        let object = |node: usize| &self.ids[node];
        match *action {
            Action::Create { at, how } => {
                let file = new_file(how);
                let made = store.create(owner, self.place(at), &file).await.result;
                made.map(|found| Got::Object(found.object))
            }
            Action::Make { at, node } => {
                let made = world.make(self.place(at), node).await.result;
                made.map(|found| Got::Object(found.object))
            }
            Action::Write { node, offset, length, fill, stability } => {
                let data = vec![fill; length];
                let written = world.write(object(node), offset, &data, stability).await.result?;
                let all = written.count as usize == length;
                Ok(if all { Got::Done } else { Got::Wrong(format!("{written:?}")) })
            }
            Action::Read { node, offset, count } => {
                let read = store.read(owner, object(node), offset, count).await?;
                Ok(Got::Data { data: read.data.to_vec(), end: read.end })
            }
            Action::Commit { node } => {
                store.commit(owner, object(node), 0, 0).await.result.map(|_| Got::Done)
            }
            Action::Resize { node, bytes } => {
                world.set(object(node), size(bytes)).await.result.map(done)
            }
            Action::SetMode { node, bits } => {
                world.set(object(node), mode(bits)).await.result.map(done)
            }
            Action::Lookup { at } => {
                world.find(self.place(at)).await.map(|found| Got::Object(found.object))
            }
            Action::Parent { node } => {
                let found = store.parent(owner, object(node)).await;
                found.map(|found| Got::Object(found.object))
            }
            Action::Readlink { node } => {
                let said = store.readlink(owner, object(node)).await;
                said.map(|(target, _)| Got::Target(target))
            }
            Action::List { node } => self.list(object(node)).await,
            Action::Remove { at } => world.remove(self.place(at)).await.result.map(done),
            Action::Rmdir { at } => world.rmdir(self.place(at)).await.result.map(done),
            Action::Rename { from, to } => {
                world.rename(self.place(from), self.place(to)).await.result.map(done)
            }
            Action::Link { node, at } => {
                world.link(object(node), self.place(at)).await.result.map(done)
            }
            Action::Restart => Ok(Got::Done),
        }
    }

    /// Lists the names of a directory in small pages.
    async fn list(&self, directory: &ObjectId) -> Result<Got, FsError> {
        let reply = Allowance { bytes: 300, entry_bytes: 20 };
        let budget = Budget { reply, names: Allowance::UNLIMITED };
        let (mut names, mut cookie) = (BTreeMap::new(), Cookie(0));
        loop {
            let page = self.world().page(directory, cookie, budget).await?;
            for entry in page.entries.iter() {
                cookie = entry.cookie;
                if names.insert(entry.name.to_vec(), entry.file_id).is_some() {
                    let name = entry.name.escape_ascii();
                    return Ok(Got::Wrong(format!("{name} occurs twice")));
                }
            }
            if page.end {
                names.retain(|name, _| name != b"." && name != b"..");
                return Ok(Got::Names(names));
            }
            if page.entries.is_empty() {
                return Ok(Got::Wrong("an empty page that is not the last".into()));
            }
        }
    }

    /// Commits all data, ends the store and opens it again.
    async fn restart(&mut self) -> Result<Got, FsError> {
        if let Some(restart) = &self.subject.restart {
            for node in self.tree.living().filter(|node| self.tree.is_file(*node)) {
                let owner = &self.subject.owner;
                self.store.commit(owner, &self.ids[node], 0, 0).await.result?;
            }
            self.store = restart();
        }
        Ok(Got::Done)
    }

    /// Compares the attributes of every object that ever existed.
    async fn compare_attributes(&self) -> Result<(), String> {
        for (node, object) in self.ids.iter().enumerate() {
            let told = self.store.getattr(object).await;
            if !self.tree.lives(node) {
                if told != Err(FsError::Stale) {
                    return Err(self.differs(&format!("{node} is gone, and yet {told:?}")));
                }
                continue;
            }
            let Ok(told) = told else {
                return Err(self.differs(&format!("{node} is there, and yet {told:?}")));
            };
            let expected = self.tree.node(node);
            let (file_type, bytes) = match &expected.body {
                Body::File { data, .. } => (FileType::Regular, Some(data.len())),
                Body::Directory(_) => (FileType::Directory, None),
                Body::Symlink(target) => (FileType::Symlink, Some(target.len())),
                Body::Fifo => (FileType::Fifo, None),
                Body::Socket => (FileType::Socket, None),
            };
            let fits = told.file_type == file_type
                && bytes.is_none_or(|bytes| told.size == bytes as u64)
                && (file_type == FileType::Symlink || told.mode.bits() == expected.mode)
                && (file_type == FileType::Directory || told.link_count == self.tree.links(node));
            if !fits {
                let links = self.tree.links(node);
                return Err(self.differs(&format!("{node}, {links} links, {expected:?}: {told:?}")));
            }
        }
        Ok(())
    }

    /// Makes all directories readable, then compares names, data and targets.
    async fn compare_all(&mut self) -> Result<(), String> {
        let living: Vec<_> = self.tree.living().collect();
        for &node in &living {
            if self.tree.is_directory(node) {
                self.step(&Action::SetMode { node, bits: 0o755 }).await?;
            }
        }
        for node in living {
            let whole = Action::Read { node, offset: 0, count: 1 << 20 };
            for action in [Action::List { node }, whole, Action::Readlink { node }] {
                self.step(&action).await?;
            }
        }
        Ok(())
    }
}

fn new_file(how: How) -> NewFile {
    match how {
        How::Unchecked(size) => NewFile::Unchecked(SetAttributes { size, ..mode(0o644) }),
        How::Guarded => NewFile::Guarded(mode(0o644)),
        How::Exclusive(verifier) => NewFile::exclusive([verifier; 8]),
    }
}
