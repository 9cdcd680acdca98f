//! Operations on one object.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::units::FileTime;
use leasehold_core::leases::table::Access as Turns;
use leasehold_core::leases::{Kind, Modrev};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Changed, Committed, Entries, FsError, Layout, ObjectId,
    Page, Purpose, ReadDone, SetAttributes, Stability, Target, Wanted, WriteDone,
};
use leasehold_wire::lease::place;

use super::{Held, LeasedStore, Use};
use crate::layouts::{Begun, LaidOut};
use crate::room::{ROUNDS_MAX, Whose};
use crate::writing::Alone;

impl LeasedStore {
    pub(super) async fn first(&self, id: &ObjectId, access: Turns) -> Result<Held, FsError> {
        self.hold(Use { id: *id, access, place: Some(place::FIRST) }).await
    }

    /// Grants the requested lease without an operation, and returns the attributes and the modrev
    /// of the object. A renewal or a reclaim returns no attributes if the store would have to wait
    /// for current attributes, because little of the term is left.
    ///
    /// # Errors
    /// The error of the store, or [`FsError::Delay`] if the guard of the object is not granted in time.
    pub async fn lease(&self, id: &ObjectId) -> Result<(Option<Attributes>, Modrev), FsError> {
        let held = self.first(id, Turns::Nothing).await?;
        Ok((held.is_known.then_some(held.attributes), held.modrev))
    }

    /// Like [`LeasedStore::lease`], but always returns attributes.
    ///
    /// # Errors
    /// The error of the store, or [`FsError::Delay`] if the guard of the object is not granted in time.
    pub async fn lease_known(&self, id: &ObjectId) -> Result<(Attributes, Modrev), FsError> {
        let held = self.first(id, Turns::Nothing).await?;
        let known = if held.is_known { held.attributes } else { self.store.getattr(id).await? };
        Ok((known, held.modrev))
    }

    pub(super) async fn get_attributes(&self, id: &ObjectId) -> Result<Attributes, FsError> {
        Ok(self.first(id, Turns::Look).await?.attributes)
    }

    pub(super) async fn look_at_access(
        &self,
        caller: &Caller,
        id: &ObjectId,
        wanted: Access,
    ) -> Result<(Access, Attributes), FsError> {
        let mut held = self.first(id, Turns::Look).await?;
        if held.is_behind {
            // Only the store can check permissions, and it does not have the mode that the holder
            // of a write lease set. The guard for reading makes the holder write the mode back
            // first.
            drop(held);
            held = self.first(id, Turns::Read).await?;
        }
        let (granted, _) = self.store.access(caller, id, wanted).await?;
        Ok((granted, held.attributes))
    }

    pub(super) async fn read_link(
        &self,
        caller: &Caller,
        id: &ObjectId,
    ) -> Result<(Target, Attributes), FsError> {
        let _held = self.first(id, Turns::Read).await?;
        self.store.readlink(caller, id).await
    }

