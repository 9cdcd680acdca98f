//! Small models as text.

use leasehold_lab_network::model::Model;

/// Returns a number in seconds, with optional further keys.
#[must_use]
pub fn seconds(value: f64, more: &str) -> String {
    format!(r#"{{ "value": {value:?}, "unit": "s", "from": "assumed"{more} }}"#)
}

/// Returns a number without unit.
#[must_use]
pub fn number(value: f64) -> String {
    format!(r#"{{ "value": {value:?}, "from": "assumed" }}"#)
}

/// Returns an open class at the one centre "s".
#[must_use]
pub fn open(name: &str, rate: f64, arrivals: &str, demand: &str, more: &str) -> String {
    format!(
        r#"{{ "name": "{name}", "kind": {{ "open": {{ "rate": {{ "value": {rate:?}, "unit": "1/s",
        "from": "assumed" }}, "arrivals": {arrivals} }} }}, "demands": {{ "s": {demand} }} {more} }}"#
    )
}

/// Returns a closed class.
#[must_use]
pub fn closed(name: &str, population: usize, think: &str, demands: &str, more: &str) -> String {
    let population = number(population as f64);
    format!(
        r#"{{ "name": "{name}", "kind": {{ "closed": {{ "population": {population},
        "think": {think} }} }}, "demands": {{ {demands} }} {more} }}"#
    )
}

/// Returns a model of centres and classes.
///
/// # Panics
/// Panics if they do not form a valid model.
#[must_use]
pub fn model(centres: &str, classes: &[String]) -> Model {
    let classes = classes.join(", ");
    let text = format!(
        r#"{{ "format": "leasehold-model-1", "title": "test", "centres": [{centres}],
        "classes": [{classes}] }}"#
    );
    Model::parse(&text).unwrap_or_else(|problems| panic!("{problems:?} in {text}"))
}

/// Returns a model of diskless workstations, a plain closed model.
#[must_use]
pub fn diskless(population: usize) -> Model {
    let centres = r#"{ "name": "net", "kind": "queue" }, { "name": "cpu", "kind": "queue" },
        { "name": "disk", "kind": "queue" }"#;
    let demands = format!(
        r#""net": {}, "cpu": {}, "disk": {}"#,
        seconds(0.0036, ""),
        seconds(0.04, ""),
        seconds(0.0188, "")
    );
    model(centres, &[closed("ws", population, &seconds(0.9376, ""), &demands, "")])
}
