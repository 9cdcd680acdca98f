//! The rollback counter file, by which a metaserver verifies that the stripe objects of an iod were
//! not restored from an older copy.
//!
//! The file has two slots, one for even and one for odd values of the rollback counter (turns). The
//! greater counter value is valid only if the other slot contains the preceding value. If a WRITE
//! of a new value reaches an older copy of the iod, for example because the iod was restored while
//! the WRITE was in transit, the preceding value is missing, so the new value is invalid.

/// The name of the rollback counter file, which is in the directory of the stripe objects. The name
/// contains the number of the only metaserver of a volume.
pub const TURN_NOTE: &str = "leasehold-turn-ffffffff";

/// The size of one slot in bytes.
const PLACE_BYTES: u32 = 32;

/// The size of the rollback counter file in bytes.
pub const TURN_NOTE_BYTES: u32 = 2 * PLACE_BYTES;

const FIRST: &str = "turn ";

/// The counter values in a rollback counter file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NotedTurns {
    /// The last valid counter value; zero if no value is valid.
    pub last: u64,
    /// The greatest counter value in the file, valid or not.
    pub greatest: u64,
}

impl NotedTurns {
    /// Parses the bytes of a rollback counter file. A slot with malformed bytes counts as the
    /// counter value zero.
    #[must_use]
    pub fn read(note: &[u8]) -> Self {
        let mut places = note.chunks(PLACE_BYTES as usize).map(turn);
        let places = [0, 1].map(|_| places.next().flatten().unwrap_or_default());
        let (greatest, other) = (places[0].max(places[1]), places[0].min(places[1]));
        let last = if other.checked_add(1) == Some(greatest) { greatest } else { 0 };
        Self { last, greatest }
    }
}

/// Returns the offset of the slot for a counter value in the file, and the bytes to write into this
/// slot.
#[must_use]
pub fn noted_turn(turn: u64) -> (u64, String) {
    let place = (turn % 2) * u64::from(PLACE_BYTES);
    let text = format!("{FIRST}{turn:016x}");
    (place, format!("{text:<width$}\n", width = PLACE_BYTES as usize - 1))
}

/// Parses the counter value in one slot.
fn turn(place: &[u8]) -> Option<u64> {
    let text = core::str::from_utf8(place).ok()?.trim_end();
    u64::from_str_radix(text.strip_prefix(FIRST)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the contents of a rollback counter file after writes of these counter values, in
    /// this order.
    fn note(turns: &[u64]) -> Vec<u8> {
        let mut note = Vec::new();
        for &turn in turns {
            let (place, text) = noted_turn(turn);
            let place = usize::try_from(place).expect("it is small");
            note.resize(note.len().max(place + text.len()), 0);
            note[place..place + text.len()].copy_from_slice(text.as_bytes());
        }
        assert!(note.len() <= TURN_NOTE_BYTES as usize);
        note
    }

    #[test]
    fn the_last_of_consecutive_turns_counts() {
        let read = |turns: &[u64]| NotedTurns::read(&note(turns));
        assert_eq!(read(&[]), NotedTurns::default());
        assert_eq!(read(&[1]), NotedTurns { last: 1, greatest: 1 });
        assert_eq!(read(&[1, 2]), NotedTurns { last: 2, greatest: 2 });
        assert_eq!(read(&[1, 2, 3, 4, 5]), NotedTurns { last: 5, greatest: 5 });
        // After a gap, two consecutive counter values are valid again.
        assert_eq!(read(&[1, 2, 3, 8, 9]), NotedTurns { last: 9, greatest: 9 });
        assert_eq!(read(&[1, 2, 3, 9, 10]), NotedTurns { last: 10, greatest: 10 });
        assert_eq!(read(&[u64::MAX - 1, u64::MAX]).last, u64::MAX);
    }

    /// Models a WRITE that was in transit while an older copy replaced the iod's stripe objects.
    #[test]
    fn a_turn_without_the_turn_before_does_not_count() {
        for later in [6, 7, 8] {
            let noted = NotedTurns::read(&note(&[1, 2, 3, 4, later]));
            assert_eq!(noted, NotedTurns { last: 0, greatest: later });
        }
        assert_eq!(NotedTurns::read(&note(&[2])).last, 0);
    }

    #[test]
    fn malformed_bytes_have_no_turn() {
        let whole = note(&[1, 2]);
        for wrong in [&b"turn"[..], b"turn x", &[0xff; 64], &whole[1..], b"leasehold"] {
            assert_eq!(NotedTurns::read(wrong).last, 0, "{wrong:?}");
        }
    }
}
