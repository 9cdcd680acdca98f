//! The operations of the trait `Store`. Operations on names go to the names' store; the module
//! `data` reads and writes file data.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Coherence, Committed, Completeness,
    DirectLayouts, Entries, Entry, ExclusiveAccess, ExtendedAttributes, FileType, Found, FsError,
    Guard, Held, Layout, Linked, LocalMetadata, MaybeReady, Name, NewFile, NewNode, ObjectId,
    OpenFiles, Page, Place, Properties, Purpose, ReadDone, Renamed, Reservations, SetAttributes,
    SetTime, Space, Stability, Store, Wanted, Wcc, WriteDone, forward_store,
};

use crate::Striped;
use crate::file::Data;
use crate::gone::ATTEMPTS;
use crate::held::Doomed;
use crate::iod::Room;
use crate::metafile::HEAD_BYTES;
use crate::pending_creates::Asked;
use crate::visible::superuser;

/// The number of files of one READDIRPLUS whose sizes the store queries from the iods at once.
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

/// Returns the number of bytes of data that fit on file systems of these sizes, if each byte has
/// `copies` copies on different file systems.
fn data_bytes(rooms: &[u64], copies: u16) -> u64 {
    let sum: u64 = rooms.iter().sum();
    if copies < 2 {
        return sum;
    }
    let greatest = rooms.iter().max().copied().unwrap_or_default();
    // If all iods share one file system, this file system stores both copies.
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

    /// Returns the file that has this name, with its metafile header, if a removal of the name may
    /// remove the file. The caller reads the header before the removal, because the header is gone
    /// afterwards.
    async fn doomed(&self, caller: &Caller, place: Place<'_>) -> Option<Doomed> {
        let found = self.names.lookup(caller, &place.directory, place.name).await.ok()?;
        let Attributes { file_type, size, .. } = found.attributes;
        // A client that holds the file may write data after the removal.
        let is_held = self.held.contains(&self.names.identity(&found.object));
        // Do not exclude a file with several names: another call may remove the other names before
        // this call removes its name.
        if file_type != FileType::Regular || (size == 0 && !is_held) {
            return None;
        }
        // If the header cannot be read, the objects of the file become leftovers, which a search
        // removes later.
        let head = self.head(&found.object).await.ok().flatten();
        let (object, file) = (found.object, self.file(&found.object));
        (head.is_some() || is_held).then_some(Doomed { object, file, head })
    }

    /// Renames a file or directory. Also records it for a walk over all names that is in progress
    /// (of a search or of the rebalancer), because the walk may miss both the old and the new name.
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
                    // Record the file even if the call failed, since the rename may have happened
                    // nevertheless.
                    self.search.note(Some(found.object));
                }
                // The new name is gone again. If another task has renamed the file, that task has
                // recorded the file, so nothing is left to do. After any other error it is unknown
                // which file has the new name, so the search must fail.
                Err(FsError::NotFound | FsError::Stale) => {}
                Err(_) if is_done => self.search.note(None),
                Err(FsError::Io | FsError::Delay | FsError::ServerFault) => self.search.note(None),
                Err(_) => {}
            }
        }
        renamed
    }

    /// Executes CREATE. Creates the metafile without a size and then sets the size of the file,
    /// because the size of the metafile is not the size of the file.
    async fn create_file(
        &self,
        caller: &Caller,
        place: Place<'_>,
        file: &NewFile,
    ) -> Changed<Found> {
        let (set, may_be_there) = match *file {
            NewFile::Unchecked(set) => (set, true),
            NewFile::Guarded(set) => (set, false),
            NewFile::Exclusive { .. } => return self.create_unsized(caller, place, file).await,
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

    /// Sets the size of a file that CREATE made. If an iod is unreachable, the client must retry;
    /// records the file, so that the retry continues this CREATE.
    async fn finish(
        &self,
        asked: Asked,
        made: Found,
        mut guard: Option<FileTime>,
        wcc: Wcc,
    ) -> Changed<Found> {
        let SetAttributes { size, accessed, modified, .. } = asked.set;
        // The change of the size changes the times. So set the times that the client requested in
        // the same call, after the size.
        let changes = SetAttributes { size, accessed, modified, ..NOTHING };
        let known = guard;
        let done = self.sized(&asked.caller, made, &changes, &mut guard, wcc).await;
        match done.result {
            // The list of pending CREATEs already has this entry, with the same change time.
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

    /// Continues a pending CREATE. Returns `None` if the name belongs to another file now, or if
    /// another client has changed the file since the first attempt.
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
                // The rebalancer may have changed the metafile in between, and has then updated the
                // entry: try again with the new change time.
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
                // The file existed before and has data, which an UNCHECKED create keeps.
                _ => self.true_found(found).await,
            };
            // An UNCHECKED create may have found an existing file that is gone now, so it starts
            // again. A GUARDED or EXCLUSIVE create has made the file itself. It must report success
            // even if another client has already removed or written the file: after an error the
            // client would create the file once more, and other clients would see two files where
            // the program created one.
            let is_gone = self.failed_for_gone(&object, &result).await;
            if !matches!(file, NewFile::Unchecked(_)) {
                let attributes = Attributes { size: 0, used: 0, ..found.attributes };
                // A GUARDED create has just made the file, so data in the file comes from another
                // client. Report success even if the true attributes cannot be read. An EXCLUSIVE
                // create may be a retry that finds earlier data, so it must return the true
                // attributes or the error.
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

    /// Gives a new file or directory the layout policy of its parent directory, unless it has a
    /// policy already.
    async fn inherit(&self, directory: &ObjectId, made: Found) -> Result<Found, FsError> {
        let Some(layout) = self.names.layout_policy(directory).await? else { return Ok(made) };
        if self.names.layout_policy(&made.object).await?.is_some() {
            return Ok(made);
        }
        self.names.set_layout_policy(&made.object, layout).await?;
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
        let mut alone = ExclusiveAccess::default();
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
        // A migration of the data, and the record of an out-of-date copy, write the metafile and
        // then restore its earlier times. The two locks keep them from undoing the new times of
        // this change.
        let data = file.read().await;
        let _times = match &*data {
            Data::OnIods(objects) => Some(objects.times.read().await),
            Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
        };
        self.upkeep.forget(&self.names.identity(object));
        self.names.setattr(caller, object, changes, guard).await
    }

    /// Sets the size of a file that CREATE found or made, unless the change time of the file
    /// differs from the guard. `wcc` contains the attributes of the directory for the reply.
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

    /// Returns the attributes of a file for a READDIRPLUS. Attributes are optional there, so
    /// returns `None` instead of waiting for an iod that is known to be unreachable.
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

    /// Returns the space of each file system of the iods, with the number of iods on the file
    /// system.
    async fn rooms(&self) -> Result<Vec<(Space, u16)>, FsError> {
        // Skip unreachable iods: they offer no space, and a query would wait. If all iods are
        // unreachable, query and wait for all of them.
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

    /// Returns the space of the volume for FSSTAT, and the attributes of the object's metafile.
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

    /// Returns the number of bytes that the store can reserve for data that clients write later. In
    /// the worst case all of that data goes to the iod with the least free space, with both copies
    /// if two iods share a file system, or to the metafiles of small files. So the result is the
    /// minimum over all file systems, including the file system of the names.
    async fn looked_for_promise(
        &self,
        caller: &Caller,
        object: &ObjectId,
    ) -> Result<Space, FsError> {
        let (names, _) = self.names.space(caller, object).await?;
        // A store of names in memory reports a size of zero. Its free space then means nothing, so
        // only the iods count.
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
    forward_store!(names: root identity path parent readlink);

    fn capabilities(&self) -> Capabilities<'_> {
        let names = self.names.capabilities();
        Capabilities {
            local_guard: None,
            coherence: names.coherence.map(|_| self as &dyn Coherence),
            direct_layouts: Some(self),
            layout_policies: None,
            local_metadata: Some(self),
            reservations: Some(self),
            open_files: names
                .open_files
                .filter(|_| !self.options.shared)
                .map(|_| self as &dyn OpenFiles),
            extended_attributes: names.extended_attributes.map(|_| self as &dyn ExtendedAttributes),
            ranges: Some(self),
        }
    }

    fn properties(&self, object: &ObjectId) -> Properties {
        let names = self.names.properties(object);
        // The data of a small file follows the header in its metafile, so the header reduces the
        // maximum file size.
        Properties { file_bytes_max: names.file_bytes_max - HEAD_BYTES, ..names }
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        MaybeReady::later(async move {
            let attributes = self.names.getattr(object).await?;
            self.unless_gone(object, self.true_of(object, attributes).await).await
        })
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
            // Record the file even if the call failed, since the link may exist nevertheless.
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

impl Coherence for Striped {
    fn acquire<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        opportunistic: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        self.names.acquire(object, guard, opportunistic)
    }

    fn exclusive<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        MaybeReady::later(self.keep_alone(object))
    }
}

impl DirectLayouts for Striped {
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

    fn recall_layout<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::later(self.end_layout(object))
    }
}

impl LocalMetadata for Striped {
    fn getattr_local<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, Completeness), FsError>> {
        MaybeReady::later(async move {
            let attributes = self.names.getattr(object).await?;
            Ok(self.known_of(object, attributes))
        })
    }

    fn change_time<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<FileTime, FsError>> {
        // The metafile has the change time, so no iod is queried.
        self.names.change_time(object)
    }

    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<Access, FsError>> {
        self.names.rights(caller, object, wanted)
    }

    fn maintenance_span(&self, object: &ObjectId) -> Option<(FileTime, FileTime)> {
        self.upkeep.of(&self.names.identity(object))
    }
}

impl Reservations for Striped {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        MaybeReady::later(self.looked_for_promise(caller, object))
    }
}

impl OpenFiles for Striped {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
        MaybeReady::later(self.hold_file(object))
    }
}