    pub(super) async fn read_data(
        &self,
        caller: &Caller,
        id: &ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<ReadDone, FsError> {
        let _held = self.first(id, Turns::Read).await?;
        self.store.read(caller, id, offset, count).await
    }

    pub(super) async fn write_data(
        &self,
        caller: &Caller,
        id: &ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Changed<WriteDone> {
        // The exclusive right lasts until the write has ended. No other write therefore runs
        // between the read of the size and the write of appended data.
        let (mut held, _alone) = match self.with_room(caller, id, data.len() as u64).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let offset = match self.asked().filter(|asked| asked.appends()) {
            Some(asked) => match self.store.getattr(id).await {
                Ok(now) => {
                    asked.appended(now.size);
                    now.size
                }
                Err(error) => return Changed::failed(error),
            },
            None => offset,
        };
        let changed = self.store.write(caller, id, offset, data, stability).await;
        if let Some(after) = &changed.wcc.after {
            held.turn.outcome.used = after.used.saturating_sub(held.attributes.used);
        }
        self.settle(&held, changed.result.is_ok(), changed.wcc.after).await;
        self.guard_again(&held);
        changed
    }

    pub(super) async fn set_attributes(
        &self,
        caller: &Caller,
        id: &ObjectId,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Changed<()> {
        self.change_object(id, || self.store.setattr(caller, id, changes, guard)).await
    }

    /// Returns the layout of a file for a client that holds a lease on it.
    pub(super) async fn tell_layout(
        &self,
        caller: &Caller,
        id: &ObjectId,
        purpose: Purpose,
    ) -> Result<Option<Layout>, FsError> {
        let (access, kind) = match purpose {
            Purpose::Read => (Turns::Read, Kind::Read),
            Purpose::Write => (Turns::Write, Kind::Write),
        };
        let held = self.first(id, access).await?;
        let object = held.turn.object;
        let Some(client) = self.client() else { return Ok(None) };
        let Some(serial) = self.leases.cachable(object, client, kind) else { return Ok(None) };
        if purpose == Purpose::Read {
            return self.store.open_layout(caller, id, purpose).await;
        }
        let _alone = self.leases.alone(object).await;
        let laid_out = LaidOut { client, serial, export: self.export, id: *id };
        let before = self.leases.laid_out(object);
        loop {
            match self.leases.lay_out(object, laid_out, held.modrev) {
                Begun::Now => break,
                Begun::After(other, over) => match self.store.recall_layout(&over.id).await {
                    Ok(()) => self.leases.recalled(other, &over),
                    Err(_) => return Ok(None),
                },
                Begun::Never => return Ok(None),
            }
        }
        let told = self.store.open_layout(caller, id, purpose).await;
        if self.leases.laid_out(object) != Some(laid_out) {
            // Another call noticed the end of the lease and ended the layout record before the
            // store opened the layout. No later call would end the new layout, so this call ends
            // the layout and returns none.
            let recalled = self.store.recall_layout(id).await;
            self.settle_under(&held, serial, None).await;
            return recalled.map(|()| None);
        }
        if before.is_none() && matches!(told, Ok(None)) {
            self.leases.recalled(object, &laid_out);
        }
        self.settle_under(&held, serial, None).await;
        told
    }

    /// Ends a layout that its client returns. A layout that a client received before a restart ends
    /// at the next access to the file.
    pub(super) async fn end_layout(&self, id: &ObjectId) -> Result<(), FsError> {
        let attributes = self.store.getattr(id).await?;
        let is_own = |laid_out: LaidOut| Some(laid_out.client) == self.client();
        if !self.leases.laid_out(super::object_of(&attributes)).is_some_and(is_own) {
            return Ok(());
        }
        let used = Use { id: *id, access: Turns::Write, place: Some(place::FIRST) };
        let held = self.hold_as(used, &attributes).await?;
        let object = held.turn.object;
        let _alone = self.leases.alone(object).await;
        if let Some(laid_out) = self.leases.laid_out(object).filter(|told| is_own(*told)) {
            self.end_over(object, id, &laid_out).await?;
        }
        self.settle(&held, false, None).await;
        Ok(())
    }

    pub(super) async fn commit_data(
        &self,
        caller: &Caller,
        id: &ObjectId,
        offset: u64,
        length: u32,
    ) -> Changed<Committed> {
        let mut held = self.first(id, Turns::Nothing).await.ok();
        let lease =
            |held: &Held| self.leases.cachable(held.turn.object, self.client()?, Kind::Write);
        let before = held.as_ref().and_then(lease);
        if let (Some(held), Some(_)) = (&mut held, before)
            // The client holds a write lease, so no other client changes the file between this read
            // of the change time and the COMMIT.
            && let Err(error) = self.look_again(held).await
        {
            return Changed::failed(error);
        }
        let changed = self.store.commit(caller, id, offset, length).await;
        // COMMIT updates the attributes of a file that a client has written directly at the iods.
        // The change counts as the client's own only if the client held the same write lease
        // throughout the COMMIT; otherwise other callers may have made the change.
        if let (Some(held), Some(serial)) = (&held, before)
            && lease(held) == before
        {
            self.settle_under(held, serial, changed.wcc.after).await;
        }
        changed
    }

    pub(super) async fn list(
        &self,
        caller: &Caller,
        id: &ObjectId,
        (cookie, budget): (Cookie, Budget),
        wanted: Wanted,
    ) -> Result<Page, FsError> {
        let held = self.first(id, Turns::Read).await?;
        let page = self.store.readdir(caller, id, cookie, budget, wanted).await?;
        drop(held);
        let mut entries = Entries::default();
        for (number, mut entry) in (0..).zip(page.entries.iter()) {
            if let (Some(object), Some(attributes)) = (entry.object, entry.attributes) {
                entry.attributes = self.entry(object, &attributes, number).await;
            }
            entries.push(&entry);
        }
        Ok(Page { entries, ..page })
    }

    /// Returns the attributes of an entry of a listing. Returns None if another client has newer
    /// attributes under a write lease, because a listing recalls no leases for its entries.
    async fn entry(
        &self,
        id: ObjectId,
        attributes: &Attributes,
        number: u32,
    ) -> Option<Attributes> {
        let asks = self.asked().is_some_and(|asked| asked.asks.of(place::ENTRIES).is_some());
        if asks {
            let place = Some(place::ENTRIES.saturating_add(number));
            let used = Use { id, access: Turns::Nothing, place };
            let held = self.hold_as(used, attributes).await.ok()?;
            return self
                .leases
                .is_known(held.turn.object, self.client())
                .then_some(held.attributes);
        }
        let object = super::object_of(attributes);
        self.leases.is_known(object, self.client()).then_some(*attributes)
    }

    pub(super) fn client(&self) -> Option<leasehold_core::leases::Client> {
        self.asked().map(|asked| asked.client)
    }

    /// Acquires the operation guard and the exclusive right for a write. Waits while the write
    /// would use space that is reserved for other clients.
    ///
    /// # Errors
    /// [`FsError::Delay`] while leases on other objects reserve the space: the server cannot know
    /// if the disk is full before their holders have written.
    pub(super) async fn with_room(
        &self,
        caller: &Caller,
        id: &ObjectId,
        bytes: u64,
    ) -> Result<(Held, Alone), FsError> {
        for _ in 0..ROUNDS_MAX {
            let mut held = self.first(id, Turns::Write).await?;
            let alone = self.alone(&mut held).await?;
            let lacking = self.lacking(caller, &held, bytes).await?;
            if lacking == 0 {
                return Ok((held, alone));
            }
            // This attempt must not leave a grant in the reply: the lease may end before the next
            // attempt, which requests the lease again.
            held.turn.outcome.void = true;
            if let Some(asked) = self.asked() {
                asked.ungranted(place::FIRST);
            }
            let object = held.turn.object;
            drop((alone, held));
            if !self.leases.make_room(object, lacking, Whose::Anybodys).await {
                break;
            }
        }
        Err(FsError::Delay)
    }

    /// Returns the number of bytes that a write lacks because they are reserved for other clients.
    /// The caller may use the space that is reserved for itself.
    pub(super) async fn lacking(
        &self,
        caller: &Caller,
        held: &Held,
        bytes: u64,
    ) -> Result<u64, FsError> {
        let reserved = self.leases.reserved(held.turn.object, self.client());
        if reserved.elsewhere == 0 || bytes <= reserved.own {
            return Ok(0);
        }
        let (space, _) = self.store.space(caller, &held.id).await?;
        let wanted = reserved.elsewhere.saturating_add(bytes);
        Ok(wanted.saturating_sub(space.available_bytes))
    }
}
