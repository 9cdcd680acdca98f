//! The status flags in the reply to SEQUENCE, and the revoked state that some of them report.

/// The status flags of SEQUENCE (RFC 8881 18.46).
#[doc(alias = "sr_status_flags")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusFlags(pub u32);

impl StatusFlags {
    /// No session of the client has a working backchannel.
    pub const CALLBACK_PATH_DOWN: Self = Self(1);
    /// All state of the client was revoked because its lease had expired.
    pub const EXPIRED_ALL_REVOKED: Self = Self(1 << 3);
    /// Some state of the client was revoked because its lease had expired.
    pub const EXPIRED_SOME_REVOKED: Self = Self(1 << 4);
    /// An administrator revoked state of the client.
    pub const ADMINISTRATOR_REVOKED: Self = Self(1 << 5);
    /// Delegations or layouts were revoked because the client did not return them.
    pub const RECALLABLE_REVOKED: Self = Self(1 << 6);
    /// The client must reclaim its state after a restart of the server.
    pub const RECLAIM_NEEDED: Self = Self(1 << 8);
    /// The session has no working backchannel.
    pub const SESSION_PATH_DOWN: Self = Self(1 << 9);
    /// The backchannel of the session has failed for good.
    pub const BACKCHANNEL_FAULT: Self = Self(1 << 10);

    /// Sets flags if a condition is true.
    pub(super) const fn set_if(&mut self, condition: bool, flags: Self) {
        if condition {
            self.0 |= flags.0;
        }
    }

    /// Returns true if all flags of `others` are set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The cause of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// An administrator revoked the state.
    Administrator,
    /// The lease had expired, and all state of the client was revoked.
    ExpiredAll,
    /// The lease had expired, and some state of the client was revoked.
    ExpiredSome,
    /// The client did not return a delegation or layout.
    Recallable,
}

impl Cause {
    const ALL: [(Self, StatusFlags); 4] = [
        (Self::Administrator, StatusFlags::ADMINISTRATOR_REVOKED),
        (Self::ExpiredAll, StatusFlags::EXPIRED_ALL_REVOKED),
        (Self::ExpiredSome, StatusFlags::EXPIRED_SOME_REVOKED),
        (Self::Recallable, StatusFlags::RECALLABLE_REVOKED),
    ];
}

/// The numbers of revoked stateids of a client that the client has not freed, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Revoked([u32; 4]);

impl Revoked {
    pub(super) const fn add(&mut self, cause: Cause, stateids: u32) {
        let count = &mut self.0[cause as usize];
        *count = count.saturating_add(stateids);
    }

    pub(super) const fn free(&mut self, cause: Cause, stateids: u32) {
        let count = &mut self.0[cause as usize];
        *count = count.saturating_sub(stateids);
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    /// Sets the flag of each cause with revoked stateids that the client has not freed.
    pub(super) fn report(self, flags: &mut StatusFlags) {
        for (cause, flag) in Cause::ALL {
            flags.set_if(self.0[cause as usize] != 0, flag);
        }
    }
}
