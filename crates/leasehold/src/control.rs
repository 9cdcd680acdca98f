//! The requests of an administrator to a running server by its control socket: an object of JSON a
//! line, `{"do": "status"}`, answered by `{"ok": ...}` or `{"error": "what, and what to do"}`.
//!
//! A command is added in two places: a variant of [`Request`], whose fields are what it is given
//! beside its name, and an arm of [`Desk::answer`], which gets at the running server by the fields
//! of [`Desk`]. Whoever asks calls [`ask`].

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_shell::control::{Asker, Control};
use leasehold_view::Source;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cluster;
use crate::leases;
use crate::options::Question;
use crate::reload;
use crate::restart;
use crate::serving::Serving;

/// A request to a running server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Asks for the exports of the server and for counts since its start.
    Status,
    /// Asks for the server's account of itself, such as the directories that it serves.
    About,
    /// Its configuration, in words.
    Facts,
    /// Of a mount: to make safe all that was written.
    Settle,
    /// To read its file again.
    Reload,
    /// Asks which program would follow at a restart.
    Successor,
    /// Asks for the permissions of a client, with the reasons.
    Why(Question),
    /// The volumes that lie on iods, and how these are.
    Volumes,
    /// To have the data of a file lie as these words say, or of what is made in a directory.
    Layout {
        /// Where it is in a directory of names.
        path: String,
        /// The words of the store of stripes.
        words: String,
    },
    /// To find the stripes of a volume that no file has any more.
    Repair {
        /// The directory of its names.
        path: String,
        /// True if the stripes are to be removed.
        remove: bool,
        /// Also where most of all are of no file.
        even_most: bool,
    },
    /// Asks the server to use the data of an iod that is older than its metaserver knows it.
    Believe {
        /// The directory of the names of the volume.
        path: String,
        /// The number of the iod.
        iod: u16,
    },
    /// Asks for all leases, their holders and the clients that wait for them.
    Leases,
    /// To wait no more for a client with leases.
    Forget {
        /// By its id, the beginning of that, or its name.
        client: String,
    },
}

/// Where requests are answered: what there is to know and to command of a running server.
pub(crate) struct Desk {
    source: Arc<Source>,
    serving: Arc<Serving>,
}

impl Desk {
    pub(crate) fn new(source: Arc<Source>, serving: Arc<Serving>) -> Self {
        Self { source, serving }
    }

    /// Does what is asked.
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
            Request::Settle => Err("a server has nothing that is not its own".to_owned()),
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

    /// A line for a line.
    fn line(&self, line: &str) -> String {
        let answered = serde_json::from_str(line)
            .map_err(|error| format!("this server does not know the request: {error}"))
            .and_then(|request| self.answer(&request));
        match answered {
            Ok(value) => json!({ "ok": value }).to_string(),
            Err(text) => json!({ "error": text }).to_string(),
        }
    }
}

/// Has requests answered from now on; without, where the socket cannot be had.
pub(crate) fn begin(state: &Path, desk: Desk) -> Option<Control> {
    let answer = move |line: &str| desk.line(line);
    Control::listen(state, Arc::new(answer))
        .inspect_err(|error| match error.kind() == ErrorKind::AddrInUse {
            true => tracing::warn!(
                state = %state.display(),
                "another server has this state directory: `status` and such reach that one"
            ),
            false => tracing::warn!(%error, "`status` and such cannot reach this server"),
        })
        .ok()
}

/// Asks the running server that has this state directory.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn ask(state: &Path, request: &Request) -> Result<Value, String> {
    ask_again(&mut connect(state)?, state, request)
}

/// Connects to the running server that has this state directory.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn connect(state: &Path) -> Result<Asker, String> {
    let place = state.display();
    Asker::connect(state).map_err(|error| {
        format!("no server answers at {place} ({error}): name its state directory with --state DIR")
    })
}

/// The same in a conversation that goes on.
pub(crate) fn ask_again(
    asker: &mut Asker,
    state: &Path,
    request: &Request,
) -> Result<Value, String> {
    let place = state.display();
    let line = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let answer = asker
        .ask(&line)
        .map_err(|error| format!("the server at {place} did not answer: {error}"))?;
    let mut answer: Value = serde_json::from_str(&answer)
        .map_err(|error| format!("the server at {place} answered what is no JSON: {error}"))?;
    match answer["error"].as_str() {
        Some(text) => Err(text.to_owned()),
        None => Ok(answer["ok"].take()),
    }
}
