//! The lease-enforcing store: every operation acquires operation guards ([`OperationGuard`]) on its
//! objects before it runs on the wrapped store.
//!
//! Rules:
//! - Operations acquire guards on several objects in one global order, so that no deadlock occurs.
//! - The object of a name can change until the operation has the guard of the directory. The
//!   operation therefore looks the name up before it acquires the guards, and again under the guard
//!   of the directory.
//! - The size, times and mode that the holder of a write lease reported override the store's
//!   attributes.
//! - A call of the lease program receives the leases that it requests, and late data is refused.
//! - The server reports a change of names as the client's own only if the client held one lease on
//!   the object throughout the operation. Otherwise other callers, and other servers of the same
//!   files, may have changed the object after the server read its attributes and before the
//!   client's change.

mod asks;
mod data;
mod names;
mod nfs42;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use leasehold_base::attributes::Mode;
use leasehold_base::units::FileTime;
use leasehold_core::leases::table::{Access, Ask, Grant, Run, Standing, Told};
use leasehold_core::leases::{Kind, Modrev, Object, Serial};
use leasehold_fs::{
    Attributes, Caller, Completeness, ExclusiveAccess, ExportId, FileType, FsError, Guard,
    MaybeReady, ObjectId, Store,
};
use leasehold_wire::lease::{Change, place};

use super::Leases;
use super::layouts::LaidOut;
use super::operation_guard::{ChangeLease, GuardRequest, OperationGuard};
use super::programs::Program;
use super::room::ROUNDS_MAX;
pub use asks::{ChangeBase, LeaseRequests, Outcome, Piggyback};

/// Mode bits by which all users may read or run a file, or list or search a directory.
const READ_OR_EXECUTE_BY_OTHERS: u32 = 0o005;

/// A lease-enforcing store.
pub struct LeasedStore {
    store: Arc<dyn Store>,
    export: ExportId,
    leases: Arc<Leases>,
    /// The current call, if its client has leases; None for other callers.
    by: Option<LeasedCall>,
}

/// A call of a client with leases.
pub struct LeasedCall {
    /// The lease requests of the call.
    pub asked: Arc<Piggyback>,
    /// The caller.
    pub caller: Caller,
    /// True if the caller may change nothing.
    pub read_only: bool,
}

/// The access of an operation to an object. `place` is the object's position in the call
/// (`leasehold_wire::lease::place`), or None if the caller receives no lease information about the
/// object.
#[derive(Clone, Copy, Debug)]
struct Use {
    id: ObjectId,
    access: Access,
    place: Option<u32>,
}

/// An object with an operation guard.
struct Held {
    turn: OperationGuard,
    id: ObjectId,
    /// The attributes at the start of the guard (with the values that the holder of a write lease
    /// reported), and the change time and modrev that the store had then.
    attributes: Attributes,
    changed: FileTime,
    modrev: Modrev,
    place: Option<u32>,
    /// The lease under which the caller cached the object at the start of the guard.
    cached: Option<Serial>,
    /// True if the holder of a write lease set a mode that the store does not have yet.
    is_behind: bool,
    /// Exclusive access among the servers of the same files, for operations that need exclusive
    /// access.
    _alone: ExclusiveAccess,
    /// True if all attributes are current. A renewal of a lease does not wait for current
    /// attributes, because only the holder of the lease can have changed the object.
    is_known: bool,
    /// True if the data of the call may be late, because no lease covers the change.
    may_be_late: bool,
}

impl LeasedStore {
    /// Returns the lease-enforcing store over a store for one call, or for all callers without
    /// leases.
    #[must_use]
    pub const fn new(
        store: Arc<dyn Store>,
        export: ExportId,
        leases: Arc<Leases>,
        by: Option<LeasedCall>,
    ) -> Self {
        Self { store, export, leases, by }
    }

