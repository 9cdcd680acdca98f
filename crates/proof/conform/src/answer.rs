//! What a procedure answered, and what the case makes of it.

use std::fmt::Debug;

use leasehold_wire::{nfs2, nfs3, outcome::Outcome};

use crate::case::Stop;

/// What a procedure answered: what it did, or the status and what came with it.
#[derive(Clone, Debug)]
pub(crate) struct Answered<Done, Status, Failed> {
    procedure: String,
    result: Result<Done, (Status, Failed)>,
}

/// What a procedure of version 3 answered.
pub(crate) type Answered3<Done, Failed> = Answered<Done, nfs3::Status, Failed>;

/// What a procedure of version 2 answered.
pub(crate) type Answered2<Done> = Answered<Done, nfs2::Status, ()>;

impl<Done, Failed> Answered3<Done, Failed> {
    pub(crate) fn version3(procedure: String, reply: nfs3::Reply<Done, Failed>) -> Self {
        let result = match reply {
            nfs3::Reply::Done(done) => Ok(done),
            nfs3::Reply::Failed(status, failed) => Err((status, failed)),
        };
        Self { procedure, result }
    }
}

impl<Done, Status> Answered<Done, Status, ()> {
    pub(crate) fn plain(procedure: String, reply: Outcome<Done, Status>) -> Self {
        let result = match reply {
            Outcome::Done(done) => Ok(done),
            Outcome::Failed(status) => Err((status, ())),
        };
        Self { procedure, result }
    }
}

impl<Done, Status: Copy + Debug + PartialEq, Failed> Answered<Done, Status, Failed> {
    /// What was done; a failure fails the case.
    pub(crate) fn done(self) -> Result<Done, Stop> {
        self.result.map_err(|(status, _)| {
            Stop::fail(format!("{}: expected success, got {status:?}", self.procedure))
        })
    }

    /// What came with a failure; success, or a status that is not among these, fails the case.
    pub(crate) fn refused(self, expected: &[Status]) -> Result<Failed, Stop> {
        let expected_text = match expected {
            [one] => format!("{one:?}"),
            some => format!("one of {some:?}"),
        };
        match self.result {
            Err((status, failed)) if expected.contains(&status) => Ok(failed),
            Err((status, _)) => Err(Stop::fail(format!(
                "{}: expected {expected_text}, got {status:?}",
                self.procedure
            ))),
            Ok(_) => Err(Stop::fail(format!(
                "{}: expected {expected_text}, got success",
                self.procedure
            ))),
        }
    }

    /// The status of a failure; none of success.
    pub(crate) fn status(&self) -> Option<Status> {
        self.result.as_ref().err().map(|(status, _)| *status)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.result.is_ok()
    }

    /// Either result, where both are right.
    pub(crate) fn either(self) -> Result<Done, (Status, Failed)> {
        self.result
    }
}
