//! The relation of a request for new or reclaimed state to the grace period.

/// The state of the grace period for one client, which the list of clients decides (RFC 8881
/// sections 8.4.2.1 and 8.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grace {
    /// No grace period runs, and the client has sent RECLAIM_COMPLETE: only new state is granted.
    Over,
    /// The client may reclaim state: it is on the stable list, its record there is trustworthy,
    /// and it has not sent RECLAIM_COMPLETE.
    Reclaiming,
    /// A grace period runs, or the client has not sent RECLAIM_COMPLETE; and the client may not
    /// reclaim, because it has sent RECLAIM_COMPLETE, its record has an edge flag, or the period
    /// is over.
    Closed,
    /// A grace period runs, and the client is not on the stable list, so it has no state to
    /// reclaim.
    Unlisted,
}

/// The reason for which a request is refused because of the grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraceError {
    /// New state must wait until the grace period has ended.
    Grace,
    /// Nothing can be reclaimed now.
    NoGrace,
    /// The client has no state to reclaim.
    ReclaimBad,
}

impl Grace {
    /// Decides if a request may be granted; `reclaims` is true if the request reclaims state.
    pub(crate) const fn admit(self, reclaims: bool) -> Result<(), GraceError> {
        match (self, reclaims) {
            (Self::Over, false) | (Self::Reclaiming, true) => Ok(()),
            (Self::Reclaiming | Self::Closed | Self::Unlisted, false) => Err(GraceError::Grace),
            (Self::Over | Self::Closed, true) => Err(GraceError::NoGrace),
            (Self::Unlisted, true) => Err(GraceError::ReclaimBad),
        }
    }
}
