//! The notes of replies, which a server makes for the one that is started after it.

use std::path::Path;
use std::sync::Arc;

use leasehold_serve::Service;
use leasehold_shell::{Changes, Notebook, clock};

use crate::options::Durability;

/// Has a service recall what was noted, and note its replies, where it can.
pub(crate) fn begin(
    service: Service,
    state: &Path,
    durability: Durability,
) -> (Service, Option<Arc<Notebook>>) {
    let changes = match durability {
        Durability::Disk => Changes::Stable,
        Durability::Memory => Changes::InMemory,
    };
    let now = clock::now();
    match Notebook::open(state, changes, now) {
        Ok((notebook, noted)) => {
            tracing::info!(replies = noted.len(), "known from before");
            let notebook = Arc::new(notebook);
            let pages: Arc<dyn leasehold_serve::Notebook> = Arc::<Notebook>::clone(&notebook);
            (service.with_notebook(&pages, &noted, now), Some(notebook))
        }
        Err(error) => {
            tracing::warn!("{error}: a call that comes again after a restart may run again");
            (service, None)
        }
    }
}

/// Has the notes on stable storage, when the server has come to its end.
pub(crate) fn end(notebook: Option<Arc<Notebook>>) {
    if let Some(Err(error)) = notebook.map(|notebook| notebook.close()) {
        tracing::warn!(%error, "the notes of replies may not outlive this machine");
    }
}
