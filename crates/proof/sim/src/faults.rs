//! What may go wrong in a world, and how often.

use core::time::Duration;

use leasehold_base::random::Random;

/// The longest that a datagram is on its way, copies included.
pub(crate) const DATAGRAM_LIFE_MAX: Duration = Duration::from_millis(900);

/// The shortest and the longest time that a server is down.
pub(crate) const DOWN_MIN: Duration = Duration::from_secs(1);
pub(crate) const DOWN_MAX: Duration = Duration::from_secs(6);

const _: () = assert!(DATAGRAM_LIFE_MAX.as_millis() < DOWN_MIN.as_millis());

/// What may go wrong, and how often. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// That a datagram is lost, or a part of a stream has to be sent again.
    pub(crate) loss: u64,
    /// That a datagram comes twice.
    pub(crate) double: u64,
    /// That a datagram is overtaken by many others.
    pub(crate) late: u64,
    /// The least time on the way, and what chance adds at most.
    pub(crate) delay: Duration,
    pub(crate) jitter: Duration,
    /// The mean time between cuts of a link, and how long one lasts at most.
    pub(crate) cuts: Option<Duration>,
    pub(crate) cut: Duration,
    /// The mean time between broken connections.
    pub(crate) resets: Option<Duration>,
    /// The mean time between crashes.
    pub(crate) crashes: Option<Duration>,
    /// The mean time between kills of the server's process.
    pub(crate) kills: Option<Duration>,
    /// That the server crashes at a point of an operation, in millionths.
    pub(crate) crash_points: u64,
    /// That an operation waits before or after its effect, and how long at most.
    pub(crate) waits: u64,
    pub(crate) wait: Duration,
}

impl Faults {
    /// A world in which all is well.
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

    /// Each fault is absent from one world in three, so that the others are seen alone too.
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

/// A time that is `mean` on average, and now and then much longer or shorter.
pub(crate) fn about(random: &mut Random, mean: Duration) -> Duration {
    upto(random, mean) + upto(random, mean)
}

/// A time below `most`.
pub(crate) fn upto(random: &mut Random, most: Duration) -> Duration {
    let nanoseconds = u64::try_from(most.as_nanos()).expect("faults are short");
    Duration::from_nanos(random.below(nanoseconds))
}

/// True so many times in a thousand.
pub(crate) fn in_thousand(random: &mut Random, chance: u64) -> bool {
    random.below(1000) < chance
}
