//! `leasehold reload` and SIGHUP.

use crate::config::Difference;
use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::options::Reload;
use crate::output::say;
use crate::server_state::Serving;

/// Makes a running server reload its file, and prints the changes.
pub(crate) fn run(options: &Reload) -> Result<(), Failure> {
    let state = options.which.state()?;
    let told =
        control::ask(&state, &Request::Reload).map_err(|text| Kind::Running.because(text))?;
    let text = if options.json {
        format!("{told}\n")
    } else {
        let difference: Difference = serde_json::from_value(told)
            .map_err(|error| Kind::Running.because(format!("invalid reply: {error}")))?;
        difference.text("changed", "changes after a restart")
    };
    say(text)
}

/// Reloads the file of a running server, and logs the result.
pub(crate) fn reload(serving: &Serving) -> Result<Difference, Failure> {
    match serving.reload() {
        Ok(difference) => {
            let (changes, later) = (difference.changes.len(), difference.after_restart.len());
            tracing::info!(changes, later, "reloaded the configuration");
            difference.changes.iter().for_each(|line| tracing::info!("changed: {line}"));
            for line in &difference.after_restart {
                tracing::warn!("changes only after a restart: {line}");
            }
            Ok(difference)
        }
        Err(error) => {
            tracing::error!("nothing changed: {error}");
            Err(error)
        }
    }
}

impl Difference {
    /// Formats each change as a line. A line begins with `now` if the change has taken effect, and
    /// with `later` if the change needs a restart.
    pub(crate) fn text(&self, now: &str, later: &str) -> String {
        let mut text = String::new();
        for (what, lines) in [(now, &self.changes), (later, &self.after_restart)] {
            for line in lines {
                text += &format!("{what}: {line}\n");
            }
        }
        if text.is_empty() { "no difference\n".to_owned() } else { text }
    }
}
