//! Operations on one object.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_base::units::FileTime;
use leasehold_core::leases::Modrev;
use leasehold_core::leases::table::Access as Turns;
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Changed, Entries, FsError, ObjectId, Page, ReadDone,
    SetAttributes, Stability, Target, Wanted, WriteDone,
};
use leasehold_wire::lease::place;

use super::{Gate, Held, Use};

impl Gate {
    async fn first(&self, id: &ObjectId, access: Turns) -> Result<Held, FsError> {
        self.hold(Use { id: *id, access, place: Some(place::FIRST) }).await
    }

    /// Has what is asked for granted alone, and says what the object is then.
    pub(crate) async fn lease(&self, id: &ObjectId) -> Result<(Attributes, Modrev), FsError> {
        let held = self.first(id, Turns::Nothing).await?;
        Ok((held.attributes, held.modrev))
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
        let held = self.first(id, Turns::Look).await?;
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
        let mut held = match self.first(id, Turns::Write).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        // What is appended goes behind what is there, and nothing comes in between.
        let _alone = self.leases.alone(held.turn.object).await;
        if let Err(error) = self.leave_reserved(caller, &held, data.len() as u64).await {
            return Changed::failed(error);
        }
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
        let held = match self.first(id, Turns::Write).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let _alone = self.leases.alone(held.turn.object).await;
        let changed = self.store.setattr(caller, id, changes, guard).await;
        self.settle(&held, changed.result.is_ok(), changed.wcc.after).await;
        self.guard_again(&held);
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

    /// The attributes of an entry of a listing; none, where another knows better: nobody is asked
    /// for so many.
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

    fn client(&self) -> Option<leasehold_core::leases::Client> {
        self.asked().map(|asked| asked.client)
    }

    /// Fails where so many more bytes would take what is reserved for others.
    async fn leave_reserved(
        &self,
        caller: &Caller,
        held: &Held,
        bytes: u64,
    ) -> Result<(), FsError> {
        let reserved = self.leases.reserved_for_others(held.turn.object, self.client());
        if reserved == 0 {
            return Ok(());
        }
        let (space, _) = self.store.space(caller, &held.id).await?;
        let fits = space.available_bytes >= reserved.saturating_add(bytes);
        if fits { Ok(()) } else { Err(FsError::NoSpace) }
    }
}
