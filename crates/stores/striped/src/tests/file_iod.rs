//! Tests with a server that assigns new handles to the files of an iod.

use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use bytes::Bytes;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, ObjectId, Stability, Verifier};
use leasehold_store_mem::MemStore;

use super::volume::mark;
use crate::iod::{Extent, Iod as _, ObjectName, Room};
use crate::{FileIod, Files, Local, Mark, MarkError};

/// Files whose handles become stale at each renewal, except the handle of the root.
#[derive(Clone)]
struct Renewed {
    files: Arc<Local>,
    times: Arc<AtomicU32>,
    /// The mark that another metaserver writes while this metaserver reads the names in the
    /// directory.
    marked: Option<&'static str>,
}

type Handle = (ObjectId, Option<u32>);

impl Renewed {
    fn new(marked: Option<&'static str>) -> Self {
        let files = Arc::new(Local::new(Arc::new(MemStore::default())));
        Self { files, times: Arc::default(), marked }
    }

    fn object(&self, (object, times): Handle) -> Result<ObjectId, FsError> {
        let is_good = times.is_none_or(|times| times == self.times.load(Ordering::Relaxed));
        if is_good { Ok(object) } else { Err(FsError::Stale) }
    }

    fn handle(&self, object: ObjectId) -> Handle {
        (object, Some(self.times.load(Ordering::Relaxed)))
    }
}

impl Files for Renewed {
    type Object = Handle;

    fn root(&self) -> Handle {
        (self.files.root(), None)
    }

    async fn names(&self, directory: Handle) -> Result<Vec<Vec<u8>>, FsError> {
        if let Some(text) = self.marked {
            self.files.put_note("leasehold-iod", text).await?;
        }
        self.files.names(self.object(directory)?).await
    }

    async fn lookup(&self, directory: Handle, name: &str) -> Result<Option<Handle>, FsError> {
        let found = self.files.lookup(self.object(directory)?, name).await?;
        Ok(found.map(|object| self.handle(object)))
    }

    async fn make_directory(&self, directory: Handle, name: &str) -> Result<Handle, FsError> {
        Ok(self.handle(self.files.make_directory(self.object(directory)?, name).await?))
    }

    async fn make_file(&self, directory: Handle, name: &str) -> Result<Handle, FsError> {
        Ok(self.handle(self.files.make_file(self.object(directory)?, name).await?))
    }

    async fn remove(&self, directory: Handle, name: &str) -> Result<(), FsError> {
        self.files.remove(self.object(directory)?, name).await
    }

    async fn extent(&self, file: Handle) -> Result<Extent, FsError> {
        self.files.extent(self.object(file)?).await
    }

    async fn resize(&self, file: Handle, size: u64) -> Result<Extent, FsError> {
        self.files.resize(self.object(file)?, size).await
    }

    async fn read(&self, file: Handle, offset: u64, count: u32) -> Result<(Bytes, bool), FsError> {
        self.files.read(self.object(file)?, offset, count).await
    }

    async fn write(
        &self,
        file: Handle,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<(usize, Verifier, Option<Extent>), FsError> {
        self.files.write(self.object(file)?, offset, data, stability).await
    }

    async fn commit(&self, file: Handle) -> Result<Verifier, FsError> {
        self.files.commit(self.object(file)?).await
    }

    async fn space(&self) -> Result<Room, FsError> {
        self.files.space().await
    }
}

const NAME: ObjectName = ObjectName([7; 16]);

fn put(iod: &FileIod<Renewed>, text: &'static str) -> Result<Extent, FsError> {
    let data = Bytes::from_static(text.as_bytes());
    block_on(iod.write(NAME, 0, data, Stability::FileSync)).map(|written| written.extent)
}

/// The iod looks up files and directories again if their handles are stale. If an object was
/// removed in the meantime, it returns an error and does not create a new file for the object.
#[test]
fn stale_handles_are_looked_up_again() {
    let files = Renewed::new(None);
    let iod = block_on(FileIod::open(files.clone(), &mark(0))).expect("it has room");
    let renew = || files.times.fetch_add(1, Ordering::Relaxed);
    let other = ObjectName([7, 8, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
    put(&iod, "text").expect("it has room");
    renew();
    assert_eq!(block_on(iod.extent(NAME)).map(|extent| extent.size), Ok(4));
    renew();
    assert_eq!(block_on(iod.read(NAME, 0, 100)), Ok(Bytes::from_static(b"text")));
    renew();
    assert_eq!(put(&iod, "longer").map(|extent| extent.size), Ok(6));
    renew();
    assert!(block_on(iod.commit(NAME)).is_ok());
    renew();
    assert_eq!(block_on(iod.resize(NAME, 3)).map(|extent| extent.size), Ok(3));
    renew();
    assert_eq!(block_on(iod.read(other, 0, 100)), Ok(Bytes::new()), "it never was");
    // Another metaserver removes the object, of which this metaserver has a stale handle.
    let second = block_on(FileIod::open(files.clone(), &mark(0))).expect("it has room");
    block_on(second.remove(NAME)).expect("it is there");
    renew();
    assert_eq!(put(&iod, "text"), Err(FsError::Io));
    put(&iod, "new").expect("it has room");
    renew();
    assert_eq!(block_on(iod.remove(NAME)), Ok(()));
    assert_eq!(block_on(iod.extent(NAME)), Ok(Extent::default()));
    // The handle of the mark is stale, and the iod does not look the mark up again. So the call
    // fails.
    assert_eq!(block_on(iod.verifier()), Err(FsError::Io));
}

/// Two metaservers look for the mark at the same time. The other metaserver creates the mark while
/// this metaserver reads the names in the directory.
#[test]
fn a_mark_that_another_metaserver_creates_is_found() {
    let text = "volume 0000000000000007\niod 3\nend\n";
    let found = block_on(Mark::of(&Renewed::new(Some(text)))).expect("it is whole");
    assert_eq!(found.map(|mark| (mark.volume, mark.number)), Some((7, 3)));
    let files = Renewed::new(None);
    assert_eq!(block_on(Mark::of(&files)), Ok(None));
    block_on(files.put_note("of somebody else", "text")).expect("it has room");
    assert_eq!(block_on(Mark::of(&files)), Err(MarkError::NotEmpty));
}
