//! What a case is, and how it ends.

use std::fmt;

use crate::bench::Bench;

/// How a case ends: well, or as [`Stop`] says.
pub(crate) type Verdict = Result<(), Stop>;

/// Why a case ends before its last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The server did what the clause rules out.
    Fail(String),
    /// What the case is about is not there to be tested.
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

/// Something to find out about a server.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// What holds when it passes, as words between underscores.
    pub(crate) name: &'static str,
    /// The sentence of a standard, or of the paper, that says so.
    pub(crate) clause: &'static str,
    pub(crate) weight: Weight,
    /// Finds out.
    pub(crate) run: fn(&mut Bench<'_>) -> Verdict,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// The clause rules out anything else.
    Must,
    /// The clause only leans that way: what goes wrong is advice.
    Advice,
}

/// The version of NFS that cases need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: they speak other programs, or either version.
    Nothing,
    /// Version 2.
    Version2,
    /// Version 3.
    Version3,
}

/// Whether cases of a group may run beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// They may.
    Shared,
    /// They disturb the server, or are disturbed by what others do to it.
    Alone,
}

/// Cases about one thing.
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

/// The table of a group's cases: each line is the name of a function and the clause it tests,
/// with `(advice)` in between where the clause rules nothing out.
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
