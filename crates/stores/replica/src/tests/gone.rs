//! Tests in which a metaserver removes a file while another metaserver reads or writes the objects
//! of the file.

use core::time::Duration;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use bytes::Bytes;
use futures_util::future::join;
use leasehold_fs::{
    FsError, MaybeReady, NewFile, ObjectId, Place, SetAttributes, Stability, Store,
};
use leasehold_store_striped::{Around, Iod, Striped};

use super::data::{Iods, new_file};
use super::lan::{Lan, name, who};
use crate::Order;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that runs once, before the next call to any iod is executed.
type Before = Arc<Mutex<Option<Work>>>;

/// An iod that runs this work before its next call.
struct Hooked {
    iod: Arc<dyn Iod>,
    before: Before,
}

impl Around for Hooked {
    fn around<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'i> FnOnce(&'i dyn Iod) -> MaybeReady<'i, Result<T, FsError>> + Send + 'a,
    ) -> MaybeReady<'a, Result<T, FsError>> {
        MaybeReady::later(async move {
            let before = self.before.lock().expect("nobody panics").take();
            if let Some(before) = before {
                before.await;
            }
            call(&*self.iod).await
        })
    }
}

/// Two metaservers in lazy mode. A test can let the second metaserver do some work before an iod
/// executes a call of the first metaserver.
struct World {
    lan: Lan,
    iods: Iods,
    one: Arc<Striped>,
    two: Arc<Striped>,
    before: Before,
}

const DATA: &[u8] = b"longer than a few stripes are";

impl World {
    fn new() -> Self {
        let (lan, iods) = (Lan::with(2, Order::Constant, new_file), Iods::new());
        let before = Before::default();
        let hooked = |iod| Arc::new(Hooked { iod, before: Arc::clone(&before) }) as Arc<dyn Iod>;
        let (one, two) = (iods.open_with(&lan, 0, hooked), iods.open(&lan, 1));
        Self { lan, iods, one, two, before }
    }

    /// Creates a file with data at a metaserver, and reads it so that the first metaserver has the
    /// file in its cache.
    fn file(&self, at: &Striped, text: &str) -> ObjectId {
        let how = NewFile::Guarded(SetAttributes::default());
        let place = Place { directory: at.root(), name: name(text) };
        let made = self.lan.run(at.create(&who(), place, &how)).result;
        let file = made.expect("the name is free").object;
        let data = Bytes::from_static(DATA);
        let written = self.lan.run(at.write(&who(), &file, 0, data, Stability::FileSync));
        written.result.expect("the iods have room");
        self.lan.pass(core::time::Duration::from_secs(10));
        let found = self.lan.run(self.one.lookup(&who(), &self.one.root(), name(text)));
        assert_eq!(found.expect("the file is there").attributes.size, DATA.len() as u64);
        file
    }

    /// Makes the second metaserver remove a name before the next call to an iod.
    fn remove_before(&self, text: &'static str) {
        let two = Arc::clone(&self.two);
        *self.before.lock().expect("nobody panics") = Some(Box::pin(async move {
            let place = Place { directory: two.root(), name: name(text) };
            two.remove(&who(), place).await.result.expect("the name is there");
        }));
    }

    /// Makes the second metaserver rename a file over another file before the next call to an iod.
    fn replace_before(&self, from: &'static str, to: &'static str) {
        let two = Arc::clone(&self.two);
        *self.before.lock().expect("nobody panics") = Some(Box::pin(async move {
            let directory = two.root();
            let from = Place { directory, name: name(from) };
            let to = Place { directory, name: name(to) };
            two.rename(&who(), from, to).await.result.expect("the name is there");
        }));
    }

    /// Empties the caches of the first metaserver, so that its next operation on a file calls the
    /// iods.
    fn forget(&mut self) {
        let hooked =
            |iod| Arc::new(Hooked { iod, before: Arc::clone(&self.before) }) as Arc<dyn Iod>;
        self.one = self.iods.open_with(&self.lan, 0, hooked);
    }

    fn is_removed(&self) -> bool {
        self.before.lock().expect("nobody panics").is_none()
    }
}

#[test]
fn a_read_of_a_file_that_another_metaserver_removes_is_stale_and_never_zeros() {
    for knows in [true, false] {
        let mut world = World::new();
        let file = world.file(&Arc::clone(&world.two), "file");
        if !knows {
            world.forget();
        }
        world.remove_before("file");
        let read = world.lan.run(world.one.read(&who(), &file, 0, 100));
        assert!(world.is_removed());
        assert_eq!(read.map(|read| read.data), Err(FsError::Stale), "knows {knows}");
        world.forget();
        world.remove_before("nothing");
        let attributes = world.lan.run(world.one.getattr(&file));
        assert_eq!(attributes.map(|it| it.size), Err(FsError::Stale), "knows {knows}");
    }
}

