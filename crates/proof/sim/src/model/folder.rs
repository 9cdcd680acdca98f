//! The sequential model of a folder with a few names.

use std::collections::BTreeMap;

use leasehold_wire::nfs3::{Handle, Status};

use crate::fit::Model;
use crate::history::{History, OpId};
use crate::op::{How, Op, Outcome, Owner, Place};

/// The model of a folder. A name is as stable as the reply to the call that created it.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    owner: Owner,
    /// The files to which links in the folder lead.
    files: BTreeMap<Owner, Handle>,
}

/// The object of a name in the folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    is_folder: bool,
    /// The handle of the object; `None` until a client has received it.
    handle: Option<Handle>,
    /// The exclusive CREATE that created the object, if it was created so.
    exclusive: Option<OpId>,
}

type State = BTreeMap<u8, Entry>;

impl Folder {
    pub(crate) fn new(owner: Owner, history: &History) -> Self {
        let opened =
            history.doings().iter().filter_map(|doing| match (&doing.op, &doing.outcome) {
                (Op::Open(Place::File(owner)), Some(Outcome::Object(handle))) => {
                    Some((*owner, *handle))
                }
                _ => None,
            });
        Self { owner, files: opened.collect() }
    }

    /// Runs an operation on the model; returns the outcome that the server must report.
    fn run(
        &self,
        state: &mut State,
        id: OpId,
        op: &Op,
        made: Option<Handle>,
    ) -> Result<(), Status> {
        let file = Entry { is_folder: false, handle: made, exclusive: None };
        match *op {
            Op::Lookup { name, .. } => found(state, name).map(|_| ()),
            Op::Create { name, how, .. } => match (state.get_mut(&name), how) {
                (None, How::Exclusive) => add(state, name, Entry { exclusive: Some(id), ..file }),
                (None, How::Guarded | How::Unchecked) => add(state, name, file),
                (Some(entry), How::Exclusive) if entry.exclusive == Some(id) => Ok(()),
                (Some(entry), How::Unchecked) if !entry.is_folder => Ok(()),
                (Some(_), _) => Err(Status::AlreadyExists),
            },
            Op::Mkdir { name, .. } => add(state, name, Entry { is_folder: true, ..file }),
            Op::Link { name, file: owner, .. } => {
                add(state, name, Entry { handle: self.files.get(&owner).copied(), ..file })
            }
            Op::Remove { name, .. } if found(state, name)?.is_folder => Err(Status::IsDirectory),
            Op::Rmdir { name, .. } if !found(state, name)?.is_folder => Err(Status::NotDirectory),
            Op::Remove { name, .. } | Op::Rmdir { name, .. } => {
                state.remove(&name);
                Ok(())
            }
            Op::Rename { from, to, .. } => rename(state, from, to),
            Op::List { .. } => Ok(()),
            Op::Mount | Op::Open(_) | Op::Read { .. } | Op::Write { .. } | Op::Commit { .. } => {
                panic!("{op:?} is no operation on names")
            }
        }
    }
}

fn found(state: &State, name: u8) -> Result<&Entry, Status> {
    state.get(&name).ok_or(Status::NotFound)
}

fn add(state: &mut State, name: u8, entry: Entry) -> Result<(), Status> {
    if state.contains_key(&name) {
        return Err(Status::AlreadyExists);
    }
    state.insert(name, entry);
    Ok(())
}

fn rename(state: &mut State, from: u8, to: u8) -> Result<(), Status> {
    let source = found(state, from)?.clone();
    let replaced = state.get(&to);
    let same_object =
        replaced.is_some_and(|entry| entry.handle.is_some() && entry.handle == source.handle);
    if from == to || same_object {
        return Ok(());
    }
    match replaced.map(|entry| entry.is_folder) {
        Some(true) if !source.is_folder => return Err(Status::IsDirectory),
        Some(false) if source.is_folder => return Err(Status::NotDirectory),
        _ => {}
    }
    state.remove(&from);
    state.insert(to, source);
    Ok(())
}

/// Returns true if two failures count as equal: RFC 1813 3.3.14 lets a server return EXIST in some
/// cases in which the types of the objects do not match.
fn same_failure(op: &Op, wanted: Status, told: Status) -> bool {
    let kinds = matches!(wanted, Status::IsDirectory | Status::NotDirectory);
    let rename = matches!(op, Op::Rename { .. });
    wanted == told || (rename && kinds && told == Status::AlreadyExists)
}

impl Model for Folder {
    type State = State;

    fn start(&self) -> State {
        State::new()
    }

    fn concerns(&self, op: &Op) -> bool {
        op.folder() == Some(self.owner)
    }

    fn after(&self, state: &State, id: OpId, op: &Op, outcome: Option<&Outcome>) -> Option<State> {
        let mut after = state.clone();
        let made = match outcome {
            Some(Outcome::Object(handle)) => Some(*handle),
            _ => None,
        };
        let result = self.run(&mut after, id, op, made);
        let right = match (outcome, result) {
            (None, _) => true,
            (Some(Outcome::Failed(told)), Err(wanted)) => same_failure(op, wanted, *told),
            (Some(Outcome::Failed(_)), Ok(())) | (Some(_), Err(_)) => false,
            (Some(Outcome::Names(names)), Ok(())) => state.keys().eq(names.iter()),
            (Some(Outcome::Object(_)), Ok(())) => names_it(&mut after, op, made),
            (Some(_), Ok(())) => true,
        };
        right.then_some(after)
    }

    fn crash(&self, state: &State) -> Vec<State> {
        vec![state.clone()]
    }
}

/// Returns true if the operation's object can be the object of its name. If no client has received
/// the handle of that object yet, records this handle.
fn names_it(state: &mut State, op: &Op, object: Option<Handle>) -> bool {
    let (Op::Lookup { name, .. } | Op::Create { name, .. } | Op::Mkdir { name, .. }) = *op else {
        return true;
    };
    let entry = state.get_mut(&name).expect("the name has an object");
    entry.handle = entry.handle.or(object);
    entry.handle == object
}
