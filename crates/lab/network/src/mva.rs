//! Exact Mean Value Analysis (Reiser, Lavenberg 1980) over the whole population lattice.
//!
//! The recursion stores only the total queue at each centre for each population; all other results
//! are computed from it for the requested population. Every operation adds or divides positive
//! numbers, so the recursion is stable at any size.

use crate::lattice::Lattice;

/// Demands of closed classes at queueing centres, and the delays between two visits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Queues {
    /// Think time and demands at delays, by class.
    pub(crate) fixed: Vec<f64>,
    /// Demands by class, then by queueing centre.
    pub(crate) demands: Vec<Vec<f64>>,
    /// The number of queueing centres.
    pub(crate) count: usize,
}

/// Returns the total queue of each centre for each population; the centre is the fastest index.
pub(crate) fn total_queues(lattice: &Lattice, queues: &Queues) -> Vec<f64> {
    // A constant width lets the compiler hold a point in registers.
    match queues.count {
        0 => Vec::new(),
        1 => fixed_width::<1>(lattice, queues),
        2 => fixed_width::<2>(lattice, queues),
        3 => fixed_width::<3>(lattice, queues),
        4 => fixed_width::<4>(lattice, queues),
        5 => fixed_width::<5>(lattice, queues),
        6 => fixed_width::<6>(lattice, queues),
        7 => fixed_width::<7>(lattice, queues),
        8 => fixed_width::<8>(lattice, queues),
        _ => any_width(lattice, queues),
    }
}

fn fixed_width<const WIDTH: usize>(lattice: &Lattice, queues: &Queues) -> Vec<f64> {
    let demands: Vec<[f64; WIDTH]> =
        queues.demands.iter().map(|row| core::array::from_fn(|centre| row[centre])).collect();
    let mut totals: Vec<[f64; WIDTH]> = Vec::with_capacity(lattice.points());
    let mut vector = vec![0; demands.len()];
    for index in 0..lattice.points() {
        let mut sum = [0.0; WIDTH];
        for (class, &count) in vector.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let seen = &totals[index - lattice.stride(class)];
            let demand = &demands[class];
            let mut residence = [0.0; WIDTH];
            let mut response = queues.fixed[class];
            for centre in 0..WIDTH {
                residence[centre] = demand[centre] * (1.0 + seen[centre]);
                response += residence[centre];
            }
            let throughput = count as f64 / response;
            for centre in 0..WIDTH {
                sum[centre] += throughput * residence[centre];
            }
        }
        totals.push(sum);
        lattice.advance(&mut vector);
    }
    totals.into_flattened()
}

fn any_width(lattice: &Lattice, queues: &Queues) -> Vec<f64> {
    let width = queues.count;
    let mut totals = vec![0.0; lattice.points() * width];
    let mut vector = vec![0; queues.demands.len()];
    let mut residence = vec![0.0; width];
    for index in 0..lattice.points() {
        let (before, here) = totals.split_at_mut(index * width);
        for (class, &count) in vector.iter().enumerate() {
            if count == 0 {
                continue;
            }
            let seen = &before[(index - lattice.stride(class)) * width..][..width];
            for ((cell, demand), queue) in
                residence.iter_mut().zip(&queues.demands[class]).zip(seen)
            {
                *cell = demand * (1.0 + queue);
            }
            let throughput =
                count as f64 / residence.iter().fold(queues.fixed[class], |a, b| a + b);
            for (total, cell) in here[..width].iter_mut().zip(&residence) {
                *total += throughput * cell;
            }
        }
        lattice.advance(&mut vector);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_widths_give_the_same_bits() {
        let lattice = Lattice::new(&[5, 3]).expect("small");
        let demands = vec![vec![0.3, 0.1, 0.25], vec![0.0, 0.7, 0.2]];
        let queues = Queues { fixed: vec![1.0, 0.0], demands, count: 3 };
        assert_eq!(fixed_width::<3>(&lattice, &queues), any_width(&lattice, &queues));
    }
}
