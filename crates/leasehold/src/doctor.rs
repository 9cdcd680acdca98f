//! `leasehold doctor`: finds faults of this machine that impair a server or a mount.
//!
//! [`facts`] reads the state of the machine; [`findings`] is a pure function of the facts.

mod facts;
mod findings;
mod firewall;

use serde_json::json;

use self::facts::Facts;
use self::findings::{Finding, Verdict};
use crate::config::Plan;
use crate::config::options::Server;
use crate::failure::{Failure, Kind};
use crate::options::Doctor;
use crate::output::say;
use crate::running;

/// Looks for faults and reports them. The command fails if a fault keeps the server from working.
pub(crate) fn run(options: &Doctor) -> Result<(), Failure> {
    let server = Server { state: options.state.clone(), ..Server::default() };
    let plan = match (&options.config, &options.directory) {
        (Some(file), _) => Some(Plan::read(file, &server)?),
        (None, Some(directory)) => Some(Plan::of_plain(directory, &server)?),
        (None, None) => None,
    };
    let found = || running::state_of(options.state.as_deref(), None).ok();
    let place = plan.as_ref().map(|plan| plan.state.clone()).or_else(found);
    let found = findings::findings(&Facts::gather(plan.as_ref(), place.as_deref()));
    let text = match options.json {
        true => format!("{}\n", json!({ "findings": found })),
        false => found.iter().map(text).collect(),
    };
    say(text)?;
    let bad = found.iter().filter(|finding| finding.verdict == Verdict::Bad).count();
    match bad {
        0 => Ok(()),
        // The command has printed the findings already, so the failure prints no message.
        _ => Err(Kind::Running.silently()),
    }
}

fn text(finding: &Finding) -> String {
    let Finding { verdict, about, text, advice } = finding;
    let verdict = match verdict {
        Verdict::Good => "good",
        Verdict::Note => "note",
        Verdict::Warning => "warning",
        Verdict::Bad => "bad",
        Verdict::Unknown => "unknown",
    };
    let advice = advice.map(|advice| format!("{:9}{advice}\n", "")).unwrap_or_default();
    format!("{verdict:8} {about}: {text}\n{advice}")
}
