//! The faults of a world, and their frequencies.

use core::time::Duration;

use leasehold_base::random::Random;

/// The maximum transit time of a datagram and of its copies.
pub(crate) const DATAGRAM_LIFE_MAX: Duration = Duration::from_millis(900);

/// The minimum and the maximum time for which a server is down.
pub(crate) const DOWN_MIN: Duration = Duration::from_secs(1);
pub(crate) const DOWN_MAX: Duration = Duration::from_secs(6);

const _: () = assert!(DATAGRAM_LIFE_MAX.as_millis() < DOWN_MIN.as_millis());

/// The faults and their frequencies. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// The chance that a datagram is lost, or that a part of a stream is retransmitted.
    pub(crate) loss: u64,
    /// The chance that a datagram is duplicated.
    pub(crate) double: u64,
    /// The chance that a datagram is delayed so much that many later datagrams overtake it.
    pub(crate) late: u64,
    /// The minimum transit time, and the maximum random addition.
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// The mean time between cuts of a link, and the maximum duration of a cut.
    pub(crate) cuts: Option<Duration>,
    pub(crate) cut: Duration,
    /// The mean time between failures of a connection.
    pub(crate) resets: Option<Duration>,
    /// The mean time between crashes.
    pub(crate) crashes: Option<Duration>,
    /// The mean time between kills of the server's process.
    pub(crate) kills: Option<Duration>,
    /// The chance that the server crashes at a point of an operation, in millionths.
    pub(crate) crash_points: u64,
    /// The chance that an operation waits before or after its effect, and the maximum wait.
    pub(crate) waits: u64,
    pub(crate) wait: Duration,
}

impl Faults {
    /// The faults of a world without faults.
    pub(crate) const NONE: Self = Self {
        loss: 0,
        double: 0,
        late: 0,
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        cuts: None,
        cut: Duration::ZERO,
        resets: None,
        crashes: None,
        kills: None,
        crash_points: 0,
        waits: 0,
        wait: Duration::ZERO,
    };

    /// Draws the faults at random. Each kind of fault is absent from one world in three, so that
    /// each other kind also occurs without it.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut chance = |most: u64| if random.one_in(3) { 0 } else { random.below(most) };
        let (loss, double, late) = (chance(200), chance(200), chance(100));
        let (crash_points, waits) = (chance(1000), chance(300));
        let mut mean = |least: u64, most: u64| {
            let seconds = least + random.below(most - least);
            (!random.one_in(3)).then_some(Duration::from_secs(seconds))
        };
        let (cuts, resets, crashes) = (mean(5, 60), mean(2, 30), mean(10, 60));
        let kills = mean(10, 60);
        Self {
            loss,
            double,
            late,
            delay: Duration::from_micros(50 + random.below(5000)),
            jitter: Duration::from_micros(1 + random.below(20_000)),
            cuts,
            cut: Duration::from_millis(1 + random.below(15_000)),
            resets,
            crashes,
            kills,
            crash_points,
            waits,
            wait: Duration::from_millis(1 + random.below(4000)),
        }
    }
}

/// Draws a random time with the average `mean`; the time is sometimes much longer or shorter.
pub(crate) fn about(random: &mut Random, mean: Duration) -> Duration {
    upto(random, mean) + upto(random, mean)
}

/// Draws a random time below `most`.
pub(crate) fn upto(random: &mut Random, most: Duration) -> Duration {
    let nanoseconds = u64::try_from(most.as_nanos()).expect("faults are short");
    Duration::from_nanos(random.below(nanoseconds))
}

/// Returns true with a probability of `chance` thousandths.
pub(crate) fn in_thousand(random: &mut Random, chance: u64) -> bool {
    random.below(1000) < chance
}
