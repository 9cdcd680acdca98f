//! The mutants: deliberate faults of the server. The checker of one promise must find each mutant.

use clap::ValueEnum;
use serde::Deserialize;

/// A deliberate fault of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mutant {
    /// The duplicate request cache recognises no call, so every copy of a call runs.
    ForgetsReplies,
    /// The duplicate request cache recognises no WRITE on a stream.
    ForgetsWrites,
    /// A restarted server does not load the recorded replies.
    ForgetsNotes,
    /// The server records a reply in the journal only some time after it has sent the reply.
    NotesLate,
    /// When a connection closes, the server cancels the calls of the connection, although they may
    /// have had their effects.
    DropsCalls,
    /// The server reports unstable data as stable.
    LiesAboutWrites,
    /// A COMMIT syncs nothing.
    LiesAboutCommits,
    /// A COMMIT gets no reply.
    HangsInCommits,
    /// The write verifier is the same after each start.
    KeepsVerifier,
    /// A READ returns the result of an earlier READ.
    ReadsStale,
    /// A REMOVE of a missing name succeeds.
    RemovesNothing,
}

impl Mutant {
    /// All mutants.
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

    /// Returns the promise that the mutant breaks.
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
