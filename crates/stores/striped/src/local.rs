//! The trait `Files` for a store in this process.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Attributes, Budget, Caller, FsError, Mode, Name, NewFile, NewNode, ObjectId, Place,
    SUPERUSER, SetAttributes, Stability, Step, Store, Verifier, Wanted,
};

use crate::files::Files;
use crate::iod::{Extent, Room};

/// The files of a store, accessed as the superuser.
pub struct Local {
    store: Arc<dyn Store>,
    caller: Caller,
}

impl Local {
    /// Opens the files of a store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, caller: Caller { uid: SUPERUSER, gid: 0, ..Caller::nobody() } }
    }

    /// Returns the extent from the attributes in a reply, or queries the store if the reply has
    /// none.
    async fn told(&self, file: &ObjectId, told: Option<Attributes>) -> Result<Extent, FsError> {
        Ok(Extent::of(&match told {
            Some(attributes) => attributes,
            None => self.store.getattr(file).await?,
        }))
    }
}

impl Files for Local {
    type Object = ObjectId;

    fn root(&self) -> ObjectId {
        self.store.root()
    }

    async fn names(&self, directory: ObjectId) -> Result<Vec<Vec<u8>>, FsError> {
        let budget = Budget { reply: Allowance::UNLIMITED, names: Allowance::UNLIMITED };
        let (caller, wanted) = (&self.caller, Wanted::Names);
        let mut names = Vec::new();
        let mut cookie = Cookie(0);
        loop {
            let page = self.store.readdir(caller, &directory, cookie, budget, wanted).await?;
            for entry in page.entries.iter() {
                cookie = entry.cookie;
                if !is_of_directories(entry.name) {
                    names.push(entry.name.to_vec());
                }
            }
            if page.end || page.entries.iter().next().is_none() {
                return Ok(names);
            }
        }
    }

    async fn lookup(&self, directory: ObjectId, name: &str) -> Result<Option<ObjectId>, FsError> {
        match self.store.lookup(&self.caller, &directory, plain(name)).await {
            Ok(found) => Ok(Some(found.object)),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn make_directory(&self, directory: ObjectId, name: &str) -> Result<ObjectId, FsError> {
        let place = Place { directory, name: plain(name) };
        let made = self.store.make(&self.caller, place, &NewNode::Directory, &mode(0o700)).await;
        match made.result {
            Ok(found) => Ok(found.object),
            Err(FsError::AlreadyExists) => {
                self.lookup(directory, name).await?.ok_or(FsError::NotFound)
            }
            Err(error) => Err(error),
        }
    }

    async fn make_file(&self, directory: ObjectId, name: &str) -> Result<ObjectId, FsError> {
        let place = Place { directory, name: plain(name) };
        let how = NewFile::Unchecked(mode(0o600));
        Ok(self.store.create(&self.caller, place, &how).await.result?.object)
    }

    async fn remove(&self, directory: ObjectId, name: &str) -> Result<(), FsError> {
        let place = Place { directory, name: plain(name) };
        self.store.remove(&self.caller, place).await.result
    }

    async fn extent(&self, file: ObjectId) -> Result<Extent, FsError> {
        self.told(&file, None).await
    }

    async fn resize(&self, file: ObjectId, size: u64) -> Result<Extent, FsError> {
        let changes = SetAttributes { size: Some(size), ..SetAttributes::default() };
        let done = self.store.setattr(&self.caller, &file, &changes, None).await;
        done.result?;
        self.told(&file, done.wcc.after).await
    }

    async fn read(
        &self,
        file: ObjectId,
        offset: u64,
        count: u32,
    ) -> Result<(Bytes, bool), FsError> {
        let done = self.store.read(&self.caller, &file, offset, count).await?;
        Ok((done.data, done.end))
    }

    async fn write(
        &self,
        file: ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<(usize, Verifier, Option<Extent>), FsError> {
        let done = self.store.write(&self.caller, &file, offset, data, stability).await;
        let written = done.result?;
        let extent = done.wcc.after.as_ref().map(Extent::of);
        Ok((written.count as usize, written.verifier, extent))
    }

    async fn commit(&self, file: ObjectId) -> Result<Verifier, FsError> {
        Ok(self.store.commit(&self.caller, &file, 0, 0).await.result?.verifier)
    }

    async fn space(&self) -> Result<Room, FsError> {
        let (space, root) = self.store.space(&self.caller, &self.store.root()).await?;
        Ok(Room { space, place: (0, root.file_system) })
    }
}

/// Returns true if every directory contains this name.
pub(crate) fn is_of_directories(name: &[u8]) -> bool {
    [&b"."[..], b".."].contains(&name)
}

fn mode(bits: u32) -> SetAttributes {
    SetAttributes { mode: Some(Mode::from_bits(bits)), ..SetAttributes::default() }
}

fn plain(name: &str) -> Name<'_> {
    match Step::parse(name.as_bytes()) {
        Ok(Step::Child(name)) => name,
        Ok(Step::This | Step::Parent) | Err(_) => unreachable!("it is a name of ours"),
    }
}
