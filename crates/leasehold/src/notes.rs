//! The persistent duplicate request cache. A server writes its entries to a journal, from which the
//! next server process loads them.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use leasehold_serve::Service;
use leasehold_shell::state::StateError;
use leasehold_shell::{Changes, ReplyJournal, clock, own};
use leasehold_store_dir::DirStore;

use crate::failure::{Failure, Kind};
use crate::options::Durability;

/// Makes a service load the recorded replies and record further replies, if the state directory
/// permits it. Call this function after the address is bound: a server process that was just killed
/// has then released its journal too.
///
/// # Errors
/// Another server has locked the journal, or another user could have written it.
pub(crate) fn begin(
    service: Service,
    state: &Path,
    durability: Durability,
    stores: &[Arc<DirStore>],
) -> Result<(Service, Option<Arc<ReplyJournal>>), Failure> {
    let changes = match durability {
        Durability::Disk => Changes::Stable,
        Durability::Memory => Changes::InMemory,
    };
    let now = clock::now();
    let sync_all = || stores.iter().all(|store| store.sync_earlier_changes().is_ok());
    let sync = || own::aside(sync_all).unwrap_or(false);
    match ReplyJournal::open(state, changes, now, sync) {
        Ok((journal, noted)) => {
            tracing::info!(replies = noted.len(), "loaded recorded replies");
            let journal = Arc::new(journal);
            let pages: Arc<dyn leasehold_serve::ReplyJournal> =
                Arc::<ReplyJournal>::clone(&journal);
            Ok((service.with_reply_journal(&pages, &noted, now), Some(journal)))
        }
        Err(error) if is_other_owners(&error) => Err(Kind::State.because(error.to_string())),
        Err(error) => {
            tracing::warn!("{error}: a call that a client retries after a restart may run twice");
            Ok((service, None))
        }
    }
}

/// Returns true if another server has locked a file of the state, or another user owns the file. A
/// server of an earlier version locks its journal of replies, and not the state directory.
fn is_other_owners(error: &StateError) -> bool {
    matches!(error.error.kind(), ErrorKind::PermissionDenied | ErrorKind::WouldBlock)
}

/// Syncs the recorded replies at the end of a server.
pub(crate) fn end(journal: Option<Arc<ReplyJournal>>) {
    if let Some(Err(error)) = journal.map(|journal| journal.close()) {
        tracing::warn!(%error, "a crash of this machine may lose recorded replies");
    }
}
