//! Models of Java Modelling Tools: JMVA for the solvers, JSIMgraph for the simulator.
//!
//! Properties that both formats can express are converted. The import rejects a foreign property
//! without a counterpart, and the export rejects caches, timeouts and crashes, so that no model
//! changes its meaning silently.

mod jmva;
mod jsim;
mod xml;

use crate::Failure;
use clap::ValueEnum;
use leasehold_lab_network::model::{Class, Model, Step};

/// The target tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Tool {
    /// The analytic solver
    Jmva,
    /// The simulator's drawing
    Jsimgraph,
}

/// The name of the delay that represents think times.
const THINK: &str = "think";

/// Reads a file of either tool.
pub(crate) fn import(text: &str) -> Result<Model, String> {
    let document = roxmltree::Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let model = match root.tag_name().name() {
        "model" => jmva::import(root)?,
        "archive" | "sim" => jsim::import(root)?,
        other => return Err(format!("<{other}> is neither JMVA nor JSIMgraph")),
    };
    match model.check().first() {
        Some(problem) => Err(format!("the file cannot be converted to a model: {problem}")),
        None => Ok(model),
    }
}

/// Writes a file of one tool.
pub(crate) fn export(model: &Model, tool: Tool) -> Result<String, Failure> {
    for class in &model.classes {
        let what = beyond(class);
        if let Some(what) = what {
            let name = &class.name;
            return Err(Failure::input(format!("class \"{name}\": {what} cannot be exported")));
        }
    }
    for centre in &model.centres {
        if centre.loss.is_some() || centre.crashes.is_some() {
            let name = &centre.name;
            let text = format!("centre \"{name}\": losses and crashes cannot be exported");
            return Err(Failure::input(text));
        }
        if centre.name == THINK {
            return Err(Failure::input(
                "rename the centre \"think\": the export uses this name for think times",
            ));
        }
    }
    match tool {
        Tool::Jmva => Ok(jmva::export(model)),
        Tool::Jsimgraph => jsim::export(model).map_err(Failure::input),
    }
}

/// Returns the property of a class that the tools do not support.
fn beyond(class: &Class) -> Option<&'static str> {
    if class.cache.is_some() {
        Some("a cache")
    } else if class.timeout.is_some() || class.try_again.is_some() {
        Some("a timeout")
    } else if class.route.iter().any(|step| matches!(step, Step::Fork { .. })) {
        Some("a fork")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
