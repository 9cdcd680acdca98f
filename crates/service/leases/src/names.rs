//! The map between objects and the handles by which clients know them, in both directions.
//!
//! Nearly always all clients know an object by the same handle, so the map stores that handle once,
//! in two orders. If a client knows the object by another handle, for example through a second
//! export, the map stores that handle separately for the client.

use core::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::leases::table::Table;
use leasehold_core::leases::{Client, Object};
use leasehold_fs::{ExportId, ObjectId};

/// The number of parts of the index.
const PARTS: usize = 16;

/// The number of handles without a lease that a shard keeps in any case.
const SPARE: usize = 64;

/// The contents of a handle.
type Name = (ExportId, ObjectId);

/// The handles of the objects of one shard on which clients have requested leases.
#[derive(Default)]
pub(super) struct ObjectHandles {
    by_object: BTreeSet<ByObject>,
    /// The further handles of objects by which the index finds them.
    further: BTreeSet<(Object, Name)>,
    others: BTreeMap<(Client, Object), Name>,
}

/// The objects of all shards by their handles. A handle does not identify the shard of its object,
/// so the index has parts of its own, each with a mutex.
#[derive(Default)]
pub(super) struct HandleIndex {
    parts: [Mutex<BTreeSet<ByName>>; PARTS],
}

struct Known {
    object: Object,
    name: Name,
}

/// An entry of the set that is sorted by object; each object occurs once.
struct ByObject(Arc<Known>);

/// An entry of the set that is sorted by handle; each handle occurs once.
struct ByName(Arc<Known>);

impl HandleIndex {
    /// Returns the object with this export and object key.
    pub(super) fn object(&self, identity: &Name) -> Option<Object> {
        self.part(identity).get(identity).map(|ByName(known)| known.object)
    }

    /// Returns the entry of an object, and adds it if it is missing.
    fn stored(&self, object: Object, identity: Name) -> Arc<Known> {
        let mut part = self.part(&identity);
        match part.get(&identity) {
            Some(ByName(known)) if known.object == object => Arc::clone(known),
            _ => {
                let known = Arc::new(Known { object, name: identity });
                part.replace(ByName(Arc::clone(&known)));
                known
            }
        }
    }

    /// Removes the entry of an object, unless the handle identifies another object now.
    fn forget(&self, object: Object, identity: &Name) {
        let mut part = self.part(identity);
        if part.get(identity).is_some_and(|ByName(known)| known.object == object) {
            part.remove(identity);
        }
    }

