//! The replay of a log into the file system.
//!
//! After a power cut the file system may have any subset of the changes since the last checkpoint.
//! The log contains the final state of each name, attribute and byte. So the replay does not repeat
//! the changes in order: it establishes the final state, and a repetition of the replay is
//! harmless.
//!
//! 1. Lost objects are recreated in a temporary directory (the workshop), and the log records each
//!    surrogate object before the next step, so an interrupted replay can continue.
//! 2. Objects at wrong places, and objects at the places of others, are moved there as well.
//! 3. Names are set, and then removed. The remains of the workshop are removed.
//! 4. Bytes are written and attributes are set, unless a COMMIT has made later ones stable.
//!
//! A name that leads to an object without a record in the log was set by a local program since, and
//! the replay leaves it alone. An object with a record may have any name: without a file-system
//! journal, an old name can lead to a new object that has the inode number of the old one.

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

/// The temporary directory of the replay, in the root.
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
    /// The number of names that a local program has since given to another object.
    pub taken: u64,
    /// The number of changes that failed for lack of permission or space.
    pub failed: u64,
    /// The number of frames that had been answered and are unreadable.
    pub damaged: u64,
}

/// The reason for which a replay stops.
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

/// A running replay.
pub(crate) struct Replay<'a> {
    pub(crate) store: &'a StandIns,
    pub(crate) media: &'a dyn Media,
    pub(crate) head: &'a mut Head,
    pub(crate) layout: &'a Layout,
    pub(crate) report: Replayed,
    caller: Caller,
    /// The workshop, if it exists. Most replays need none.
    workshop: Option<ObjectId>,
    /// One current place of each object in the log.
    places: BTreeMap<ObjectId, Spot>,
    /// Directories of the log that do not exist.
    lost: BTreeSet<ObjectId>,
    /// Objects that must keep their current name, because they cannot have the intended one.
    kept: BTreeSet<ObjectId>,
    /// The original modes of directories that were unlocked to gain access.
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

    /// Runs the replay, without the final sync.
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

    /// Finds the existing ones of the directories that the log creates. Lookups in missing
    /// directories are skipped later, because each may take a search of the whole export.
    async fn find_directories(&mut self, outcome: &Outcome) {
        let is_made = |object: &&Object| {
            object.made.as_ref().is_some_and(|made| made.kind == FileType::Directory)
        };
        let made = outcome.objects.iter().filter(|(_, object)| is_made(object));
        let made: Vec<_> = made.collect();
        self.lost.extend(made.iter().map(|(id, _)| **id));
        // A directory may be inside another one.
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

    /// Returns the names that do not lead to the intended object, by object.
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

    /// Recreates the objects that should have a name and that do not exist.
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
                // The object is older than the log. If it does not exist, another program removed
                // it.
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

    /// Looks for an object at all its earlier places.
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

    /// Creates an object in the workshop, and returns its id in the store below.
    async fn make(&mut self, made: &Made) -> Result<ObjectId, FsError> {
        let text = new_name(&made.object);
        let place = Place { directory: self.workshop().await?, name: name(&text) };
        // An interrupted replay may have left an object that was not recorded.
        if let Ok(found) = self.store.lookup(&self.caller, &place.directory, place.name).await {
            self.remove_entry(place, found.attributes.file_type).await?;
        }
        let State { mode, uid, gid, .. } = made.state;
        let plain = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
        let owner = Caller { uid, gid, ..Caller::nobody() };
        let node = match made.kind {
            FileType::Regular => {
                // A later change of attributes would destroy the verifier, so the owner creates the
                // file.
                let (caller, file) = match made.exclusive {
                    Some(verifier) => (&owner, NewFile::Exclusive(verifier)),
                    None => (&self.caller, NewFile::Guarded(plain)),
                };
                let made = self.store.create(caller, place, &file).await;
                return made.result.map(|found| found.object);
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

    /// Moves misplaced objects into the workshop, from where they can be renamed to any place.
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

    /// Moves objects that occupy intended names into the workshop.
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

    /// Moves an object into the workshop, unless it is there.
    async fn put_aside(&mut self, present: &Spot, object: &ObjectId) -> Result<(), Failure> {
        let aside = spot(self.workshop().await?, &kept_name(object));
        // The object may already have a second name in the workshop.
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

    /// Sets all intended names.
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

    /// Sets a free name. The last name of an object in the workshop is set by a rename.
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

    /// Removes all names that should not exist. Directories are removed once they are empty.
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
                // The remaining contents were created by another program.
                self.report.taken += before as u64;
                return Ok(());
            }
            left = still_left;
            if left.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes the bytes and sets the attributes.
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

    /// Sets the attributes that differ.
    async fn set(&mut self, id: &ObjectId, object: &Object) -> Result<(), Failure> {
        let Some(state) = object.state else { return Ok(()) };
        let is_exclusive = object.made.as_ref().is_some_and(|made| made.exclusive.is_some());
        if is_exclusive && !object.is_set {
            // The verifier may be stored in the attributes, and a retry of the creation needs it.
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

    /// Grants this user access to a directory that it owns, if the mode of the directory denies it.
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

    /// Restores the modes of the unlocked directories.
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
        // Other users must not list the directory, but owners create their exclusive files in it.
        let mode = SetAttributes { mode: Some(Mode::from_bits(0o733)), ..Default::default() };
        let place = Place { directory: self.store.root(), name: name(WORKSHOP) };
        let made = self.store.make(&self.caller, place, &NewNode::Directory, &mode).await;
        let workshop = made.result?.object;
        self.workshop = Some(workshop);
        Ok(workshop)
    }

    /// Removes the remaining objects of this log from the workshop, and the workshop if it is then
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

    /// Decides on an error. No answered change may be skipped for lack of space or because of a
    /// failed disk, so these errors stop the replay.
    fn judge(&mut self, error: FsError) -> Result<(), Failure> {
        if matches!(
            error,
            FsError::Io | FsError::NoSpace | FsError::QuotaExceeded | FsError::ReadOnly
        ) {
            return Err(Failure::Disk(error));
        }
        // A stale object was removed later, so the change is not needed.
        self.report.failed += u64::from(error != FsError::Stale);
        Ok(())
    }
}

/// Returns the changes that give an object the intended attributes.
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

/// Parses a name that a store has accepted, or one of the replay's own.
fn parsed(bytes: &[u8]) -> Name<'_> {
    let step = Step::parse(bytes).expect("it was a name");
    step.child(FsError::Invalid).expect("it was no dot")
}

/// Returns the name in the workshop of an object that is moved aside.
fn kept_name(object: &ObjectId) -> String {
    hexadecimal("kept", object)
}

/// Returns the name in the workshop of an object that is recreated.
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
