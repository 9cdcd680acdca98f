//! `leasehold why`: explains the rights of a client, by running the server's own code.

mod answer;
mod list;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_base::groups::Groups as List;
use leasehold_base::limits::GROUPS_MAX;
use leasehold_doctor::opened_to_look;
use leasehold_fs::{Caller, Export, ExportId, Request, Store};
use leasehold_serve::Users as _;
use leasehold_serve::access::{Access, Because, Groups, Rule};
use leasehold_shell::client::block_on;
use leasehold_shell::{Policy, Pool, process, reserved_ports_end, users};
use leasehold_store_dir::{Below, Crossing, Durability, HandleSource};
use serde::{Deserialize, Serialize};

use self::answer::Asked;
use crate::config::options::Server;
use crate::config::{Plan, Planned, grant};
use crate::control;
use crate::crossings::Noted;
use crate::failure::{Failure, Kind};
use crate::options::{Operation, Question, Why};
use crate::output::say;
use crate::running;

/// The decision, and the steps that led to it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    allowed: bool,
    steps: Vec<String>,
}

impl Answer {
    /// Adds a step about UDP, if the server answers no datagrams.
    pub(crate) fn with_carriers(mut self, answers_datagrams: bool) -> Self {
        if !answers_datagrams {
            self.steps.push("the server accepts calls over TCP only, and none over UDP".to_owned());
        }
        self
    }
}

/// Prints the explanation. Succeeds also if the operation is denied.
pub(crate) fn run(options: &Why) -> Result<(), Failure> {
    let answer = match &options.config {
        Some(file) => by_file(file, &options.question)?,
        None => by_server(options)?,
    };
    let text = if options.json {
        let text = serde_json::to_string(&answer);
        text.map_err(|error| Kind::Running.because(error.to_string()))? + "\n"
    } else {
        let verdict = if answer.allowed { "allowed" } else { "denied" };
        answer.steps.join("\n") + "\n" + verdict + "\n"
    };
    say(text)
}

/// Computes the answer for a server that would start with this configuration file.
fn by_file(file: &Path, question: &Question) -> Result<Answer, Failure> {
    let mut plan = Plan::read(file, &Server::default())?;
    plan.look_up();
    let told = answer(&plan.exports, question, open)?;
    Ok(told.with_carriers(plan.server.answers_datagrams()))
}

/// Requests the answer from the running server.
fn by_server(options: &Why) -> Result<Answer, Failure> {
    let state = running::state_of_path(options.state.as_deref(), &options.question.path)?;
    let request = control::Request::Why(options.question.clone());
    let told = control::ask(&state, &request).map_err(|text| {
        Kind::Running.because(format!("{text}, or the file of one with --config FILE"))
    })?;
    serde_json::from_value(told)
        .map_err(|error| Kind::Running.because(format!("invalid reply: {error}")))
}

/// Answers a question about these exports, each accessed through its store.
///
/// # Errors
/// A path outside all exports, or a store that cannot be opened.
pub(crate) fn answer(
    exports: &[Planned],
    question: &Question,
    store: impl FnOnce(&Planned) -> Result<Arc<dyn Store>, Failure>,
) -> Result<Answer, Failure> {
    let (export, below) = meant(exports, &question.path)?;
    let mut steps = Vec::new();
    let allowed = match believed(export, question, &mut steps) {
        None => false,
        Some((caller, read_only)) => {
            let export = Export {
                id: ExportId(1),
                name: export.name.clone(),
                path: export.directory.to_string_lossy().into_owned(),
                read_only: export.read_only,
                store: store(export)?,
            };
            let request = Request { export: &export, caller, read_only };
            let asked = Asked { request, operation: question.operation, below: &below };
            block_on(asked.answer(&mut steps))
        }
    };
    Ok(Answer { allowed, steps })
}

/// Returns the export that contains a path, and the rest of the path below the export.
fn meant<'a>(exports: &'a [Planned], path: &Path) -> Result<(&'a Planned, PathBuf), Failure> {
    let below = |export: &'a Planned| {
        let by_name = path.strip_prefix(&export.name);
        let below = path.strip_prefix(&export.directory).or(by_name).ok()?;
        Some((export, below.to_path_buf()))
    };
    let found = exports.iter().filter_map(below);
    found.min_by_key(|(_, below)| below.components().count()).ok_or_else(|| {
        let names: Vec<_> = exports.iter().map(|export| &*export.name).collect();
        let text = format!("{} lies in no export: there are {}", path.display(), names.join(", "));
        Kind::Options.because(text)
    })
}

