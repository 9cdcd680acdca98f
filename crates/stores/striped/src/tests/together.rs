//! Several at one file: iods that take their time, and turns in every order.

use core::pin::Pin;
use std::sync::{Arc, Mutex};

use super::volume::{Volume, data, make, superuser};
use crate::{Extent, Iod, ObjectName, Written};
use bytes::Bytes;
use futures_util::future::join_all;
use leasehold_base::random::Random;
use leasehold_fs::suite::block_on;
use leasehold_fs::{
    Answer, FsError, SetAttributes, Space, Stability, Store, Verifier, others_first,
};

/// An iod that lets others have some turns before it does anything, and before it answers.
struct Slow {
    iod: Arc<dyn Iod>,
    random: Mutex<Random>,
}

impl Slow {
    async fn turns(&self) {
        let turns = self.random.lock().expect("nobody panics").below(4);
        for _ in 0..turns {
            others_first().await;
        }
    }

    fn slowly<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce(&'a dyn Iod) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        Answer::later(async move {
            self.turns().await;
            let answer = work(&*self.iod).await;
            self.turns().await;
            answer
        })
    }
}

impl Iod for Slow {
    fn extent(&self, object: ObjectName) -> Answer<'_, Result<Extent, FsError>> {
        self.slowly(move |iod| iod.extent(object))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> Answer<'_, Result<Bytes, FsError>> {
        self.slowly(move |iod| iod.read(object, offset, count))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'_, Result<Written, FsError>> {
        self.slowly(move |iod| iod.write(object, offset, data, stability))
    }

    fn resize(&self, object: ObjectName, size: u64) -> Answer<'_, Result<Extent, FsError>> {
        self.slowly(move |iod| iod.resize(object, size))
    }

    fn commit(&self, object: ObjectName) -> Answer<'_, Result<Verifier, FsError>> {
        self.slowly(move |iod| iod.commit(object))
    }

    fn remove(&self, object: ObjectName) -> Answer<'_, Result<(), FsError>> {
        self.slowly(move |iod| iod.remove(object))
    }

    fn verifier(&self) -> Answer<'_, Result<Verifier, FsError>> {
        self.slowly(|iod| iod.verifier())
    }

    fn space(&self) -> Answer<'_, Result<Space, FsError>> {
        self.slowly(|iod| iod.space())
    }
}

/// A volume whose iods answer in an order that the seed decides.
fn slow_volume(seed: u64) -> (Volume, crate::Striped) {
    let mut volume = Volume::new();
    let store = volume.start_with(|number, iod| {
        let random = Mutex::new(Random::from_seed(seed * 8 + u64::from(number)));
        Arc::new(Slow { iod, random })
    });
    (volume, store)
}

type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[test]
fn what_several_write_is_all_there() {
    for seed in 0..300 {
        let (volume, store) = slow_volume(seed);
        let file = make(&store, "file");
        // From within the metafile to the iods, from all sides.
        let writers = (0..8_u8).map(|writer| -> Work<'_> {
            let (store, file) = (&store, &file);
            Box::pin(async move {
                let caller = superuser();
                for part in 0..3 {
                    let offset = u64::from(writer) * 15 + part * 5;
                    let bytes = Bytes::from(vec![writer + 1; 5]);
                    let how = Stability::FileSync;
                    let done = store.write(&caller, file, offset, bytes, how).await;
                    assert_eq!(done.result.expect("there is room").count, 5);
                }
            })
        });
        block_on(join_all(writers));
        let whole: Vec<u8> = (1..=8).flat_map(|writer| [writer; 15]).collect();
        assert_eq!(data(&store, &file), whole, "seed {seed}");
        drop(volume);
    }
}

/// A reader sees a file before or after a cut, and nothing between.
#[test]
fn nobody_sees_half_a_cut() {
    for seed in 0..300 {
        let (volume, store) = slow_volume(seed);
        let file = make(&store, "file");
        let written = block_on(store.write(
            &superuser(),
            &file,
            0,
            Bytes::from(vec![7; 100]),
            Stability::FileSync,
        ));
        written.result.expect("there is room");
        let cut = async {
            let size = SetAttributes { size: Some(30), ..SetAttributes::default() };
            let done = store.setattr(&superuser(), &file, &size, None).await;
            done.result.expect("the superuser may");
        };
        let look = async {
            for _ in 0..4 {
                let caller = superuser();
                let read = store.read(&caller, &file, 0, 200).await.expect("it is there");
                assert!([30, 100].contains(&read.data.len()), "seed {seed}: {}", read.data.len());
                assert!(read.data.iter().all(|&byte| byte == 7), "seed {seed}");
            }
        };
        let both: [Work<'_>; 2] = [Box::pin(cut), Box::pin(look)];
        block_on(join_all(both));
        drop(volume);
    }
}
