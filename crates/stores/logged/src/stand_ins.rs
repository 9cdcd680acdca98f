//! Surrogate objects: objects that a replay has created in place of lost objects. Clients see them
//! under the ids of the lost objects.
//!
//! Clients have handles of the lost objects, and the inode numbers of the lost objects in their
//! caches. So a surrogate object must appear with the id and the inode number of the lost object.
//! This wrapper translates each id in a request to the id in the store below (inner id), and each
//! id in a result to the id that clients know (outer id).

use core::future::Future;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, Entries, Found, FsError,
    Guard, Linked, LocalGuard, MaybeReady, Name, NewFile, NewNode, ObjectId, Page, Place,
    Properties, ReadDone, Renamed, Reservations, SetAttributes, Space, Stability, Store, Target,
    Wanted, Wcc, WriteDone, forward_store,
};

use crate::record::{Reader, Writer};

/// A store wrapper that shows surrogate objects under the ids of lost objects.
pub(crate) struct StandIns {
    store: Arc<dyn Store>,
    /// True if there are surrogate objects. In the common case without surrogate objects, no call
    /// takes the lock of the table.
    are_any: AtomicBool,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    by_outer: BTreeMap<ObjectId, StandIn>,
    by_inner: BTreeMap<ObjectId, ObjectId>,
}

/// A surrogate object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StandIn {
    inner: ObjectId,
    /// The inode number of the lost object.
    file_id: FileId,
}

impl StandIns {
    /// Wraps a store without surrogate objects.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, are_any: AtomicBool::new(false), table: RwLock::default() }
    }

    /// Makes `inner` the surrogate object of `outer`.
    pub(crate) fn insert(&self, outer: ObjectId, inner: ObjectId, file_id: FileId) {
        self.change(|table| {
            table.remove(&outer);
            table.by_outer.insert(outer, StandIn { inner, file_id });
            table.by_inner.insert(inner, outer);
        });
    }

    /// Removes the entry of a removed object from the table. Returns true if the object was a
    /// surrogate object.
    pub(crate) fn forget(&self, outer: &ObjectId) -> bool {
        self.are_any.load(Ordering::Acquire) && self.change(|table| table.remove(outer))
    }

    /// Encodes the table of surrogate objects.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::new());
        for (outer, StandIn { inner, file_id }) in &self.table().by_outer {
            out.object(outer);
            out.object(inner);
            out.long(file_id.0);
        }
        out.0
    }

    /// Decodes a table and adds its entries. Returns false if the bytes are malformed.
    pub(crate) fn decode(&self, bytes: &[u8]) -> bool {
        let mut from = Reader(bytes);
        while !from.0.is_empty() {
            let read = |from: &mut Reader<'_>| Some((from.object()?, from.object()?, from.long()?));
            let Some((outer, inner, file_id)) = read(&mut from) else { return false };
            self.insert(outer, inner, FileId(file_id));
        }
        true
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut table);
        self.are_any.store(!table.by_outer.is_empty(), Ordering::Release);
        changed
    }

    fn table(&self) -> std::sync::RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_none(&self) -> bool {
        !self.are_any.load(Ordering::Acquire)
    }

    fn inward(&self, outer: &ObjectId) -> ObjectId {
        self.table().by_outer.get(outer).map_or(*outer, |stand_in| stand_in.inner)
    }

    fn place_inward<'a>(&self, place: Place<'a>) -> Place<'a> {
        Place { directory: self.inward(&place.directory), ..place }
    }

    /// Replaces the inode number in an object's attributes by the one that clients know.
    fn shown(&self, outer: &ObjectId, attributes: Attributes) -> Attributes {
        match self.table().by_outer.get(outer) {
            Some(stand_in) => Attributes { file_id: stand_in.file_id, ..attributes },
            None => attributes,
        }
    }

    fn shown_wcc(&self, outer: &ObjectId, wcc: Wcc) -> Wcc {
        Wcc { after: wcc.after.map(|after| self.shown(outer, after)), ..wcc }
    }

    fn changed<T>(&self, outer: &ObjectId, changed: Changed<T>) -> Changed<T> {
        Changed { wcc: self.shown_wcc(outer, changed.wcc), ..changed }
    }

    fn outward(&self, inner: ObjectId) -> ObjectId {
        self.table().by_inner.get(&inner).copied().unwrap_or(inner)
    }

    fn found(&self, directory: Option<&ObjectId>, found: Found) -> Found {
        let object = self.outward(found.object);
        Found {
            object,
            attributes: self.shown(&object, found.attributes),
            directory: found.directory.map(|seen| match directory {
                Some(directory) => self.shown(directory, seen),
                None => seen,
            }),
        }
    }

    fn page(&self, directory: &ObjectId, page: &Page) -> Page {
        let mut entries = Entries::default();
        for mut entry in page.entries.iter() {
            if let Some(inner) = entry.object {
                let object = self.outward(inner);
                entry.object = Some(object);
                entry.attributes = entry.attributes.map(|seen| self.shown(&object, seen));
                entry.file_id = entry.attributes.map_or(entry.file_id, |seen| seen.file_id);
            }
            entries.push(&entry);
        }
        Page { entries, end: page.end, attributes: self.shown(directory, page.attributes) }
    }
}

impl Table {
    fn remove(&mut self, outer: &ObjectId) -> bool {
        let removed = self.by_outer.remove(outer);
        if let Some(stand_in) = removed {
            self.by_inner.remove(&stand_in.inner);
        }
        removed.is_some()
    }
}

fn later<'a, T>(future: impl Future<Output = T> + Send + 'a) -> MaybeReady<'a, T> {
    MaybeReady::later(future)
}

