//! Flow control for one link: the number of bytes in transit is bounded by the number of bytes that
//! arrived in the last interval of length [`SPAN`].
//!
//! Bytes beyond this limit would only wait in queues before the link or be lost in the queues, and
//! some would arrive late.

use core::time::Duration;

use leasehold_base::units::Time;

/// The time within which all bytes in transit shall arrive. On fast links, the queues of switches
/// delay bytes by less than this time, and disks also need less.
pub const SPAN: Duration = Duration::from_millis(50);

/// The bytes in transit, and their limit.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The number of bytes in transit.
    out: u64,
    /// The smallest value of the limit `most`.
    least: u64,
    /// The maximum number of bytes in transit.
    most: u64,
    /// The time at which the count `came` started.
    since: Time,
    /// The number of bytes that arrived since `since`.
    came: u64,
}

impl Flow {
    /// Creates a state without bytes in transit; `least` is the smallest limit.
    #[must_use]
    pub const fn new(now: Time, least: u64) -> Self {
        Self { out: 0, least, most: least, since: now, came: 0 }
    }

    /// Returns the number of bytes in transit.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.out
    }

    /// Returns the maximum number of bytes in transit.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Adds bytes to the count in transit, if the limit permits; otherwise returns false. A single
    /// transfer is always permitted.
    pub const fn take(&mut self, bytes: u64) -> bool {
        let fits = self.out == 0 || self.out.saturating_add(bytes) <= self.most;
        if fits {
            self.out = self.out.saturating_add(bytes);
        }
        fits
    }

    /// Removes bytes from the count in transit.
    pub const fn give_back(&mut self, bytes: u64) {
        self.out = self.out.saturating_sub(bytes);
    }

    /// Records bytes that arrived.
    pub fn came(&mut self, bytes: u64, now: Time) {
        self.came = self.came.saturating_add(bytes);
        let span = now.since(self.since);
        if span >= SPAN {
            let in_span = u128::from(self.came) * SPAN.as_nanos() / span.as_nanos();
            self.most = u64::try_from(in_span).unwrap_or(u64::MAX).max(self.least);
            (self.since, self.came) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 2 << 20;

    #[test]
    fn the_limit_follows_the_arrived_bytes() {
        let mut flow = Flow::new(Time::ZERO, LEAST);
        flow.came(8 * LEAST, Time::ZERO + SPAN);
        assert_eq!(flow.most(), 8 * LEAST);
        flow.came(1, Time::ZERO + SPAN * 2);
        assert_eq!(flow.most(), LEAST, "the limit never falls below the least");
    }
}
