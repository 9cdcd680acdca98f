//! Who calls an iod, and how far that caller may go.
//!
//! Criteria in order of weight: no rule of an export gives anybody power here, the word of the caller
//! does; a caller that is not known gets no attributes and no data; a client's call costs one look at
//! the attributes of the object.
//!
//! 1. A call that carries the keyed word of a metaserver or of a command of the cluster acts as the user
//!    that runs the iod. See [`crate::epochs`].
//! 2. All other calls are calls of clients. A client may read, write and commit an object, and ask for
//!    its access; the procedure table has the column [`Use`]. Procedure 0 does nothing and is answered.
//! 3. A client names itself by a user and a group of `Layout::OWNERS`. Any other number, and a call
//!    without a credential, is refused before any object is looked at. MNT says so by its own status,
//!    and a metaserver of another cluster or of an earlier version learns that it is refused.
//! 4. The numbers have to be those that follow by the key of the cluster from the owner of the object:
//!    the numbers of the reader to read, the numbers of the writer to write. The store then checks the
//!    owner once more in the same step in which it reads or writes, so a fence that comes in between
//!    counts.
//! 5. No client is told attributes of an object: these have the owner, from which the next one follows.
//! 6. An iod that cannot give objects to users has no clients.
//!
//! What this does not do: it does not hide what passes on the wire, nor tell the users of one client
//! machine apart.

use leasehold_fs::{Access, Caller, ClientKey, FsError, Layout, ObjectId, Owner, Store};

use crate::table::Use;

/// In whose name a call is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// A client of an iod, with the key by which its numbers are checked; none where there can be none.
    Client(Option<ClientKey>),
    /// A metaserver or a command of an iod's cluster.
    Cluster,
    /// The caller that the rules of an export say.
    Rules,
}

/// What a client may do to one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    reads: bool,
    writes: bool,
}

impl Sent {
    /// What of a wanted access the client has.
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

    /// Whether the client may do this.
    const fn may(self, purpose: Use) -> bool {
        match purpose {
            Use::Asks => true,
            Use::Never | Use::Refused => false,
            Use::Reads => self.reads,
            Use::Writes => self.writes,
        }
    }
}

/// Whether a caller can be a client: both its numbers are those of clients.
pub(crate) fn can_be_client(claimed: Option<&Caller>) -> bool {
    claimed.is_some_and(|it| [it.uid, it.gid].iter().all(|number| Layout::OWNERS.contains(number)))
}

/// Whom the store is to take a client for, and what the client may do.
///
/// # Errors
/// [`FsError::Access`] where its numbers are not good for this object and this purpose, and errors of
/// the store.
pub(crate) async fn client(
    key: Option<ClientKey>,
    claimed: Option<&Caller>,
    purpose: Use,
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
    if !sent.may(purpose) {
        return Err(FsError::Access);
    }
    let caller = Caller { uid: caller.user, gid: caller.group, ..Caller::nobody() };
    Ok((caller, sent))
}
