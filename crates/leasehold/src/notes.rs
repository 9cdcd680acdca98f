//! The notes of replies, which a server makes for the one that is started after it.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_serve::Service;
use leasehold_shell::state::StateError;
use leasehold_shell::{Changes, Notebook, clock, own};
use leasehold_store_dir::DirStore;

use crate::failure::{Failure, Kind};
use crate::options::Durability;

/// Has a service read the kept notes, and note its replies, where the state directory permits this.
/// Called once the address is bound: a server that was just killed has then given up its notes too.
///
/// # Errors
/// When another server has the notes, or another user could have written the notes.
pub(crate) fn begin(
    service: Service,
    state: &Path,
    durability: Durability,
    stores: &[Arc<DirStore>],
) -> Result<(Service, Option<Arc<Notebook>>), Failure> {
    let changes = match durability {
        Durability::Disk => Changes::Stable,
        Durability::Memory => Changes::InMemory,
    };
    let now = clock::now();
    let sync_all = || stores.iter().all(|store| store.sync_earlier_changes().is_ok());
    let sync = || own::aside(sync_all).unwrap_or(false);
    match Notebook::open(state, changes, now, sync) {
        Ok((notebook, noted)) => {
            tracing::info!(replies = noted.len(), "known from before");
            let notebook = Arc::new(notebook);
            let pages: Arc<dyn leasehold_serve::Notebook> = Arc::<Notebook>::clone(&notebook);
            Ok((service.with_notebook(&pages, &noted, now), Some(notebook)))
        }
        Err(error) if is_other_owners(&error) => Err(Kind::State.because(error.to_string())),
        Err(error) => {
            tracing::warn!("{error}: a call that comes again after a restart may run again");
            Ok((service, None))
        }
    }
}

/// True if another server, or another user, has a file of the state. A server of an earlier version
/// locks its notes, and not the state directory.
fn is_other_owners(error: &StateError) -> bool {
    matches!(error.error.kind(), ErrorKind::PermissionDenied | ErrorKind::WouldBlock)
}

/// Has the notes on stable storage, when the server has come to its end.
pub(crate) fn end(notebook: Option<Arc<Notebook>>) {
    if let Some(Err(error)) = notebook.map(|notebook| notebook.close()) {
        tracing::warn!(%error, "the notes of replies may not outlive this machine");
    }
}
