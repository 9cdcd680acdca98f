//! The contents of a cache after long use, so that a study need not wait until caches are full.
//!
//! Requests for one block arrive at its share of the rate, independent of all others. Then the
//! times since the last request of each block are independent and exponential, and a
//! least-recently-used cache contains the blocks with the shortest times (King, Analysis of demand
//! paging algorithms, 1971). Blocks that other clients have written since are absent; the model
//! ignores the space that they used. The rate itself is an estimate, because queues reduce it. It
//! matters only for leases, and its influence fades with them.

use crate::law::{exponential, unit};
use crate::lru::Lru;
use crate::program::CacheRules;
use crate::zipf;
use leasehold_base::random::Random;

/// Returns the filled caches of a class.
pub(crate) fn filled(rules: &mut CacheRules, count: usize) -> Vec<Lru> {
    let weights = zipf::weights(rules.objects, rules.zipf);
    let scale = rules.rate / weights.iter().sum::<f64>();
    let rates: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    // Each other customer writes the blocks that one customer requests in this proportion.
    let foreign = rules.writes * count.saturating_sub(1) as f64;
    let mut held = Vec::new();
    (0..count)
        .map(|_| {
            held.clear();
            for (block, rate) in (0_u32..).zip(&rates) {
                let age = exponential(&mut rules.filling) / rate;
                let is_written =
                    foreign > 0.0 && exponential(&mut rules.filling) / (rate * foreign) < age;
                if !is_written {
                    held.push((age, block));
                }
            }
            let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if held.len() > rules.blocks {
                held.select_nth_unstable_by(rules.blocks, order);
                held.truncate(rules.blocks);
            }
            held.sort_unstable_by(order);
            let mut cache = Lru::new(rules.objects, rules.blocks);
            for (age, block) in held.iter().rev() {
                let left = left_of_lease(rules.term, rates[*block as usize], &mut rules.filling);
                cache.insert(*block, left - age);
            }
            cache
        })
        .collect()
}

/// Returns the remaining lease of a block after its last request: the full term if that request
/// renewed it, else a uniformly distributed part. After `term` no lease is held until the next
/// request.
fn left_of_lease(term: f64, rate: f64, chance: &mut Random) -> f64 {
    if term.is_finite() && unit(chance) * (1.0 + rate * term) < rate * term {
        term * unit(chance)
    } else {
        term
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Engine;
    use leasehold_lab_oracles::build::{closed, model, number, seconds};

    const QUEUE: &str = r#"{ "name": "s", "kind": "queue" }"#;

    /// An empty cache of a hundred blocks would miss most of the first requests.
    #[test]
    fn caches_begin_in_steady_state() {
        let (blocks, objects, lease) = (number(100.0), number(1000.0), seconds(5.0, ""));
        let cache = format!(
            r#", "cache": {{ "scope": "client", "blocks": {blocks}, "objects": {objects},
                "zipf": 0.9, "writes": 0.002, "skips": ["s"],
                "lease": {{ "term": {lease}, "renewal": ["s"] }} }}"#
        );
        let demand = format!(r#""s": {}"#, seconds(0.001, ""));
        let model = model(QUEUE, &[closed("c", 10, &seconds(0.05, ""), &demand, &cache)]);
        let (mut first, mut last) = ([0_u64; 3], [0_u64; 3]);
        for seed in 0..16 {
            let mut engine = Engine::new(&model, seed);
            for (sums, span) in [(&mut first, 2_000), (&mut [0; 3], 40_000), (&mut last, 20_000)] {
                engine.run_completions(span).expect("moves on");
                let tally = &engine.take_tally().classes[0];
                sums[0] += tally.offered;
                sums[1] += tally.hits;
                sums[2] += tally.renewals;
            }
        }
        let share = |sums: [u64; 3], index: usize| sums[index] as f64 / sums[0] as f64;
        for index in [1, 2] {
            let (begins, stays) = (share(first, index), share(last, index));
            assert!(stays > 0.05 && (begins / stays - 1.0).abs() < 0.06, "{begins} {stays}");
        }
    }
}
