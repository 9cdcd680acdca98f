//! Deliberate faults of the server; the checker of one promise must find each.

use clap::ValueEnum;
use serde::Deserialize;

/// A deliberate fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// The duplicate request cache recognises no call: every copy runs.
    ForgetsReplies,
    /// The duplicate request cache recognises no WRITE on a stream.
    ForgetsWrites,
    /// A restarted server forgets all earlier calls.
    ForgetsNotes,
    /// The server records a reply in the journal some time after it sent the reply.
    NotesLate,
    /// The server cancels a call when its connection closes, though the call may have had its
    /// effect.
    DropsCalls,
    /// The server reports unstable data as stable.
    LiesAboutWrites,
    /// A COMMIT does nothing.
    LiesAboutCommits,
    /// A COMMIT gets no reply.
    HangsInCommits,
    /// The verifier is always the same.
    KeepsVerifier,
    /// A READ returns the result of the previous READ.
    ReadsStale,
    /// A REMOVE of a missing name succeeds.
    RemovesNothing,
}

impl Mutant {
    /// Every mutant.
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

    /// The promise that the mutant breaks.
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
