//! Helpers that run small models and read their results.

use leasehold_lab_des::{Interval, Options, Outcome, Quantity, Study, in_turn};
use leasehold_lab_network::model::Model;

/// Runs a study to a width with at most `services_max` services.
pub(crate) fn run(model: &Model, seed: u64, services_max: u64) -> Vec<Outcome> {
    let options = Options { seed, services_max, width: 0.005, ..Options::default() };
    studied(model, options)
}

/// Returns the outcomes of a study, one replication after the other.
pub(crate) fn studied(model: &Model, options: Options) -> Vec<Outcome> {
    let study = Study::new(model, options);
    study.and_then(|mut study| study.run(&in_turn)).expect("the model moves on")
}

/// Returns the interval of one metric.
pub(crate) fn of(
    outcomes: &[Outcome],
    quantity: Quantity,
    class: &str,
    centre: Option<&str>,
) -> Interval {
    outcomes
        .iter()
        .find(|outcome| {
            let metric = &outcome.metric;
            metric.quantity == quantity
                && metric.class == class
                && metric.centre.as_deref() == centre
        })
        .expect("the metric is there")
        .interval
}