    /// Acquires the operation guard of an object.
    async fn hold(&self, used: Use) -> Result<Held, FsError> {
        // `getattr_local` does not wait for unreachable iods. The size and times that it returns may be out
        // of date, but the file id, the type and the owner are always current, and `hold_as` uses
        // only these.
        let (attributes, _) = self.store.getattr_local(&used.id).await?;
        self.hold_as(used, &attributes).await
    }

    /// Like [`LeasedStore::hold`], with attributes that the caller has read.
    async fn hold_as(&self, used: Use, attributes: &Attributes) -> Result<Held, FsError> {
        let Use { id, access, place } = used;
        let asked = self.asked();
        let ask = self.permitted(&id, attributes, place).await;
        let identity = self.store.identity(&id);
        let under = asked.filter(|_| is_first(place)).map(Piggyback::under);
        let mut wanted = GuardRequest {
            object: object_of(attributes),
            export: self.export,
            identity,
            named: if asked.is_some_and(Piggyback::is_nqnfs) { id } else { identity },
            access,
            client: asked.map(|asked| asked.client),
            under: under.unwrap_or(ChangeLease::Named(None)),
            ask,
            beside: None,
        };
        wanted.beside = self.let_go_of_before(&wanted).await?;
        let may_go_on = access == Access::Nothing;
        let before = may_go_on.then(|| self.serial(wanted.object)).flatten();
        let mut turn = OperationGuard::ask(&self.leases, &wanted)?;
        let Run { standing, grant, told, .. } = turn.begin().await?;
        turn.outcome.void = true;
        let cached = self.serial(turn.object);
        self.recall_before(turn.object, &id, place).await?;
        let may_be_late = (access, standing) == (Access::Write, Standing::Free)
            && is_first(place)
            && asked.is_some_and(Piggyback::names_base);
        let alone = self.before_change(&id, access, attributes.file_type).await?;
        // An opportunistic request recalls leases of other servers only for a read lease on the
        // first object of a call: a client searches a directory once for each name.
        let is_worth_it = |ask: Ask| is_first(place) && ask.kind == Kind::Read;
        let is_opportune = ask.is_some_and(|ask| ask.opportune && !is_worth_it(ask));
        // The interlock must precede the read of the attributes. Otherwise a local program could
        // change the object in between, and the client would cache outdated attributes.
        let (grant, is_guarded) = self.guarded(&turn, &id, grant, is_opportune).await;
        let is_reclaimed = || ask.is_some_and(|ask| ask.reclaim) && self.leases.standing().1;
        let goes_on = grant
            .is_some_and(|grant| before == Some(grant.serial) || (may_go_on && is_reclaimed()));
        let (attributes, completeness) = if goes_on {
            self.store.getattr_local(&id).await?
        } else {
            (self.store.getattr(&id).await?, Completeness::Complete)
        };
        let modrev = self.seen(turn.object, &id, attributes.changed);
        if let (Some(asked), true) = (asked, may_be_late) {
            self.refuse_late(turn.object, asked, modrev)?;
        }
        turn.outcome.void = !is_guarded;
        if let (Some(asked), Some(grant), Some(place)) = (asked, grant, place) {
            asked.granted(place, &grant, modrev);
        }
        let changed = attributes.changed;
        let is_behind = told.is_some_and(|told| told.set.is_some());
        let attributes = told.map_or(attributes, |told| known_better(attributes, told));
        Ok(Held {
            turn,
            id,
            attributes,
            changed,
            modrev,
            place,
            cached: cached.filter(|_| is_guarded),
            is_behind,
            _alone: alone,
            is_known: completeness == Completeness::Complete,
            may_be_late,
        })
    }

