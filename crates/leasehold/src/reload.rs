//! `leasehold reload`, and what SIGHUP does.

use crate::config::Difference;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::Reload;
use crate::say::say;
use crate::serving::Serving;

/// Has a running server read its file again, and says what changed.
pub(crate) fn run(options: &Reload) -> Result<(), Failure> {
    let state = options.which.state()?;
    let told =
        control::ask(&state, &Request::Reload).map_err(|text| Kind::Running.because(text))?;
    let text = if options.json {
        format!("{told}\n")
    } else {
        let difference: Difference = serde_json::from_value(told)
            .map_err(|error| Kind::Running.because(format!("the answer is strange: {error}")))?;
        difference.text("changed", "changes with a restart")
    };
    say(text)
}

/// Reads the file of a running server again, and writes into its log what came of it.
pub(crate) fn reload(serving: &Serving) -> Result<Difference, Failure> {
    match serving.reload() {
        Ok(difference) => {
            let (changes, later) = (difference.changes.len(), difference.after_restart.len());
            tracing::info!(changes, later, "read the configuration again");
            difference.changes.iter().for_each(|line| tracing::info!("changed: {line}"));
            for line in &difference.after_restart {
                tracing::warn!("changes with a restart only: {line}");
            }
            Ok(difference)
        }
        Err(error) => {
            tracing::error!("nothing was changed: {error}");
            Err(error)
        }
    }
}

impl Difference {
    /// The lines, each behind what becomes of it.
    pub(crate) fn text(&self, now: &str, later: &str) -> String {
        let mut text = String::new();
        for (what, lines) in [(now, &self.changes), (later, &self.after_restart)] {
            for line in lines {
                text += &format!("{what}: {line}\n");
            }
        }
        if text.is_empty() { "nothing is different\n".to_owned() } else { text }
    }
}
