//! Reference results for tests of the laboratory.
//!
//! `oracles.json`: product-form networks solved with sixty digits and by two or three independent
//! tools, bounds, and closed forms of systems without product form, which `simulated` converts to
//! models. `seed_results.json`: every table and figure of the seed texts as numbers.
//! `nqnfs_fits.json` and `lazowska86.json`: parameters of the models that redraw them.

pub mod build;
mod product_form;
mod simulated;

pub use product_form::{Class, Expect, Model, ProductForm, Station};
pub use simulated::{Check, Simulated, simulated};

use serde::Deserialize;
use serde_json::Value;

/// The result of the approximation.
#[derive(Clone, Debug, Deserialize)]
pub struct BardSchweitzer {
    /// Throughput by class.
    #[serde(rename = "X")]
    pub throughput: Vec<f64>,
    /// The largest permitted relative error.
    pub tolerance_rel: f64,
}

/// Bounds of a network with one class, as lower and upper end.
#[derive(Clone, Debug, Deserialize)]
pub struct Bounds {
    /// The name of the network.
    pub model: String,
    /// Population.
    #[serde(rename = "N")]
    pub population: usize,
    /// Seconds by centre.
    #[serde(rename = "D")]
    pub demands: Vec<f64>,
    /// Think time in seconds.
    #[serde(rename = "Z")]
    pub think: f64,
    /// Asymptotic bounds of throughput.
    #[serde(rename = "aba_X")]
    pub asymptotic_throughput: [f64; 2],
    /// Asymptotic bounds of response time.
    #[serde(rename = "aba_R")]
    pub asymptotic_response: [f64; 2],
    /// Balanced bounds of throughput.
    #[serde(rename = "bsb_X")]
    pub balanced_throughput: [f64; 2],
    /// Balanced bounds of response time.
    #[serde(rename = "bsb_R")]
    pub balanced_response: [f64; 2],
    /// The population at which the asymptotes cross.
    #[serde(rename = "Nstar")]
    pub knee: f64,
}

/// Returns the file `oracles.json`.
#[must_use]
pub fn oracles() -> Value {
    read(include_str!("../data/oracles.json"))
}

/// Returns the file `seed_results.json`.
#[must_use]
pub fn seed_results() -> Value {
    read(include_str!("../data/seed_results.json"))
}

/// Returns the file `nqnfs_fits.json`.
#[must_use]
pub fn nqnfs_fits() -> Value {
    read(include_str!("../data/nqnfs_fits.json"))
}

/// Returns the file `lazowska86.json`.
#[must_use]
pub fn lazowska() -> Value {
    read(include_str!("../data/lazowska86.json"))
}

/// Returns every product-form case.
#[must_use]
pub fn product_form() -> Vec<ProductForm> {
    part(&oracles()["product_form"])
}

/// Returns every case of bounds.
#[must_use]
pub fn bounds() -> Vec<Bounds> {
    part(&oracles()["bounds"]["items"])
}

/// Returns the case of a system without product form, by its short name.
#[must_use]
pub fn non_product_form(id: &str) -> Option<Value> {
    oracles()["non_product_form"].as_array()?.iter().find(|case| case["id"] == id).cloned()
}

/// Returns the table or figure of a seed, by its short name.
#[must_use]
pub fn seed_item(id: &str) -> Option<Value> {
    seed_results()["items"].as_array()?.iter().find(|item| item["id"] == id).cloned()
}

/// Returns the numbers of a list, and omits all other elements.
#[must_use]
pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("the reference files are part of the crate")
}

fn part<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("the reference files are part of the crate")
}
