//! A store behind its leases: every operation takes its turn on the objects that it is about, and
//! is answered from the store then.
//!
//! Rules:
//! - Turns on several objects are taken in one order, so that none waits for one that waits for it.
//! - The object of a name is known only when the turn on its directory has begun: it is looked up
//!   before, and once more then.
//! - What the holder of a write lease knows better than the store stands for size, times and mode.
//! - A call of the lease program has what it asks for granted on the way, and late data refused.
//! - The server tells a client that a change of names is its own only if the client held one lease
//!   on the object all the while: nothing else keeps other callers, and other servers of the same
//!   files, from the object between the look at the state before and the change.

mod asks;
mod data;
mod names;
mod store;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use leasehold_base::attributes::Mode;
use leasehold_base::units::FileTime;
use leasehold_core::leases::table::{Access, Ask, Grant, Run, Standing, Told};
use leasehold_core::leases::{Kind, Modrev, Object, Serial};
use leasehold_fs::{
    Alone, Answer, Attributes, Caller, ExportId, FileType, FsError, Guard, ObjectId, Store,
};
use leasehold_wire::lease::{Change, place};

use super::Leases;
use super::layouts::LaidOut;
use super::programs::Program;
use super::room::ROUNDS_MAX;
use super::turn::{Turn, Under, Wanted};
pub(crate) use asks::{Asked, Asks, MadeFrom};

/// Bits of a mode by which all users may read a file or run it, or list a directory or look names
/// up.
const READ_OR_EXECUTE_BY_OTHERS: u32 = 0o005;

/// A store behind its leases.
pub(crate) struct Gate {
    store: Arc<dyn Store>,
    export: ExportId,
    leases: Arc<Leases>,
    /// Who asks, where that is a client with leases.
    by: Option<By>,
}

/// A call of a client with leases.
pub(crate) struct By {
    pub(crate) asked: Arc<Asked>,
    pub(crate) caller: Caller,
    /// Whether it may change nothing.
    pub(crate) read_only: bool,
}

/// What an operation does to an object, and which of the call's that is.
#[derive(Clone, Copy, Debug)]
struct Use {
    id: ObjectId,
    access: Access,
    place: Option<u32>,
}

/// An object on which a call has its turn.
struct Held {
    turn: Turn,
    id: ObjectId,
    /// As it was when the turn began, and its change time in the store.
    attributes: Attributes,
    changed: FileTime,
    modrev: Modrev,
    place: Option<u32>,
    /// The lease that the caller cached the object under when the turn began.
    cached: Option<Serial>,
    /// Whether the store has other rights than a client has set.
    is_behind: bool,
    /// That nobody who serves the same files elsewhere is at it, where that matters before it is used.
    _alone: Alone,
    /// Whether all attributes are true: nobody is waited for to know them where a lease but goes on,
    /// since none but its holder has changed the object.
    is_known: bool,
    /// Whether the call may come too late for it, as no lease covers it.
    may_be_late: bool,
}

impl Gate {
    pub(crate) const fn new(
        store: Arc<dyn Store>,
        export: ExportId,
        leases: Arc<Leases>,
        by: Option<By>,
    ) -> Self {
        Self { store, export, leases, by }
    }

    /// The turn on an object, once it has begun.
    async fn hold(&self, used: Use) -> Result<Held, FsError> {
        // Which object it is, and whose, is always true.
        let (attributes, _) = self.store.known(&used.id).await?;
        self.hold_as(used, &attributes).await
    }