    /// Ends a layout whose lease has ended, before another caller accesses the file.
    async fn recall_before(
        &self,
        object: Object,
        id: &ObjectId,
        place: Option<u32>,
    ) -> Result<(), FsError> {
        if self.leases.to_be_recalled(object).is_none() {
            return Ok(());
        }
        let _alone = self.leases.alone(object).await;
        let Some(laid_out) = self.leases.to_be_recalled(object) else { return Ok(()) };
        let is_own = |asked: &&Piggyback| asked.client == laid_out.client && is_first(place);
        let own = self.asked().filter(is_own);
        let change = self.end_over(object, id, &laid_out).await?;
        if let (Some(asked), Some((before, after))) = (own, change) {
            self.refuse_late(object, asked, before)?;
            let change = Change { place: place::FIRST, before: before.0, after: after.0 };
            asked.changed(object, change);
        }
        Ok(())
    }

    /// Acquires exclusive access to a file before a change by a client with leases, until the
    /// result is dropped. While this call has exclusive access, no other server changes the file
    /// between the read of its attributes and the change, so the client may keep its cache
    /// afterwards. For the same reason no other server changes the file between the check for late
    /// data and the write.
    async fn before_change(
        &self,
        id: &ObjectId,
        access: Access,
        file_type: FileType,
    ) -> Result<ExclusiveAccess, FsError> {
        let is_told = access == Access::Write && self.asked().is_some();
        if is_told && file_type == FileType::Regular {
            return self.store.exclusive(id).await;
        }
        Ok(ExclusiveAccess::default())
    }

    /// Drops the leases of a former file with the same file id. A file system reuses a file id as
    /// soon as a file is gone, possibly before the call that removed the file has ended. The former
    /// file's leases do not apply to the new file, and a late call for the former file gets no
    /// access to the new file. Returns the id of the other object with this file id if that object
    /// still exists.
    async fn let_go_of_before(&self, wanted: &GuardRequest) -> Result<Option<ObjectId>, FsError> {
        let GuardRequest { object, export, identity, .. } = *wanted;
        let Some(other) = self.leases.another(object, (export, identity)) else { return Ok(None) };
        if self.store.change_time(&other).await == Err(FsError::Stale) {
            self.leases.gone(object, (export, other));
            return Ok(None);
        }
        self.store.change_time(&identity).await?;
        Ok(Some(other))
    }

    /// Acquires guards on several objects in the global order of objects. An object that occurs
    /// twice gets one guard with the stronger access.
    async fn hold_all(&self, uses: &[Use]) -> Result<Vec<Held>, FsError> {
        let mut wanted: Vec<(Object, Attributes, Use)> = Vec::new();
        for used in uses {
            let attributes = self.store.getattr(&used.id).await?;
            let object = object_of(&attributes);
            match wanted.iter_mut().find(|(other, ..)| *other == object) {
                Some((_, _, other)) => {
                    other.access = other.access.max(used.access);
                    other.place = other.place.or(used.place);
                }
                None => wanted.push((object, attributes, *used)),
            }
        }
        wanted.sort_by_key(|(object, ..)| *object);
        let mut held = Vec::new();
        for (_, attributes, used) in wanted {
            held.push(self.hold_as(used, &attributes).await?);
        }
        Ok(held)
    }

    /// Returns the lease request for the object at `place` if the caller has the permission for
    /// that lease. A caller without write permission must not delay other callers by a write lease.
    async fn permitted(
        &self,
        id: &ObjectId,
        attributes: &Attributes,
        place: Option<u32>,
    ) -> Option<Ask> {
        let LeasedCall { asked, caller, read_only } = self.by.as_ref()?;
        let place = place?;
        let ask = asked.asks.of(place)?;
        if ask.kind == Kind::Read {
            let may = ask.reclaim || self.may_read(caller, id, attributes).await;
            return may.then_some(ask);
        }
        let wanted = leasehold_fs::Access { modify: true, ..leasehold_fs::Access::default() };
        let is_file = attributes.file_type == FileType::Regular;
        let may = is_file
            && !read_only
            && (attributes.uid == caller.uid
                || self.store.rights(caller, id, wanted).await.is_ok_and(|has| has.modify));
        if !may {
            return None;
        }
        let space = match ask.space {
            0 => 0,
            // A reclaimed lease reserved the space before the restart, and a server in its grace
            // period recalls no leases. A reclaim therefore never recalls other leases to make free
            // space.
            space => {
                let makes_room = !ask.opportune && !ask.reclaim && is_first(Some(place));
                self.look_for_room(id, object_of(attributes), space, makes_room).await?
            }
        };
        Some(Ask { space, ..ask })
    }