    fn part(&self, (ExportId(export), id): &Name) -> MutexGuard<'_, BTreeSet<ByName>> {
        // FNV-1a: the bytes of an object id are a number, which often varies in one byte only.
        let hash = id.as_bytes().iter().fold(u32::from(*export) ^ 0x811c_9dc5, |hash, byte| {
            (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
        });
        let [.., low] = hash.to_be_bytes();
        let part = &self.parts[usize::from(low) % PARTS];
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectHandles {
    /// Records that a client requests a lease on an object. The client knows the object by the id
    /// `named`, and the store by the object key `identity`.
    pub(super) fn note(
        &mut self,
        index: &HandleIndex,
        client: Client,
        object: Object,
        (export, identity, named): (ExportId, ObjectId, ObjectId),
    ) {
        let identity = (export, identity);
        let stored = index.stored(object, identity);
        let named = (export, named);
        // Another record with this file id belongs to a former file, which is gone. A recall can no
        // longer need the record, so it is removed.
        if let Some(before) = self.another(object, identity) {
            self.forget_name(index, object, &(export, before));
        }
        let first = match self.by_object.get(&object) {
            Some(ByObject(first)) => first.name,
            None => {
                let name = stored.name;
                self.by_object.insert(ByObject(stored));
                name
            }
        };
        if first != identity {
            self.further.insert((object, identity));
        }
        if first == named {
            self.others.remove(&(client, object));
        } else {
            self.others.insert((client, object), named);
        }
    }

    /// Returns the object key of another object with the same file id in the same export.
    pub(super) fn another(&self, object: Object, (export, identity): Name) -> Option<ObjectId> {
        let ByObject(known) = self.by_object.get(&object)?;
        let is_another = known.name.0 == export && known.name.1 != identity;
        is_another.then_some(known.name.1)
    }

    /// Forgets the handles of a removed object.
    pub(super) fn forget_name(&mut self, index: &HandleIndex, object: Object, name: &Name) {
        self.by_object.remove(&object);
        index.forget(object, name);
    }

    /// Returns the handle by which a client knows an object.
    pub(super) fn of(&self, client: Client, object: Object) -> Option<Name> {
        let other = self.others.get(&(client, object)).copied();
        other.or_else(|| self.by_object.get(&object).map(|ByObject(known)| known.name))
    }

    /// Forgets the handles of objects without leases. This function visits all handles, so it does
    /// nothing until the number of handles exceeds about twice the number of leases. The handles of
    /// waiting calls stay: the server needs the handle to recall a lease that it may later grant to
    /// such a call.
    pub(super) fn forget(&mut self, table: &Table, index: &HandleIndex) {
        let used = table.len().max(table.objects());
        if self.by_object.len().max(self.others.len()) <= 2 * used + SPARE {
            return;
        }
        let stays = |object: Object, name: &Name| {
            let is_used = table.is_used(object);
            if !is_used {
                index.forget(object, name);
            }
            is_used
        };
        self.by_object.retain(|ByObject(known)| stays(known.object, &known.name));
        self.further.retain(|(object, name)| stays(*object, name));
        self.others.retain(|(client, object), _| table.is_used_by(*object, *client));
    }
}

impl Borrow<Object> for ByObject {
    fn borrow(&self) -> &Object {
        &self.0.object
    }
}

impl Borrow<Name> for ByName {
    fn borrow(&self) -> &Name {
        &self.0.name
    }
}

/// Orders the entries of a set by the field by which the set is searched.
macro_rules! ordered_by {
    ($type:ty, $key:ident) => {
        impl PartialEq for $type {
            fn eq(&self, other: &Self) -> bool {
                self.0.$key == other.0.$key
            }
        }

        impl Eq for $type {}

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                self.0.$key.cmp(&other.0.$key)
            }
        }
    };
}

