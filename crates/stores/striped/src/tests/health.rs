//! Tests with iods that answer but refuse changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use leasehold_fs::suite::block_on;
use leasehold_fs::{FsError, MaybeReady, SetAttributes, Stability, Store as _, Verifier};

use super::volume::{Volume, data, make, put, superuser, text};
use crate::{Extent, Iod, ObjectName, Room, Striped, Written};

/// The faults that a test can switch on at an iod.
#[derive(Default)]
struct Faults {
    /// If true, each change fails, as on a read-only file system.
    is_read_only: AtomicBool,
    /// If true, each WRITE to an object fails.
    has_bad_objects: AtomicBool,
}

/// An iod with faults.
struct Guarded {
    iod: Arc<dyn Iod>,
    faults: Arc<Faults>,
}

impl Guarded {
    fn change<'a, T: Send + 'a>(
        &self,
        work: MaybeReady<'a, Result<T, FsError>>,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        match self.faults.is_read_only.load(Ordering::Relaxed) {
            true => MaybeReady::now(Err(FsError::ReadOnly)),
            false => work,
        }
    }
}

impl Iod for Guarded {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.iod.extent(object)
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        self.iod.read(object, offset, count)
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        match self.faults.has_bad_objects.load(Ordering::Relaxed) {
            true => MaybeReady::now(Err(FsError::Io)),
            false => self.change(self.iod.write(object, offset, data, stability)),
        }
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.change(self.iod.resize(object, size))
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.commit(object)
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        self.change(self.iod.remove(object))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.iod.verifier()
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        self.iod.space()
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        self.change(self.iod.probe())
    }
}

fn start(volume: &mut Volume) -> (Striped, Arc<Faults>) {
    let faults = Arc::<Faults>::default();
    let store = volume.start_with(|number, iod| match number {
        1 => Arc::new(Guarded { iod, faults: Arc::clone(&faults) }),
        _ => iod,
    });
    (store, faults)
}

fn refusing(store: &Striped) -> Vec<(u16, FsError)> {
    store.refusing_iods().into_iter().collect()
}

/// If files have two copies, no client receives the error of the iod, so the metaserver must detect
/// and list the iod.
#[test]
fn an_iod_that_refuses_changes_is_listed_until_it_recovers() {
    let mut volume = Volume::new();
    volume.copies = 2;
    let (store, faults) = start(&mut volume);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    assert_eq!(refusing(&store), []);
    faults.is_read_only.store(true, Ordering::Relaxed);
    put(&store, &file, 0, &text(50), Stability::FileSync);
    assert_eq!(refusing(&store), [(1, FsError::ReadOnly)]);
    block_on(store.probe_iods());
    assert_eq!(refusing(&store), [(1, FsError::ReadOnly)]);
    faults.is_read_only.store(false, Ordering::Relaxed);
    block_on(store.probe_iods());
    assert_eq!(refusing(&store), []);
}

/// Even if no client writes for hours, a health check must detect the fault, so that the
/// administrator learns of it first.
#[test]
fn a_probe_detects_an_iod_that_refuses_changes() {
    for copies in [1, 2] {
        let mut volume = Volume::new();
        volume.copies = copies;
        let (store, faults) = start(&mut volume);
        let file = make(&store, "file");
        put(&store, &file, 0, &text(100), Stability::FileSync);
        faults.is_read_only.store(true, Ordering::Relaxed);
        block_on(store.probe_iods());
        assert_eq!(refusing(&store), [(1, FsError::ReadOnly)]);
        faults.is_read_only.store(false, Ordering::Relaxed);
        block_on(store.probe_iods());
        assert_eq!(refusing(&store), []);
        assert_eq!(data(&store, &file), text(100));
        assert!(block_on(store.getattr(&file)).is_ok());
        // The health check must not change the mark of an iod, so the next start succeeds.
        drop(store);
        assert_eq!(data(&volume.start(), &file), text(100));
    }
}

/// A change may fail for one object only, as after its removal by another metaserver. Then the
/// health check must not list the iod.
#[test]
fn an_error_of_one_object_has_the_iods_probed() {
    let mut volume = Volume::new();
    volume.copies = 2;
    let (store, faults) = start(&mut volume);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    assert!(!store.is_probe_due());
    faults.has_bad_objects.store(true, Ordering::Relaxed);
    put(&store, &file, 0, &text(50), Stability::FileSync);
    assert_eq!((refusing(&store), store.is_probe_due()), (vec![], true));
    block_on(store.probe_iods());
    assert_eq!((refusing(&store), store.is_probe_due()), (vec![], false));
}

/// An iod refuses a part of a truncation, so the truncation stays incomplete. GETATTR of the file
/// must succeed nevertheless: otherwise programs that call `stat` first could neither list nor
/// remove the file.
#[test]
fn a_file_has_attributes_while_an_iod_refuses_a_part_of_a_cut() {
    let mut volume = Volume::new();
    let (store, faults) = start(&mut volume);
    let file = make(&store, "file");
    put(&store, &file, 0, &text(100), Stability::FileSync);
    faults.is_read_only.store(true, Ordering::Relaxed);
    let size = SetAttributes { size: Some(10), ..SetAttributes::default() };
    let cut = block_on(store.setattr(&superuser(), &file, &size, None));
    assert_eq!(cut.result, Err(FsError::ReadOnly));
    let shown = |store: &Striped| block_on(store.getattr(&file)).map(|seen| seen.size);
    assert_eq!(shown(&store), Ok(10));
    // GETATTR also succeeds after a restart of the metaserver.
    drop(store);
    let (store, faults) = start(&mut volume);
    faults.is_read_only.store(true, Ordering::Relaxed);
    assert_eq!(shown(&store), Ok(10));
    assert!(block_on(store.read(&superuser(), &file, 0, 10)).is_err(), "no data amid a cut");
    faults.is_read_only.store(false, Ordering::Relaxed);
    assert_eq!(data(&store, &file), text(10));
    put(&store, &file, 20, &text(1), Stability::FileSync);
    assert_eq!(data(&store, &file)[10..20], [0; 10], "nothing is left behind the cut");
}
