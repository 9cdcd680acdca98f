//! An estimate of the server's time of day from its replies.
//!
//! Programs such as `make` compare the times of files that a client chooses with the times that the
//! server chooses. The client therefore chooses such times by the server's clock.

use leasehold_base::units::FileTime;

const NANOSECONDS_A_SECOND: i128 = 1_000_000_000;

/// The difference between the server's clock and the clock of this machine, positive if the
/// server's clock is ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    ahead_nanoseconds: i128,
}

impl ServerClock {
    /// Records a reply to a change. The server made the change between the two given times of this
    /// machine, and set the change time `changed`. If these times contradict the estimate, the
    /// estimate changes to the nearest value that they permit.
    pub(crate) fn note(&mut self, (sent, answered): (FileTime, FileTime), changed: FileTime) {
        let changed = nanoseconds(changed);
        let (least, most) = (changed - nanoseconds(answered), changed - nanoseconds(sent));
        // If this machine's clock was set back between the call and the reply, the times prove
        // nothing, and the estimate stays.
        if least <= most {
            self.ahead_nanoseconds = self.ahead_nanoseconds.clamp(least, most);
        }
    }

    /// Returns the server's time when the clock of this machine shows `here`, rounded down to steps
    /// of `step_nanoseconds`, the resolution of the file system.
    pub(crate) fn at(self, here: FileTime, step_nanoseconds: u64) -> FileTime {
        let there = nanoseconds(here) + self.ahead_nanoseconds;
        whole_steps(there, step_nanoseconds)
    }
}

/// Rounds a time down to the steps of `step_nanoseconds` of a file system.
pub(crate) fn kept(time: FileTime, step_nanoseconds: u64) -> FileTime {
    whole_steps(nanoseconds(time), step_nanoseconds)
}

fn whole_steps(time: i128, step_nanoseconds: u64) -> FileTime {
    let time = time - time.rem_euclid(i128::from(step_nanoseconds.max(1)));
    let seconds = i64::try_from(time.div_euclid(NANOSECONDS_A_SECOND)).unwrap_or(i64::MAX);
    let nanoseconds = u32::try_from(time.rem_euclid(NANOSECONDS_A_SECOND));
    FileTime { seconds, nanoseconds: nanoseconds.expect("a part of a second is less") }
}

fn nanoseconds(time: FileTime) -> i128 {
    i128::from(time.seconds) * NANOSECONDS_A_SECOND + i128::from(time.nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn time(seconds: i64, nanoseconds: u32) -> FileTime {
        FileTime { seconds, nanoseconds }
    }

    #[test]
    fn the_difference_of_clocks_moves_by_no_more_than_an_answer_proves() {
        let mut clock = ServerClock::default();
        clock.note((time(10, 0), time(12, 0)), time(11, 0));
        assert_eq!(clock.at(time(20, 5), 1), time(20, 5), "the same clock may have said this");
        clock.note((time(30, 0), time(31, 0)), time(41, 0));
        assert_eq!(clock.at(time(31, 0), 1), time(41, 0), "no time precedes a reported one");
        clock.note((time(50, 0), time(51, 0)), time(40, 0));
        assert_eq!(clock.at(time(51, 0), 1), time(41, 0), "the server's clock was set back");
        clock.note((time(61, 0), time(60, 0)), time(99, 0));
        assert_eq!(
            clock.at(time(62, 0), 1),
            time(52, 0),
            "an answer before its call proves nothing"
        );
    }

    #[test]
    fn times_are_as_fine_as_the_server_keeps_them() {
        let clock = ServerClock::default();
        assert_eq!(clock.at(time(7, 123_456_789), 1000), time(7, 123_456_000));
        assert_eq!(clock.at(time(7, 999_999_999), 2_000_000_000), time(6, 0));
        assert_eq!(kept(time(-1, 5), 1_000_000_000), time(-1, 0));
        assert_eq!(kept(time(7, 5), 0), time(7, 5), "a server that reports no step");
    }
}
