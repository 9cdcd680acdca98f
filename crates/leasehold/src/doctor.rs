//! `leasehold doctor`: finds faults of this machine that impair a server or a mount.

use std::path::Path;

use leasehold_doctor::{Directory, Facts, Finding, Planned, Telling, Verdict, findings};
use serde_json::json;

use crate::checks;
use crate::config::options::Server;
use crate::config::{LACKS_V4, Plan};
use crate::control::{self, Request};
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
    let found = findings(&Facts::gather(planned(plan.as_ref(), place.as_deref())));
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

/// Describes the planned server, and its running process if one has this state directory.
fn planned(plan: Option<&Plan>, state: Option<&Path>) -> Planned {
    let directories = plan.into_iter().flat_map(|plan| &plan.exports).flat_map(|export| {
        let all = [&export.directory].into_iter().chain(&export.layout.paths);
        all.map(|path| Directory { path: path.clone(), crosses: export.cross })
    });
    Planned {
        listen: plan.map_or_else(Vec::new, Plan::listen),
        with_udp: plan.is_none_or(|plan| plan.server.answers_datagrams()),
        telling: match plan.map(|plan| (plan.server.portmap(), plan.server.register)) {
            Some((Some(_), _)) => Telling::Ourselves,
            Some((None, true)) => Telling::Rpcbind,
            Some((None, false)) | None => Telling::Nobody,
        },
        directories: directories.collect(),
        is_running: state.is_some_and(|state| control::ask(state, &Request::Facts).is_ok()),
        replaced: state.map(running::replaced).unwrap_or_default(),
        lacks_v4: plan.filter(|plan| plan.lacks_v4).map(|_| LACKS_V4),
        advice: checks::address_advice,
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