/// Returns the caller's identity in the export, and true if the export is read-only for the caller;
/// `None` if the export rejects the caller.
fn believed(
    export: &Planned,
    question: &Question,
    steps: &mut Vec<String>,
) -> Option<(Caller, bool)> {
    let access = Access::new(export.rules.clone());
    let (name, client) = (&export.name, question.client);
    let place = access.place(client);
    let Some((place, rule)) = place.and_then(|place| Some((place, access.rules().get(place)?)))
    else {
        steps.push(format!("no rule of {name} matches {client}: the export is hidden from it"));
        return None;
    };
    let whom: Vec<&str> = rule.clients.iter().map(|one| &*one.text).collect();
    let what = grant(rule, export.read_only);
    steps.push(format!(
        "rule {} of {name} matches {client}: {} {what}",
        place + 1,
        whom.join(", ")
    ));
    Some((caller(question, rule, steps)?, export.read_only || rule.read_only))
}

/// Returns the caller's identity in the export.
fn caller(question: &Question, rule: &Rule, steps: &mut Vec<String>) -> Option<Caller> {
    let (uid, gid) = (question.uid, question.gid.unwrap_or(question.uid));
    let sent = &question.groups[..question.groups.len().min(GROUPS_MAX)];
    let cut = &question.groups[sent.len()..];
    let claimed = Caller { uid, gid, groups: List::of_server(sent) };
    let policy = Policy {
        privileged: process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: reserved_ports_end(),
    };
    let trust = policy.supposed(question.client, uid, !question.high_port);
    let Ok(decided) = rule.decide(Some(&claimed), trust) else {
        let text = "an unprivileged server serves only its own user and root";
        steps.push(format!("the credential of user {uid} is rejected: {text}"));
        return None;
    };
    let mut caller = decided.caller;
    let by_server = rule.identity.groups == Groups::Server
        && matches!(decided.because, Because::Claimed | Because::Mapped | Because::Pinned);
    if by_server {
        caller = block_on(users::ServerGroups::default().with_groups(caller));
    }
    let why = match decided.because {
        Because::Claimed => "as claimed",
        Because::Mapped => "by squash and id maps of the rule",
        Because::NoCredential => "because the call has no credential",
        Because::NotBelieved => "because the call comes from an unprivileged port",
        Because::Pinned => "the owner of its socket",
        Because::SquashedAll => "because the rule squashes all users",
        Because::SquashedRoot => "because the rule squashes root",
    };
    let groups = caller.groups.as_slice();
    let groups = if groups.is_empty() { "no further groups".to_owned() } else { list(groups) };
    let Caller { uid: to, gid: to_group, .. } = caller;
    steps.push(format!(
        "user {uid} group {gid} is user {to} group {to_group} with {groups} here, {why}"
    ));
    if by_server {
        steps.push("the groups come from this machine's list".to_owned());
    } else if !cut.is_empty() {
        steps.push(format!("a credential has room for {GROUPS_MAX} groups, without {}", list(cut)));
    }
    Some(caller)
}

fn list(groups: &[u32]) -> String {
    let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
    format!("groups {}", groups.join(", "))
}

/// Opens the store of an export for inspection only.
fn open(export: &Planned) -> Result<Arc<dyn Store>, Failure> {
    let directory = &export.directory;
    let failed = |error: String| {
        Kind::Directory.because(format!("cannot open {}: {error}", directory.display()))
    };
    let store = opened_to_look(directory).map_err(|error| failed(error.to_string()))?;
    let store = Arc::new(store);
    if !export.cross {
        return Ok(store);
    }
    let numbers = Noted::nowhere().of(directory).map_err(|error| failed(error.to_string()))?;
    let below = Below {
        blocking: Arc::new(Pool::new()),
        durability: Durability::Memory,
        descriptors_max: 64,
        handles: HandleSource::Probe,
        numbers: Arc::new(numbers),
    };
    Ok(Arc::new(Crossing::new(store, below)))
}

impl Operation {
    /// Returns true for an operation on a name in the directory of the path.
    fn is_about_name(self) -> bool {
        matches!(self, Self::Create | Self::Remove)
    }

    /// Returns true for an operation that changes files.
    fn changes(self) -> bool {
        matches!(self, Self::Create | Self::Remove | Self::Write)
    }
}
