//! What clients were told, and when the server crashed: all that promises are checked by.

use leasehold_base::units::Time;

use crate::op::{Op, Outcome};

/// Names an operation of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpId(usize);

/// An operation of a program.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    /// The program, which does one operation at a time.
    pub(crate) program: u8,
    pub(crate) op: Op,
    /// What the program was told, once it was.
    pub(crate) outcome: Option<Outcome>,
    /// Where in the records it began and ended.
    begun: usize,
    ended: Option<usize>,
}

/// What happened, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    Begun(OpId),
    Ended(OpId),
    /// The server lost all that was not stable, and forgot all replies.
    Crashed,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    doings: Vec<Doing>,
    records: Vec<(Time, Record)>,
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
        self.records.push((now, Record::Crashed));
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

    /// What happened, with its place in the order.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, Record)> {
        self.records.iter().map(|(_, record)| *record).enumerate()
    }

    pub(crate) fn crashes(&self) -> usize {
        self.records.iter().filter(|(_, record)| matches!(record, Record::Crashed)).count()
    }

    /// The operations that began before the server crashed, at `crash`, and ended after that.
    pub(crate) fn outlives(&self, id: OpId, crash: usize) -> bool {
        let doing = &self.doings[id.0];
        doing.begun < crash && doing.ended.is_none_or(|ended| ended > crash)
    }

    /// An operation in words.
    pub(crate) fn tell(&self, id: OpId) -> String {
        let Doing { program, op, outcome, begun, ended } = &self.doings[id.0];
        let time = |at: usize| self.records[at].0.since(Time::ZERO).as_secs_f64();
        let ended = ended.map_or(f64::INFINITY, time);
        let begun = time(*begun);
        format!("{begun:.6}..{ended:.6} program {program}: {op:?} -> {outcome:?}")
    }
}
