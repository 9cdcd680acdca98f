//! The selection of the least loaded metaserver for a mount.

use leasehold_session::Credential;
use leasehold_shell::binding::Database;
use leasehold_shell::client::{Mounted, NotFound, Runtime, Target, block_on, mount as find};

/// The default port of NFS.
const PORT: u16 = 2049;

/// Mounts the directory at the least loaded metaserver, as reported by the metaserver that the user
/// named. Uses the named metaserver itself if it reports no metaserver or the reported metaserver
/// is unreachable.
pub(super) fn find_there(
    runtime: &Runtime,
    named: &Target,
    who: &Credential,
) -> Result<Mounted, NotFound> {
    if let Some(there) = referred(named) {
        match block_on(find(runtime, &there, who)) {
            Ok(found) => return Ok(found),
            Err(error) => {
                let host = &there.host;
                tracing::warn!(host, %error, "cannot mount from the least loaded metaserver");
            }
        }
    }
    block_on(find(runtime, named, who))
}

/// Returns the same directory at the metaserver that the named metaserver reports as least loaded.
fn referred(named: &Target) -> Option<Target> {
    let database = Database { host: named.host.clone(), port: named.port.unwrap_or(PORT) };
    let Some(volume) = volume(&named.path) else {
        tracing::warn!("least-busy requires the name of the export: HOST:/NAME");
        return None;
    };
    let told = database.lookup(volume).inspect_err(|error| {
        tracing::warn!(%database, %error, "cannot query the least loaded metaserver");
    });
    let address = told.ok()??.address;
    let (host, port) = (address.ip().to_string(), Some(address.port()));
    Some(Target { host, port, mount_port: None, ..named.clone() })
}

/// Returns the name of the export in a path.
fn volume(path: &[u8]) -> Option<&str> {
    let first = path.split(|byte| *byte == b'/').find(|name| !name.is_empty())?;
    core::str::from_utf8(first).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_name_is_first_part_of_path() {
        for path in ["/files", "files", "//files/", "/files/below/it"] {
            assert_eq!(volume(path.as_bytes()), Some("files"), "{path}");
        }
        for path in [&b"/"[..], b"", b"/\xff"] {
            assert_eq!(volume(path), None, "{path:?}");
        }
    }
}
