//! The status of a mount, over a control socket like the control socket of a server.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_client::{Client, Variant};
use leasehold_fuse::Session;
use leasehold_mount::Files;
use leasehold_shell::client::{Mounted, block_on};
use leasehold_shell::control::{Asker, Control};
use leasehold_shell::private;
use serde_json::{Value, json};

use super::options::Mount;
use crate::control::{self, Request};

/// Returns the directory of the socket of a mount. The path depends on the mount point only,
/// because a caller has no other information.
fn state_of(directory: &Path) -> PathBuf {
    let base = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(base) if !rustix::process::geteuid().is_root() => PathBuf::from(base),
        Some(_) | None => PathBuf::from("/run"),
    };
    let name = directory.as_os_str().as_encoded_bytes().escape_ascii().to_string();
    base.join("leasehold/mounts").join(name.replace('%', "%25").replace('/', "%2f"))
}

/// Returns the name of a caching policy, as in the options of a mount.
const fn called(variant: Variant) -> &'static str {
    match variant {
        Variant::None => "none",
        Variant::BufferCache => "buffer",
        Variant::CloseToOpen => "close-to-open",
        Variant::Lease => "lease",
    }
}

/// Returns the leases that a client holds, and true in `names` if the leases also cover names;
/// `None` for a mount without leases.
fn held_by(client: &Client) -> Option<Value> {
    let (held, to_write) = client.lease_counts()?;
    Some(json!({ "held": held, "to_write": to_write, "names": client.leases_names() }))
}

/// Returns the calls that wait for a reply of the server.
fn waited_for(session: &Session) -> Vec<serde_json::Value> {
    let waiting = session.in_flight();
    let waiting = waiting.iter().map(|request| {
        let age = request.age.as_secs_f64();
        json!({ "operation": request.operation, "thread": request.thread, "age_s": age })
    });
    waiting.collect()
}

/// Starts to serve the control socket; returns `None` if the socket is not available. Also works
/// while an earlier mount with the same mount point is still in use.
pub(crate) fn begin(
    directory: &Path,
    options: &Mount,
    found: &Mounted,
    session: &Arc<Session>,
    files: &Arc<Files>,
) -> Option<Control> {
    let place = state_of(directory);
    let (nfs, session, files) = (found.nfs.clone(), Arc::clone(session), Arc::clone(files));
    let (source, server) = (options.source.text.clone(), found.server.to_string());
    let cache = called(files.client().options().variant);
    let settled = Arc::clone(&files);
    let told = move || {
        let held = files.holdings();
        let (cached, unsaved) = files.client().cached_bytes();
        let counters = files.client().counters();
        let calls = nfs.session().counters();
        json!({
            "source": source,
            "server": server,
            "version": nfs.version().number(),
            "cache": cache,
            "leases": held_by(files.client()),
            "pid": std::process::id(),
            "waiting": waited_for(&session),
            "nodes": held.nodes,
            "open": held.open,
            "cached_bytes": cached,
            "unsaved_bytes": unsaved,
            "refused_bytes": counters.refused_bytes,
            "rewritten_bytes": counters.rewritten_bytes,
            "held_writes": counters.held_writes,
            "calls": {
                "begun": calls.calls,
                "replies": calls.replies,
                "sent_again": calls.sent_again,
                "timed_out": calls.timed_out,
                "under_way": nfs.session().open_calls(),
            },
            "connections": nfs.session().open_connections(),
        })
    };
    let answer = move |line: &str| match serde_json::from_str(line) {
        Ok(Request::Status) => json!({ "ok": told() }).to_string(),
        Ok(Request::Settle) => {
            let is_safe = block_on(settled.settle());
            if !is_safe {
                super::say_refused(&settled);
            }
            json!({ "ok": is_safe }).to_string()
        }
        Ok(request) => json!({ "error": refusal(&request) }).to_string(),
        Err(error) => json!({ "error": error.to_string() }).to_string(),
    };
    private::directory(&place)
        .and_then(|_| Control::take(&place, Arc::new(answer)))
        .inspect_err(|error| tracing::warn!(%error, "`status --mount` cannot reach this mount"))
        .ok()
}

