//! Creates clients for the servers of this crate.

use std::time::Duration;

use leasehold_rig::{EXPORT, MemServer};
use leasehold_session::{Credential, Options};
use leasehold_shell::client::{Mounted, Runtime, Target, block_on, mount};

/// The maximum time that a call may take in a test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the target for a mount of a server's export; the address may belong to a cable.
pub(crate) fn target(address: std::net::SocketAddr, calling: Options) -> Target {
    let host = address.ip().to_string();
    let path = format!("/{EXPORT}").into_bytes();
    Target { port: Some(address.port()), ..Target::new(&host, &path, calling) }
}

/// Returns the target for a mount of a server without a cable.
pub(crate) fn target_of(server: &MemServer, calling: Options) -> Target {
    target(server.address(), calling)
}

/// Returns the credential of the superuser.
pub(crate) fn root() -> Credential {
    Credential::system("test", 0, 0, &[])
}

/// Mounts a target with a new runtime.
pub(crate) fn mounted(target: &Target) -> Mounted {
    let runtime = Runtime::start().unwrap();
    block_on(mount(&runtime, target, &root())).unwrap()
}

#[allow(dead_code, reason = "only the tests of the caching client use it")]
/// Enables the lease program if `wanted` is true, as a client of its own.
pub(crate) fn with_leases(mounted: Mounted, wanted: bool, seed: u64) -> Mounted {
    if !wanted {
        return mounted;
    }
    let id = u128::from(seed).to_be_bytes();
    let nfs = block_on(mounted.nfs.with_leases(&root(), id, b"a test")).unwrap();
    Mounted { nfs, ..mounted }
}
