//! An iod in this process: objects are files of a store of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Answer, Attributes, Budget, Caller, FsError, Mode, Name, NewFile, NewNode, ObjectId,
    Place, SUPERUSER, SetAttributes, Space, Stability, Step, Store, Verifier, Wanted,
};

use crate::iod::{Extent, Iod, ObjectName, Written};

/// How many places of objects are kept in mind.
const KNOWN_MAX: usize = 65_536;

/// Objects lie in directories by the first byte of their names.
const FOLDER_DIGITS: usize = 2;

/// The file that says what the rest is part of.
const MARK: &str = "leasehold-iod";

/// A longer mark is none.
const MARK_BYTES_MAX: u32 = 256;

/// An iod over a store.
pub struct LocalIod {
    store: Arc<dyn Store>,
    caller: Caller,
    mark: ObjectId,
    known: Mutex<Known>,
}

/// What an iod is part of; kept with its objects, so that no other is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The volume.
    pub volume: u64,
    /// Its number there, from zero.
    pub number: u16,
}

/// Why an iod cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkError {
    /// The store failed.
    Store(FsError),
    /// The root has names in it, and no mark.
    NotEmpty,
    /// The mark cannot be read.
    Damaged,
}

#[derive(Default)]
struct Known {
    folders: BTreeMap<u8, ObjectId>,
    objects: BTreeMap<ObjectName, ObjectId>,
}

impl LocalIod {
    /// The mark of the iod whose objects lie below the root of a store; none where that is empty.
    ///
    /// # Errors
    /// As [`MarkError`] says.
    pub async fn mark(store: &dyn Store) -> Result<Option<Mark>, MarkError> {
        let caller = caller();
        let root = store.root();
        match store.lookup(&caller, &root, plain(MARK)).await {
            Ok(found) => {
                let read = store.read(&caller, &found.object, 0, MARK_BYTES_MAX).await;
                let text = read.map_err(MarkError::Store)?.data;
                Mark::parse(&text).ok_or(MarkError::Damaged).map(Some)
            }
            Err(FsError::NotFound) => {
                let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
                let page = store.readdir(&caller, &root, Cookie(0), budget, Wanted::Names).await;
                let page = page.map_err(MarkError::Store)?;
                // A new file system may have a place for what is found.
                let ours = |name: &[u8]| [&b"."[..], b"..", b"lost+found"].contains(&name);
                let empty = page.end && page.entries.iter().all(|entry| ours(entry.name));
                if empty { Ok(None) } else { Err(MarkError::NotEmpty) }
            }
            Err(error) => Err(MarkError::Store(error)),
        }
    }

