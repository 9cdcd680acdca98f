//! The write verifier of a start: a new one, or that of the server before, where nothing of what
//! it called written can be lost any more.

use std::path::Path;

use leasehold_fs::Verifier;
use leasehold_shell::{self as shell, state};
use leasehold_store_dir::DirStore;

use crate::failure::{Failure, Kind};

/// The verifier to start with.
pub(crate) fn begin(state: &Path) -> Result<Verifier, Failure> {
    match shell::take_verifier(state) {
        Ok(Some(verifier)) => return Ok(Verifier(verifier)),
        Ok(None) => {}
        Err(error) => tracing::warn!("{error}: clients write again what they did not commit"),
    }
    state::random().map(Verifier).map_err(|error| {
        Kind::Running.because(format!("the system gives no random numbers: {error}"))
    })
}

/// Puts all that was written on stable storage and leaves the verifier for the next start, when
/// the server has come to its end.
pub(crate) fn end<'s>(state: &Path, stores: impl Iterator<Item = &'s DirStore>) {
    // All have begun with the same one.
    let settled: Option<Vec<Verifier>> = stores.map(DirStore::settle).collect();
    if let Some(&[Verifier(verifier), ..]) = settled.as_deref()
        && let Err(error) = shell::leave_verifier(state, verifier)
    {
        tracing::warn!("{error}: clients will write again what they did not commit");
    }
}