/// Returns the reason why a mount rejects a request that is meant for a server. [`crate::running`]
/// recognizes a mount by the words "a mount" in this text.
const fn refusal(request: &Request) -> &'static str {
    match request {
        Request::Clients
        | Request::Forget { .. }
        | Request::ForgetClient { .. }
        | Request::Leases => "a mount has no clients; send the request to the server",
        Request::Layout { .. }
        | Request::Repair { .. }
        | Request::Believe { .. }
        | Request::Volumes => "a mount has no volume; send the request to the server",
        Request::About
        | Request::Facts
        | Request::Reload
        | Request::Settle
        | Request::Status
        | Request::Successor
        | Request::Why(_) => "a mount does not support this request",
    }
}

/// Returns the status of the mount at a directory.
///
/// # Errors
/// The fault and its remedy, as text.
pub(crate) fn ask(directory: &Path) -> Result<Value, String> {
    let place = place_of(directory).map_err(|error| error.to_string())?;
    control::ask(&place, &Request::Status)
        .map_err(|_| format!("no Leasehold mount replies at {}", directory.display()))
}

/// Makes the mount at a directory write all data to stable storage. Returns the connection, which
/// stays open as long as the mount's process runs, and true if all data is stable. Returns `None`
/// if no Leasehold mount replies.
pub(crate) fn settle(directory: &Path) -> Option<(Asker, bool)> {
    let place = place_of(directory).ok()?;
    let mut asker = Asker::connect(&place).ok()?;
    let safe = control::ask_again(&mut asker, &place, &Request::Settle).ok()?;
    Some((asker, safe.as_bool()?))
}

/// Returns the directory of the socket for a mount point that the user named.
fn place_of(directory: &Path) -> io::Result<PathBuf> {
    // A call on the mount point itself could wait for an unreachable server, so only its parent
    // directory is resolved.
    let absolute = std::path::absolute(directory)?;
    let named = match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => parent.canonicalize().map(|parent| parent.join(name)),
        _ => Ok(absolute),
    };
    Ok(state_of(&named?))
}

/// Formats the status for people.
pub(crate) fn page(told: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let leases = &told["leases"];
    let names = match leases["names"].as_bool() {
        Some(false) => "; names expire by time",
        Some(true) | None => "",
    };
    let leases = match leases["held"].as_u64() {
        Some(held) => format!(" ({held} leases, {} of them to write{names})", leases["to_write"]),
        None => String::new(),
    };
    let mut page = format!(
        "{} at {}, NFS {}, cache {}{leases}, pid {}\n{} objects, {} open, {} bytes cached, {} of \
         them not yet stable\n{} calls, {} in flight, {} retransmitted, {} connections\n",
        word(&told["source"]),
        word(&told["server"]),
        told["version"],
        word(&told["cache"]),
        told["pid"],
        told["nodes"],
        told["open"],
        told["cached_bytes"],
        told["unsaved_bytes"],
        told["calls"]["begun"],
        told["calls"]["under_way"],
        told["calls"]["sent_again"],
        told["connections"],
    );
    if let Some(refused) = told["refused_bytes"].as_u64().filter(|refused| *refused > 0) {
        page += &format!(
            "the server rejected {refused} bytes; `leasehold rescue list` lists the stored data\n"
        );
    }
    for request in told["waiting"].as_array().into_iter().flatten() {
        let (operation, age) = (word(&request["operation"]), request["age_s"].as_f64());
        let age = age.unwrap_or_default();
        page += &format!("waiting {age:.1} s: {operation} of thread {}\n", request["thread"]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_scope_of_leases() {
        let page_of = |leases: Value| page(&json!({ "cache": "lease", "leases": leases }));
        let held = |names: bool| json!({ "held": 3, "to_write": 1, "names": names });
        assert!(page_of(held(true)).contains("cache lease (3 leases, 1 of them to write), pid"));
        let files_alone = "cache lease (3 leases, 1 of them to write; names expire by time), pid";
        assert!(page_of(held(false)).contains(files_alone));
        assert!(page_of(Value::Null).contains("cache lease, pid"));
    }
}
