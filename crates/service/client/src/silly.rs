//! Files that lose their name while they are open here: the server would lose their data with it,
//! so they get a name of ours, which goes when they are released.
//!
//! A client that dies leaves such names behind, and nobody else can tell that they are for nothing.
//! So whoever owns the client may note them where they outlive it ([`Notes`]), and remove what is
//! left the next time ([`remove_left`]).

use std::sync::Arc;

use leasehold_core::cache::Event;
use leasehold_session::nfs::Nfs;
use leasehold_session::{Credential, Error, spawn};
use leasehold_wire::nfs3::{Handle, Reply, Status};

use crate::client::Client;
use crate::names::is_stale;
use crate::nodes::NodeId;

/// How many names are tried: each has 64 bits of chance.
const ATTEMPTS: u32 = 8;

/// A name of ours that an open file has at the server. The name alone tells it from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// Who removes it.
    pub who: Credential,
    /// Where it stands.
    pub directory: Handle,
    /// The name.
    pub name: Vec<u8>,
}

/// What notes names of ours, where that outlives the client.
pub trait Notes: Send + Sync {
    /// A file is about to get the name.
    fn begun(&self, aside: &Aside);
    /// The name is gone, or no file has got it.
    fn ended(&self, name: &[u8]);
}

/// Removes a name that a client before this one has left; whether it is gone.
pub async fn remove_left(nfs: &Nfs, aside: &Aside) -> bool {
    let removed = nfs.remove(&aside.who, &aside.directory, &aside.name).await;
    match removed {
        Ok(Reply::Done(_)) => true,
        Ok(Reply::Failed(status, _)) => is_unnamed(status),
        Err(_) => false,
    }
}

/// Whether a name, or the directory that it was in, is no more.
const fn is_unnamed(status: Status) -> bool {
    matches!(status, Status::NotFound) || is_stale(status)
}

impl Client {
    /// Has names of ours noted from now on. Who notes them is told once.
    pub fn note_asides(&self, notes: Arc<dyn Notes>) {
        // A second one would know half.
        let _ = self.shared.notes.set(notes);
    }

    /// Gives an open file a name of ours in the same directory, and says which. It is to go on to
    /// its end once it has begun ([`Client::to_the_end`]): nobody else would remove the name.
    pub(crate) async fn put_aside(
        &self,
        who: &Credential,
        node: NodeId,
        (directory, name): (NodeId, &[u8]),
    ) -> Result<Vec<u8>, Error> {
        for _ in 0..ATTEMPTS {
            let chance = self.with(|state, _, _| state.random.next_u64());
            let aside = format!(".nfs{chance:016x}").into_bytes();
            // RENAME would take the place of another's file.
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
            // What came of a call without an answer is not known.
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
        let useless = self.with(|state, now, doings| {
            let needed = state.nodes.is_open(node) && !state.nodes.is_removed(node);
            if needed {
                // Its directory is needed until the name is gone.
                state.nodes.refer(directory);
                state.nodes.set_removed(node, Some((directory, aside.into())));
                state.step(now, Event::Distrust { object: node.key() }, doings);
            }
            !needed
        });
        if useless {
            // It was released while its name was changed, or has another name of ours.
            self.shared.state().nodes.refer(directory);
            self.remove_aside(who.clone(), node, (directory, aside.to_vec()), false);
        }
    }

    /// A file that was put aside has its own name again.
    pub(crate) fn put_back(&self, node: NodeId, (directory, name): (NodeId, &[u8]), aside: &[u8]) {
        {
            let mut state = self.shared.state();
            state.nodes.set_removed(node, None);
            state.nodes.seen_at(node, directory, name);
        }
        self.forget(directory, 1);
        self.note_ended(aside);
    }

    /// Removes a name that we gave a file, without anybody waiting, and gives the directory's
    /// reference back; what was written to the file and is unsaved is saved first.
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
            // There is nobody to tell: a name that cannot be removed stays where it is.
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