ordered_by!(ByObject, object);
ordered_by!(ByName, name);

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use leasehold_base::units::{FileId, FileSystemId, Time};
    use leasehold_core::leases::table::{Access, Ask, Call, Effect, Event};
    use leasehold_core::leases::{Kind, Terms, Ticket};

    use super::*;

    const ONE: Client = Client(1);
    const TWO: Client = Client(2);

    fn object(number: u64) -> Object {
        Object { file_system: FileSystemId(1), file: FileId(number) }
    }

    fn id(number: u64) -> ObjectId {
        ObjectId::new(&number.to_be_bytes()).expect("eight bytes fit")
    }

    #[test]
    fn each_client_gets_its_own_handle() {
        let (mut names, index) = (ObjectHandles::default(), HandleIndex::default());
        let (here, there) = (ExportId(1), ExportId(2));
        names.note(&index, ONE, object(1), (here, id(1), id(1)));
        names.note(&index, TWO, object(1), (there, id(1), id(7)));
        assert_eq!(names.of(ONE, object(1)), Some((here, id(1))));
        assert_eq!(names.of(TWO, object(1)), Some((there, id(7))));
        assert_eq!(index.object(&(here, id(1))), Some(object(1)));
        assert_eq!(index.object(&(there, id(1))), Some(object(1)));
        assert_eq!(index.object(&(there, id(7))), None, "the store has another id for it");
        names.note(&index, TWO, object(1), (here, id(1), id(1)));
        assert_eq!(names.of(TWO, object(1)), Some((here, id(1))), "the latest");
        names.note(&index, ONE, object(2), (here, id(1), id(1)));
        assert_eq!(
            index.object(&(here, id(1))),
            Some(object(2)),
            "the name identifies another object now"
        );
        assert_eq!(names.of(ONE, object(3)), None);
    }

    /// Requests a write lease.
    fn ask(table: &mut Table, client: Client, number: u64) -> Vec<Effect> {
        let ask = Ask {
            kind: Kind::Write,
            term: Duration::ZERO,
            opportune: false,
            space: 0,
            reclaim: false,
            reports: true,
        };
        let (ticket, object) = (Ticket(u64::from(client.0)), object(number));
        let (client, access, ask) = (Some(client), Access::Nothing, Some(ask));
        let call = Call { ticket, object, client, access, under: None, ask };
        let mut effects = Vec::new();
        table.step(Time::ZERO, Event::Call(call), &mut effects);
        effects
    }

    /// Adds so many handles that `forget` visits them.
    fn many(names: &mut ObjectHandles, index: &HandleIndex) {
        for number in 0..100 {
            names.note(index, ONE, object(number), (ExportId(1), id(number), id(number)));
        }
    }

    #[test]
    fn names_without_leases_are_forgotten() {
        let (mut names, index) = (ObjectHandles::default(), HandleIndex::default());
        let mut table = Table::new(Terms::DEFAULT, 100, 0, false);
        many(&mut names, &index);
        ask(&mut table, ONE, 5);
        names.forget(&table, &index);
        assert_eq!(names.of(ONE, object(5)), Some((ExportId(1), id(5))));
        assert_eq!(index.object(&(ExportId(1), id(5))), Some(object(5)));
        assert_eq!(names.of(ONE, object(6)), None);
        assert_eq!(index.object(&(ExportId(1), id(6))), None);
    }

    /// Without this rule the server could not recall a lease whose handle it had forgotten, and all
    /// other clients waited for the end of the lease's term.
    #[test]
    fn names_of_waiting_calls_are_kept() {
        let (mut names, index) = (ObjectHandles::default(), HandleIndex::default());
        let mut table = Table::new(Terms::DEFAULT, 100, 0, false);
        let (ticket, object_5, access) = (Ticket(9), object(5), Access::Write);
        let (client, under) = (None, None);
        let writes = Call { ticket, object: object_5, client, access, under, ask: None };
        table.step(Time::ZERO, Event::Call(writes), &mut Vec::new());
        names.note(&index, ONE, object_5, (ExportId(1), id(5), id(5)));
        names.note(&index, TWO, object_5, (ExportId(2), id(5), id(7)));
        assert_eq!(
            ask(&mut table, TWO, 5),
            [],
            "the call waits for a writer, and there is no lease"
        );
        many(&mut names, &index);
        names.forget(&table, &index);
        assert_eq!(names.of(TWO, object_5), Some((ExportId(2), id(7))));
        assert_eq!(index.object(&(ExportId(2), id(5))), Some(object_5));
        assert_eq!(names.of(ONE, object(6)), None, "others are");
    }

    /// A forgotten entry of the index would hide the object from a client that returns its lease.
    #[test]
    fn handle_of_another_object_stays_in_the_index() {
        let (mut names, index) = (ObjectHandles::default(), HandleIndex::default());
        let here = ExportId(1);
        names.note(&index, ONE, object(1), (here, id(1), id(1)));
        names.note(&index, ONE, object(2), (here, id(1), id(1)));
        names.forget_name(&index, object(1), &(here, id(1)));
        assert_eq!(index.object(&(here, id(1))), Some(object(2)));
        names.note(&index, ONE, object(2), (ExportId(2), id(5), id(5)));
        let table = Table::new(Terms::DEFAULT, 100, 0, false);
        many(&mut names, &index);
        names.forget(&table, &index);
        assert_eq!(index.object(&(ExportId(2), id(5))), None, "no lease is left on the object");
        assert!(index.parts.iter().all(|part| part.lock().is_ok_and(|part| part.is_empty())));
    }
}
