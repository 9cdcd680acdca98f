//! How much of data may be on its way over one link: as much as came through a moment ago.
//!
//! More would wait before the link or be lost there, and some of it then comes late.

use core::time::Duration;

use leasehold_base::units::Time;

/// How much time what is on its way may take to come through. Queues of switches hold less than that
/// of fast links, and disks need less.
pub const SPAN: Duration = Duration::from_millis(50);

/// What is on its way, and how much may be.
#[derive(Clone, Debug)]
pub struct Flow {
    out: u64,
    least: u64,
    most: u64,
    /// Since when it is counted what comes.
    since: Time,
    came: u64,
}

impl Flow {
    /// Nothing is on its way yet, and so many bytes may be at any rate.
    #[must_use]
    pub const fn new(now: Time, least: u64) -> Self {
        Self { out: 0, least, most: least, since: now, came: 0 }
    }

    /// How many bytes are on their way.
    #[must_use]
    pub const fn out(&self) -> u64 {
        self.out
    }

    /// How many bytes may be.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// Whether as many bytes may be on their way besides; they then count. What is alone always may.
    pub const fn take(&mut self, bytes: u64) -> bool {
        let fits = self.out == 0 || self.out.saturating_add(bytes) <= self.most;
        if fits {
            self.out = self.out.saturating_add(bytes);
        }
        fits
    }

    /// They count no more.
    pub const fn give_back(&mut self, bytes: u64) {
        self.out = self.out.saturating_sub(bytes);
    }

    /// Takes note of what came through.
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
    fn the_bound_follows_what_comes_through() {
        let mut flow = Flow::new(Time::ZERO, LEAST);
        flow.came(8 * LEAST, Time::ZERO + SPAN);
        assert_eq!(flow.most(), 8 * LEAST);
        flow.came(1, Time::ZERO + SPAN * 2);
        assert_eq!(flow.most(), LEAST, "a slow link has no less than the least");
    }
}
