//! A simulated program: it runs random operations on its own folder and file, and on shared ones.

use core::time::Duration;

use leasehold_base::random::Random;
use leasehold_wire::nfs3::write::Stability;

use crate::faults::upto;
use crate::op::{BLOCK_COUNT, Handles, How, NAME_COUNT, Op, Outcome, Owner, Place};

/// The maximum pause of a program between two operations.
const THINKING_MAX: Duration = Duration::from_millis(300);

/// A program, which runs one operation at a time.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) id: u8,
    pub(crate) handles: Handles,
    random: Random,
    /// The last number that the program wrote. It writes each number once, and later numbers are
    /// greater.
    written: u64,
    /// The reads that the program must still do before it ends; `None` until the program has
    /// received the request to end.
    ending: Option<Vec<Op>>,
}

impl Program {
    pub(crate) const fn new(id: u8, random: Random) -> Self {
        Self { id, handles: Handles::new(), random, written: 0, ending: None }
    }

    /// Makes the program read everything once more and then end.
    pub(crate) fn end(&mut self) {
        let mut last = Vec::new();
        for owner in [Owner::Shared, Owner::Program(self.id)] {
            last.extend((0..BLOCK_COUNT).map(|block| Op::Read { file: owner, block }));
            last.extend((0..NAME_COUNT).map(|name| Op::Lookup { folder: owner, name }));
            last.push(Op::List { folder: owner });
        }
        last.push(Op::Commit { file: Owner::Program(self.id) });
        self.ending = Some(last);
    }

    /// Returns the program's next operation; `None` after its end.
    pub(crate) fn next(&mut self) -> Option<Op> {
        if !self.handles.contains_key(&Place::Root) {
            return Some(Op::Mount);
        }
        let own = Owner::Program(self.id);
        let places = [Owner::Shared, own].map(|owner| [Place::Folder(owner), Place::File(owner)]);
        let unknown = places.iter().flatten().find(|place| !self.handles.contains_key(place));
        if let Some(place) = unknown {
            return Some(Op::Open(*place));
        }
        match &mut self.ending {
            Some(last) => last.pop(),
            None => Some(self.random_op()),
        }
    }

    /// Records the outcome of an operation.
    pub(crate) fn learn(&mut self, op: &Op, outcome: &Outcome) {
        if let Some(place) = op.opens() {
            let Outcome::Object(handle) = outcome else { panic!("{op:?} cannot be {outcome:?}") };
            self.handles.insert(place, *handle);
        }
    }

    /// Draws the pause of the program before its next operation.
    pub(crate) fn thinking(&mut self) -> Duration {
        upto(&mut self.random, THINKING_MAX)
    }

    /// Draws the verifier of an exclusive CREATE.
    pub(crate) fn verifier(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn random_op(&mut self) -> Op {
        let shared = self.random.one_in(2);
        let owner = if shared { Owner::Shared } else { Owner::Program(self.id) };
        if self.random.one_in(2) { self.on_names(owner) } else { self.on_data(owner) }
    }

    fn on_names(&mut self, folder: Owner) -> Op {
        let mut any_name = || u8::try_from(self.random.below(NAME_COUNT.into())).unwrap_or(0);
        let (name, to) = (any_name(), any_name());
        match self.random.below(12) {
            0 | 1 => Op::Create { folder, name, how: How::Guarded },
            2 => Op::Create { folder, name, how: How::Exclusive },
            3 => Op::Create { folder, name, how: How::Unchecked },
            4 => Op::Mkdir { folder, name },
            5 | 6 => Op::Remove { folder, name },
            7 => Op::Rmdir { folder, name },
            8 => Op::Rename { folder, from: name, to },
            9 => Op::Link { folder, name, file: Owner::Program(self.id) },
            10 => Op::List { folder },
            _ => Op::Lookup { folder, name },
        }
    }

    /// Draws an operation on the data of a file. All writes to the shared file are stable, because
    /// a program cannot know which unstable writes of other programs a crash has lost.
    fn on_data(&mut self, file: Owner) -> Op {
        let block = u8::try_from(self.random.below(BLOCK_COUNT.into())).unwrap_or(0);
        match self.random.below(8) {
            0..4 => {
                self.written += 1;
                let value = u64::from(self.id + 1) << 32 | self.written;
                let stability = match self.random.below(4) {
                    _ if file == Owner::Shared => Stability::FileSync,
                    0 => Stability::FileSync,
                    1 => Stability::DataSync,
                    _ => Stability::Unstable,
                };
                Op::Write { file, block, value, stability }
            }
            4 if file != Owner::Shared => Op::Commit { file },
            _ => Op::Read { file, block },
        }
    }
}
