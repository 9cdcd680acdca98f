//! The replies to clients and the crashes of the server: the input of all checkers.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_base::units::Time;

use crate::op::{Op, Outcome};

/// The number of an operation in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpId(usize);

/// An operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    /// The program that runs the operation; a program runs one operation at a time.
    pub(crate) program: u8,
    pub(crate) op: Op,
    /// The outcome that the program received; `None` while the operation is in progress.
    pub(crate) outcome: Option<Outcome>,
    /// The indexes of the records at which the operation began and ended.
    begun: usize,
    ended: Option<usize>,
}

/// An event of the history; events are recorded in the order of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    Begun(OpId),
    Ended(OpId),
    /// The server lost all unstable data, including replies.
    Crashed,
    /// The server's process ended; the machine lost no data.
    Killed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    doings: Vec<Doing>,
    records: Vec<(Time, Record)>,
    /// For each record at which the server went down, the operations whose replies it lost.
    downs: BTreeMap<usize, Lost>,
}

/// The operations whose replies the server lost when it went down. A reply to a WRITE is always
/// lost.
#[derive(Clone, Debug)]
enum Lost {
    /// Any operation may have lost its reply.
    Any,
    /// The operations that were in progress lost their replies.
    These(BTreeSet<OpId>),
}

impl History {
    pub(crate) fn begin(&mut self, now: Time, program: u8, op: Op) -> OpId {
        let id = OpId(self.doings.len());
        self.doings.push(Doing {
            program,
            op,
            outcome: None,
            begun: self.records.len(),
            ended: None,
        });
        self.records.push((now, Record::Begun(id)));
        id
    }

    pub(crate) fn end(&mut self, now: Time, id: OpId, outcome: Outcome) {
        let doing = &mut self.doings[id.0];
        doing.outcome = Some(outcome);
        doing.ended = Some(self.records.len());
        self.records.push((now, Record::Ended(id)));
    }

    pub(crate) fn crash(&mut self, now: Time) {
        self.downs.insert(self.records.len(), Lost::Any);
        self.records.push((now, Record::Crashed));
    }

    /// Records that the process ended while some operations were in progress and had no reply yet.
    pub(crate) fn kill(&mut self, now: Time, cut_short: BTreeSet<OpId>) {
        self.downs.insert(self.records.len(), Lost::These(cut_short));
        self.records.push((now, Record::Killed));
    }

    pub(crate) fn doing(&self, id: OpId) -> &Doing {
        &self.doings[id.0]
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = OpId> {
        (0..self.doings.len()).map(OpId)
    }

    pub(crate) fn doings(&self) -> &[Doing] {
        &self.doings
    }

    /// Returns the events in order, each with its index.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, Record)> {
        self.records.iter().map(|(_, record)| *record).enumerate()
    }

    pub(crate) fn crashes(&self) -> usize {
        self.downs.len() - self.kills()
    }

    pub(crate) fn kills(&self) -> usize {
        self.downs.values().filter(|lost| matches!(lost, Lost::These(_))).count()
    }

    /// Returns true if an operation began before the server went down at the record `down`, and
    /// ended later.
    pub(crate) fn outlives(&self, id: OpId, down: usize) -> bool {
        let doing = &self.doings[id.0];
        doing.begun < down && doing.ended.is_none_or(|ended| ended > down)
    }

    /// Returns true if an operation may have run before the server went down at the record `down`,
    /// and may run again after this failure or a later failure.
    pub(crate) fn may_repeat(&self, id: OpId, down: usize) -> bool {
        let later = self.downs.range(down..).take_while(|(down, _)| self.outlives(id, **down));
        later.map(|(_, lost)| lost).any(|lost| match lost {
            // A crash may lose any entry of the reply journal, so any operation may run again.
            Lost::Any => true,
            Lost::These(ids) => ids.contains(&id) || matches!(self.doing(id).op, Op::Write { .. }),
        })
    }

    /// Describes an operation.
    pub(crate) fn tell(&self, id: OpId) -> String {
        let Doing { program, op, outcome, begun, ended } = &self.doings[id.0];
        let time = |at: usize| self.records[at].0.since(Time::ZERO).as_secs_f64();
        let ended = ended.map_or(f64::INFINITY, time);
        let begun = time(*begun);
        format!("{begun:.6}..{ended:.6} program {program}: {op:?} -> {outcome:?}")
    }
}
