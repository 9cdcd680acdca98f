//! The running servers of this user on this machine, for all commands that connect to a server.
//!
//! A command finds a server by its control socket: in the default state directories, and in the
//! kernel's list of such sockets, which includes servers with a `--state` option in this network
//! namespace. Each server reports the directories that it serves. No command connects to a socket
//! in a directory that belongs to another user or that another user may write to, such as /tmp: a
//! command of root must not connect to an untrusted program.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use leasehold_base::limits::durations::STATUS_TIMEOUT;
use leasehold_shell::control::{Asker, places};
use leasehold_shell::private;
use serde::{Deserialize, Serialize};

use crate::control::{self, Request};
use crate::failure::{Failure, Kind};
use crate::place;

pub(crate) use leasehold_doctor::REPLACED;

/// The server that a command is for.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Which {
    /// The server to use: a directory that it serves, or its configuration file; needed only if
    /// several servers run on this machine
    #[arg(value_name = "DIR", conflicts_with = "state")]
    pub(crate) served: Option<PathBuf>,

    /// The state directory of the server [default: the state directory of the only running server]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
}

/// The description that a server returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) pid: u32,
    /// The directories that the server serves.
    pub(crate) directories: Vec<PathBuf>,
    /// The names that clients mount.
    pub(crate) names: Vec<String>,
    /// The configuration file of the server.
    pub(crate) file: Option<PathBuf>,
    /// The paths of directories that were replaced after the server opened them: clients still see
    /// the earlier directories.
    pub(crate) replaced: Vec<PathBuf>,
}

/// Returns the paths of served directories that were replaced while the server with this state
/// directory runs; none if no server replies, or if the server has another version.
pub(crate) fn replaced(state: &Path) -> Vec<PathBuf> {
    let about = control::ask(state, &Request::About).ok();
    let about = about.and_then(|about| serde_json::from_value::<About>(about).ok());
    about.map(|about| about.replaced).unwrap_or_default()
}

/// A running server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The state directory of the server.
    pub(crate) state: PathBuf,
    /// The server's description; `None` for an earlier version, or without a reply.
    pub(crate) about: Option<About>,
}

impl Which {
    /// Returns the state directory of the server that the command names.
    ///
    /// # Errors
    /// No server matches, or several match; the error lists the servers.
    pub(crate) fn state(&self) -> Result<PathBuf, Failure> {
        state_of(self.state.as_deref(), self.served.as_deref())
    }
}

/// Returns the state directory `state`, or the state directory of the server that serves `served`.
///
/// # Errors
/// As [`Which::state`].
pub(crate) fn state_of(state: Option<&Path>, served: Option<&Path>) -> Result<PathBuf, Failure> {
    match state {
        Some(state) => Ok(state.to_path_buf()),
        None => chosen(&servers(), served),
    }
}

/// Returns the state directory of the server that serves a path, which may lie below an export. If
/// only one server runs, this function does not compare the path: that server checks it.
pub(crate) fn state_of_path(state: Option<&Path>, path: &Path) -> Result<PathBuf, Failure> {
    if let Some(state) = state {
        return Ok(state.to_path_buf());
    }
    match servers().as_slice() {
        [only] => Ok(only.state.clone()),
        all => chosen(all, Some(path)),
    }
}

/// Returns all servers of this user, in the order of their state directories.
pub(crate) fn servers() -> Vec<Server> {
    let mut found = BTreeMap::new();
    for place in place::all().into_iter().chain(places()) {
        let Ok(place) = fs::canonicalize(&place) else { continue };
        if private::is_own_directory(&place) && !found.contains_key(&place) {
            let server = ask(&place);
            found.insert(place, server);
        }
    }
    found.into_values().flatten().collect()
}

/// Requests the description of the server at a state directory; `None` if no server replies.
fn ask(state: &Path) -> Option<Server> {
    let asked = |request: &Request| {
        let mut asker = Asker::connect(state).ok()?;
        asker.waits(STATUS_TIMEOUT).ok()?;
        Some(control::ask_again(&mut asker, state, request))
    };
    let state = state.to_path_buf();
    match asked(&Request::About)? {
        Ok(about) => Some(Server { state, about: serde_json::from_value(about).ok() }),
        // An earlier version does not know the request, so ask for the configuration instead. A
        // mount rejects that request too, because it has no configuration: skip the mount. A server
        // that is too busy to reply still counts as a server.
        Err(_) => match asked(&Request::Facts)? {
            Err(text) if text.contains("a mount") => None,
            Ok(_) | Err(_) => Some(Server { state, about: None }),
        },
    }
}