    /// Returns true if a caller may see the contents that a read lease covers: the data of a file,
    /// or single names of a directory. For other kinds of object, access to the object implies
    /// access to its contents.
    async fn may_read(&self, caller: &Caller, id: &ObjectId, attributes: &Attributes) -> bool {
        let is_alike = !matches!(attributes.file_type, FileType::Regular | FileType::Directory);
        let is_open = attributes.mode.bits() & READ_OR_EXECUTE_BY_OTHERS != 0;
        // A client that already holds a lease (a renewal) needs no check of permissions, because a
        // change of permissions would have recalled that lease.
        let holds = || self.serial(object_of(attributes)).is_some();
        if is_alike || is_open || attributes.uid == caller.uid || holds() {
            return true;
        }
        let all = leasehold_fs::Access::default();
        let wanted = leasehold_fs::Access { read: true, lookup: true, execute: true, ..all };
        let has = self.store.rights(caller, id, wanted).await;
        has.is_ok_and(|has| has.read || has.lookup || has.execute)
    }

    /// Reports the free space to the lease table, and returns the number of bytes to reserve for a
    /// write lease. If the free space is unknown, returns the bytes that the client has already
    /// reserved, so that no client loses its lease. Returns None (no lease) while leases on other
    /// objects reserve the space.
    async fn look_for_room(
        &self,
        id: &ObjectId,
        object: Object,
        bytes: u64,
        makes_room: bool,
    ) -> Option<u64> {
        let LeasedCall { asked, caller, .. } = self.by.as_ref()?;
        let mut answer = None;
        for _ in 0..ROUNDS_MAX {
            let reserved = self.leases.reserved(object, Some(asked.client));
            if bytes <= reserved.own {
                return Some(bytes);
            }
            let Ok(space) = self.store.reservable_space(caller, id).await else {
                return Some(reserved.own);
            };
            let free = space.available_bytes;
            self.leases.has_space(object.file_system, free);
            let lacking = self.leases.lacking(object, asked.client, (bytes, free), &reserved);
            if reserved.elsewhere == 0 || lacking.bytes == 0 || !makes_room {
                return Some(bytes);
            }
            // If only the client's share lacks the bytes, the request is granted in the end: the
            // client then writes through when its data exceeds the share. If the disk lacks the
            // bytes, the client gets no lease.
            answer = lacking.is_of_share.then_some(bytes);
            // This wait cannot cause a deadlock: the call holds at most the guard of a directory
            // here, and the wait is bounded.
            if !self.leases.make_room(object, lacking.bytes, lacking.whose).await {
                break;
            }
        }
        answer
    }

    /// Acquires the server-side lease for a grant, and sets the local-access interlock. Returns the
    /// grant, and true if the server-side lease and the interlock protect the grant. The returned
    /// grant is not cachable if a local program or a client of another metaserver uses the object
    /// in a conflicting way.
    async fn guarded(
        &self,
        turn: &OperationGuard,
        id: &ObjectId,
        grant: Option<Grant>,
        is_opportune: bool,
    ) -> (Option<Grant>, bool) {
        let Some(grant) = grant.filter(|grant| grant.cachable) else { return (grant, true) };
        let guard = guard(grant.kind);
        let covered = covered(turn, grant, self.store.acquire(id, guard, is_opportune)).await;
        match covered.and_then(|()| self.store.guard(id, guard)) {
            Ok(()) => (Some(grant), true),
            // Another server may hold a conflicting lease, and an opportunistic request does not
            // recall that lease. The client therefore receives no grant.
            Err(_) if is_opportune && covered.is_err() => (None, false),
            Err(_) => (Some(Grant { cachable: false, space: 0, ..grant }), false),
        }
    }

