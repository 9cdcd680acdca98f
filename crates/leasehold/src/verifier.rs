//! The write verifier of a start: a new verifier, or the verifier of the previous server process if
//! all unstable data of that process is safe.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_fs::Verifier;
use leasehold_shell::{self as shell, state};
use leasehold_store_dir::DirStore;

use crate::failure::{Failure, Kind};

/// Returns the write verifier for this start.
pub(crate) fn begin(state: &Path) -> Result<Verifier, Failure> {
    match shell::take_verifier(state) {
        Ok(Some(verifier)) => return Ok(Verifier(verifier)),
        Ok(None) => {}
        Err(error) if error.error.kind() == ErrorKind::PermissionDenied => {
            return Err(Kind::State.because(error.to_string()));
        }
        Err(error) => tracing::warn!("{error}: clients send their uncommitted data again"),
    }
    state::random().map(Verifier).map_err(|error| {
        Kind::Running.because(format!("the system returns no random numbers: {error}"))
    })
}

/// Syncs the data that clients have written so far, while the server still serves them: less work
/// then remains for the end.
pub(crate) fn prepare(stores: &[Arc<DirStore>]) {
    // The store remembers a failed sync and changes its verifier, so the result is ignored.
    for store in stores {
        let _ = store.settle();
    }
}

/// Syncs all written data when the server ends. If all stores have the same write verifier, leaves
/// the verifier in the state directory for the next start.
pub(crate) fn end(state: &Path, stores: &[Arc<DirStore>]) {
    let settled: Option<Vec<_>> = stores.iter().map(|store| store.settle()).collect();
    let Some(settled) = settled else { return };
    if let [Verifier(verifier), rest @ ..] = settled.as_slice()
        && rest.iter().all(|other| other.0 == *verifier)
        && let Err(error) = shell::leave_verifier(state, *verifier)
    {
        tracing::warn!("{error}: clients will send their uncommitted data again");
    }
}
