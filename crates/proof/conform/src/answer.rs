//! The result of a procedure, and the case's verdict on it.

use std::fmt::Debug;

use leasehold_wire::{nfs2, nfs3, outcome::Outcome};

use crate::case::Stop;

/// The result of a procedure: its results, or the status with the failure's results.
#[derive(Clone, Debug)]
pub(crate) struct Answered<Done, Status, Failed> {
    procedure: String,
    result: Result<Done, (Status, Failed)>,
}

/// The result of a procedure of version 3.
pub(crate) type Answered3<Done, Failed> = Answered<Done, nfs3::Status, Failed>;

/// The result of a procedure of version 2.
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
    /// Returns the results; a failure fails the case.
    pub(crate) fn done(self) -> Result<Done, Stop> {
        self.result.map_err(|(status, _)| {
            Stop::fail(format!("{}: expected success, got {status:?}", self.procedure))
        })
    }

    /// Returns the results of a failure; success, or a status outside of `expected`, fails the
    /// case.
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

    /// Returns the status of a failure; `None` for success.
    pub(crate) fn status(&self) -> Option<Status> {
        self.result.as_ref().err().map(|(status, _)| *status)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.result.is_ok()
    }

    /// Returns either result, where both are right.
    pub(crate) fn either(self) -> Result<Done, (Status, Failed)> {
        self.result
    }
}
