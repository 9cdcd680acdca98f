//! The store's operations: names go to the names' store, data goes to the module `data`.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Alone, Attributes, Budget, Caller, Changed, Committed, Entries, Entry, FileType, Found,
    FsError, Guard, Layout, Linked, MaybeReady, Name, NewFile, NewNode, ObjectId, Page, Place,
    Properties, Purpose, ReadDone, Renamed, SetAttributes, SetTime, Space, Stability, Store,
    Target, Wanted, Wcc, WriteDone,
};

use crate::Striped;
use crate::file::Data;
use crate::gone::ATTEMPTS;
use crate::iod::Room;
use crate::metafile::{HEAD_BYTES, Head};
use crate::pending_creates::Asked;
use crate::visible::superuser;

/// The number of files of a listing for which the store queries the iods at once.
const LISTED_AT_ONCE: usize = 64;

/// No attribute to set.
const NOTHING: SetAttributes = SetAttributes {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    accessed: SetTime::Keep,
    modified: SetTime::Keep,
};

/// Returns the number of bytes of data that fit file systems with this room, with `copies` copies
/// of each byte on different file systems.
fn data_bytes(rooms: &[u64], copies: u16) -> u64 {
    let sum: u64 = rooms.iter().sum();
    if copies < 2 {
        return sum;
    }
    let greatest = rooms.iter().max().copied().unwrap_or_default();
    // If all iods share one file system, it holds both copies.
    let second = if rooms.len() > 1 { sum - greatest } else { sum };
    second.min(sum / 2)
}

impl Striped {
    async fn look_up(
        &self,
        caller: &Caller,
        directory: &ObjectId,
        name: Name<'_>,
    ) -> Result<Found, FsError> {
        for _ in 0..ATTEMPTS {
            let found = self.names.lookup(caller, directory, name).await?;
            let object = found.object;
            let shown = self.true_found(found).await;
            if !self.failed_for_gone(&object, &shown).await {
                return shown;
            }
        }
        Err(FsError::Delay)
    }

    async fn true_found(&self, found: Found) -> Result<Found, FsError> {
        let attributes = self.true_of(&found.object, found.attributes).await?;
        Ok(Found { attributes, ..found })
    }

    /// Returns the file of a name that may be about to lose its last name, with its head: after the
    /// removal no caller can read the head.
    async fn doomed(&self, caller: &Caller, place: Place<'_>) -> Option<(ObjectId, Head)> {
        let found = self.names.lookup(caller, &place.directory, place.name).await.ok()?;
        let Attributes { file_type, size, .. } = found.attributes;
        // A file with several names counts as well, since another call may remove the others
        // meanwhile.
        if file_type != FileType::Regular || size == 0 {
            return None;
        }
        // If the head cannot be read, the objects of the file become leftovers.
        let head = self.head(&found.object).await.ok()??;
        Some((found.object, head))
    }

    /// Removes the data of a file, if the last name is gone.
    async fn purge_if_gone(&self, doomed: Option<(ObjectId, Head)>) {
        if let Some((object, head)) = doomed
            && self.is_gone(&object).await
        {
            self.purge(&object, head).await;
        }
    }

    /// Renames an object, and records it if a search or the rebalancer walks all names.
    async fn rename_noted(&self, caller: &Caller, from: Place<'_>, to: Place<'_>) -> Renamed {
        let looked = self.tending.last_look();
        let _naming = self.search.naming().await;
        let renamed = self.names.rename(caller, from, to).await;
        let is_done = renamed.result.is_ok();
        let may_be_missed = is_done && self.may_miss(looked);
        if may_be_missed || self.search.is_under_way() {
            match self.names.lookup(&superuser(), &to.directory, to.name).await {
                Ok(found) => {
                    if may_be_missed {
                        self.look_at(found.object, found.attributes.file_type);
                    }
                    // Also if the call failed: the rename may have happened nevertheless.
                    self.search.note(Some(found.object));
                }
                // A task that has removed the name since has recorded the object; an unreadable
                // name is in doubt.
                Err(FsError::NotFound | FsError::Stale) => {}
                Err(_) if is_done => self.search.note(None),
                Err(FsError::Io | FsError::Delay | FsError::ServerFault) => self.search.note(None),
                Err(_) => {}
            }
        }
        renamed
    }

