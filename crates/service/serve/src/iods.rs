//! The callers of an iod, and the power that each caller has.
//!
//! Criteria in order of weight: the word of a caller gives the caller power here, and no rule of an
//! export does; an unknown caller gets no attributes and no data; a client's call costs one look at
//! the attributes of the object.
//!
//! 1. A call that carries the keyed word of a metaserver or of a command of the cluster acts as the
//!    user that runs the iod. See [`crate::epochs`].
//! 2. All other calls are calls of clients. A client may read, write and commit an object, and ask
//!    for its access; the procedure table has the column [`Use`]. Procedure 0 does nothing and is
//!    answered.
//! 3. A client names itself by a user and a group of `Layout::OWNERS`. The iod refuses any other
//!    number, and a call without a credential, before it looks at any object. MNT refuses by its
//!    own status, so a metaserver of another cluster or of an earlier version learns of the
//!    refusal.
//! 4. The numbers have to follow by the key of the cluster from the owner of the object: the
//!    numbers of the reader to read, the numbers of the writer to write. The store then checks the
//!    owner once more in the same step in which it reads or writes, so a fence that comes in
//!    between counts.
//! 5. No client gets attributes of an object: attributes have the owner, from which the next owner
//!    follows.
//! 6. An iod that cannot give objects to users has no clients.
//! 7. After its start an iod has clients retry until a metaserver says the turn that the iod has
//!    noted, with a keyed word: the objects may be an older state, such as a backup, and the
//!    metaserver alone knows the turn. Turn 0 is the word of a metaserver that keeps no turns. A
//!    turn that the iod has not noted lets no client in any more. See [`leasehold_fs::NotedTurns`].
//! 8. An address that tries many numbers has to come again later. See [`crate::guesses`].
//!
//! These rules do not hide data on the wire, nor do they tell the users of one client machine
//! apart.

use leasehold_fs::{
    Access, Caller, ClientKey, FsError, Layout, Name, NotedTurns, ObjectId, Owner, Step, Store,
    TURN_NOTE, TURN_NOTE_BYTES,
};

use crate::table::Use;

/// The authority by which a server answers a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// A client of an iod, with the key that checks the client's numbers (none where the iod has no
    /// clients), and true if the iod lets clients in.
    Client(Option<ClientKey>, bool),
    /// A metaserver or a command of an iod's cluster.
    Cluster,
    /// The rules of an export, which choose the caller.
    Rules,
}

/// The access of a client to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    reads: bool,
    writes: bool,
}

impl Sent {
    /// The part of a wanted access that the client has.
    pub(crate) const fn granted(self, wanted: Access) -> Access {
        Access {
            read: wanted.read && self.reads,
            lookup: false,
            modify: wanted.modify && self.writes,
            extend: wanted.extend && self.writes,
            delete: false,
            execute: false,
        }
    }

    /// Returns true if the numbers of the client are good for any access.
    pub(crate) const fn is_any(self) -> bool {
        self.reads || self.writes
    }

    /// Returns true if the client may use a procedure in this way.
    pub(crate) const fn may(self, purpose: Use) -> bool {
        match purpose {
            Use::Asks => true,
            Use::Never | Use::Refused => false,
            Use::Reads => self.reads,
            Use::Writes => self.writes,
        }
    }
}

/// Reads the turns that are noted beside the objects of a store.
pub(crate) async fn noted_turns(store: &dyn Store, caller: &Caller) -> NotedTurns {
    let read = async {
        let found = store.lookup(caller, &store.root(), note()?).await.ok()?;
        Some(store.read(caller, &found.object, 0, TURN_NOTE_BYTES).await.ok()?.data)
    };
    NotedTurns::read(&read.await.unwrap_or_default())
}

fn note() -> Option<Name<'static>> {
    match Step::parse(TURN_NOTE.as_bytes()) {
        Ok(Step::Child(name)) => Some(name),
        Ok(Step::This | Step::Parent) | Err(_) => None,
    }
}

/// Returns true if a caller can be a client: both its numbers are numbers of clients.
pub(crate) fn can_be_client(claimed: Option<&Caller>) -> bool {
    claimed.is_some_and(|it| [it.uid, it.gid].iter().all(|number| Layout::OWNERS.contains(number)))
}

/// The caller as which the store is to serve a client, and the access of the client.
///
/// # Errors
/// [`FsError::Access`] where the numbers are not numbers of clients, and errors of the store.
pub(crate) async fn client(
    key: Option<ClientKey>,
    claimed: Option<&Caller>,
    (store, object): (&dyn Store, &ObjectId),
) -> Result<(Caller, Sent), FsError> {
    // Rules 3 and 6
    let (Some(key), Some(claimed)) = (key, claimed.filter(|it| can_be_client(Some(it)))) else {
        return Err(FsError::Access);
    };
    let attributes = store.getattr(object).await?;
    let owner = Owner { user: attributes.uid, group: attributes.gid };
    let caller = Owner { user: claimed.uid, group: claimed.gid };
    // Rule 4
    let is_theirs = Layout::OWNERS.contains(&owner.user);
    let writes = is_theirs && owner.is_given_out() && caller == key.writer(owner);
    let reads = is_theirs && (writes || caller == key.reader(owner));
    let sent = Sent { reads, writes };
    let caller = Caller { uid: caller.user, gid: caller.group, ..Caller::nobody() };
    Ok((caller, sent))
}