    /// Sets the local-access interlock again for the lease that the caller still holds, because the
    /// store made the change through another file descriptor than the descriptor with the
    /// interlock. If the interlock fails, recalls the lease.
    fn guard_again(&self, held: &Held) {
        let Some(asked) = self.asked() else { return };
        let cached = held.turn.cached(asked.client);
        if cached.is_some_and(|kind| self.store.guard(&held.id, guard(kind)).is_err()) {
            let (store, id) = (Arc::clone(&self.store), held.id);
            self.leases.disturbed(held.turn.object, Program { store, id }, Access::Write);
        }
    }

    /// Returns the caller's lease on an object if the caller may cache under it.
    fn serial(&self, object: Object) -> Option<Serial> {
        let client = self.asked()?.client;
        [Kind::Write, Kind::Read]
            .iter()
            .find_map(|kind| self.leases.cachable(object, client, *kind))
    }

    fn asked(&self) -> Option<&Piggyback> {
        self.by.as_ref().map(|by| &*by.asked)
    }

    /// Updates the modrev of an object after an operation that may have changed it, even if the
    /// operation failed. Returns the modrevs before and after the operation if the operation
    /// changed the object.
    async fn settle(
        &self,
        held: &Held,
        done: bool,
        after: Option<Attributes>,
    ) -> Option<(Modrev, Modrev)> {
        let change = self.settle_untold(held, done, after).await?;
        self.tell(held, change);
        Some(change)
    }

    /// Like [`LeasedStore::settle`], for directories and for objects that gained or lost names.
    /// Other callers may have changed such an object since the start of the guard; the reply then
    /// contains no modrevs. A client that receives no modrevs drops its cached state of the object
    /// when its next lease has another modrev.
    async fn settle_names(&self, held: &Held, done: bool, after: Option<Attributes>) {
        let change = self.settle_untold(held, done, after).await;
        let client = self.client();
        let is_own = client
            .is_some_and(|client| self.leases.is_own_change(held.turn.object, client, held.cached));
        change.filter(|_| is_own).into_iter().for_each(|change| self.tell(held, change));
    }

    fn tell(&self, held: &Held, (before, after): (Modrev, Modrev)) {
        if let (Some(asked), Some(place)) = (self.asked(), held.place) {
            let change = Change { place, before: before.0, after: after.0 };
            asked.changed(held.turn.object, change);
        }
    }

    /// Updates the modrev of an object, and returns the modrevs before and after if the operation
    /// changed the object.
    async fn settle_untold(
        &self,
        held: &Held,
        done: bool,
        after: Option<Attributes>,
    ) -> Option<(Modrev, Modrev)> {
        let after = match after {
            Some(after) => after.changed,
            // The store returns the change time at once even if it would have to wait for other
            // attributes, such as the size at an unreachable iod.
            None => self.store.change_time(&held.id).await.ok()?,
        };
        if !done && after == held.changed {
            return None;
        }
        let modrev = held.turn.changed(self.client(), held.modrev, after);
        Some((held.modrev, modrev))
    }

    /// Like [`LeasedStore::settle`], for a call that names no lease but changes the object only
    /// under the lease `serial`. Records the change as unacknowledged, because the client learns
    /// nothing of the change if the reply requests a retry.
    async fn settle_under(&self, held: &Held, serial: Serial, after: Option<Attributes>) {
        let change = self.settle(held, false, after).await;
        if let (Some(client), Some(change)) = (self.client(), change) {
            self.leases.note_untold(held.turn.object, (client, serial), change);
        }
    }

