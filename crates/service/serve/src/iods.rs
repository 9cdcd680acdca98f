//! The callers of an iod, and the rights of each caller.
//!
//! Criteria in order of weight: only the authentication of a caller grants rights at an iod, and no
//! access rule of an export grants any; an unknown caller gets no attributes and no data; the check
//! of a client's call costs one read of the object's attributes.
//!
//! 1. A call with the authentication token of a metaserver or of a command of the cluster acts as
//!    the user that runs the iod. See [`crate::epochs`].
//! 2. All other calls are calls of clients. A client may read, write and commit an object, and
//!    query its own access to the object. For each procedure the table of procedures states how a
//!    client may use that procedure ([`Use`]), and the server refuses all other procedures. The
//!    server answers procedure 0, which does nothing, for every caller.
//! 3. A client identifies itself by a user and a group of `Layout::OWNERS`. The iod refuses a call
//!    with any other user or group number, or without a credential, before it reads any object. MNT
//!    refuses with its own status, so that a metaserver of another cluster or of an earlier version
//!    recognises the refusal.
//! 4. The user and group number of the client must derive, by the key of clients, from the owner of
//!    the object: the reader's numbers for reading, the writer's numbers for writing. The store
//!    then checks the owner again in the same step in which it reads or writes, so that a fence in
//!    between takes effect.
//! 5. No client gets attributes of an object, because the attributes contain the owner, from which
//!    the numbers of the next layout derive.
//! 6. An iod that cannot change the owner of objects has no clients.
//! 7. After its start an iod makes clients retry until a metaserver sends, with an authenticated
//!    token, the rollback counter that the iod has stored. The objects may have been replaced by an
//!    older copy, such as a backup, and only the metaserver can detect such a replacement. Counter
//!    0 comes from a metaserver without counters. If a later counter differs from the stored
//!    counter, the iod makes clients retry again. See [`leasehold_fs::NotedTurns`].
//! 8. An address that tries many wrong numbers must retry later. See [`crate::guesses`].
//!
//! These rules do not encrypt data on the wire, and do not separate the users of one client machine
//! from each other.

use leasehold_fs::{
    Access, Caller, ClientKey, FsError, Layout, Name, NotedTurns, ObjectId, Owner, Step, Store,
    TURN_NOTE, TURN_NOTE_BYTES,
};

use crate::table::Use;

/// The authority by which a server answers a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// A client of an iod. The first value is the key that verifies the client's user and group
    /// number, or None if the iod has no clients. The second value is true if the iod accepts
    /// clients now (rule 7).
    Client(Option<ClientKey>, bool),
    /// A metaserver or a command of an iod's cluster.
    Cluster,
    /// The access rules of an export, which determine the caller.
    Rules,
}

/// The access of a client with a layout to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    reads: bool,
    writes: bool,
}

impl Sent {
    /// Returns the kinds of access in `wanted` that the client has.
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

    /// Returns true if the user and group number of the client grant any access.
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

/// Reads the rollback counters that are stored beside the objects of a store.
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

/// Returns true if a caller can be a client: its user and its group are both numbers of clients.
pub(crate) fn can_be_client(claimed: Option<&Caller>) -> bool {
    claimed.is_some_and(|it| [it.uid, it.gid].iter().all(|number| Layout::OWNERS.contains(number)))
}

/// Returns the caller as which the store runs the operation, and the access of the client to the
/// object.
///
/// # Errors
/// [`FsError::Access`] if the caller's user and group are not numbers of clients, and the errors of
/// the store.
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