impl Store for StandIns {
    forward_store!(store: root);

    fn properties(&self, object: &ObjectId) -> Properties {
        self.store.properties(&self.inward(object))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let below = self.store.capabilities();
        Capabilities {
            local_guard: below.local_guard.map(|_| self as &dyn LocalGuard),
            coherence: None,
            direct_layouts: None,
            layout_policies: None,
            local_metadata: None,
            reservations: below.reservations.map(|_| self as &dyn Reservations),
            open_files: None,
            extended_attributes: None,
            ranges: None,
        }
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        let inner = self.inward(object);
        if inner == *object { self.store.identity(object) } else { *object }
    }

    fn path(&self, object: &ObjectId) -> Option<Vec<u8>> {
        self.store.path(&self.inward(object))
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        if self.are_none() {
            return self.store.getattr(object);
        }
        later(async move {
            let inner = self.inward(object);
            self.store.getattr(&inner).await.map(|seen| self.shown(object, seen))
        })
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        if self.are_none() {
            return self.store.setattr(caller, object, changes, guard);
        }
        later(async move {
            let inner = self.inward(object);
            self.changed(object, self.store.setattr(caller, &inner, changes, guard).await)
        })
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        if self.are_none() {
            return self.store.lookup(caller, directory, name);
        }
        later(async move {
            let inner = self.inward(directory);
            let found = self.store.lookup(caller, &inner, name).await?;
            Ok(self.found(Some(directory), found))
        })
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        if self.are_none() {
            return self.store.parent(caller, directory);
        }
        later(async move {
            let inner = self.inward(directory);
            let found = self.store.parent(caller, &inner).await?;
            Ok(self.found(Some(directory), found))
        })
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        if self.are_none() {
            return self.store.access(caller, object, wanted);
        }
        later(async move {
            let inner = self.inward(object);
            let (access, seen) = self.store.access(caller, &inner, wanted).await?;
            Ok((access, self.shown(object, seen)))
        })
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        if self.are_none() {
            return self.store.readlink(caller, object);
        }
        later(async move {
            let inner = self.inward(object);
            let (target, seen) = self.store.readlink(caller, &inner).await?;
            Ok((target, self.shown(object, seen)))
        })
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        if self.are_none() {
            return self.store.read(caller, object, offset, count);
        }
        later(async move {
            let inner = self.inward(object);
            let done = self.store.read(caller, &inner, offset, count).await?;
            Ok(ReadDone { attributes: self.shown(object, done.attributes), ..done })
        })
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        if self.are_none() {
            return self.store.write(caller, object, offset, data, stability);
        }
        later(async move {
            let inner = self.inward(object);
            let done = self.store.write(caller, &inner, offset, data, stability).await;
            self.changed(object, done)
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        if self.are_none() {
            return self.store.create(caller, place, file);
        }
        later(async move {
            let made = self.store.create(caller, self.place_inward(place), file).await;
            let made = self.changed(&place.directory, made);
            Changed { result: made.result.map(|found| self.found(None, found)), ..made }
        })
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        if self.are_none() {
            return self.store.make(caller, place, node, attributes);
        }
        later(async move {
            let made = self.store.make(caller, self.place_inward(place), node, attributes).await;
            let made = self.changed(&place.directory, made);
            Changed { result: made.result.map(|found| self.found(None, found)), ..made }
        })
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        if self.are_none() {
            return self.store.remove(caller, place);
        }
        later(async move {
            let done = self.store.remove(caller, self.place_inward(place)).await;
            self.changed(&place.directory, done)
        })
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        if self.are_none() {
            return self.store.rmdir(caller, place);
        }
        later(async move {
            let done = self.store.rmdir(caller, self.place_inward(place)).await;
            self.changed(&place.directory, done)
        })
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        if self.are_none() {
            return self.store.rename(caller, from, to);
        }
        later(async move {
            let (old, new) = (self.place_inward(from), self.place_inward(to));
            let done = self.store.rename(caller, old, new).await;
            Renamed {
                result: done.result,
                from: self.shown_wcc(&from.directory, done.from),
                to: self.shown_wcc(&to.directory, done.to),
            }
        })
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        if self.are_none() {
            return self.store.link(caller, object, place);
        }
        later(async move {
            let inner = self.inward(object);
            let done = self.store.link(caller, &inner, self.place_inward(place)).await;
            Linked {
                result: done.result,
                attributes: done.attributes.map(|seen| self.shown(object, seen)),
                directory: self.shown_wcc(&place.directory, done.directory),
            }
        })
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        if self.are_none() {
            return self.store.readdir(caller, directory, cookie, budget, wanted);
        }
        later(async move {
            let inner = self.inward(directory);
            let page = self.store.readdir(caller, &inner, cookie, budget, wanted).await?;
            Ok(self.page(directory, &page))
        })
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        if self.are_none() {
            return self.store.space(caller, object);
        }
        later(async move {
            let inner = self.inward(object);
            let (space, seen) = self.store.space(caller, &inner).await?;
            Ok((space, self.shown(object, seen)))
        })
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        if self.are_none() {
            return self.store.commit(caller, object, offset, length);
        }
        later(async move {
            let inner = self.inward(object);
            self.changed(object, self.store.commit(caller, &inner, offset, length).await)
        })
    }
}

impl LocalGuard for StandIns {
    fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError> {
        self.store.guard(&self.inward(object), guard)
    }
}

impl Reservations for StandIns {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        if self.are_none() {
            return self.store.reservable_space(caller, object);
        }
        later(async move { self.store.reservable_space(caller, &self.inward(object)).await })
    }
}