    /// Creates a file without a size: clients must not set the size of its metafile.
    async fn create_file(
        &self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        let (set, may_be_there) = match *file {
            NewFile::Unchecked(set) => (set, true),
            NewFile::Guarded(set) => (set, false),
            NewFile::Exclusive(_) => return self.create_unsized(caller, place, file).await,
        };
        let Some(size) = set.size else { return self.create_unsized(caller, place, file).await };
        let unsized_set = SetAttributes { size: None, ..set };
        let new = NewFile::Guarded(unsized_set);
        let made = self.create_unsized(caller, place, &new).await;
        let directory = self.names.identity(&place.directory);
        let name = place.name.as_bytes().to_vec();
        let asked = Asked { directory, name, caller: caller.clone(), set, may_be_there };
        match made.result {
            Ok(found) if size > 0 => self.finish(asked, found, None, made.wcc).await,
            Err(FsError::AlreadyExists) => match self.go_on(&asked, place, made.wcc).await {
                Some(done) => done,
                None if may_be_there => self.create_there(caller, place, size).await,
                None => made,
            },
            Ok(_) | Err(_) => made,
        }
    }

    /// Sets the size of a file that CREATE made. If the client must retry, the retry finds the
    /// file.
    async fn finish(
        &self,
        asked: Asked,
        made: Found,
        mut guard: Option<FileTime>,
        wcc: Wcc,
    ) -> Changed<Found> {
        let SetAttributes { size, accessed, modified, .. } = asked.set;
        // Explicit times must replace the times from the change of size.
        let changes = SetAttributes { size, accessed, modified, ..NOTHING };
        let known = guard;
        let done = self.sized(&asked.caller, made, &changes, &mut guard, wcc).await;
        match done.result {
            // The entry exists already.
            Err(FsError::Delay) if known.is_some() && guard == known => {}
            Err(FsError::Delay) => {
                let file = self.names.identity(&made.object);
                self.put_off.note(asked, file, guard.unwrap_or(made.attributes.changed));
            }
            Err(FsError::NotSynchronized) => {}
            Ok(_) | Err(_) => self.put_off.forget(&asked),
        }
        done
    }

    /// Continues a pending CREATE if it finds its own file and no other change has occurred since.
    async fn go_on(&self, asked: &Asked, place: Place<'_>, wcc: Wcc) -> Option<Changed<Found>> {
        let mut known = self.put_off.find(asked)?;
        loop {
            let (file, changed) = known;
            let found =
                self.names.lookup(&asked.caller, &place.directory, place.name).await.ok()?;
            if self.names.identity(&found.object) == file {
                let made = Found { directory: None, ..found };
                let done = self.finish(asked.clone(), made, Some(changed), wcc).await;
                if done.result != Err(FsError::NotSynchronized) {
                    return Some(done);
                }
                // The rebalancer may have moved the file in between.
                let now = self.put_off.find(asked)?;
                if now != known {
                    known = now;
                    continue;
                }
            }
            self.put_off.forget(asked);
            return None;
        }
    }

    /// Sets the size of a file that exists already.
    async fn create_there(&self, caller: &Caller, place: Place<'_>, size: u64) -> Changed<Found> {
        let found = self.create_unsized(caller, place, &NewFile::Unchecked(NOTHING)).await;
        match found.result {
            Ok(there) => {
                let size = SetAttributes { size: Some(size), ..NOTHING };
                self.sized(caller, there, &size, &mut None, found.wcc).await
            }
            Err(_) => found,
        }
    }

