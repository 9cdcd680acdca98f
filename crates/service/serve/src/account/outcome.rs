//! The outcome of a call, read from the bytes of its reply.

use leasehold_base::xdr::Message;

use super::head::word;

/// The offsets of the reply status, of the accept status, and of the results; the server's
/// verifiers are always empty (RFC 5531 section 9).
const REPLY_STATUS_AT: usize = 8;
const ACCEPT_STATUS_AT: usize = 20;
const RESULTS_AT: usize = 24;

/// The outcomes of calls: RPC outcomes first, then statuses with their names and numbers in RFC
/// 1813 and RFC 1094.
pub const OUTCOMES: &[(&str, u32)] = &[
    ("ok", 0),
    ("unanswered", 0),
    ("rpc-refused", 0),
    ("program-unavailable", 1),
    ("version-unavailable", 2),
    ("procedure-unavailable", 3),
    ("garbage-arguments", 4),
    ("other", 0),
    ("perm", 1),
    ("noent", 2),
    ("io", 5),
    ("nxio", 6),
    ("acces", 13),
    ("exist", 17),
    ("xdev", 18),
    ("nodev", 19),
    ("notdir", 20),
    ("isdir", 21),
    ("inval", 22),
    ("fbig", 27),
    ("nospc", 28),
    ("rofs", 30),
    ("mlink", 31),
    ("nametoolong", 63),
    ("notempty", 66),
    ("dquot", 69),
    ("stale", 70),
    ("badhandle", 10001),
    ("not-sync", 10002),
    ("bad-cookie", 10003),
    ("notsupp", 10004),
    ("toosmall", 10005),
    ("serverfault", 10006),
    ("badtype", 10007),
    ("jukebox", 10008),
];

const UNANSWERED: usize = 1;
const REFUSED: usize = 2;
const OTHER: usize = 7;
const FIRST_STATUS: usize = 8;

/// The outcome of a call, as an index in [`OUTCOMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(usize);

impl Outcome {
    /// Returns the outcome in a reply.
    #[inline]
    pub(super) fn of(reply: Option<&Message>, has_status: bool) -> Self {
        let Some(reply) = reply else { return Self(UNANSWERED) };
        let bytes = reply.front();
        if let Some(head) = bytes.first_chunk::<{ RESULTS_AT + size_of::<u32>() }>() {
            let is_zero = |at: usize| head[at..at + size_of::<u32>()] == [0; 4];
            let is_done = is_zero(REPLY_STATUS_AT) && is_zero(ACCEPT_STATUS_AT);
            if is_done && (!has_status || is_zero(RESULTS_AT)) {
                return Self(0);
            }
        }
        Self::of_rare(bytes, has_status)
    }

    #[cold]
    fn of_rare(bytes: &[u8], has_status: bool) -> Self {
        match (word(bytes, REPLY_STATUS_AT), word(bytes, ACCEPT_STATUS_AT)) {
            (Some(0), Some(0)) if !has_status => Self(0),
            (Some(0), Some(0)) => match word(bytes, RESULTS_AT) {
                Some(0) => Self(0),
                status => Self::of_status(status),
            },
            (accepted, status) => Self::of_rpc(accepted, status),
        }
    }

    fn of_rpc(accepted: Option<u32>, status: Option<u32>) -> Self {
        match (accepted, status) {
            // In [`OUTCOMES`] the refusal is followed by the RPC statuses 1 to 4 in numeric order,
            // so the status is an offset from the index of the refusal.
            (Some(0), Some(status @ 1..=4)) => Self(REFUSED + status as usize),
            (Some(1), _) => Self(REFUSED),
            _ => Self(OTHER),
        }
    }

    fn of_status(status: Option<u32>) -> Self {
        let statuses = OUTCOMES.iter().enumerate().skip(FIRST_STATUS);
        let found = statuses.into_iter().find(|(_, (_, number))| Some(*number) == status);
        Self(found.map_or(OTHER, |(index, _)| index))
    }

    /// Returns the index of the outcome in [`OUTCOMES`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0
    }

    /// Returns true if the call succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the server accepted the handle of the call.
    pub(super) fn handle_was_opened(self) -> bool {
        let (name, _) = OUTCOMES[self.0];
        self.0 == 0 || self.0 >= FIRST_STATUS && !matches!(name, "badhandle" | "stale")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_constants_match_the_table() {
        let name = |place: usize| OUTCOMES[place].0;
        assert_eq!(name(UNANSWERED), "unanswered");
        assert_eq!((name(REFUSED), name(OTHER)), ("rpc-refused", "other"));
        assert_eq!(OUTCOMES[FIRST_STATUS], ("perm", 1));
        for number in 1..=4 {
            assert_eq!(OUTCOMES[REFUSED + number as usize].1, number);
        }
    }
}
