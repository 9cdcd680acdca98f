//! Stateids: the epoch of the server, the number of the state, and the sequence number.

use leasehold_base::limits::state::SEQUENCE_WRAP_WINDOW;

use super::Refusal;

/// A stateid (RFC 8881 section 8.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId {
    /// The number of changes of the state, counted from 1; zero in a request means the present
    /// number.
    pub sequence: u32,
    /// The state: the epoch of the server in four bytes and a [`StateNumber`] in eight bytes.
    pub other: [u8; 12],
}

/// The kind of state, which a stateid contains so that the server finds the table of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// An open.
    Open,
    /// The byte-range locks of an owner under an open.
    Locks,
    /// A delegation; the lease table has the state.
    Delegation,
    /// A layout.
    Layout,
}

/// The number of a state, which is never reused in an epoch. The low eight bits are the shard, the
/// next two bits are the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateNumber(pub u64);

const SHARD_BITS: u32 = 8;
const KIND_BITS: u32 = 2;

impl StateNumber {
    /// Returns the number of a shard's state; `count` is different for each state of the shard and
    /// kind, at least 1, and below 2^54, which is never reached by counting.
    #[must_use]
    pub const fn new(count: u64, kind: StateKind, shard: u8) -> Self {
        let low = ((kind as u64) << SHARD_BITS) | shard as u64;
        Self((count << (SHARD_BITS + KIND_BITS)) | low)
    }

    /// Returns the shard that has the state.
    #[must_use]
    pub const fn shard(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Returns the kind of the state.
    #[must_use]
    pub const fn kind(self) -> StateKind {
        match (self.0 >> SHARD_BITS) & ((1 << KIND_BITS) - 1) {
            0 => StateKind::Open,
            1 => StateKind::Locks,
            2 => StateKind::Delegation,
            _ => StateKind::Layout,
        }
    }
}

/// A stateid that designates no state (RFC 8881 section 8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// All zero: the request has no open.
    Anonymous,
    /// All one: a READ bypasses share reservations.
    Bypass,
    /// The current stateid of the compound, for which the owner of the machine substitutes the
    /// stateid.
    Current,
    /// Every other stateid with an `other` of zeros or ones.
    Invalid,
}

impl StateId {
    /// The stateid of all zeros.
    pub const ANONYMOUS: Self = Self { sequence: 0, other: [0; 12] };

    /// The stateid of all ones.
    pub const BYPASS: Self = Self { sequence: u32::MAX, other: [0xff; 12] };

    /// The stateid that replies to CLOSE contain (RFC 8881 section 18.2.4).
    pub const INVALID: Self = Self { sequence: u32::MAX, other: [0; 12] };

    /// Returns the stateid of a state.
    #[must_use]
    pub fn new(epoch: u32, number: StateNumber, sequence: u32) -> Self {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&epoch.to_be_bytes());
        other[4..].copy_from_slice(&number.0.to_be_bytes());
        Self { sequence, other }
    }

    /// Returns the epoch of the server that made the stateid.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        let [a, b, c, d, ..] = self.other;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Returns the number of the state.
    #[must_use]
    pub fn number(&self) -> StateNumber {
        let [_, _, _, _, number @ ..] = self.other;
        StateNumber(u64::from_be_bytes(number))
    }

    /// Returns the meaning of a special stateid; `None` if the stateid designates a state.
    #[must_use]
    pub fn special(&self) -> Option<Special> {
        let is_special = self.other == [0; 12] || self.other == [0xff; 12];
        is_special.then(|| match *self {
            Self::ANONYMOUS => Special::Anonymous,
            Self::BYPASS => Special::Bypass,
            Self { sequence: 1, other } if other == [0; 12] => Special::Current,
            Self { .. } => Special::Invalid,
        })
    }
}

/// Rule 2: returns the sequence number after a change.
pub(super) const fn after(sequence: u32) -> u32 {
    match sequence.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Rule 2: compares the sequence number of a request with the present one.
pub(super) const fn compare(sent: u32, present: u32) -> Result<(), Refusal> {
    const HIGH: u32 = u32::MAX - SEQUENCE_WRAP_WINDOW;
    if sent == 0 || sent == present {
        return Ok(());
    }
    let is_wrapped = present < SEQUENCE_WRAP_WINDOW && sent > HIGH;
    let wraps_ahead = sent < SEQUENCE_WRAP_WINDOW && present > HIGH;
    let is_old = is_wrapped || (sent < present && !wraps_ahead);
    Err(if is_old { Refusal::OldStateId } else { Refusal::BadStateId })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stateid_contains_epoch_number_kind_and_shard() {
        for kind in [StateKind::Open, StateKind::Locks, StateKind::Delegation, StateKind::Layout] {
            let number = StateNumber::new(77, kind, 3);
            let id = StateId::new(9, number, 5);
            assert_eq!((id.epoch(), id.number(), id.sequence), (9, number, 5));
            assert_eq!((number.kind(), number.shard()), (kind, 3));
            assert_eq!(id.special(), None);
        }
    }

    #[test]
    fn special_stateids_are_recognised() {
        let zeros = |sequence| StateId { sequence, other: [0; 12] }.special();
        let ones = |sequence| StateId { sequence, other: [0xff; 12] }.special();
        assert_eq!(zeros(0), Some(Special::Anonymous));
        assert_eq!(zeros(1), Some(Special::Current));
        assert_eq!(zeros(2), Some(Special::Invalid));
        assert_eq!(StateId::INVALID.special(), Some(Special::Invalid));
        assert_eq!(ones(u32::MAX), Some(Special::Bypass));
        assert_eq!(ones(0), Some(Special::Invalid));
    }

    #[test]
    fn sequence_numbers_wrap_without_zero() {
        assert_eq!((after(1), after(u32::MAX - 1), after(u32::MAX)), (2, u32::MAX, 1));
        assert_eq!(compare(0, 7), Ok(()));
        assert_eq!(compare(7, 7), Ok(()));
        assert_eq!(compare(6, 7), Err(Refusal::OldStateId));
        assert_eq!(compare(8, 7), Err(Refusal::BadStateId));
        assert_eq!(compare(u32::MAX, 1), Err(Refusal::OldStateId));
        assert_eq!(compare(2, u32::MAX), Err(Refusal::BadStateId));
        assert_eq!(compare(SEQUENCE_WRAP_WINDOW, u32::MAX), Err(Refusal::OldStateId));
    }
}