#[test]
fn attributes_of_a_file_that_another_metaserver_removes_are_stale() {
    let mut world = World::new();
    let file = world.file(&Arc::clone(&world.two), "file");
    world.forget();
    world.remove_before("file");
    let attributes = world.lan.run(world.one.getattr(&file));
    assert!(world.is_removed());
    assert_eq!(attributes.map(|it| it.size), Err(FsError::Stale));
}

/// The first metaserver has cached handles of the objects, which become stale when the second
/// metaserver removes the file. The change must fail with a stale status and leave no object.
#[test]
fn changes_of_a_file_that_another_metaserver_removes_are_stale_and_leave_no_object() {
    type Change = fn(&World, ObjectId) -> Result<(), FsError>;
    let changes: [Change; 3] = [
        |world, file| {
            let (data, how) =
                (Bytes::from_static(b"other data, which is new"), Stability::Unstable);
            world.lan.run(world.one.write(&who(), &file, 0, data, how)).result.map(drop)
        },
        |world, file| {
            let size = SetAttributes { size: Some(3), ..SetAttributes::default() };
            world.lan.run(world.one.setattr(&who(), &file, &size, None)).result
        },
        |world, file| world.lan.run(world.one.commit(&who(), &file, 0, 0)).result.map(drop),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for at_home in [true, false] {
            for knows in [true, false] {
                let mut world = World::new();
                let home = if at_home { Arc::clone(&world.one) } else { Arc::clone(&world.two) };
                let file = world.file(&home, "file");
                let data = world.lan.run(world.one.read(&who(), &file, 0, 100));
                assert_eq!(data.expect("the file is there").data, DATA);
                let with_file = world.iods.objects();
                if !knows {
                    world.forget();
                }
                world.remove_before("file");
                let changed = change(&world, file);
                let case = format!("change {number}, at home {at_home}, knows {knows}");
                assert!(world.is_removed(), "{case}");
                assert_eq!(changed, Err(FsError::Stale), "{case}");
                assert_eq!(world.iods.objects(), with_file - 3, "{case}");
            }
        }
    }
}

#[test]
fn a_lookup_finds_the_next_file_of_a_name_or_none() {
    let mut world = World::new();
    world.file(&Arc::clone(&world.two), "file");
    let other = world.file(&Arc::clone(&world.two), "other");
    world.forget();
    world.replace_before("other", "file");
    let root = world.one.root();
    let found = world.lan.run(world.one.lookup(&who(), &root, name("file")));
    assert!(world.is_removed());
    assert_eq!(found.map(|it| (it.object, it.attributes.size)), Ok((other, DATA.len() as u64)));
    world.forget();
    world.remove_before("file");
    let found = world.lan.run(world.one.lookup(&who(), &root, name("file")));
    assert_eq!(found.map(|it| it.object), Err(FsError::NotFound));
}

#[test]
fn a_create_that_may_find_a_file_makes_one_where_the_file_is_gone() {
    let mut world = World::new();
    let file = world.file(&Arc::clone(&world.two), "file");
    world.forget();
    world.remove_before("file");
    let place = Place { directory: world.one.root(), name: name("file") };
    let how = NewFile::Unchecked(SetAttributes::default());
    let made = world.lan.run(world.one.create(&who(), place, &how)).result;
    let made = made.expect("the name is free");
    assert!(world.is_removed());
    assert!(made.object != file && made.attributes.size == 0);
}

/// Yields to all other tasks once.
async fn give_way() {
    let mut has_waited = false;
    core::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if core::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Another client removes a file after the file is on stable storage and before the CREATE of the
/// file is answered. The CREATE must report success, because after an error its client would create
/// a second file.
#[test]
fn a_create_has_made_a_file_that_is_gone_before_the_answer() {
    let lan = Lan::strict(2, |_, _| Bytes::from_static(b"head"));
    let store = lan.at(0);
    lan.slow(0, Duration::from_millis(50));
    let (root, who) = (store.root(), who());
    let place = Place { directory: root, name: name("file") };
    let remove = async {
        while store.lookup(&who, &root, place.name).await.is_err() {
            give_way().await;
        }
        // Make the disk fast, so that the removal completes before the CREATE is answered.
        lan.quick(0);
        store.remove(&who, place).await.result
    };
    let file = NewFile::Guarded(SetAttributes::default());
    let (removed, made) = lan.run(join(remove, store.create(&who, place, &file)));
    assert_eq!((removed, made.result.map(drop)), (Ok(()), Ok(())));
}
