//! Deliberate faults of the server, each to be found by the checker of one promise.

use clap::ValueEnum;
use serde::Deserialize;

/// A deliberate fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// The reply cache knows no call: every copy runs.
    ForgetsReplies,
    /// The reply cache knows no WRITE that came on a stream.
    ForgetsWrites,
    /// A server that is started again knows nothing of the calls before.
    ForgetsNotes,
    /// A reply is noted some time after it was given.
    NotesLate,
    /// A call is given up when its connection closes, though it may have had its effect.
    DropsCalls,
    /// Data is called stable that is not.
    LiesAboutWrites,
    /// A COMMIT does nothing.
    LiesAboutCommits,
    /// A COMMIT is never answered.
    HangsInCommits,
    /// The verifier is always the same.
    KeepsVerifier,
    /// A READ brings what the one before it brought.
    ReadsStale,
    /// A REMOVE of a name that is not there succeeds.
    RemovesNothing,
}

impl Mutant {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::ForgetsReplies,
        Self::ForgetsWrites,
        Self::ForgetsNotes,
        Self::NotesLate,
        Self::DropsCalls,
        Self::LiesAboutWrites,
        Self::LiesAboutCommits,
        Self::HangsInCommits,
        Self::KeepsVerifier,
        Self::ReadsStale,
        Self::RemovesNothing,
    ];

    /// The promise that it breaks.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            Self::ForgetsReplies | Self::ForgetsNotes | Self::NotesLate | Self::DropsCalls => {
                "once"
            }
            Self::LiesAboutWrites => "stable",
            Self::LiesAboutCommits => "committed",
            Self::HangsInCommits => "progress",
            Self::KeepsVerifier => "verifier",
            Self::ForgetsWrites | Self::ReadsStale | Self::RemovesNothing => "sequential",
        }
    }
}
