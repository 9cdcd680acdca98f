//! The write verifier of a start: a new one, or that of the server before, where nothing of what
//! it called written can be lost any more.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_fs::Verifier;
use leasehold_shell::{self as shell, state};
use leasehold_store_dir::DirStore;

use crate::failure::{Failure, Kind};

/// The verifier to start with.
pub(crate) fn begin(state: &Path) -> Result<Verifier, Failure> {
    match shell::take_verifier(state) {
        Ok(Some(verifier)) => return Ok(Verifier(verifier)),
        Ok(None) => {}
        Err(error) if error.error.kind() == ErrorKind::PermissionDenied => {
            return Err(Kind::State.because(error.to_string()));
        }
        Err(error) => tracing::warn!("{error}: clients write again what they did not commit"),
    }
    state::random().map(Verifier).map_err(|error| {
        Kind::Running.because(format!("the system gives no random numbers: {error}"))
    })
}

/// Puts what is written by now on stable storage, while clients are still served.
pub(crate) fn prepare(stores: &[Arc<DirStore>]) {
    // What a store could not save it has noted itself.
    for store in stores {
        let _ = store.settle();
    }
}

/// Puts all that was written on stable storage and leaves the verifier for the next start, when
/// the server has come to its end: that of all stores, where they have one and the same.
pub(crate) fn end(state: &Path, stores: &[Arc<DirStore>]) {
    let settled: Option<Vec<_>> = stores.iter().map(|store| store.settle()).collect();
    let Some(settled) = settled else { return };
    if let [Verifier(verifier), rest @ ..] = settled.as_slice()
        && rest.iter().all(|other| other.0 == *verifier)
        && let Err(error) = shell::leave_verifier(state, *verifier)
    {
        tracing::warn!("{error}: clients will write again what they did not commit");
    }
}
