//! The simulated links: they determine when each message arrives, and if it arrives.

use core::time::Duration;

use leasehold_base::random::Random;
use leasehold_base::units::Time;

use crate::faults::{DATAGRAM_LIFE_MAX, Faults, in_thousand, upto};

/// The minimum time before TCP retransmits a lost segment.
const SEGMENT_PATIENCE: Duration = Duration::from_millis(200);

/// The direction of a message: from a client to the server, or back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// The link between a client and the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    to_server_cut: Time,
    to_client_cut: Time,
}

impl Link {
    /// Cuts the link for a time below `most`, in one direction or in both.
    pub(crate) fn cut(&mut self, random: &mut Random, now: Time, most: Duration) {
        let until = now + upto(random, most);
        let which = random.below(3);
        if which != 0 {
            self.to_server_cut = until;
        }
        if which != 1 {
            self.to_client_cut = until;
        }
    }

    pub(crate) fn heal(&mut self) {
        *self = Self::default();
    }

    fn cut_until(&self, direction: Direction) -> Time {
        match direction {
            Direction::ToServer => self.to_server_cut,
            Direction::ToClient => self.to_client_cut,
        }
    }

    /// Returns the arrival times of the copies of a datagram: no copy, one or two.
    pub(crate) fn datagram(
        &self,
        random: &mut Random,
        faults: &Faults,
        now: Time,
        direction: Direction,
    ) -> Vec<Time> {
        let copies = 1 + usize::from(in_thousand(random, faults.double));
        let cut = self.cut_until(direction) > now;
        let arrivals = (0..copies).filter_map(|_| {
            let lost = in_thousand(random, faults.loss);
            let late = in_thousand(random, faults.late);
            let most = if late { DATAGRAM_LIFE_MAX } else { faults.delay + faults.jitter };
            let time = (faults.delay + upto(random, faults.jitter)).max(upto(random, most));
            (!lost && !cut).then_some(now + time.min(DATAGRAM_LIFE_MAX))
        });
        arrivals.collect()
    }

    /// Returns the arrival time of a part of a stream. A part never arrives before an earlier part.
    pub(crate) fn segment(
        &self,
        random: &mut Random,
        faults: &Faults,
        now: Time,
        direction: Direction,
    ) -> Time {
        let mut time = now.max(self.cut_until(direction)) + faults.delay;
        time = time + upto(random, faults.jitter);
        while in_thousand(random, faults.loss) {
            time = time + SEGMENT_PATIENCE;
        }
        time
    }
}