    async fn create_unsized(
        &self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        for _ in 0..ATTEMPTS {
            let Changed { result, wcc } = self.names.create(caller, place, file).await;
            let Ok(found) = result else { return Changed { result, wcc } };
            let object = found.object;
            let result = match found.attributes.size {
                0 => self.inherit(&place.directory, found).await,
                // A file that existed and has data keeps its data.
                _ => self.true_found(found).await,
            };
            // A CREATE that may find a file starts again if the file is gone. Any other CREATE has
            // made the file, even if the file is gone or in use already: a client that receives a
            // failure makes another file, and other clients see one file more than the program has
            // made.
            let is_gone = self.failed_for_gone(&object, &result).await;
            if !matches!(file, NewFile::Unchecked(_)) {
                let attributes = Attributes { size: 0, used: 0, ..found.attributes };
                // The retry of an exclusive CREATE may find data that a writer has put there.
                let is_new = matches!(file, NewFile::Guarded(_)) && found.attributes.size > 0;
                let is_made = is_gone || is_new;
                let made = result.or_else(|error| match is_made {
                    true => Ok(Found { attributes, ..found }),
                    false => Err(error),
                });
                return Changed { result: made, wcc };
            }
            if !is_gone {
                return Changed { result, wcc };
            }
        }
        Changed::failed(FsError::Delay)
    }

    /// Gives a new object the layout policy of its directory.
    async fn inherit(&self, directory: &ObjectId, made: Found) -> Result<Found, FsError> {
        let Some(layout) = self.names.layout(directory).await? else { return Ok(made) };
        if self.names.layout(&made.object).await?.is_some() {
            return Ok(made);
        }
        self.names.set_layout(&made.object, layout).await?;
        Ok(Found { attributes: self.names.getattr(&made.object).await?, ..made })
    }

    async fn make_node(
        &self,
        caller: &Caller,
        place: Place<'_>,
        node: &NewNode<'_>,
        attributes: &SetAttributes,
    ) -> Changed<Found> {
        let Changed { result, wcc } = self.names.make(caller, place, node, attributes).await;
        let result = match result {
            Ok(found) if found.attributes.file_type == FileType::Directory => {
                self.inherit(&place.directory, found).await
            }
            Ok(_) | Err(_) => result,
        };
        Changed { result, wcc }
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        guard: Option<FileTime>,
    ) -> Changed<()> {
        let (file_type, length) = match self.names.getattr(object).await {
            Ok(attributes) => (attributes.file_type, attributes.size),
            Err(error) => return Changed::failed(error),
        };
        let mut alone = Alone::default();
        if file_type == FileType::Regular && length > 0 {
            alone = match self.keep_alone(object).await {
                Ok(alone) => alone,
                Err(error) => return Changed::failed(error),
            };
            if let Err(error) = self.end_known_layout(object).await {
                return Changed::failed(error);
            }
        }
        let done = match changes.size {
            Some(size) if file_type == FileType::Regular => {
                self.set_size(caller, object, changes, size, guard).await
            }
            Some(_) | None => {
                let done = self.set_others(caller, object, changes, guard, file_type).await;
                self.true_change(object, done).await
            }
        };
        let is_for_others =
            changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some();
        if is_for_others && file_type == FileType::Regular && length > 0 && done.result.is_ok() {
            self.refuse_others(object).await;
        }
        drop(alone);
        done
    }

    /// Sets attributes other than the size of a file.
    async fn set_others(
        &self,
        caller: &Caller,
        object: &ObjectId,
        changes: &SetAttributes,
        guard: Option<FileTime>,
        file_type: FileType,
    ) -> Changed<()> {
        if file_type != FileType::Regular {
            return self.names.setattr(caller, object, changes, guard).await;
        }
        let file = self.file(object);
        // This must not run during a move of the data or the record of an out-of-date copy: both
        // restore the earlier times.
        let data = file.read().await;
        let _times = match &*data {
            Data::OnIods(objects) => Some(objects.times.read().await),
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
        };
        self.upkeep.forget(&self.names.identity(object));
        self.names.setattr(caller, object, changes, guard).await
    }

    /// Sets the size of a file that CREATE found or made, unless the file has changed after the
    /// guard; `wcc` belongs to the directory.
    async fn sized(
        &self,
        caller: &Caller,
        found: Found,
        changes: &SetAttributes,
        guard: &mut Option<FileTime>,
        wcc: Wcc,
    ) -> Changed<Found> {
        let size = changes.size.unwrap_or(found.attributes.size);
        let _alone = match self.keep_alone(&found.object).await {
            Ok(alone) => alone,
            Err(error) => return Changed { result: Err(error), wcc },
        };
        let sized = self.set_guarded_size(caller, &found.object, changes, size, guard).await;
        let result = sized.result.map(|()| {
            let attributes = sized.wcc.after.unwrap_or(found.attributes);
            Found { attributes, ..found }
        });
        Changed { result, wcc }
    }

