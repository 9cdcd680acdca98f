//! The counts of one replication over a span of simulated time.

use crate::histogram::Histogram;

/// Counts of one class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassTally {
    pub(crate) answered: u64,
    pub(crate) response_sum: f64,
    pub(crate) responses: Histogram,
    pub(crate) offered: u64,
    /// Requests that ended without a reply: lost after the last retransmission, or abandoned.
    pub(crate) unanswered: u64,
    pub(crate) retransmitted: u64,
    /// Replies that arrived after the request had ended.
    pub(crate) wasted: u64,
    pub(crate) hits: u64,
    pub(crate) renewals: u64,
}

/// Counts of one class at one centre.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CellTally {
    pub(crate) served: u64,
    /// Seconds of started service.
    pub(crate) busy: f64,
    /// Integral of the number present.
    pub(crate) area: f64,
}

/// All counts over a span.
#[derive(Clone, Debug, PartialEq)]
pub struct Tally {
    pub(crate) span: f64,
    pub(crate) classes: Vec<ClassTally>,
    /// By centre, then class.
    pub(crate) cells: Vec<CellTally>,
}

impl ClassTally {
    fn new() -> Self {
        Self {
            answered: 0,
            response_sum: 0.0,
            responses: Histogram::new(),
            offered: 0,
            unanswered: 0,
            retransmitted: 0,
            wasted: 0,
            hits: 0,
            renewals: 0,
        }
    }

    fn merge(&mut self, other: &Self) {
        self.answered += other.answered;
        self.response_sum += other.response_sum;
        self.responses.merge(&other.responses);
        self.offered += other.offered;
        self.unanswered += other.unanswered;
        self.retransmitted += other.retransmitted;
        self.wasted += other.wasted;
        self.hits += other.hits;
        self.renewals += other.renewals;
    }
}

impl Tally {
    pub(crate) fn new(centres: usize, classes: usize) -> Self {
        Self {
            span: 0.0,
            classes: (0..classes).map(|_| ClassTally::new()).collect(),
            cells: vec![CellTally::default(); centres * classes],
        }
    }

    /// Adds the counts of another span of the same replication.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.span += other.span;
        for (class, more) in self.classes.iter_mut().zip(&other.classes) {
            class.merge(more);
        }
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            cell.served += more.served;
            cell.busy += more.busy;
            cell.area += more.area;
        }
    }

    /// Returns the services completed at all centres.
    #[must_use]
    pub fn services(&self) -> u64 {
        self.cells.iter().map(|cell| cell.served).sum()
    }

    /// Returns services and replies: a request with a cache hit has only a reply.
    pub(crate) fn completions(&self) -> u64 {
        self.services() + self.answers()
    }

    /// Returns the replies in all classes.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.classes.iter().map(|class| class.answered).sum()
    }
}