    /// The same, of an object that was looked at.
    async fn hold_as(&self, used: Use, attributes: &Attributes) -> Result<Held, FsError> {
        let Use { id, access, place } = used;
        let asked = self.asked();
        let ask = match place {
            Some(place) => self.permitted(&id, attributes, place).await,
            None => None,
        };
        let identity = self.store.identity(&id);
        let under = asked.filter(|_| is_first(place)).map(Asked::under);
        let mut wanted = Wanted {
            object: object_of(attributes),
            export: self.export,
            identity,
            named: if asked.is_some_and(Asked::is_nqnfs) { id } else { identity },
            access,
            client: asked.map(|asked| asked.client),
            under: under.unwrap_or(Under::Named(None)),
            ask,
            beside: None,
        };
        wanted.beside = self.let_go_of_before(&wanted).await?;
        let may_go_on = access == Access::Nothing;
        let before = may_go_on.then(|| self.serial(wanted.object)).flatten();
        let mut turn = Turn::ask(&self.leases, &wanted)?;
        let Run { standing, grant, told, .. } = turn.begin().await?;
        turn.outcome.void = true;
        let cached = self.serial(turn.object);
        self.recall_before(turn.object, &id, place).await?;
        let may_be_late = (access, standing) == (Access::Write, Standing::Free)
            && is_first(place)
            && asked.is_some_and(Asked::names_base);
        let alone = self.before_change(&id, access, attributes.file_type).await?;
        // What a call is about is worth that others are asked to read it, which spares the calls after it:
        // a directory is walked for each name in it, a file that is looked at is so again.
        let is_worth_it = |ask: Ask| is_first(place) && ask.kind == Kind::Read;
        let is_opportune = ask.is_some_and(|ask| ask.opportune && !is_worth_it(ask));
        // Before anything is looked at that a lease then covers.
        let (grant, is_guarded) = self.guarded(&turn, &id, grant, is_opportune).await;
        let is_reclaimed = || ask.is_some_and(|ask| ask.reclaim) && self.leases.standing().1;
        let goes_on = grant
            .is_some_and(|grant| before == Some(grant.serial) || (may_go_on && is_reclaimed()));
        let (attributes, is_known) = if goes_on {
            self.store.known(&id).await?
        } else {
            (self.store.getattr(&id).await?, true)
        };
        let modrev = self.seen(turn.object, &id, attributes.changed);
        let late = asked.filter(|_| may_be_late);
        late.map_or(Ok(()), |asked| self.refuse_late(turn.object, asked, modrev))?;
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
            is_known,
            may_be_late,
        })
    }

    /// Ends a layout that goes with a lease which is over, before anybody else has a part in its file.
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
        let is_own = |asked: &&Asked| asked.client == laid_out.client && is_first(place);
        let own = self.asked().filter(is_own);
        let change = self.end_over(object, id, &laid_out).await?;
        if let (Some(asked), Some((before, after))) = (own, change) {
            self.refuse_late(object, asked, before)?;
            let change = Change { place: place::FIRST, before: before.0, after: after.0 };
            asked.changed(object, change);
        }
        Ok(())
    }

    /// Keeps others, who serve the same files, from a file that is to be changed, until what this gives
    /// is dropped. Nobody else changes it between what is told of it as it was before and the change:
    /// a client would take what it has cached to be good after that. Nor does anybody before what is
    /// late, and was compared, is in.
    async fn before_change(
        &self,
        id: &ObjectId,
        access: Access,
        file_type: FileType,
    ) -> Result<Alone, FsError> {
        let is_told = access == Access::Write && self.asked().is_some();
        if is_told && file_type == FileType::Regular {
            return self.store.alone(id).await;
        }
        Ok(Alone::default())
    }

    /// A number is used again as soon as a file is gone, maybe before the call that removed it has
    /// ended: what clients held of the file before says nothing of the new one, and who still comes
    /// to the file before has no part in it. Gives another of that number that is there as well.
    async fn let_go_of_before(&self, wanted: &Wanted) -> Result<Option<ObjectId>, FsError> {
        let Wanted { object, export, identity, .. } = *wanted;
        let Some(other) = self.leases.another(object, (export, identity)) else { return Ok(None) };
        if self.store.changed(&other).await == Err(FsError::Stale) {
            self.leases.gone(object, (export, other));
            return Ok(None);
        }
        self.store.changed(&identity).await?;
        Ok(Some(other))
    }

    /// The turns on several objects, in the order of those; an object that is named twice is used
    /// as by both.
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

    /// What is asked for on an object, if its caller may have that: who may not write a file keeps
    /// nobody else from it.
    async fn permitted(&self, id: &ObjectId, attributes: &Attributes, place: u32) -> Option<Ask> {
        let By { asked, caller, read_only } = self.by.as_ref()?;
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
            // What is reclaimed was reserved before, and in a recovery nobody is called back.
            space => {
                let makes_room = !ask.opportune && !ask.reclaim && is_first(Some(place));
                self.look_for_room(id, object_of(attributes), space, makes_room).await?
            }
        };
        Some(Ask { space, ..ask })
    }

    /// Returns true if a caller may know the content that a read lease covers: the data of a file,
    /// or the names of a directory, even one name at a time. Each caller that finds any other
    /// object knows all of its content.
    async fn may_read(&self, caller: &Caller, id: &ObjectId, attributes: &Attributes) -> bool {
        let is_alike = !matches!(attributes.file_type, FileType::Regular | FileType::Directory);
        let is_open = attributes.mode.bits() & READ_OR_EXECUTE_BY_OTHERS != 0;
        // A renewal or a reclaim waits for no check of rights: a change of rights evicts the
        // holders.
        let holds = || self.serial(object_of(attributes)).is_some();
        if is_alike || is_open || attributes.uid == caller.uid || holds() {
            return true;
        }
        let all = leasehold_fs::Access::default();
        let wanted = leasehold_fs::Access { read: true, lookup: true, execute: true, ..all };
        let has = self.store.rights(caller, id, wanted).await;
        has.is_ok_and(|has| has.read || has.lookup || has.execute)
    }

    /// Tells how many bytes are free where an object lies, before so many are reserved there, and how
    /// many to reserve: no more than are already, where that is not known, so that nobody loses a
    /// lease for it. None, while others keep what is reserved for them of those: its client asks again
    /// then.
    async fn look_for_room(
        &self,
        id: &ObjectId,
        object: Object,
        bytes: u64,
        makes_room: bool,
    ) -> Option<u64> {
        let By { asked, caller, .. } = self.by.as_ref()?;
        let mut answer = None;
        for _ in 0..ROUNDS_MAX {
            let reserved = self.leases.reserved(object, Some(asked.client));
            if bytes <= reserved.own {
                return Some(bytes);
            }
            let Ok(space) = self.store.room(caller, id).await else {
                return Some(reserved.own);
            };
            let free = space.available_bytes;
            self.leases.has_space(object.file_system, free);
            let lacking = self.leases.lacking(object, asked.client, (bytes, free), &reserved);
            if reserved.elsewhere == 0 || lacking.bytes == 0 || !makes_room {
                return Some(bytes);
            }
            // The client sends data that finds no room in its share at once.
            answer = lacking.is_of_share.then_some(bytes);
            // At most the turn on a directory is held then, and for a while only.
            if !self.leases.make_room(object, lacking.bytes, lacking.whose).await {
                break;
            }
        }
        answer
    }

    /// A grant of what programs of this machine do not use already in a way that does not go with
    /// it, nor clients of other metaservers, and whether it stands. They are guarded against from
    /// now on.
    async fn guarded(
        &self,
        turn: &Turn,
        id: &ObjectId,
        grant: Option<Grant>,
        is_opportune: bool,
    ) -> (Option<Grant>, bool) {
        let Some(grant) = grant.filter(|grant| grant.cachable) else { return (grant, true) };
        let guard = guard(grant.kind);
        let covered = covered(turn, grant, self.store.cover(id, guard, is_opportune)).await;
        match covered.and_then(|()| self.store.guard(id, guard)) {
            Ok(()) => (Some(grant), true),
            // Somebody elsewhere may be in the way, who is asked if it is worth that.
            Err(_) if is_opportune && covered.is_err() => (None, false),
            Err(_) => (Some(Grant { cachable: false, space: 0, ..grant }), false),
        }
    }

    /// Guards anew what its caller still may cache, after a change that was done by another
    /// descriptor than the one that was guarded by.
    fn guard_again(&self, held: &Held) {
        let Some(asked) = self.asked() else { return };
        let cached = held.turn.cached(asked.client);
        if cached.is_some_and(|kind| self.store.guard(&held.id, guard(kind)).is_err()) {
            let (store, id) = (Arc::clone(&self.store), held.id);
            self.leases.disturbed(held.turn.object, Program { store, id }, Access::Write);
        }
    }

    /// The lease that the caller has on an object and may cache under.
    fn serial(&self, object: Object) -> Option<Serial> {
        let client = self.asked()?.client;
        [Kind::Write, Kind::Read]
            .iter()
            .find_map(|kind| self.leases.cachable(object, client, *kind))
    }

    fn asked(&self) -> Option<&Asked> {
        self.by.as_ref().map(|by| &*by.asked)
    }

    /// Tells the modrevs of an object that an operation was to change, and may have changed even
    /// where it was not done; gives them, where it has.
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

    /// The same of names, and of objects that lost or got names, which other callers may have
    /// changed since the turn began. A client that gets no modrevs drops its cached content of the
    /// object with the next lease, which has another modrev.
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

    /// Moves the modrev of an object that an operation was to change, and gives the modrevs before
    /// and after, where the operation has changed the object.
    async fn settle_untold(
        &self,
        held: &Held,
        done: bool,
        after: Option<Attributes>,
    ) -> Option<(Modrev, Modrev)> {
        let after = match after {
            Some(after) => after.changed,
            // Whatever else of it has to be waited for.
            None => self.store.changed(&held.id).await.ok()?,
        };
        if !done && after == held.changed {
            return None;
        }
        let modrev = held.turn.changed(self.client(), held.modrev, after);
        Some((held.modrev, modrev))
    }

    /// The same of a call that names no lease, though it changes nothing but under this one of its
    /// client's: that may not hear of it, if the call has to be made again.
    async fn settle_under(&self, held: &Held, serial: Serial, after: Option<Attributes>) {
        let change = self.settle(held, false, after).await;
        if let (Some(client), Some(change)) = (self.client(), change) {
            self.leases.note_untold(held.turn.object, (client, serial), change);
        }
    }

    /// Refuses a change that was made from an earlier state of an object than this, if it says
    /// what it was made from, and if not all since is of the same client.
    fn refuse_late(&self, object: Object, asked: &Asked, now: Modrev) -> Result<(), FsError> {
        let Some(base) = asked.late_base(now) else { return Ok(()) };
        let under = (asked.client, Serial(base.serial));
        if !self.leases.is_own(object, under, (Modrev(base.modrev), now)) {
            return Err(asked.is_late(now));
        }
        let change = Change { place: place::FIRST, before: base.modrev, after: now.0 };
        asked.changed(object, change);
        Ok(())
    }

    /// Ends a layout, with nobody else writing, and says from which modrev to which the object has
    /// come since it was told. As long as it lasts nobody else changes the object, so that is its
    /// client's own change.
    async fn end_over(
        &self,
        object: Object,
        id: &ObjectId,
        laid_out: &LaidOut,
    ) -> Result<Option<(Modrev, Modrev)>, FsError> {
        let since = self.leases.laid_out_since(object, laid_out);
        self.store.recall(id).await?;
        let after = self.seen(object, id, self.store.changed(id).await?);
        let change = since.map(|since| (since, after));
        if let Some(change) = change {
            self.leases.note_untold(object, (laid_out.client, laid_out.serial), change);
        }
        self.leases.recalled(object, laid_out);
        Ok(change)
    }

    /// Looks once more how an object is on which a call has its turn.
    async fn look_again(&self, held: &mut Held) -> Result<(), FsError> {
        held.changed = self.store.changed(&held.id).await?;
        held.modrev = self.seen(held.turn.object, &held.id, held.changed);
        Ok(())
    }

    /// The modrev of an object, which has this change time.
    fn seen(&self, object: Object, id: &ObjectId, changed: FileTime) -> Modrev {
        self.leases.seen(object, changed, self.store.upkeep(id))
    }

    /// Waits until nobody else writes an object on which a call has its turn. Who was before it may
    /// have changed the object.
    async fn alone(&self, held: &mut Held) -> Result<super::Alone, FsError> {
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

/// Waits until a grant is covered, if it stands then: all that clients had may be over meanwhile, and
/// this with it.
async fn covered(
    turn: &Turn,
    grant: Grant,
    covering: Answer<'_, Result<(), FsError>>,
) -> Result<(), FsError> {
    let is_at_once = matches!(covering, Answer::Now(_));
    covering.await?;
    if is_at_once || turn.stands(grant.serial) { Ok(()) } else { Err(FsError::Later) }
}

/// What programs must not do while a client may cache.
pub(super) const fn guard(kind: Kind) -> Guard {
    match kind {
        Kind::Read => Guard::Changes,
        Kind::Write => Guard::Everything,
    }
}

/// What leases know an object by.
const fn object_of(attributes: &Attributes) -> Object {
    Object { file_system: attributes.file_system, file: attributes.file_id }
}

fn is_first(place: Option<u32>) -> bool {
    place == Some(place::FIRST)
}

/// Attributes with what the holder of a write lease has told.
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
