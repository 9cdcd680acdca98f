//! Operations on names.

use leasehold_core::leases::table::Access as Turns;
use leasehold_fs::{
    Caller, Changed, Found, FsError, Linked, NewFile, NewNode, ObjectId, Place, Renamed,
    SetAttributes, Wcc,
};
use leasehold_wire::lease::place;

use super::{Held, LeasedStore, Use};

/// The maximum number of attempts to acquire the guards, each of which fails if a name changes
/// between its lookup and the guard of its directory.
const TRIES_MAX: usize = 4;

impl LeasedStore {
    /// Returns the object of a lookup with the attributes that the caller may see.
    async fn found(&self, found: Found) -> Result<Found, FsError> {
        let used = Use { id: found.object, access: Turns::Look, place: Some(place::SECOND) };
        let held = self.hold_as(used, &found.attributes).await?;
        Ok(Found { attributes: held.attributes, ..found })
    }

    pub(super) async fn look_up(
        &self,
        caller: &Caller,
        directory: &ObjectId,
        name: Option<leasehold_fs::Name<'_>>,
    ) -> Result<Found, FsError> {
        let used = Use { id: *directory, access: Turns::Read, place: Some(place::FIRST) };
        let held = self.hold(used).await?;
        let found = match name {
            Some(name) => self.store.lookup(caller, directory, name).await?,
            None => self.store.parent(caller, directory).await?,
        };
        drop(held);
        self.found(found).await
    }

    /// Acquires guards on the objects of `uses`, and on the objects of `names` with their positions
    /// in the call. A name that does not exist gets no guard.
    async fn hold_names(
        &self,
        caller: &Caller,
        uses: &[Use],
        names: &[(Place<'_>, Option<u32>)],
    ) -> Result<Vec<Held>, FsError> {
        for _ in 0..TRIES_MAX {
            let before = self.objects(caller, names).await;
            let named = before.iter().zip(names).filter_map(|(id, (_, place))| {
                Some(Use { id: (*id)?, access: Turns::Write, place: *place })
            });
            let all: Vec<Use> = uses.iter().copied().chain(named).collect();
            let held = match self.hold_all(&all).await {
                // Another call has removed a named object or a directory after the lookup. If the
                // directories still exist, the loop looks the names up again.
                Err(FsError::Stale) => match self.hold_all(uses).await {
                    Ok(_) => continue,
                    Err(error) => return Err(error),
                },
                held => held?,
            };
            if self.objects(caller, names).await == before {
                return Ok(held);
            }
        }
        Err(FsError::Delay)
    }

    /// Returns the object of each name; None for a name that does not exist or that the caller may
    /// not look up.
    async fn objects(
        &self,
        caller: &Caller,
        names: &[(Place<'_>, Option<u32>)],
    ) -> Vec<Option<ObjectId>> {
        let mut objects = Vec::new();
        for (Place { directory, name }, _) in names {
            let found = self.store.lookup(caller, directory, *name).await;
            objects.push(found.ok().map(|found| found.object));
        }
        objects
    }

    /// Updates the modrevs of all guarded objects, and drops the leases on removed objects.
    async fn settle_all(&self, held: Vec<Held>, done: bool) {
        for one in &held {
            let after = self.store.getattr(&one.id).await;
            if after == Err(FsError::Stale) {
                one.turn.gone();
            } else {
                self.settle_names(one, done, after.ok()).await;
            }
        }
    }

    pub(super) async fn create_file(
        &self,
        caller: &Caller,
        at: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        // Only an UNCHECKED create can change an existing file, so only this create needs a guard
        // on the file.
        let is_changed = matches!(file, NewFile::Unchecked(_));
        let names = if is_changed { &[(at, None)][..] } else { &[] };
        let held = match self.hold_names(caller, &[in_directory(&at, place::FIRST)], names).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = self.store.create(caller, at, file).await;
        self.settle_all(held, changed.result.is_ok()).await;
        self.shown(changed).await
    }

    pub(super) async fn make_node(
        &self,
        caller: &Caller,
        at: Place<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> Changed<Found> {
        let held = match self.hold_all(&[in_directory(&at, place::FIRST)]).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = self.store.make(caller, at, node, attributes).await;
        let done = changed.result.is_ok();
        // The creator receives its lease while the guard of the directory still exists, so before
        // another client can find the object and request a lease.
        let changed = self.shown(changed).await;
        self.settle_all(held, done).await;
        changed
    }

    /// Grants the requested lease on a created object. If the grant fails, the call still succeeds,
    /// because the object exists.
    async fn shown(&self, changed: Changed<Found>) -> Changed<Found> {
        let Changed { result: Ok(made), wcc } = changed else { return changed };
        let made = self.found(made).await.unwrap_or(made);
        Changed { result: Ok(made), wcc }
    }

    pub(super) async fn remove_name(&self, caller: &Caller, at: Place<'_>) -> Changed<()> {
        let uses = [in_directory(&at, place::FIRST)];
        let names = [(at, Some(place::SECOND))];
        let held = match self.hold_names(caller, &uses, &names).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = self.store.remove(caller, at).await;
        self.settle_all(held, changed.result.is_ok()).await;
        changed
    }

    pub(super) async fn remove_directory(&self, caller: &Caller, at: Place<'_>) -> Changed<()> {
        let uses = [in_directory(&at, place::FIRST)];
        let names = [(at, Some(place::SECOND))];
        let held = match self.hold_names(caller, &uses, &names).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = self.store.rmdir(caller, at).await;
        self.settle_all(held, changed.result.is_ok()).await;
        changed
    }

    pub(super) async fn rename_names(
        &self,
        caller: &Caller,
        from: Place<'_>,
        to: Place<'_>,
    ) -> Renamed {
        let uses = [in_directory(&from, place::FIRST), in_directory(&to, place::SECOND)];
        let names = [(from, Some(place::MOVED)), (to, Some(place::REPLACED))];
        match self.hold_names(caller, &uses, &names).await {
            Ok(held) => {
                let renamed = self.store.rename(caller, from, to).await;
                self.settle_all(held, renamed.result.is_ok()).await;
                renamed
            }
            Err(error) => Renamed { result: Err(error), from: Wcc::default(), to: Wcc::default() },
        }
    }

    pub(super) async fn link_name(
        &self,
        caller: &Caller,
        object: &ObjectId,
        at: Place<'_>,
    ) -> Linked {
        let used = Use { id: *object, access: Turns::Write, place: Some(place::FIRST) };
        match self.hold_all(&[used, in_directory(&at, place::SECOND)]).await {
            Ok(held) => {
                let linked = self.store.link(caller, object, at).await;
                self.settle_all(held, linked.result.is_ok()).await;
                linked
            }
            Err(error) => {
                Linked { result: Err(error), attributes: None, directory: Wcc::default() }
            }
        }
    }
}

const fn in_directory(at: &Place<'_>, place: u32) -> Use {
    Use { id: at.directory, access: Turns::Write, place: Some(place) }
}
