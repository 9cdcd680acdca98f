//! Linearizer (Chandy, Neuse 1982): repeatedly estimates, at the full population and at each
//! population with one customer less, the change of the classes' shares at the centres.

use super::{Iteration, Table};
use crate::{Network, Solution, SolveError};

/// The number of estimates of the shares, as in the published algorithm; more estimates change
/// little.
const ESTIMATES: usize = 2;

/// Between estimates the queues need only the accuracy of the estimate.
const ROUGH_TOLERANCE: f64 = 1e-5;

/// Far below the error of the method itself.
const TOLERANCE: f64 = 1e-9;

/// Solves a closed network by Linearizer.
///
/// # Errors
/// Open classes or load-dependent centres, which the method does not support.
pub fn linearizer(network: &Network) -> Result<Solution, SolveError> {
    let iteration = Iteration::new(network)?;
    let full = iteration.population.clone();
    // moves[leaving class][centre][class]: the change of a class' share when a customer leaves.
    let mut moves: Vec<Table> = vec![iteration.zeros(); full.len()];
    let mut shift = iteration.zeros();
    let mut queues = iteration.even_spread(&full);
    iteration.settle(&full, &shift, &mut queues, ROUGH_TOLERANCE);
    let mut less: Vec<Table> = vec![queues.clone(); full.len()];
    for (class, less) in less.iter_mut().enumerate().filter(|(class, _)| full[*class] > 0.0) {
        less.iter_mut().for_each(|row| row[class] *= (full[class] - 1.0) / full[class]);
    }
    for _ in 0..ESTIMATES {
        for (class, less) in less.iter_mut().enumerate().filter(|(class, _)| full[*class] > 0.0) {
            let population = one_less(&full, class);
            let shift = shift_at(&population, &moves);
            iteration.settle(&population, &shift, less, ROUGH_TOLERANCE);
        }
        for (leaving, moves) in moves.iter_mut().enumerate().filter(|(one, _)| full[*one] > 0.0) {
            estimate(&full, leaving, &queues, &less[leaving], moves);
        }
        shift = shift_at(&full, &moves);
        iteration.settle(&full, &shift, &mut queues, ROUGH_TOLERANCE);
    }
    iteration.settle(&full, &shift, &mut queues, TOLERANCE);
    Ok(iteration.solution(network, &shift, &queues))
}

fn one_less(full: &[f64], class: usize) -> Vec<f64> {
    let mut population = full.to_vec();
    population[class] = (population[class] - 1.0).max(0.0);
    population
}

/// Returns, by centre, the customers that an arriving customer of a class finds in addition to the
/// assumption of Bard-Schweitzer.
fn shift_at(population: &[f64], moves: &[Table]) -> Table {
    let mut shift = vec![vec![0.0; population.len()]; moves.first().map_or(0, Vec::len)];
    for (class, moves) in moves.iter().enumerate() {
        for (row, moves) in shift.iter_mut().zip(moves) {
            let all: f64 = population.iter().zip(moves).map(|(count, moved)| count * moved).sum();
            row[class] = all - moves[class];
        }
    }
    shift
}

/// Sets the changes for one leaving class: its shares with one customer less against the whole.
fn estimate(full: &[f64], leaving: usize, queues: &Table, less: &Table, moves: &mut Table) {
    let population = one_less(full, leaving);
    for (centre, row) in moves.iter_mut().enumerate() {
        for (class, cell) in row.iter_mut().enumerate() {
            if population[class] > 0.0 {
                *cell =
                    less[centre][class] / population[class] - queues[centre][class] / full[class];
            }
        }
    }
}