    /// Refuses late data: a change whose base is older than the modrev `now`, unless the same
    /// client made all changes since that base.
    fn refuse_late(&self, object: Object, asked: &Piggyback, now: Modrev) -> Result<(), FsError> {
        let Some(base) = asked.late_base(now) else { return Ok(()) };
        let under = (asked.client, Serial(base.serial));
        if !self.leases.is_own(object, under, (Modrev(base.modrev), now)) {
            return Err(asked.is_late(now));
        }
        let change = Change { place: place::FIRST, before: base.modrev, after: now.0 };
        asked.changed(object, change);
        Ok(())
    }

    /// Ends a layout while no other call writes. Returns the modrevs of the object at the start of
    /// the layout and now. No other client changes the object under the layout, so the difference
    /// is the client's own change.
    async fn end_over(
        &self,
        object: Object,
        id: &ObjectId,
        laid_out: &LaidOut,
    ) -> Result<Option<(Modrev, Modrev)>, FsError> {
        let since = self.leases.laid_out_since(object, laid_out);
        self.store.recall_layout(id).await?;
        let after = self.seen(object, id, self.store.change_time(id).await?);
        let change = since.map(|since| (since, after));
        if let Some(change) = change {
            self.leases.note_untold(object, (laid_out.client, laid_out.serial), change);
        }
        self.leases.recalled(object, laid_out);
        Ok(change)
    }

    /// Reads the change time of a guarded object again.
    async fn look_again(&self, held: &mut Held) -> Result<(), FsError> {
        held.changed = self.store.change_time(&held.id).await?;
        held.modrev = self.seen(held.turn.object, &held.id, held.changed);
        Ok(())
    }

    /// Returns the modrev of an object with this change time.
    fn seen(&self, object: Object, id: &ObjectId, changed: FileTime) -> Modrev {
        self.leases.seen(object, changed, self.store.maintenance_span(id))
    }

    /// Waits for the exclusive right to write a guarded object. For a client with leases, reads the
    /// change time of the object again, because an earlier writer may have changed the object, and
    /// refuses late data.
    async fn alone(&self, held: &mut Held) -> Result<crate::writing::Alone, FsError> {
        let alone = self.leases.alone(held.turn.object).await;
        if let Some(asked) = self.asked() {
            self.look_again(held).await?;
            if held.may_be_late {
                self.refuse_late(held.turn.object, asked, held.modrev)?;
            }
        }
        Ok(alone)
    }
}

/// Waits for the server-side lease of a grant. Fails if the grant ended during the wait: the end of
/// an earlier server-side lease also ends all grants on the object.
async fn covered(
    turn: &OperationGuard,
    grant: Grant,
    covering: MaybeReady<'_, Result<(), FsError>>,
) -> Result<(), FsError> {
    let is_at_once = matches!(covering, MaybeReady::Now(_));
    covering.await?;
    if is_at_once || turn.stands(grant.serial) { Ok(()) } else { Err(FsError::Delay) }
}

/// Returns the interlock that a lease of a kind needs.
pub(super) const fn guard(kind: Kind) -> Guard {
    match kind {
        Kind::Read => Guard::Changes,
        Kind::Write => Guard::Everything,
    }
}

/// Returns the file system and file id by which the lease table identifies the object.
const fn object_of(attributes: &Attributes) -> Object {
    Object { file_system: attributes.file_system, file: attributes.file_id }
}

fn is_first(place: Option<u32>) -> bool {
    place == Some(place::FIRST)
}

/// Returns the attributes with the size, times and mode that the holder of a write lease reported.
fn known_better(attributes: Attributes, told: Told) -> Attributes {
    let time = |nanoseconds: i128| FileTime {
        seconds: i64::try_from(nanoseconds.div_euclid(1_000_000_000)).unwrap_or(i64::MAX),
        nanoseconds: u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).unwrap_or(0),
    };
    let (mode, accessed) = match told.set {
        Some((mode, accessed)) => (Mode::from_bits(mode), time(accessed)),
        None => (attributes.mode, attributes.accessed),
    };
    let modified = time(told.modified);
    let changed = attributes.changed.max(modified);
    Attributes { size: told.size, mode, accessed, modified, changed, ..attributes }
}
