//! Files that lose their name while they are open here: the server would lose their data with it,
//! so they get a name of ours, which goes when they are released.

use leasehold_core::cache::Event;
use leasehold_session::{Credential, Error};
use leasehold_wire::nfs3::Status;

use crate::client::Client;
use crate::nodes::NodeId;
use crate::task;

/// How many names are tried: each has 64 bits of chance.
const ATTEMPTS: u32 = 8;

impl Client {
    /// Gives an open file a name of ours in the same directory, and says which.
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
            self.rename_name(who, (directory, name), (directory, &aside), Some(node)).await?;
            self.put_aside_done(who, node, directory, &aside);
            return Ok(aside);
        }
        Err(Error::Failed(Status::AlreadyExists))
    }

    fn put_aside_done(&self, who: &Credential, node: NodeId, directory: NodeId, aside: &[u8]) {
        let closed = self.with(|state, now, doings| {
            let open = state.nodes.is_open(node);
            if open {
                // Its directory is needed until the name is gone.
                state.nodes.refer(directory);
                state.nodes.set_removed(node, Some((directory, aside.into())));
                state.step(now, Event::Distrust { object: node.key() }, doings);
            }
            !open
        });
        if closed {
            // It was released while its name was changed.
            self.shared.state().nodes.refer(directory);
            self.remove_aside(who.clone(), directory, aside.to_vec());
        }
    }

    /// Removes a name of ours, without anybody waiting, and gives the directory's reference back.
    pub(crate) fn remove_aside(&self, who: Credential, directory: NodeId, name: Vec<u8>) {
        let client = self.clone();
        task::spawn(async move {
            // There is nobody to tell: a name that cannot be removed stays where it is.
            let _ = client.remove_name(&who, directory, &name).await;
            client.forget(directory, 1);
        });
    }
}