    /// The iod whose objects lie below the root of a store, which is its alone, with that mark.
    ///
    /// # Errors
    /// The store's.
    pub async fn open(store: Arc<dyn Store>, mark: Mark) -> Result<Self, FsError> {
        let caller = caller();
        let mode = SetAttributes { mode: Some(Mode::from_bits(0o600)), ..Default::default() };
        let place = Self::place(store.root(), MARK);
        let made = store.create(&caller, place, &NewFile::Unchecked(mode)).await.result?;
        let text = mark.text().into_bytes().into();
        store.write(&caller, &made.object, 0, text, Stability::FileSync).await.result?;
        Ok(Self { store, caller, mark: made.object, known: Mutex::default() })
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn place<'a>(directory: ObjectId, name: &'a str) -> Place<'a> {
        Place { directory, name: plain(name) }
    }

    async fn look(&self, directory: ObjectId, name: &str) -> Result<Option<ObjectId>, FsError> {
        match self.store.lookup(&self.caller, &directory, plain(name)).await {
            Ok(found) => Ok(Some(found.object)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The directory of an object, made where that is wanted.
    async fn folder(&self, name: ObjectName, make: bool) -> Result<Option<ObjectId>, FsError> {
        let number = name.0[0];
        if let Some(folder) = self.known(|known| known.folders.get(&number).copied()) {
            return Ok(Some(folder));
        }
        let text = name.text();
        let text = &text[..FOLDER_DIGITS];
        let root = self.store.root();
        let mut found = self.look(root, text).await?;
        if found.is_none() && make {
            let mode = SetAttributes { mode: Some(Mode::from_bits(0o700)), ..Default::default() };
            let place = Self::place(root, text);
            let made = self.store.make(&self.caller, place, &NewNode::Directory, &mode).await;
            found = match made.result {
                Ok(made) => Some(made.object),
                Err(FsError::AlreadyExists) => self.look(root, text).await?,
                Err(error) => return Err(error),
            };
        }
        if let Some(folder) = found {
            self.known(|known| known.folders.insert(number, folder));
        }
        Ok(found)
    }

    /// The file of an object; none where it was never written.
    async fn find(&self, name: ObjectName) -> Result<Option<ObjectId>, FsError> {
        if let Some(object) = self.known(|known| known.objects.get(&name).copied()) {
            return Ok(Some(object));
        }
        let Some(folder) = self.folder(name, false).await? else { return Ok(None) };
        let found = self.look(folder, &name.text()).await?;
        Ok(found.inspect(|object| self.keep(name, *object)))
    }

    /// The file of an object, made if need be.
    async fn find_or_make(&self, name: ObjectName) -> Result<ObjectId, FsError> {
        if let Some(object) = self.find(name).await? {
            return Ok(object);
        }
        let folder = self.folder(name, true).await?.ok_or(FsError::ServerFault)?;
        let mode = SetAttributes { mode: Some(Mode::from_bits(0o600)), ..Default::default() };
        let text = name.text();
        let place = Self::place(folder, &text);
        let made = self.store.create(&self.caller, place, &NewFile::Unchecked(mode)).await;
        let object = made.result?.object;
        self.keep(name, object);
        Ok(object)
    }

    fn keep(&self, name: ObjectName, object: ObjectId) {
        self.known(|known| {
            if known.objects.len() >= KNOWN_MAX {
                known.objects.clear();
            }
            known.objects.insert(name, object);
        });
    }

    /// What the store told of an object, or tells now.
    async fn extent_of(
        &self,
        object: &ObjectId,
        told: Option<Attributes>,
    ) -> Result<Extent, FsError> {
        let Attributes { size, used, .. } = match told {
            Some(attributes) => attributes,
            None => self.store.getattr(object).await?,
        };
        Ok(Extent { size, used })
    }

    async fn write_all(
        &self,
        name: ObjectName,
        offset: u64,
        mut data: Bytes,
        stability: Stability,
    ) -> Result<Written, FsError> {
        let object = self.find_or_make(name).await?;
        let mut offset = offset;
        loop {
            let rest = data.clone();
            let done = self.store.write(&self.caller, &object, offset, rest, stability).await;
            let result = done.result?;
            let count = (result.count as usize).min(data.len());
            if count == data.len() {
                let extent = self.extent_of(&object, done.wcc.after).await?;
                return Ok(Written { extent, verifier: result.verifier });
            }
            if count == 0 {
                return Err(FsError::Io);
            }
            offset += count as u64;
            data = data.slice(count..);
        }
    }
}

impl Mark {
    fn text(self) -> String {
        format!("volume {:016x}\niod {}\n", self.volume, self.number)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = core::str::from_utf8(text).ok()?.lines();
        let volume = u64::from_str_radix(lines.next()?.strip_prefix("volume ")?, 16).ok()?;
        let number = lines.next()?.strip_prefix("iod ")?.parse().ok()?;
        Some(Self { volume, number })
    }
}

fn caller() -> Caller {
    Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() }
}

fn plain(name: &str) -> Name<'_> {
    match Step::parse(name.as_bytes()) {
        Ok(Step::Child(name)) => name,
        Ok(Step::This | Step::Parent) | Err(_) => unreachable!("it is a name of ours"),
    }
}

impl Iod for LocalIod {
    fn extent(&self, object: ObjectName) -> Answer<'_, Result<Extent, FsError>> {
        Answer::later(async move {
            match self.find(object).await? {
                Some(object) => self.extent_of(&object, None).await,
                None => Ok(Extent::default()),
            }
        })
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> Answer<'_, Result<Bytes, FsError>> {
        Answer::later(async move {
            match self.find(object).await? {
                Some(object) => {
                    let done = self.store.read(&self.caller, &object, offset, count).await?;
                    Ok(done.data)
                }
                None => Ok(Bytes::new()),
            }
        })
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'_, Result<Written, FsError>> {
        Answer::later(self.write_all(object, offset, data, stability))
    }

    fn resize(&self, object: ObjectName, size: u64) -> Answer<'_, Result<Extent, FsError>> {
        Answer::later(async move {
            let found = match self.find(object).await? {
                None if size == 0 => return Ok(Extent::default()),
                None => self.find_or_make(object).await?,
                Some(object) => object,
            };
            let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
            let done = self.store.setattr(&self.caller, &found, &changes, None).await;
            done.result?;
            self.extent_of(&found, done.wcc.after).await
        })
    }

    fn commit(&self, object: ObjectName) -> Answer<'_, Result<Verifier, FsError>> {
        Answer::later(async move {
            let object = self.find(object).await?.unwrap_or(self.mark);
            Ok(self.store.commit(&self.caller, &object, 0, 0).await.result?.verifier)
        })
    }

    fn remove(&self, object: ObjectName) -> Answer<'_, Result<(), FsError>> {
        Answer::later(async move {
            self.known(|known| known.objects.remove(&object));
            let Some(folder) = self.folder(object, false).await? else { return Ok(()) };
            let text = object.text();
            match self.store.remove(&self.caller, Self::place(folder, &text)).await.result {
                Ok(()) | Err(FsError::NotFound) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        Answer::later(async move {
            Ok(self.store.commit(&self.caller, &self.mark, 0, 0).await.result?.verifier)
        })
    }

    fn space(&self) -> Answer<'_, Result<Space, FsError>> {
        Answer::later(async move {
            let (space, _) = self.store.space(&self.caller, &self.store.root()).await?;
            Ok(space)
        })
    }
}
