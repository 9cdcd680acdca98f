//! The sensitivity of each result to each demand.
//!
//! For a closed product-form network the derivative is exact and needs no further solution: with G
//! the normalising constant, `d ln G / d ln D` is the mean queue of that class at that centre (de
//! Souza e Silva, Muntz 1988), and throughput is a ratio of two constants. So `d ln X_r(n) / d ln
//! D_ck = Q_ck(n - 1_r) - Q_ck(n)`. Queues and open classes use central differences of exact
//! solutions, whose error is of the order of 1e-9.

use serde::Serialize;

use crate::{ClassKind, Network, Solution, SolveError, solve, surface};

/// The relative step of central differences: the cube root of the rounding error.
const STEP: f64 = 1e-5;

/// The effect of one per cent more of one demand, in per cent: `d ln result / d ln demand`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Elasticity {
    /// The centre of the changed demand.
    pub centre: usize,
    /// The class of the changed demand.
    pub class: usize,
    /// The elasticity of the throughput of each class.
    pub throughput: Vec<f64>,
    /// The elasticity of the response time of each class.
    pub response: Vec<f64>,
    /// The elasticity of the utilisation, by centre and class.
    pub utilisation: Vec<Vec<f64>>,
    /// The elasticity of the queue, by centre and class.
    pub queue: Vec<Vec<f64>>,
}

/// Returns the elasticity of every result to every demand that is not zero.
///
/// # Errors
/// See [`SolveError`].
pub fn elasticities(network: &Network) -> Result<Vec<Elasticity>, SolveError> {
    let base = solve(network)?;
    let exact = closed_throughput(network)?;
    let mut all = Vec::new();
    for centre in 0..network.centres.len() {
        for class in 0..network.classes.len() {
            if network.centres[centre].demands[class] > 0.0 {
                let mut one = by_difference(network, &base, (centre, class))?;
                if let Some(exact) = &exact {
                    one.replace_by_exact(network, &base, &exact[centre][class]);
                }
                all.push(one);
            }
        }
    }
    Ok(all)
}

/// Returns `d ln X_r / d ln D` by centre, class and `r`, for a network of closed classes only.
fn closed_throughput(network: &Network) -> Result<Option<Vec<Vec<Vec<f64>>>>, SolveError> {
    if network.classes.iter().any(|class| matches!(class.kind, ClassKind::Open { .. })) {
        return Ok(None);
    }
    let surface = surface(network)?;
    let population = network.population();
    let whole = surface.at(&population);
    let classes = network.classes.len();
    let mut answer = vec![vec![vec![0.0; classes]; classes]; network.centres.len()];
    for leaving in 0..classes {
        if population[leaving] == 0 {
            continue;
        }
        let mut fewer = population.clone();
        fewer[leaving] -= 1;
        let less = surface.at(&fewer);
        for (centre, by_class) in answer.iter_mut().enumerate() {
            for (class, cell) in by_class.iter_mut().enumerate() {
                cell[leaving] = less.queue[centre][class] - whole.queue[centre][class];
            }
        }
    }
    Ok(Some(answer))
}

fn by_difference(
    network: &Network,
    base: &Solution,
    (centre, class): (usize, usize),
) -> Result<Elasticity, SolveError> {
    let moved = |factor: f64| {
        let mut other = network.clone();
        other.centres[centre].demands[class] *= factor;
        solve(&other)
    };
    let (more, less) = (moved(1.0 + STEP)?, moved(1.0 - STEP)?);
    let slope = |base: f64, more: f64, less: f64| {
        if base == 0.0 { 0.0 } else { (more - less) / (2.0 * STEP * base) }
    };
    let row = |base: &[f64], more: &[f64], less: &[f64]| -> Vec<f64> {
        base.iter().zip(more).zip(less).map(|((b, m), l)| slope(*b, *m, *l)).collect()
    };
    let table = |base: &[Vec<f64>], more: &[Vec<f64>], less: &[Vec<f64>]| -> Vec<Vec<f64>> {
        base.iter().zip(more).zip(less).map(|((b, m), l)| row(b, m, l)).collect()
    };
    Ok(Elasticity {
        centre,
        class,
        throughput: row(&base.throughput, &more.throughput, &less.throughput),
        response: row(&base.response, &more.response, &less.response),
        utilisation: table(&base.utilisation, &more.utilisation, &less.utilisation),
        queue: table(&base.queue, &more.queue, &less.queue),
    })
}

impl Elasticity {
    /// Replaces the slopes of throughput by the exact ones, and recomputes the dependent slopes.
    fn replace_by_exact(&mut self, network: &Network, base: &Solution, throughput: &[f64]) {
        self.throughput.copy_from_slice(throughput);
        for (class, think) in network.think_times().into_iter().enumerate() {
            // R = N / X - Z, so dR / R = -(R + Z) / R * dX / X.
            let response = base.response[class];
            if response > 0.0 {
                self.response[class] = -(response + think) / response * throughput[class];
            }
            for (centre, row) in self.utilisation.iter_mut().enumerate() {
                let own = f64::from(u8::from(centre == self.centre && class == self.class));
                if base.utilisation[centre][class] > 0.0 {
                    row[class] = throughput[class] + own;
                }
            }
        }
    }
}
