//! Small models as text.

use leasehold_lab_des::{Interval, Options, Outcome, Quantity, Study, in_turn};
use leasehold_lab_network::model::Model;

/// A number in seconds, with more keys if wanted.
pub(crate) fn seconds(value: f64, more: &str) -> String {
    format!(r#"{{ "value": {value:?}, "unit": "s", "from": "assumed"{more} }}"#)
}

/// A number without unit.
pub(crate) fn number(value: f64) -> String {
    format!(r#"{{ "value": {value:?}, "from": "assumed" }}"#)
}

/// An open class at the one centre "s".
pub(crate) fn open(name: &str, rate: f64, arrivals: &str, demand: &str, more: &str) -> String {
    format!(
        r#"{{ "name": "{name}", "kind": {{ "open": {{ "rate": {{ "value": {rate:?}, "unit": "1/s",
        "from": "assumed" }}, "arrivals": {arrivals} }} }}, "demands": {{ "s": {demand} }} {more} }}"#
    )
}

/// A closed class.
pub(crate) fn closed(
    name: &str,
    population: usize,
    think: &str,
    demands: &str,
    more: &str,
) -> String {
    let population = number(population as f64);
    format!(
        r#"{{ "name": "{name}", "kind": {{ "closed": {{ "population": {population},
        "think": {think} }} }}, "demands": {{ {demands} }} {more} }}"#
    )
}

/// A model of centres and classes.
pub(crate) fn model(centres: &str, classes: &[String]) -> Model {
    let classes = classes.join(", ");
    let text = format!(
        r#"{{ "format": "leasehold-model-1", "title": "test", "centres": [{centres}],
        "classes": [{classes}] }}"#
    );
    Model::parse(&text).unwrap_or_else(|problems| panic!("{problems:?} in {text}"))
}

/// Runs a study to a width with at most so many services.
pub(crate) fn run(model: &Model, seed: u64, services_max: u64) -> Vec<Outcome> {
    let options = Options { seed, services_max, width: 0.005, ..Options::default() };
    Study::new(model, options).run(&in_turn)
}

/// The interval of one metric.
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
