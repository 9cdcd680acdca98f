//! Choice of one of many by popularity: Walker's alias method (1974, tables after Vose 1991).

use crate::law::unit;
use leasehold_base::random::Random;

/// Returns the popularity of each object, not normalized.
pub(crate) fn weights(objects: usize, exponent: f64) -> Vec<f64> {
    (1..=objects.max(1)).map(|rank| libm::pow(rank as f64, -exponent)).collect()
}

/// Chooses `k` (from 0) in proportion to `(k + 1)` to the power of minus an exponent.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// For each slot, the share that stays, and the target of the rest.
    slots: Vec<(f64, u32)>,
}

impl Zipf {
    pub(crate) fn new(objects: u32, exponent: f64) -> Self {
        let count = objects.max(1);
        let weights = weights(count as usize, exponent);
        let mean = weights.iter().sum::<f64>() / f64::from(count);
        let mut slots: Vec<(f64, u32)> =
            weights.iter().zip(0..).map(|(weight, index)| (weight / mean, index)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..count).partition(|index| slots[*index as usize].0 < 1.0);
        while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
            slots[poor as usize].1 = rich;
            let left = slots[rich as usize].0 - (1.0 - slots[poor as usize].0);
            slots[rich as usize].0 = left;
            if left < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { slots }
    }

    /// Returns the bytes that the choice among `objects` takes.
    pub(crate) const fn bytes(objects: usize) -> usize {
        objects * size_of::<(f64, u32)>()
    }

    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        let slot = random.below(self.slots.len() as u64);
        let index = usize::try_from(slot).unwrap_or(0);
        let (share, other) = self.slots[index];
        if unit(random) < share { u32::try_from(slot).unwrap_or(0) } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_ranks() {
        let zipf = Zipf::new(4, 1.0);
        let mut random = Random::from_seed(5);
        let mut counts = [0_u32; 4];
        for _ in 0..400_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let total: f64 = 1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0;
        for (rank, count) in counts.iter().enumerate() {
            let wanted = 400_000.0 / ((rank + 1) as f64 * total);
            assert!((f64::from(*count) / wanted - 1.0).abs() < 0.02, "{counts:?}");
        }
    }
}
