//! Cases and their results.

use std::fmt;

use crate::bench::Bench;

/// The result of a case: success, or [`Stop`].
pub(crate) type Verdict = Result<(), Stop>;

/// The reason for which a case ends before its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server violated the clause.
    Fail(String),
    /// The server lacks the feature that the case tests.
    Skip(String),
}

impl Stop {
    pub(crate) fn fail(why: impl Into<String>) -> Self {
        Self::Fail(why.into())
    }

    pub(crate) fn skip(why: impl Into<String>) -> Self {
        Self::Skip(why.into())
    }
}

/// One test of a server.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// The property that holds if the case passes, as words between underscores.
    pub(crate) name: &'static str,
    /// The clause of a standard, or of the paper, that requires the property.
    pub(crate) clause: &'static str,
    pub(crate) weight: Weight,
    /// Runs the test.
    pub(crate) run: fn(&mut Bench<'_>) -> Verdict,
}

/// The weight of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The clause requires the behaviour.
    Must,
    /// The clause only recommends the behaviour: a failure is advice.
    Advice,
}

/// The version of NFS that cases need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No version: the cases use other programs, or either version.
    Nothing,
    /// Version 2.
    Version2,
    /// Version 3.
    Version3,
}

/// States if cases of a group may run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// They may run beside others.
    Shared,
    /// They disturb the server, or calls of others disturb them.
    Alone,
}

/// Cases about one subject.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) needs: Needs,
    pub(crate) company: Company,
    pub(crate) cases: &'static [Case],
}

/// A case and the group that it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) group: &'static Group,
    pub(crate) case: &'static Case,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group.name, self.case.name)
    }
}

/// The table of a group's cases: each line is the name of a function and the clause that it tests,
/// with `(advice)` in between if the clause only recommends the behaviour.
macro_rules! cases {
    (@weight) => { $crate::case::Weight::Must };
    (@weight advice) => { $crate::case::Weight::Advice };
    ($($name:ident $(($weight:ident))?: $clause:literal,)*) => {
        &[$($crate::case::Case {
            name: stringify!($name),
            clause: $clause,
            weight: cases!(@weight $($weight)?),
            run: $name,
        },)*]
    };
}

/// Ends the case as failed unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err($crate::case::Stop::fail(format!($($why)+)));
        }
    };
}

/// Ends the case as failed unless two values are equal.
pub(crate) fn equal<T: PartialEq + fmt::Debug>(what: &str, got: T, expected: T) -> Verdict {
    ensure!(got == expected, "{what}: expected {expected:?}, got {got:?}");
    Ok(())
}

pub(crate) use {cases, ensure};