    async fn true_page(&self, page: Page) -> Page {
        let shown: Vec<_> =
            page.entries.iter().map(|entry| (entry.object, entry.attributes)).collect();
        let asked = stream::iter(shown).map(|(object, shown)| self.listed(object, shown));
        let mut listed = asked.buffered(LISTED_AT_ONCE);
        let mut entries = Entries::default();
        for entry in page.entries.iter() {
            let attributes = listed.next().await.flatten();
            entries.push(&Entry { attributes, ..entry });
        }
        drop(listed);
        Page { entries, ..page }
    }

    /// Returns the attributes of a file in a listing. They are optional, so a listing does not wait
    /// for an iod that is known to be away.
    async fn listed(
        &self,
        object: Option<ObjectId>,
        shown: Option<Attributes>,
    ) -> Option<Attributes> {
        let attributes = shown?;
        if attributes.file_type != FileType::Regular || attributes.size == 0 {
            return Some(attributes);
        }
        let object = object?;
        let some_are_away = self.iods.iter().any(|iod| iod.is_away());
        if some_are_away && self.would_wait(&object, attributes.changed).await {
            return None;
        }
        self.true_of(&object, attributes).await.ok()
    }

    /// Returns the room of each file system of the iods, with the number of iods there.
    async fn rooms(&self) -> Result<Vec<(Space, u16)>, FsError> {
        // An iod that is away offers no room; the call waits for such iods only if all are away.
        let all_are_away = self.iods.iter().all(|iod| iod.is_away());
        let there = self.iods.iter().filter(|iod| all_are_away || !iod.is_away());
        let asked = join_all(there.map(|iod| iod.space())).await;
        if asked.iter().all(Result::is_err) {
            let error = asked.into_iter().find_map(Result::err);
            return Err(error.unwrap_or(FsError::Delay));
        }
        let mut rooms = BTreeMap::new();
        for Room { space, place } in asked.into_iter().flatten() {
            rooms.entry(place).or_insert((space, 0)).1 += 1;
        }
        Ok(rooms.into_values().collect())
    }

    /// Returns the room, and the attributes of an object's metafile.
    async fn looked_for_room(
        &self,
        caller: &Caller,
        object: &ObjectId,
    ) -> Result<(Space, Attributes), FsError> {
        let (names, attributes) = self.names.space(caller, object).await?;
        let rooms: Vec<Space> = self.rooms().await?.into_iter().map(|(space, _)| space).collect();
        let fits = |part: fn(&Space) -> u64| {
            let rooms: Vec<u64> = rooms.iter().map(part).collect();
            data_bytes(&rooms, self.options.copies)
        };
        let [bytes, free_bytes, available_bytes] = [
            fits(|space| space.bytes),
            fits(|space| space.free_bytes),
            fits(|space| space.available_bytes),
        ];
        Ok((Space { bytes, free_bytes, available_bytes, ..names }, attributes))
    }

    /// Returns the bytes that the store may promise for later data. All of that data may have to
    /// lie on the iod with the least room, and with both copies if two iods share a file system;
    /// data of small files lies with the names.
    async fn looked_for_promise(
        &self,
        caller: &Caller,
        object: &ObjectId,
    ) -> Result<Space, FsError> {
        let (names, _) = self.names.space(caller, object).await?;
        // A store of names in memory has no room of its own.
        let beside_names = (names.bytes > 0).then(|| names.promised().available_bytes);
        let rooms = self.rooms().await?;
        let on_iods = rooms.into_iter().map(|(space, iods)| {
            let copies = self.options.copies.min(iods).max(1);
            space.promised().available_bytes / u64::from(copies)
        });
        let available_bytes = on_iods.chain(beside_names).min().unwrap_or(0);
        Ok(Space { available_bytes, ..names })
    }
}

impl Store for Striped {
    fn root(&self) -> ObjectId {
        self.names.root()
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        self.names.identity(object)
    }

