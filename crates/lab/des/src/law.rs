//! Random times.
//!
//! Logarithms and powers come from `libm`, so that every target draws the same bits. Exponential
//! times, by far the most frequent, use the ziggurat method (Marsaglia, Tsang 2000).

use leasehold_base::random::Random;
use leasehold_lab_network::model::Law;
use std::sync::LazyLock;

/// Returns a number in [0, 1).
#[inline]
pub(crate) const fn unit(random: &mut Random) -> f64 {
    // 53 bits fill the mantissa of a double.
    (random.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// Returns a number in (0, 1], safe for logarithms.
const fn unit_above_zero(random: &mut Random) -> f64 {
    1.0 - unit(random)
}

/// Layers of the ziggurat: eight bits of the random number choose one.
const LAYERS: usize = 256;

/// The start of the tail and the area of each layer, the published values for 256 layers.
const TAIL: f64 = 7.697_117_470_131_05;
const AREA: f64 = 3.949_659_822_581_572e-3;

/// Edges of the layers and the density there.
struct Ziggurat {
    edge: [f64; LAYERS + 1],
    density: [f64; LAYERS + 1],
}

static ZIGGURAT: LazyLock<Ziggurat> = LazyLock::new(|| {
    let mut edge = [0.0; LAYERS + 1];
    edge[0] = AREA / libm::exp(-TAIL);
    edge[1] = TAIL;
    for layer in 2..LAYERS {
        let before = edge[layer - 1];
        edge[layer] = -libm::log(AREA / before + libm::exp(-before));
    }
    Ziggurat { edge, density: edge.map(|x| libm::exp(-x)) }
});

/// Returns an exponential time with mean one.
#[inline]
pub(crate) fn exponential(random: &mut Random) -> f64 {
    let table = &*ZIGGURAT;
    loop {
        let bits = random.next_u64();
        let layer = usize::from(bits.to_le_bytes()[0]);
        let u = (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0);
        let x = u * table.edge[layer];
        if x < table.edge[layer + 1] {
            return x;
        }
        if layer == 0 {
            return TAIL - libm::log(unit_above_zero(random));
        }
        let (low, high) = (table.density[layer], table.density[layer + 1]);
        if low + (high - low) * unit(random) < libm::exp(-x) {
            return x;
        }
    }
}

/// A source of times with one distribution and mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sampler {
    Constant(f64),
    Exponential(f64),
    Erlang { stages: u32, stage_mean: f64 },
    Hyperexponential { first_share: f64, first_mean: f64, second_mean: f64 },
    Uniform { width: f64 },
    Lognormal { location: f64, scale: f64 },
    Pareto { least: f64, exponent: f64 },
}

impl Sampler {
    pub(crate) fn new(law: Law, mean: f64) -> Self {
        match law {
            Law::Constant => Self::Constant(mean),
            Law::Exponential => Self::Exponential(mean),
            Law::Erlang { stages } => Self::Erlang { stages, stage_mean: mean / f64::from(stages) },
            Law::Hyperexponential { scv } => {
                // Balanced means: both branches contribute half of the mean.
                let first_share = 0.5 * (1.0 + libm::sqrt((scv - 1.0) / (scv + 1.0)));
                Self::Hyperexponential {
                    first_share,
                    first_mean: 0.5 * mean / first_share,
                    second_mean: if scv > 1.0 { 0.5 * mean / (1.0 - first_share) } else { mean },
                }
            }
            Law::Uniform => Self::Uniform { width: 2.0 * mean },
            Law::Lognormal { scv } => {
                let variance = libm::log(1.0 + scv);
                let location = libm::log(mean) - 0.5 * variance;
                Self::Lognormal { location, scale: libm::sqrt(variance) }
            }
            Law::Pareto { tail } => {
                Self::Pareto { least: mean * (tail - 1.0) / tail, exponent: -1.0 / tail }
            }
        }
    }

    #[inline]
    pub(crate) fn draw(self, random: &mut Random) -> f64 {
        // The frequent case is first, so that it is inlined on the hot path.
        if let Self::Exponential(mean) = self {
            mean * exponential(random)
        } else {
            self.draw_rare(random)
        }
    }

    fn draw_rare(self, random: &mut Random) -> f64 {
        match self {
            Self::Constant(mean) => mean,
            Self::Exponential(mean) => mean * exponential(random),
            Self::Erlang { stages, stage_mean } => {
                (0..stages).map(|_| exponential(random)).sum::<f64>() * stage_mean
            }
            Self::Hyperexponential { first_share, first_mean, second_mean } => {
                let mean = if unit(random) < first_share { first_mean } else { second_mean };
                mean * exponential(random)
            }
            Self::Uniform { width } => width * unit(random),
            Self::Lognormal { location, scale } => libm::exp(location + scale * normal(random)),
            Self::Pareto { least, exponent } => {
                least * libm::pow(unit_above_zero(random), exponent)
            }
        }
    }
}

/// Returns a standard normal number by the method of Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(unit_above_zero(random)));
    radius * libm::cos(2.0 * core::f64::consts::PI * unit(random))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_scv(sampler: Sampler) -> (f64, f64) {
        let mut random = Random::from_seed(7);
        let count = 2_000_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..count {
            let time = sampler.draw(&mut random);
            sum += time;
            squares += time * time;
        }
        let mean = sum / f64::from(count);
        (mean, squares / f64::from(count) / (mean * mean) - 1.0)
    }

    #[test]
    fn laws_have_their_mean_and_spread() {
        for (law, scv) in [
            (Law::Exponential, 1.0),
            (Law::Constant, 0.0),
            (Law::Erlang { stages: 4 }, 0.25),
            (Law::Hyperexponential { scv: 4.0 }, 4.0),
            (Law::Uniform, 1.0 / 3.0),
            (Law::Lognormal { scv: 2.0 }, 2.0),
            // The variance over squared mean of a Pareto distribution is 1 / (tail (tail - 2)).
            (Law::Pareto { tail: 5.0 }, 1.0 / 15.0),
        ] {
            let (mean, ours) = mean_and_scv(Sampler::new(law, 3.0));
            assert!((mean / 3.0 - 1.0).abs() < 0.005, "{law:?} {mean}");
            assert!((ours - scv).abs() < 0.03 * (1.0 + scv), "{law:?} {ours}");
        }
    }

    #[test]
    fn exponential_times_pass_a_kolmogorov_test() {
        let mut random = Random::from_seed(3);
        let mut times: Vec<f64> = (0..200_000).map(|_| exponential(&mut random)).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let distance = times
            .iter()
            .enumerate()
            .map(|(rank, time)| ((1.0 - libm::exp(-time)) - (rank as f64 + 0.5) / count).abs())
            .fold(0.0, f64::max);
        // The 1 % point of the Kolmogorov distribution.
        assert!(distance * libm::sqrt(count) < 1.63, "{distance}");
    }
}
