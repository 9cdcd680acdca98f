//! The laboratory behind its page: a question comes in as JSON, an answer goes out as JSON.
//!
//! The page runs this in workers, as WebAssembly: one worker answers at once, another simulates
//! behind it and is thrown away when the question changes. So nothing here can be interrupted, and
//! nothing has to be; what is known so far is told while a simulation runs. The same code answers
//! natively, bit for bit, which is how the page's copy is tested.

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
    /// Which templates there are.
    Templates,
    /// The model of a template.
    Template { key: String, values: BTreeMap<String, f64> },
    /// What is wrong with the text of a model.
    Check { text: String },
    /// Everything at once.
    View {
        text: String,
        slo: String,
        class: Option<usize>,
        #[serde(default)]
        thorough: bool,
    },
    /// The model's own load, some others, and the largest under the service level, simulated.
    Simulate(simulation::Order),
}

/// Why there is no answer.
#[derive(Clone, Debug, Serialize)]
struct Wrong {
    /// What is wrong, by place; the place is empty where none is known.
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

/// Answers a question; `tell` hears what is known before the answer is complete.
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
