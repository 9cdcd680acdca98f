//! Silly renames. If a program removes the last name of a file that this client has open, the
//! server would delete the data of the file. The client therefore renames the file to a hidden
//! name, and removes the hidden name at the last release of the file.
//!
//! A client that crashes leaves its hidden names behind, and no other client can recognise these
//! names as garbage. The owner of a client may therefore record the hidden names in a journal that
//! outlives the client ([`Notes`]), and remove the remaining names at the next start
//! ([`remove_left`]).

use std::sync::Arc;

use leasehold_core::cache::Event;
use leasehold_session::nfs::Nfs;
use leasehold_session::{Credential, Error, spawn};
use leasehold_wire::nfs3::{Handle, Reply, Status};

use crate::client::Client;
use crate::names::is_stale;
use crate::nodes::NodeId;

/// The maximum number of hidden names that the client tries for one file; each name has 64 random
/// bits.
const ATTEMPTS: u32 = 8;

/// The hidden name of an open file at the server. The name is unique even without its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The credential with which the client removes the hidden name.
    pub who: Credential,
    /// The directory of the hidden name.
    pub directory: Handle,
    /// The hidden name.
    pub name: Vec<u8>,
}

/// A journal of hidden names that outlives the client.
pub trait Notes: Send + Sync {
    /// Records that the client is about to rename a file to the hidden name.
    fn begun(&self, aside: &Aside);
    /// Records that the hidden name no longer exists, or that the rename failed.
    fn ended(&self, name: &[u8]);
}

/// Removes a hidden name that an earlier client has left. Returns true if the hidden name no longer
/// exists.
pub async fn remove_left(nfs: &Nfs, aside: &Aside) -> bool {
    let removed = nfs.remove(&aside.who, &aside.directory, &aside.name).await;
    match removed {
        Ok(Reply::Done(_)) => true,
        Ok(Reply::Failed(status, _)) => is_unnamed(status),
        Err(_) => false,
    }
}

/// Returns true if the status means that a name or its directory no longer exists.
const fn is_unnamed(status: Status) -> bool {
    matches!(status, Status::NotFound) || is_stale(status)
}

impl Client {
    /// Sets the journal of hidden names; later calls have no effect.
    pub fn note_asides(&self, notes: Arc<dyn Notes>) {
        // A second journal would lack the names that the first journal contains, so it is ignored.
        let _ = self.shared.notes.set(notes);
    }

    /// Renames an open file to a hidden name in the same directory and returns that name. The
    /// caller must run the future to completion ([`Client::to_the_end`]); otherwise nothing would
    /// remove the hidden name.
    pub(crate) async fn put_aside(
        &self,
        who: &Credential,
        node: NodeId,
        (directory, name): (NodeId, &[u8]),
    ) -> Result<Vec<u8>, Error> {
        for _ in 0..ATTEMPTS {
            let chance = self.with(|state, _, _| state.random.next_u64());
            let aside = format!(".nfs{chance:016x}").into_bytes();
            // RENAME would replace an existing file of that name, for example a hidden file of
            // another client, so the client first checks that the name does not exist.
            match self.ask_lookup(who, directory, &aside).await {
                Err(Error::Failed(Status::NotFound)) => {}
                Err(error) => return Err(error),
                Ok(found) => {
                    self.forget(found.node, 1);
                    continue;
                }
            }
            self.note(who, directory, &aside)?;
            let renamed = self.rename_name(who, (directory, name), (directory, &aside), Some(node));
            // If RENAME received no reply, the name may exist at the server, so the journal keeps
            // the name. The client removes the name from the journal only if the server reported a
            // failure.
            if let Err(error @ Error::Failed(_)) = renamed.await.map(drop) {
                self.note_ended(&aside);
                return Err(error);
            }
            self.put_aside_done(who, node, directory, &aside);
            return Ok(aside);
        }
        Err(Error::Failed(Status::AlreadyExists))
    }

    fn put_aside_done(&self, who: &Credential, node: NodeId, directory: NodeId, aside: &[u8]) {
        let useless = self.with(|state, now, actions| {
            let needed = state.nodes.is_open(node) && !state.nodes.is_removed(node);
            if needed {
                // The reference keeps the handle of the directory until the client has removed the
                // hidden name.
                state.nodes.refer(directory);
                state.nodes.set_removed(node, Some((directory, aside.into())));
                state.step(now, Event::Distrust { object: node.key() }, actions);
            }
            !needed
        });
        if useless {
            // The file was released during the rename, or it already has another hidden name. The
            // new hidden name is not needed, so the client removes it at once.
            self.shared.state().nodes.refer(directory);
            self.remove_aside(who.clone(), node, (directory, aside.to_vec()), false);
        }
    }

    /// Records that the client has renamed a file from its hidden name back to its own name.
    pub(crate) fn put_back(&self, node: NodeId, (directory, name): (NodeId, &[u8]), aside: &[u8]) {
        {
            let mut state = self.shared.state();
            state.nodes.set_removed(node, None);
            state.nodes.seen_at(node, directory, name);
        }
        self.forget(directory, 1);
        self.note_ended(aside);
    }

    /// Removes a hidden name in the background and returns the reference to its directory. Saves
    /// unsaved data of the file first if `unsaved` is true.
    pub(crate) fn remove_aside(
        &self,
        who: Credential,
        node: NodeId,
        (directory, name): (NodeId, Vec<u8>),
        unsaved: bool,
    ) {
        let client = self.clone();
        let losing = self.begin_losing(node);
        spawn(async move {
            if unsaved {
                client.sync_node(node).await;
            }
            // A background task has no caller to which it could report an error. If the removal
            // fails, the hidden name stays, and also stays in the journal.
            let gone = match client.remove_name(&who, directory, &name, None).await {
                Ok(()) => true,
                Err(Error::Failed(status)) => is_unnamed(status),
                Err(_) => false,
            };
            if gone {
                client.note_ended(&name);
            }
            client.unlinked(node, gone);
            losing.end(gone);
            client.forget(directory, 1);
        });
    }

    fn note(&self, who: &Credential, directory: NodeId, name: &[u8]) -> Result<(), Error> {
        if let Some(notes) = self.shared.notes.get() {
            let (who, directory) = (who.clone(), self.handle(directory)?);
            notes.begun(&Aside { who, directory, name: name.to_vec() });
        }
        Ok(())
    }

    fn note_ended(&self, name: &[u8]) {
        if let Some(notes) = self.shared.notes.get() {
            notes.ended(name);
        }
    }
}