    fn path(&self, object: &ObjectId) -> Option<Vec<u8>> {
        self.names.path(object)
    }

    fn cover<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        opportune: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        self.names.cover(object, guard, opportune)
    }

    fn alone<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Alone, FsError>> {
        MaybeReady::later(self.keep_alone(object))
    }

    fn upkeep(&self, object: &ObjectId) -> Option<(FileTime, FileTime)> {
        self.upkeep.of(&self.names.identity(object))
    }

    fn properties(&self) -> Properties {
        let names = self.names.properties();
        // File data may follow a head in the metafile.
        Properties { file_bytes_max: names.file_bytes_max - HEAD_BYTES, ..names }
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        MaybeReady::later(async move {
            let attributes = self.names.getattr(object).await?;
            self.unless_gone(object, self.true_of(object, attributes).await).await
        })
    }

    fn known<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, bool), FsError>> {
        MaybeReady::later(async move {
            let attributes = self.names.getattr(object).await?;
            Ok(self.known_of(object, attributes))
        })
    }

    fn changed<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<FileTime, FsError>> {
        // This query needs no iod.
        self.names.changed(object)
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            let done = self.set_attributes(caller, object, changes, guard).await;
            self.changed_unless_gone(object, done).await
        })
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::later(self.look_up(caller, directory, name))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        self.names.parent(caller, directory)
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        MaybeReady::later(async move {
            let (access, attributes) = self.names.access(caller, object, wanted).await?;
            let attributes = self.true_of(object, attributes).await;
            Ok((access, self.unless_gone(object, attributes).await?))
        })
    }

    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<Access, FsError>> {
        self.names.rights(caller, object, wanted)
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        self.names.readlink(caller, object)
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        MaybeReady::later(async move {
            let read = self.read_data(caller, object, offset, count).await;
            self.unless_gone(object, read).await
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
        MaybeReady::later(async move {
            let written = self.write_data(caller, object, offset, data, stability).await;
            self.changed_unless_gone(object, written).await
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(self.create_file(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(self.make_node(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            let doomed = self.doomed(caller, place).await;
            let begun = self.removals.begin();
            let changed = self.names.remove(caller, place).await;
            self.purge_if_gone(doomed).await;
            begun.end();
            changed
        })
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        self.names.rmdir(caller, place)
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        MaybeReady::later(async move {
            let doomed = self.doomed(caller, to).await;
            let begun = self.removals.begin();
            let renamed = self.rename_noted(caller, from, to).await;
            self.purge_if_gone(doomed).await;
            begun.end();
            renamed
        })
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        MaybeReady::later(async move {
            let looked = self.tending.last_look();
            let naming = self.search.naming().await;
            let linked = self.names.link(caller, object, place).await;
            if linked.result.is_ok() && self.may_miss(looked) {
                self.look_at(*object, FileType::Regular);
            }
            // Also if the call failed: the link may have been created nevertheless.
            self.search.note(Some(*object));
            drop(naming);
            let attributes = match linked.attributes {
                Some(attributes) => self.true_of(object, attributes).await.ok(),
                None => None,
            };
            Linked { attributes, ..linked }
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
        match wanted {
            Wanted::Names => self.names.readdir(caller, directory, cookie, budget, wanted),
            Wanted::Everything => MaybeReady::later(async move {
                let page = self.names.readdir(caller, directory, cookie, budget, wanted).await?;
                Ok(self.true_page(page).await)
            }),
        }
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        MaybeReady::later(async move {
            let (space, attributes) = self.looked_for_room(caller, object).await?;
            let attributes = self.true_of(object, attributes).await;
            Ok((space, self.unless_gone(object, attributes).await?))
        })
    }

    fn room<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        MaybeReady::later(self.looked_for_promise(caller, object))
    }

    fn open_layout<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        purpose: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>> {
        MaybeReady::later(async move {
            let layout = self.tell_layout(caller, object, purpose).await;
            self.unless_gone(object, layout).await
        })
    }

    fn recall<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::later(self.end_layout(object))
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        _offset: u64,
        _length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        MaybeReady::later(async move {
            let committed = self.commit_data(caller, object).await;
            self.changed_unless_gone(object, committed).await
        })
    }
}
