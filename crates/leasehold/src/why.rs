//! `leasehold why`: what a client may do and why, by the code that serves, called dry.

mod answer;

use std::future::Future;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use leasehold_base::groups::Groups as List;
use leasehold_base::limits::GROUPS_MAX;
use leasehold_fs::{Caller, Export, ExportId, Request, Verifier};
use leasehold_serve::Users as _;
use leasehold_serve::access::{Access, Because, Groups, Rule};
use leasehold_shell::{Policy, Pool, process, reserved_ports_end, users};
use leasehold_store_dir::{self as dir, DirStore};
use serde_json::json;

use self::answer::Asked;
use crate::config::options::Server;
use crate::config::{Plan, Planned, grant};
use crate::failure::{Failure, Kind};
use crate::options::{Operation, Why};

/// Explains. Ends with success also where the client may not.
pub(crate) fn run(options: &Why) -> Result<(), Failure> {
    let mut plan = Plan::read(&options.config, &Server::default())?;
    plan.look_up();
    let (export, below) = meant(&plan, &options.path)?;
    let mut steps = Vec::new();
    let allowed = explain(options, export, &below, &mut steps)?;
    let verdict = if allowed { "allowed" } else { "denied" };
    let text = match options.json {
        true => format!("{}\n", json!({ "allowed": allowed, "steps": steps })),
        false => steps.iter().map(|step| format!("{step}\n")).collect::<String>() + verdict + "\n",
    };
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Kind::Running.because(format!("cannot write to stdout: {error}")))
}

/// The export that a path lies in, and the path below it.
fn meant<'a>(plan: &'a Plan, path: &Path) -> Result<(&'a Planned, PathBuf), Failure> {
    let below = |export: &'a Planned| {
        let by_name = path.strip_prefix(&export.name);
        let below = path.strip_prefix(&export.directory).or(by_name).ok()?;
        Some((export, below.to_path_buf()))
    };
    let found = plan.exports.iter().filter_map(below);
    found.min_by_key(|(_, below)| below.components().count()).ok_or_else(|| {
        let names: Vec<_> = plan.exports.iter().map(|export| &*export.name).collect();
        let text = format!("{} lies in no export: there are {}", path.display(), names.join(", "));
        Kind::Options.because(text)
    })
}

/// Whether it is allowed; the steps say why.
fn explain(
    options: &Why,
    export: &Planned,
    below: &Path,
    steps: &mut Vec<String>,
) -> Result<bool, Failure> {
    let access = Access::new(export.rules.clone());
    let (name, client) = (&export.name, options.client);
    let place = access.place(client);
    let Some((place, rule)) = place.and_then(|place| Some((place, access.rules().get(place)?)))
    else {
        steps.push(format!("no rule of {name} has {client}: the export is hidden from it"));
        return Ok(false);
    };
    let whom: Vec<&str> = rule.clients.iter().map(|one| &*one.text).collect();
    let what = grant(rule, export.read_only);
    steps.push(format!("rule {} of {name} has {client}: {} {what}", place + 1, whom.join(", ")));
    let Some(caller) = caller(options, rule, steps) else { return Ok(false) };
    let store = open(&export.directory)?;
    let read_only = export.read_only || rule.read_only;
    let export = Export {
        id: ExportId(1),
        name: name.clone(),
        path: export.directory.to_string_lossy().into_owned(),
        read_only: export.read_only,
        store: Arc::new(store),
    };
    let request = Request { export: &export, caller, read_only };
    let asked = Asked { request, operation: options.operation, below };
    Ok(wait(asked.answer(steps)))
}

/// Who the caller is in the export.
fn caller(options: &Why, rule: &Rule, steps: &mut Vec<String>) -> Option<Caller> {
    let (uid, gid) = (options.uid, options.gid.unwrap_or(options.uid));
    let sent = &options.groups[..options.groups.len().min(GROUPS_MAX)];
    let cut = &options.groups[sent.len()..];
    let claimed = Caller { uid, gid, groups: List::of_server(sent) };
    let policy = Policy {
        privileged: process::can_act_as_others(),
        uid: rustix::process::geteuid().as_raw(),
        reserved_ports_end: reserved_ports_end(),
    };
    let trust = policy.supposed(options.client, uid, !options.high_port);
    let Ok(decided) = rule.decide(Some(&claimed), trust) else {
        let text = "a server that is not root serves its own user and root only";
        steps.push(format!("the word of user {uid} is not believed, and refused: {text}"));
        return None;
    };
    let mut caller = decided.caller;
    let by_server = rule.identity.groups == Groups::Server
        && matches!(decided.because, Because::Claimed | Because::Mapped | Because::Pinned);
    if by_server {
        caller = wait(users::ServerGroups::default().with_groups(caller));
    }
    let why = match decided.because {
        Because::Claimed => "as it says",
        Because::Mapped => "by squash and maps of the rule",
        Because::NoCredential => "as it says nothing of itself",
        Because::NotBelieved => "as nothing vouches for its word: it asks from a high port",
        Because::Pinned => "as the kernel says who owns its socket",
        Because::SquashedAll => "as the rule makes everybody anonymous",
        Because::SquashedRoot => "as the rule makes root anonymous",
    };
    let groups = caller.groups.as_slice();
    let groups = if groups.is_empty() { "no further groups".to_owned() } else { list(groups) };
    let Caller { uid: to, gid: to_group, .. } = caller;
    steps.push(format!(
        "user {uid} group {gid} is user {to} group {to_group} with {groups} here, {why}"
    ));
    if by_server {
        steps.push("the groups are those of this machine's list".to_owned());
    } else if !cut.is_empty() {
        steps.push(format!("a credential has room for {GROUPS_MAX} groups: {} are cut", list(cut)));
    }
    Some(caller)
}

fn list(groups: &[u32]) -> String {
    let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
    format!("groups {}", groups.join(", "))
}

fn open(directory: &Path) -> Result<DirStore, Failure> {
    let options = dir::Options {
        blocking: Arc::new(Pool::new()),
        verifier: Verifier([0; 8]),
        durability: dir::Durability::Memory,
        descriptors_max: 64,
        handles: dir::HandleSource::Probe,
    };
    DirStore::open(directory, options).map_err(|error| {
        Kind::Directory.because(format!("cannot look at {}: {error}", directory.display()))
    })
}

/// Waits for a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    /// Wakes a thread.
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

impl Operation {
    /// Whether it is about a name in the directory of the path.
    fn is_about_name(self) -> bool {
        matches!(self, Self::Create | Self::Remove)
    }

    /// Whether it changes anything.
    fn changes(self) -> bool {
        matches!(self, Self::Create | Self::Remove | Self::Write)
    }
}
