//! The replay of a log into the file system.
//!
//! After a power cut the file system may have any subset of the changes since the last checkpoint.
//! The records of the log give the final state of each name, attribute and byte. So the replay does
//! not repeat the changes in order: it compares the file system with the final state and corrects
//! the differences. A repeated replay does no harm. The steps are:
//!
//! 1. The replay recreates lost objects in a temporary directory (the workshop). It records these
//!    surrogate objects in the log before the next step, so that an interrupted replay can
//!    continue.
//! 2. It renames objects with a wrong name, and objects that occupy the name of another object,
//!    into the workshop.
//! 3. It renames or links all objects to their final names. Then it removes the names that must not
//!    exist, and the workshop.
//! 4. It writes bytes and sets attributes, unless a COMMIT has made later bytes or attributes
//!    stable.
//!
//! If a name belongs to an object without a record in the log, a local program has given the name
//! to this object after the crash, and the replay does not change the name. An object with a record
//! may have any name before the replay: without a file-system journal, the name of a removed object
//! can belong to a new object that has received the inode number of the removed one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Attributes, Budget, Caller, FileType, FsError, Mode, Name, NewFile, NewNode,
    ObjectId, Place, SetAttributes, SetTime, Stability, Step, Store, Wanted,
};

use crate::format::{Head, Layout};
use crate::media::Media;
use crate::outcome::{Data, Object, Outcome};
use crate::record::{Made, Spot, State};
use crate::stand_ins::StandIns;

/// The name of the temporary directory of the replay, in the root of the export.
pub(crate) const WORKSHOP: &str = ".leasehold-replay";

/// The results of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The number of records in the log.
    pub records: u64,
    /// The number of objects that were recreated.
    pub made: u64,
    /// The number of names that were set or removed.
    pub names: u64,
    /// The number of names that the replay left unchanged, because a local program has given them
    /// to another object.
    pub taken: u64,
    /// The number of changes that failed for lack of permission or space.
    pub failed: u64,
    /// The number of unreadable frames whose changes had been answered.
    pub damaged: u64,
}

/// The reason why a replay stops.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The log's device failed.
    Log(io::Error),
    /// The file system failed.
    Disk(FsError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Log(error)
    }
}

impl From<FsError> for Failure {
    fn from(error: FsError) -> Self {
        Self::Disk(error)
    }
}