/// Returns the state directory of the only matching server.
fn chosen(servers: &[Server], served: Option<&Path>) -> Result<PathBuf, Failure> {
    let wrong = |text: String| Err(Kind::Running.because(text + &listed(servers)));
    let Some(served) = served else {
        return match servers {
            [only] => Ok(only.state.clone()),
            [] => {
                let text = "no server of this user runs here: name the state directory of another \
                            server with --state DIR";
                wrong(text.to_owned())
            }
            _ => {
                let text = "several servers run here: choose one by a directory that it serves, or \
                            with --state DIR";
                wrong(text.to_owned())
            }
        };
    };
    let path = fs::canonicalize(served).unwrap_or_else(|_| served.to_path_buf());
    let near = |server: &Server| server.nearness(&path);
    let best = servers.iter().filter_map(near).max();
    let mut meant = servers.iter().filter(|server| best.is_some() && near(server) == best);
    match (meant.next(), meant.next()) {
        (Some(one), None) => Ok(one.state.clone()),
        (None, _) => wrong(format!("no running server of this user serves {}", path.display())),
        (Some(_), Some(_)) => {
            wrong(format!("several servers serve {}: choose one with --state DIR", path.display()))
        }
    }
}

fn listed(servers: &[Server]) -> String {
    servers.iter().map(|server| format!("\n  {}", server.line())).collect()
}

impl Server {
    /// Returns the number of leading components of a path that a served directory or a mount name
    /// matches; `None` if the server does not serve the path.
    fn nearness(&self, path: &Path) -> Option<usize> {
        let About { directories, names, file, .. } = self.about.as_ref()?;
        let is_file =
            |file: &Path| file == path || file.canonicalize().is_ok_and(|file| file == path);
        if file.as_deref().is_some_and(is_file) || path == self.state {
            return Some(usize::MAX);
        }
        let places = directories.iter().map(PathBuf::as_path);
        let places = places.chain(names.iter().map(Path::new));
        let above = places.filter(|place| path.starts_with(place));
        above.map(|place| place.components().count()).max()
    }

    fn line(&self) -> String {
        let state = self.state.display().to_string();
        let Some(About { pid, directories, .. }) = &self.about else {
            return format!("a server that does not report its directories: --state {state}");
        };
        let directories: Vec<_> =
            directories.iter().map(|directory| directory.display().to_string()).collect();
        format!("pid {pid} serves {}: --state {state}", directories.join(", "))
            .escape_debug()
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(state: &str, directory: &str, name: &str) -> Server {
        let about = About {
            pid: 7,
            directories: vec![directory.into()],
            names: vec![name.to_owned()],
            file: Some(format!("{directory}.toml").into()),
            replaced: Vec::new(),
        };
        Server { state: state.into(), about: Some(about) }
    }

    fn chosen_of(servers: &[Server], served: Option<&str>) -> Result<String, String> {
        let found = chosen(servers, served.map(Path::new));
        found.map(|found| found.display().to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn only_server_is_chosen_and_several_are_listed() {
        let [one, two] = [server("/s/1", "/none/a", "/a"), server("/s/2", "/none/a/b", "/b")];
        assert_eq!(chosen_of(std::slice::from_ref(&one), None), Ok("/s/1".to_owned()));
        assert!(chosen_of(&[], None).is_err_and(|text| text.contains("--state DIR")));
        let both = [one, two];
        let text = chosen_of(&both, None).expect_err("both run");
        for word in ["several", "pid 7", "/none/a/b", "--state /s/2"] {
            assert!(text.contains(word), "{word}: {text}");
        }
        for (served, state) in [
            ("/none/a", "/s/1"),
            ("/none/a/c", "/s/1"),
            ("/none/a/b", "/s/2"),
            ("/none/a/b/c", "/s/2"),
            ("/b/x", "/s/2"),
            ("/none/a.toml", "/s/1"),
            ("/s/2", "/s/2"),
        ] {
            assert_eq!(chosen_of(&both, Some(served)), Ok(state.to_owned()), "{served}");
        }
        assert!(chosen_of(&both, Some("/none/c")).is_err_and(|text| text.contains("/none/c")));
        let silent = Server { state: "/s/3".into(), about: None };
        assert!(
            chosen_of(&[both[0].clone(), silent], None)
                .is_err_and(|text| text.contains("--state /s/3"))
        );
    }
}
