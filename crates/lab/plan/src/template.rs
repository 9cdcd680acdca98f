//! Built-in systems with a few parameters.
//!
//! A template is a list of dials and a function that makes a model from them. The numbers behind
//! the dials are assumed or from a seed, and the model states the origin; a measurement replaces
//! them.

mod systems;

use leasehold_lab_network::model::Model;
use serde::Serialize;
use std::collections::BTreeMap;

/// One number of a template.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Dial {
    /// Its name in commands and links.
    pub key: &'static str,
    /// Its display name.
    pub label: &'static str,
    /// Its unit; none for counts.
    pub unit: &'static str,
    /// The smallest value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
    /// The distance of two values.
    pub step: f64,
    /// The initial value.
    pub value: f64,
    /// True if the slider is logarithmic.
    pub logarithmic: bool,
    /// Its meaning, in a sentence.
    pub about: &'static str,
}

/// A kind of system.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Template {
    /// Its name in commands and links.
    pub key: &'static str,
    /// Its display name.
    pub title: &'static str,
    /// Its purpose, in a sentence.
    pub about: &'static str,
    /// Its numbers.
    pub dials: &'static [Dial],
    #[serde(skip)]
    make: fn(&Values<'_>) -> Model,
}

/// The value of each dial.
struct Values<'a> {
    template: &'a Template,
    given: &'a BTreeMap<String, f64>,
}

impl Values<'_> {
    fn at(&self, key: &str) -> f64 {
        let dial = self.template.dials.iter().find(|dial| dial.key == key);
        let standard = dial.map_or(0.0, |dial| dial.value);
        self.given.get(key).copied().unwrap_or(standard)
    }
}

/// Returns every template.
#[must_use]
pub fn all() -> &'static [Template] {
    systems::ALL
}

/// Builds a model from a template; missing dials have their initial value.
///
/// # Errors
/// The template or a dial does not exist, or a value is outside of the range of its dial.
pub fn build(key: &str, given: &BTreeMap<String, f64>) -> Result<Model, String> {
    let template = all().iter().find(|template| template.key == key).ok_or_else(|| {
        let names: Vec<&str> = all().iter().map(|template| template.key).collect();
        format!("there is no template \"{key}\"; there are {}", names.join(", "))
    })?;
    for (name, value) in given {
        let dial = template.dials.iter().find(|dial| dial.key == name).ok_or_else(|| {
            let names: Vec<&str> = template.dials.iter().map(|dial| dial.key).collect();
            format!("\"{key}\" has no dial \"{name}\"; it has {}", names.join(", "))
        })?;
        if !(dial.least..=dial.most).contains(value) {
            let (least, most) = (dial.least, dial.most);
            return Err(format!("{name} must lie between {least} and {most}"));
        }
        if dial.step == 1.0 && value.fract() != 0.0 {
            return Err(format!("{name} must be a whole number"));
        }
    }
    let model = (template.make)(&Values { template, given });
    match model.check().first() {
        Some(problem) => Err(problem.to_string()),
        None => Ok(model),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dial_of_every_template_makes_a_model_at_both_ends() {
        for template in all() {
            for dial in template.dials {
                for value in [dial.least, dial.value, dial.most] {
                    let given = BTreeMap::from([(dial.key.to_owned(), value)]);
                    let model = build(template.key, &given).expect(dial.key);
                    assert_eq!(model.check(), [], "{} {}", template.key, dial.key);
                }
                let beyond = BTreeMap::from([(dial.key.to_owned(), dial.most + 1.0)]);
                assert!(build(template.key, &beyond).is_err());
            }
        }
        assert!(build("moon", &BTreeMap::new()).expect_err("none").contains("server"));
    }

    #[test]
    fn every_dial_changes_the_model() {
        for template in all() {
            let standard = build(template.key, &BTreeMap::new()).expect("a model");
            for dial in template.dials {
                let other = if dial.value == dial.most { dial.least } else { dial.most };
                let given = BTreeMap::from([(dial.key.to_owned(), other)]);
                let turned = build(template.key, &given).expect("a model");
                assert_ne!(turned, standard, "{} {}", template.key, dial.key);
            }
        }
    }
}
