//! Prints the bits of the laboratory's answers, one line for each reference case.
//!
//! The native build and the WebAssembly build of this program must print the same output. It uses
//! only standard output, so it runs under any host of WASI preview 1; `run.mjs` is one.
#![allow(clippy::print_stdout, reason = "a program that prints")]

use leasehold_lab_des::{Options, Study, in_turn};
use leasehold_lab_network::{Solution, approximate, sensitivity, solve};
use leasehold_lab_oracles::{product_form, simulated};
use leasehold_lab_policy::{Kind, MabSize, Terms, mab, sharing};

/// Combines the bits of numbers into one number (FNV-1a).
struct Fold(u64);

impl Fold {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn number(&mut self, number: f64) {
        for byte in number.to_bits().to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn solution(&mut self, solution: &Solution) {
        let tables = solution.queue.iter().chain(&solution.utilisation).flatten();
        let lists = solution.throughput.iter().chain(&solution.response);
        lists.chain(tables).for_each(|number| self.number(*number));
    }
}

fn main() {
    for case in product_form() {
        let network = case.model.network();
        let mut fold = Fold::new();
        for answer in [
            solve(&network),
            approximate::bard_schweitzer(&network),
            approximate::linearizer(&network),
        ] {
            answer.iter().for_each(|solution| fold.solution(solution));
        }
        for slope in sensitivity::elasticities(&network).into_iter().flatten() {
            slope.throughput.iter().chain(&slope.response).for_each(|number| fold.number(*number));
        }
        println!("{} {:016x}", case.id, fold.0);
    }
    for case in simulated() {
        let options = Options { replications: 2, services_max: 20_000, ..Options::default() };
        let mut fold = Fold::new();
        let study = Study::new(&case.model, options);
        let outcomes = study.and_then(|mut study| study.run(&in_turn));
        for outcome in outcomes.expect("reference cases come to their end") {
            fold.number(outcome.interval.mean);
            fold.number(outcome.interval.half_width);
        }
        println!("{} {:016x}", case.id, fold.0);
    }
    for kind in Kind::ALL {
        let mut fold = Fold::new();
        for trace in [mab(MabSize::default()), sharing(4, 3, 5_000, 1)] {
            let report = kind.run(&trace, Terms::default());
            report.calls.iter().for_each(|count| fold.number(*count as f64));
            fold.number(report.server_work);
            fold.number(report.stale_seconds_max);
        }
        println!("policy {} {:016x}", kind.name(), fold.0);
    }
}