/// A replay in progress.
pub(crate) struct Replay<'a> {
    pub(crate) store: &'a StandIns,
    pub(crate) media: &'a dyn Media,
    pub(crate) head: &'a mut Head,
    pub(crate) layout: &'a Layout,
    pub(crate) report: Replayed,
    caller: Caller,
    /// The workshop, if it exists. Most replays do not need the workshop.
    workshop: Option<ObjectId>,
    /// One name that each object of the log has now.
    places: BTreeMap<ObjectId, Spot>,
    /// The directories in the log that do not exist.
    lost: BTreeSet<ObjectId>,
    /// The objects whose final name could not be set. They must keep their current name.
    kept: BTreeSet<ObjectId>,
    /// The original modes of the directories whose mode the replay has changed to gain access.
    unlocked: BTreeMap<ObjectId, Mode>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        store: &'a StandIns,
        media: &'a dyn Media,
        head: &'a mut Head,
        layout: &'a Layout,
    ) -> Self {
        Self {
            store,
            media,
            head,
            layout,
            report: Replayed::default(),
            caller: Caller { uid: 0, gid: 0, ..Caller::nobody() },
            workshop: None,
            places: BTreeMap::new(),
            lost: BTreeSet::new(),
            kept: BTreeSet::new(),
            unlocked: BTreeMap::new(),
        }
    }

    /// Runs the replay. The caller syncs the file system afterwards.
    pub(crate) async fn run(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        self.report.records = outcome.record_count;
        let (root, workshop) = (self.store.root(), name(WORKSHOP));
        // An interrupted replay may have left a workshop.
        let left = self.store.lookup(&self.caller, &root, workshop).await;
        self.workshop = left.ok().map(|found| found.object);
        self.find_directories(outcome).await;
        let wanted = self.wanted(outcome).await;
        self.make_lost(outcome, &wanted).await?;
        self.collect(outcome, &wanted).await?;
        self.clear(outcome, &wanted).await?;
        self.give(&wanted).await?;
        self.take_away(outcome).await?;
        self.close_workshop(outcome).await?;
        self.fill(outcome).await?;
        self.lock_again().await
    }

    /// Finds the directories that the log creates and that exist. The replay skips later lookups in
    /// the missing directories, because each lookup may need a search of the whole export.
    async fn find_directories(&mut self, outcome: &Outcome) {
        let is_made = |object: &&Object| {
            object.made.as_ref().is_some_and(|made| made.kind == FileType::Directory)
        };
        let made = outcome.objects.iter().filter(|(_, object)| is_made(object));
        let made: Vec<_> = made.collect();
        self.lost.extend(made.iter().map(|(id, _)| **id));
        // A directory may be inside another directory of the list, so repeat until no further
        // directory is found.
        loop {
            let before = self.lost.len();
            for (id, object) in &made {
                self.find(id, object).await;
                if self.places.contains_key(id) {
                    self.lost.remove(id);
                }
            }
            if self.lost.len() == before {
                return;
            }
        }
    }

    /// Returns the final names that their objects do not have yet, by object.
    async fn wanted(&mut self, outcome: &Outcome) -> BTreeMap<ObjectId, Vec<Spot>> {
        let mut wanted: BTreeMap<ObjectId, Vec<Spot>> = BTreeMap::new();
        for (spot, object) in &outcome.names {
            let Some(object) = *object else { continue };
            if self.look(spot).await == Some(object) {
                self.places.insert(object, spot.clone());
            } else {
                wanted.entry(object).or_default().push(spot.clone());
            }
        }
        wanted
    }

    /// Recreates the objects that have a final name but do not exist.
    async fn make_lost(
        &mut self,
        outcome: &Outcome,
        wanted: &BTreeMap<ObjectId, Vec<Spot>>,
    ) -> Result<(), Failure> {
        let mut stand_ins = Vec::new();
        for (id, spots) in wanted {
            let object = &outcome.objects[id];
            self.find(id, object).await;
            if self.places.contains_key(id) {
                continue;
            }
            let Some(made) = &object.made else {
                // The object was created before the log. If it does not exist, a local program
                // removed the object, and its names cannot be restored.
                if self.store.getattr(id).await.is_err() {
                    self.report.failed += spots.len() as u64;
                }
                continue;
            };
            match self.make(made).await {
                Ok(inner) => stand_ins.push((*id, inner, made.file_id)),
                Err(error) => self.judge(error)?,
            }
        }
        if stand_ins.is_empty() {
            return Ok(());
        }
        let workshop = self.workshop().await?;
        for (outer, inner, file_id) in stand_ins {
            self.store.insert(outer, inner, file_id);
            self.places.insert(outer, spot(workshop, &new_name(&outer)));
            self.lost.remove(&outer);
            self.report.made += 1;
        }
        let names = self.store.encode();
        Ok(self.head.write_names(self.media, self.layout, &names)?)
    }

    /// Looks an object up by all names that it had, and by its names in the workshop.
    async fn find(&mut self, id: &ObjectId, object: &Object) {
        if self.places.contains_key(id) {
            return;
        }
        let own = self
            .workshop
            .map(|workshop| [spot(workshop, &kept_name(id)), spot(workshop, &new_name(id))]);
        for spot in own.iter().flatten().chain(&object.spots) {
            if self.look(spot).await == Some(*id) {
                self.places.insert(*id, spot.clone());
                return;
            }
        }
    }

    /// Creates a surrogate object in the workshop, and returns its id in the store below.
    async fn make(&mut self, made: &Made) -> Result<ObjectId, FsError> {
        let text = new_name(&made.object);
        let place = Place { directory: self.workshop().await?, name: name(&text) };
        // Remove an object that an interrupted replay has created but not recorded.
        if let Ok(found) = self.store.lookup(&self.caller, &place.directory, place.name).await {
            self.remove_entry(place, found.attributes.file_type).await?;
        }
        let State { mode, uid, gid, .. } = made.state;
        let plain = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let owner = Caller { uid, gid, ..Caller::nobody() };
        let node = match made.kind {
            FileType::Regular => {
                // Create the file as its owner: a later change of the owner would destroy the
                // create verifier, which file systems store in the times.
                let Some(verifier) = made.exclusive else {
                    let file = NewFile::Guarded(plain);
                    let made = self.store.create(&self.caller, place, &file).await;
                    return made.result.map(|found| found.object);
                };
                return self.make_exclusive(&owner, place, verifier, &made.state).await;
            }
            FileType::Directory => NewNode::Directory,
            FileType::BlockDevice => NewNode::BlockDevice(made.device),
            FileType::CharacterDevice => NewNode::CharacterDevice(made.device),
            FileType::Symlink => NewNode::Symlink(&made.target),
            FileType::Socket => NewNode::Socket,
            FileType::Fifo => NewNode::Fifo,
        };
        let made = self.store.make(&self.caller, place, &node, &plain).await;
        made.result.map(|found| found.object)
    }

    /// Creates a file with the verifier of an exclusive create.
    async fn make_exclusive(
        &self,
        owner: &Caller,
        place: Place<'_>,
        verifier: [u8; 8],
        state: &State,
    ) -> Result<ObjectId, FsError> {
        let plain = SetAttributes { mode: Some(state.mode), ..SetAttributes::default() };
        let (accessed, modified) = (SetTime::To(state.accessed), SetTime::To(state.modified));
        let file = |attributes| NewFile::Exclusive { verifier, attributes };
        let timed = file(SetAttributes { accessed, modified, ..plain });
        let made = self.store.create(owner, place, &timed).await;
        let made = match made.result {
            // The file system keeps the verifier in the times.
            Err(FsError::NotSupported) => self.store.create(owner, place, &file(plain)).await,
            Ok(_) | Err(_) => made,
        };
        made.result.map(|found| found.object)
    }

    /// Renames objects with a wrong name into the workshop, from where they can be renamed to any
    /// final name.
    async fn collect(
        &mut self,
        outcome: &Outcome,
        wanted: &BTreeMap<ObjectId, Vec<Spot>>,
    ) -> Result<(), Failure> {
        for id in wanted.keys() {
            let Some(spot) = self.places.get(id).cloned() else { continue };
            let belongs = outcome.names.get(&spot) == Some(&Some(*id));
            if !belongs && Some(spot.directory) != self.workshop {
                self.put_aside(&spot, id).await?;
            }
        }
        Ok(())
    }

    /// Renames objects that occupy the final name of another object into the workshop.
    async fn clear(
        &mut self,
        outcome: &Outcome,
        wanted: &BTreeMap<ObjectId, Vec<Spot>>,
    ) -> Result<(), Failure> {
        for spot in wanted.values().flatten() {
            let Some(present) = self.look(spot).await else { continue };
            if outcome.objects.contains_key(&present) {
                self.put_aside(spot, &present).await?;
            }
        }
        Ok(())
    }

    /// Renames an object into the workshop. If it already has a name there, removes the other name
    /// only.
    async fn put_aside(&mut self, present: &Spot, object: &ObjectId) -> Result<(), Failure> {
        let aside = spot(self.workshop().await?, &kept_name(object));
        // An interrupted replay may have given the object a second name in the workshop.
        let is_there = self.look(&aside).await == Some(*object);
        for _ in 0..2 {
            let (old, new) = (place(present), place(&aside));
            let done = if is_there {
                self.store.remove(&self.caller, old).await.result
            } else {
                self.store.rename(&self.caller, old, new).await.result
            };
            match done {
                Ok(()) => {
                    self.places.insert(*object, aside);
                    return Ok(());
                }
                Err(FsError::Access) if self.unlock(&present.directory).await => {}
                Err(error) => return self.judge(error),
            }
        }
        Ok(())
    }

    /// Sets all final names.
    async fn give(&mut self, wanted: &BTreeMap<ObjectId, Vec<Spot>>) -> Result<(), Failure> {
        for (id, spots) in wanted {
            for (index, spot) in spots.iter().enumerate() {
                let is_last = index + 1 == spots.len();
                match self.give_one(id, spot, is_last).await {
                    Ok(()) => self.report.names += 1,
                    Err(error) => {
                        self.kept.insert(*id);
                        if error == FsError::AlreadyExists {
                            self.report.taken += 1;
                        } else {
                            self.judge(error)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets a final name that is free: by a link, or by a rename for the last name of an object in
    /// the workshop.
    async fn give_one(&mut self, id: &ObjectId, spot: &Spot, is_last: bool) -> Result<(), FsError> {
        match self.look(spot).await {
            Some(present) if present == *id => return Ok(()),
            Some(_) => return Err(FsError::AlreadyExists),
            None => {}
        }
        let place_now = self.places.get(id);
        let waits = place_now.filter(|spot| Some(spot.directory) == self.workshop).cloned();
        let mut done = Ok(());
        for _ in 0..2 {
            done = match &waits {
                Some(from) if is_last => {
                    self.store.rename(&self.caller, place(from), place(spot)).await.result
                }
                Some(_) | None => self.store.link(&self.caller, id, place(spot)).await.result,
            };
            let locked = done == Err(FsError::Access);
            if !(locked && self.unlock(&spot.directory).await) {
                break;
            }
        }
        if done.is_ok() && is_last {
            self.places.insert(*id, spot.clone());
        }
        done
    }

    /// Removes all names that must not exist. Repeats the removal of directories until they are
    /// empty.
    async fn take_away(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        let gone = outcome.names.iter().filter(|(_, object)| object.is_none());
        let mut left: Vec<_> = gone.map(|(spot, _)| spot).collect();
        loop {
            let mut still_left = Vec::new();
            let before = left.len();
            for spot in left {
                let Ok(found) = self.lookup(spot).await else { continue };
                let id = found.object;
                if !outcome.objects.contains_key(&id) || self.kept.contains(&id) {
                    continue;
                }
                let place = place(spot);
                match self.remove_entry(place, found.attributes.file_type).await {
                    Ok(()) => self.report.names += 1,
                    Err(FsError::NotEmpty) => still_left.push(spot),
                    Err(FsError::Access) if self.unlock(&spot.directory).await => {
                        still_left.push(spot);
                    }
                    Err(error) => self.judge(error)?,
                }
            }
            if still_left.len() == before {
                // The remaining directories are not empty, because a local program has created
                // entries in them.
                self.report.taken += before as u64;
                return Ok(());
            }
            left = still_left;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes the bytes and sets the attributes of all objects.
    async fn fill(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        for (id, object) in &outcome.objects {
            if object.made.is_some() && !self.places.contains_key(id) {
                // The object was created and removed again, or could not be recreated.
                continue;
            }
            for (number, data) in &object.data {
                if *number >= object.synced {
                    self.put(id, *data).await?;
                }
            }
            if object.state_at >= object.synced {
                self.set(id, object).await?;
            }
        }
        Ok(())
    }

    /// Repeats a write or a truncation.
    async fn put(&mut self, id: &ObjectId, data: Data) -> Result<(), Failure> {
        let done = match data {
            Data::Written { offset, length, position } => {
                let mut bytes = vec![0; length as usize];
                self.media.read(position, &mut bytes)?;
                let (caller, bytes) = (&self.caller, Bytes::from(bytes));
                let present = self.store.read(caller, id, offset, length).await;
                if present.is_ok_and(|present| present.data == bytes) {
                    return Ok(());
                }
                let written =
                    self.store.write(caller, id, offset, bytes, Stability::Unstable).await;
                match written.result {
                    Ok(done) if done.count < length => Err(FsError::NoSpace),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Data::Size(size) => {
                let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
                self.store.setattr(&self.caller, id, &changes, None).await.result
            }
        };
        done.or_else(|error| self.judge(error))
    }

    /// Sets the attributes of an object that differ from the final attributes.
    async fn set(&mut self, id: &ObjectId, object: &Object) -> Result<(), Failure> {
        let Some(state) = object.state else { return Ok(()) };
        let is_exclusive = object.made.as_ref().is_some_and(|made| made.exclusive.is_some());
        if is_exclusive && !object.is_set {
            // Keep the attributes, which may contain the create verifier: a retry of the EXCLUSIVE
            // create needs the verifier.
            return Ok(());
        }
        let present = match self.store.getattr(id).await {
            Ok(present) => present,
            Err(error) => return self.judge(error),
        };
        self.unlocked.remove(id);
        let changes = difference(&present, &state);
        if changes == SetAttributes::default() {
            return Ok(());
        }
        let done = self.store.setattr(&self.caller, id, &changes, None).await.result;
        done.or_else(|error| self.judge(error))
    }

    /// Gives the owner of a directory all permissions for the directory, if its mode denies them.
    /// Returns true if the denied operation should be repeated.
    async fn unlock(&mut self, directory: &ObjectId) -> bool {
        const ALL: u32 = 0o700;
        let Ok(present) = self.store.getattr(directory).await else { return false };
        if present.mode.bits() & ALL == ALL {
            return false;
        }
        let mode = Some(Mode::from_bits(present.mode.bits() | ALL));
        let changes = SetAttributes { mode, ..SetAttributes::default() };
        let done = self.store.setattr(&self.caller, directory, &changes, None).await.result;
        self.unlocked.entry(*directory).or_insert(present.mode);
        done.is_ok()
    }

    /// Restores the modes of the directories that `unlock` changed.
    async fn lock_again(&mut self) -> Result<(), Failure> {
        for (directory, mode) in core::mem::take(&mut self.unlocked) {
            let changes = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
            let done = self.store.setattr(&self.caller, &directory, &changes, None).await;
            done.result.or_else(|error| self.judge(error))?;
        }
        Ok(())
    }

    /// Returns the workshop, and creates it if necessary.
    async fn workshop(&mut self) -> Result<ObjectId, FsError> {
        if let Some(workshop) = self.workshop {
            return Ok(workshop);
        }
        // Let all users create files in the directory, because files of an EXCLUSIVE create are
        // created as their owner. Do not let other users list the directory.
        let mode = SetAttributes { mode: Some(Mode::from_bits(0o733)), ..Default::default() };
        let place = Place { directory: self.store.root(), name: name(WORKSHOP) };
        let made = self.store.make(&self.caller, place, &NewNode::Directory, &mode).await;
        let workshop = made.result?.object;
        self.workshop = Some(workshop);
        Ok(workshop)
    }

    /// Removes the remaining objects of this log from the workshop, and then the workshop if it is
    /// empty.
    async fn close_workshop(&mut self, outcome: &Outcome) -> Result<(), Failure> {
        let Some(workshop) = self.workshop else { return Ok(()) };
        let names = |id: &ObjectId| [kept_name(id), new_name(id)].map(String::into_bytes);
        let ours: BTreeSet<_> = outcome.objects.keys().flat_map(names).collect();
        for text in self.names_in(&workshop).await? {
            if !ours.contains(&text) {
                continue;
            }
            let Ok(step) = Step::parse(&text) else { continue };
            let Ok(name) = step.child(FsError::Invalid) else { continue };
            let place = Place { directory: workshop, name };
            let found = self.store.lookup(&self.caller, &workshop, name).await?;
            if self.kept.contains(&found.object) {
                continue;
            }
            if let Err(error) = self.remove_entry(place, found.attributes.file_type).await {
                self.judge(error)?;
            }
        }
        let place = Place { directory: self.store.root(), name: name(WORKSHOP) };
        match self.store.rmdir(&self.caller, place).await.result {
            Ok(()) | Err(FsError::NotEmpty) => Ok(()),
            Err(error) => self.judge(error),
        }
    }

    async fn names_in(&self, directory: &ObjectId) -> Result<Vec<Vec<u8>>, FsError> {
        let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
        let (mut names, mut cookie) = (Vec::new(), Cookie(0));
        loop {
            let (caller, wanted) = (&self.caller, Wanted::Names);
            let page = self.store.readdir(caller, directory, cookie, budget, wanted).await?;
            for entry in page.entries.iter() {
                names.push(entry.name.to_vec());
                cookie = entry.cookie;
            }
            if page.end {
                return Ok(names);
            }
        }
    }

    async fn remove_entry(&self, place: Place<'_>, kind: FileType) -> Result<(), FsError> {
        if kind == FileType::Directory {
            self.store.rmdir(&self.caller, place).await.result
        } else {
            self.store.remove(&self.caller, place).await.result
        }
    }

    async fn lookup(&mut self, spot: &Spot) -> Result<leasehold_fs::Found, FsError> {
        let Place { directory, name } = place(spot);
        if self.lost.contains(&directory) {
            return Err(FsError::Stale);
        }
        let found = self.store.lookup(&self.caller, &directory, name).await;
        if found != Err(FsError::Access) || !self.unlock(&directory).await {
            return found;
        }
        self.store.lookup(&self.caller, &directory, name).await
    }

    async fn look(&mut self, spot: &Spot) -> Option<ObjectId> {
        self.lookup(spot).await.ok().map(|found| found.object)
    }

    /// Handles an error of one change. Lack of space and a failed disk stop the replay, because an
    /// answered change must not be skipped for these reasons. Other errors are counted.
    fn judge(&mut self, error: FsError) -> Result<(), Failure> {
        if matches!(
            error,
            FsError::Io | FsError::NoSpace | FsError::QuotaExceeded | FsError::ReadOnly
        ) {
            return Err(Failure::Disk(error));
        }
        // Do not count a stale object: it was removed by a later change, so this change is not
        // needed.
        self.report.failed += u64::from(error != FsError::Stale);
        Ok(())
    }
}

/// Returns the SETATTR that changes the current attributes to the final attributes.
fn difference(present: &Attributes, state: &State) -> SetAttributes {
    let time = |present, wanted| {
        if present == wanted { SetTime::Keep } else { SetTime::To(wanted) }
    };
    SetAttributes {
        mode: Some(state.mode).filter(|mode| *mode != present.mode),
        uid: Some(state.uid).filter(|uid| *uid != present.uid),
        gid: Some(state.gid).filter(|gid| *gid != present.gid),
        size: None,
        accessed: time(present.accessed, state.accessed),
        modified: time(present.modified, state.modified),
    }
}

fn spot(directory: ObjectId, text: &str) -> Spot {
    Spot { directory, name: text.as_bytes().to_vec() }
}

fn place(spot: &Spot) -> Place<'_> {
    Place { directory: spot.directory, name: parsed(&spot.name) }
}

fn name(text: &str) -> Name<'_> {
    parsed(text.as_bytes())
}

/// Parses a name that a store has accepted, or a name that the replay has made.
fn parsed(bytes: &[u8]) -> Name<'_> {
    let step = Step::parse(bytes).expect("it was a name");
    step.child(FsError::Invalid).expect("it was no dot")
}

/// Returns the name in the workshop for an object that is renamed there.
fn kept_name(object: &ObjectId) -> String {
    hexadecimal("kept", object)
}

/// Returns the name in the workshop for a recreated object.
fn new_name(object: &ObjectId) -> String {
    hexadecimal("new", object)
}

fn hexadecimal(kind: &str, object: &ObjectId) -> String {
    let mut text = format!("{kind}-");
    for byte in object.as_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
