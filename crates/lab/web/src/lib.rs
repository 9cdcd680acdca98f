//! The laboratory behind its page: receives a question as JSON, returns a reply as JSON.
//!
//! The page runs this crate in workers, as WebAssembly: one worker replies at once, another
//! simulates in the background and is terminated when the question changes. So no computation here
//! can be interrupted, and none needs to be; a simulation reports intermediate results. The same
//! code gives the same bits natively, which is how the page's copy is tested.

mod simulation;
#[cfg(target_arch = "wasm32")]
mod sys;

use leasehold_lab_network::model::{Model, Problem};
use leasehold_lab_plan::slo::Slo;
use leasehold_lab_plan::template;
use leasehold_lab_plan::view::{Effort, Question, view};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A question of the page.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
enum Ask {
    /// The list of templates.
    Templates,
    /// The model of a template.
    Template { key: String, values: BTreeMap<String, f64> },
    /// The problems in the text of a model.
    Check { text: String },
    /// All results at once.
    View {
        text: String,
        slo: String,
        class: Option<usize>,
        #[serde(default)]
        thorough: bool,
    },
    /// Simulations of the model's own load, of some others, and of the largest load under the
    /// service level.
    Simulate(simulation::Order),
}

/// The reasons for a missing result.
#[derive(Clone, Debug, Serialize)]
struct Wrong {
    /// The problems by place; the place is empty if unknown.
    problems: Vec<(String, String)>,
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self { problems: vec![(String::new(), text)] }
    }
}

impl From<Vec<Problem>> for Wrong {
    fn from(problems: Vec<Problem>) -> Self {
        Self { problems: problems.into_iter().map(|one| (one.place, one.what)).collect() }
    }
}

/// Replies to a question; `tell` receives intermediate results.
#[must_use]
pub fn answer(question: &str, tell: &mut dyn FnMut(&str)) -> String {
    let answered = serde_json::from_str(question)
        .map_err(|error| Wrong::from(error.to_string()))
        .and_then(|ask| reply(ask, tell));
    match answered {
        Ok(value) => json!({ "ok": value }).to_string(),
        Err(wrong) => json!({ "wrong": wrong.problems }).to_string(),
    }
}

fn reply(ask: Ask, tell: &mut dyn FnMut(&str)) -> Result<Value, Wrong> {
    match ask {
        Ask::Templates => Ok(json!(template::all())),
        Ask::Template { key, values } => Ok(json!(template::build(&key, &values)?)),
        Ask::Check { text } => Ok(json!(Model::parse(&text)?)),
        Ask::View { text, slo, class, thorough } => {
            let model = Model::parse(&text)?;
            let effort = if thorough { Effort::Thorough } else { Effort::Quick };
            let question = Question { class, slo: Slo::parse(&slo)?, effort };
            Ok(json!(view(&model, &question)?))
        }
        Ask::Simulate(order) => Ok(json!(simulation::run(&order, tell)?)),
    }
}
