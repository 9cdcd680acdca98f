//! Which of several metaservers a mount goes by.

use leasehold_session::Credential;
use leasehold_shell::binding::Database;
use leasehold_shell::client::{Mounted, NotFound, Runtime, Target, block_on, mount as find};

/// The port of NFS where nothing else is said.
const PORT: u16 = 2049;

/// Mounts what is named at the least busy of its metaservers, as the one says that is named; at that
/// itself where it does not say, or the other cannot be reached from here.
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
                tracing::warn!(host, %error, "the least busy metaserver cannot be mounted");
            }
        }
    }
    block_on(find(runtime, named, who))
}

/// The same directory at the metaserver that the named one tells.
fn referred(named: &Target) -> Option<Target> {
    let database = Database { host: named.host.clone(), port: named.port.unwrap_or(PORT) };
    let Some(volume) = volume(&named.path) else {
        tracing::warn!("least-busy needs the name of what is mounted: HOST:/NAME");
        return None;
    };
    let told = database.lookup(volume).inspect_err(|error| {
        tracing::warn!(%database, %error, "it does not say which metaserver is the least busy");
    });
    let address = told.ok()??.address;
    let (host, port) = (address.ip().to_string(), Some(address.port()));
    Some(Target { host, port, mount_port: None, ..named.clone() })
}

/// The name of what is mounted.
fn volume(path: &[u8]) -> Option<&str> {
    let first = path.split(|byte| *byte == b'/').find(|name| !name.is_empty())?;
    core::str::from_utf8(first).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_has_a_name() {
        for path in ["/files", "files", "//files/", "/files/below/it"] {
            assert_eq!(volume(path.as_bytes()), Some("files"), "{path}");
        }
        for path in [&b"/"[..], b"", b"/\xff"] {
            assert_eq!(volume(path), None, "{path:?}");
        }
    }
}
