//! The requests of an administrator to a running server over its control socket. A request is a
//! JSON object on one line, `{"do": "status"}`; the reply is `{"ok": ...}` or `{"error": "the fault
//! and its remedy"}`.
//!
//! A new command needs a variant of [`Request`], whose fields are the arguments, and an arm of
//! [`Desk::answer`], which reaches the running server through the fields of [`Desk`]. Callers use
//! [`ask`].

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_shell::control::{Asker, Control};
use leasehold_view::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clients;
use crate::cluster;
use crate::leases;
use crate::options::Question;
use crate::reload;
use crate::restart;
use crate::server_state::Serving;

/// A request to a running server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Returns the exports of the server, and counts since its start.
    Status,
    /// Returns a description of the server, with the directories that it serves.
    About,
    /// Returns the configuration as text.
    Facts,
    /// Syncs all written data of a mount to the server's stable storage.
    Settle,
    /// Reloads the configuration file.
    Reload,
    /// Returns the name and version of the program that would run after a restart.
    Successor,
    /// Explains the rights of a client.
    Why(Question),
    /// Returns the volumes on iods, and their state.
    Volumes,
    /// Changes the layout of a file, or of new files in a directory.
    Layout {
        /// The path in a directory of names.
        path: String,
        /// The layout as text, in the form of the striped store.
        words: String,
    },
    /// Finds the stripes of a volume that belong to no file.
    Repair {
        /// The volume's directory for names.
        path: String,
        /// True to remove the stripes.
        remove: bool,
        /// True to remove the stripes even if most stripes belong to no file.
        even_most: bool,
    },
    /// Accepts the data of an iod that was rolled back.
    Believe {
        /// The volume's directory for names.
        path: String,
        /// The number of the iod.
        iod: u16,
    },
    /// Returns all leases, their holders and the requests that wait for them.
    Leases,
    /// Stops waiting for a client with leases.
    Forget {
        /// The client: its id, a prefix of the id, or its name.
        client: String,
    },
    /// Returns the clients of NFS version 4.
    Clients,
    /// Ends a client of NFS version 4.
    ForgetClient {
        /// The client: its id, a prefix of the id, or its name.
        client: String,
    },
}

/// Executes requests on a running server.
pub(crate) struct Desk {
    source: Arc<Source>,
    serving: Arc<Serving>,
}

impl Desk {
    pub(crate) fn new(source: Arc<Source>, serving: Arc<Serving>) -> Self {
        Self { source, serving }
    }

    /// Executes a request.
    fn answer(&self, request: &Request) -> Result<Value, String> {
        match request {
            Request::Status => {
                serde_json::to_value(self.source.snapshot()).map_err(|error| error.to_string())
            }
            Request::Successor => {
                let successor = restart::successor(self.serving.file().as_deref())?;
                serde_json::to_value(successor).map_err(|error| error.to_string())
            }
            Request::About => {
                serde_json::to_value(self.serving.about()).map_err(|error| error.to_string())
            }
            Request::Facts => {
                serde_json::to_value(self.serving.facts()).map_err(|error| error.to_string())
            }
            Request::Settle => Err("this request is for mounts only".to_owned()),
            Request::Volumes => Ok(cluster::volumes(&self.serving)),
            Request::Layout { path, words } => {
                cluster::lay_out(&self.serving, Path::new(path), words).map(Value::from)
            }
            Request::Repair { path, remove, even_most } => {
                let path = Path::new(path);
                let found = cluster::repair_served(&self.serving, path, *remove, *even_most)?;
                serde_json::to_value(found).map_err(|error| error.to_string())
            }
            Request::Believe { path, iod } => {
                cluster::believe_served(&self.serving, Path::new(path), *iod).map(Value::from)
            }
            Request::Leases => {
                let told = leases::Told::of(&self.source.service);
                serde_json::to_value(told).map_err(|error| error.to_string())
            }
            Request::Forget { client } => {
                leases::forget(&self.source.service, client).map(Value::from)
            }
            Request::Clients => {
                let told = clients::told(self.source.nfs4.as_ref())?;
                serde_json::to_value(told).map_err(|error| error.to_string())
            }
            Request::ForgetClient { client } => {
                clients::forget(self.source.nfs4.as_ref(), client).map(Value::from)
            }
            Request::Reload => {
                let difference =
                    reload::reload(&self.serving).map_err(|error| error.to_string())?;
                serde_json::to_value(difference).map_err(|error| error.to_string())
            }
            Request::Why(question) => {
                let answer = self.serving.why(question).map_err(|error| error.to_string())?;
                serde_json::to_value(answer).map_err(|error| error.to_string())
            }
        }
    }

    /// Executes the request of a line, and returns the line of the reply.
    fn line(&self, line: &str) -> String {
        let answered = serde_json::from_str(line)
            .map_err(|error| format!("unknown request: {error}"))
            .and_then(|request| self.answer(&request));
        match answered {
            Ok(value) => json!({ "ok": value }).to_string(),
            Err(text) => json!({ "error": text }).to_string(),
        }
    }
}

/// Starts to serve the control socket; returns `None` if the socket is not available.
pub(crate) fn begin(state: &Path, desk: Desk) -> Option<Control> {
    let answer = move |line: &str| desk.line(line);
    Control::listen(state, Arc::new(answer))
        .inspect_err(|error| match error.kind() == ErrorKind::AddrInUse {
            true => tracing::warn!(
                state = %state.display(),
                "another server uses this state directory: commands such as `status` reach that \
                 server"
            ),
            false => tracing::warn!(%error, "commands such as `status` cannot reach this server"),
        })
        .ok()
}

/// Sends a request to the running server with this state directory.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn ask(state: &Path, request: &Request) -> Result<Value, String> {
    ask_again(&mut connect(state)?, state, request)
}

/// Connects to the running server with this state directory.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn connect(state: &Path) -> Result<Asker, String> {
    let place = state.display();
    Asker::connect(state).map_err(|error| {
        format!("no server replies at {place} ({error}): name its state directory with --state DIR")
    })
}

/// Sends a further request over a connection.
pub(crate) fn ask_again(
    asker: &mut Asker,
    state: &Path,
    request: &Request,
) -> Result<Value, String> {
    let place = state.display();
    let line = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let answer = asker
        .ask(&line)
        .map_err(|error| format!("the server at {place} did not reply: {error}"))?;
    let mut answer: Value = serde_json::from_str(&answer)
        .map_err(|error| format!("the reply of the server at {place} is not JSON: {error}"))?;
    match answer["error"].as_str() {
        Some(text) => Err(text.to_owned()),
        None => Ok(answer["ok"].take()),
    }
}
