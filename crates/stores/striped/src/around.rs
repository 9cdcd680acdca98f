//! Wrappers of an iod that do the same work around each call.

use bytes::Bytes;
use leasehold_fs::{FsError, MaybeReady, NotedTurns, Owner, Spot, Stability, Verifier};
use leasehold_session::Traffic;

use crate::{Extent, Iod, ObjectName, Room, Written};

/// A wrapper of another iod. Each type that implements this trait is an [`Iod`].
pub trait Around: Send + Sync {
    /// Makes one call of the wrapped iod, with the work of the wrapper before and after the call.
    ///
    /// # Errors
    /// The errors of the call, and errors of the wrapper itself.
    fn around<'a, T: Send + 'a>(
        &'a self,
        call: impl for<'i> FnOnce(&'i dyn Iod) -> MaybeReady<'i, Result<T, FsError>> + Send + 'a,
    ) -> MaybeReady<'a, Result<T, FsError>>;

    /// See [`Iod::is_away`].
    fn seems_away(&self) -> bool {
        false
    }

    /// See [`Iod::traffic`].
    fn traffic_so_far(&self) -> Traffic {
        Traffic::default()
    }

    /// See [`Iod::connections`].
    fn connections_so_far(&self) -> u64 {
        0
    }

    /// See [`Iod::find_again`].
    fn is_stale(&self) {}
}

impl<A: Around> Iod for A {
    fn extent(&self, object: ObjectName) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.around(move |iod| iod.extent(object))
    }

    fn read(
        &self,
        object: ObjectName,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'_, Result<Bytes, FsError>> {
        self.around(move |iod| iod.read(object, offset, count))
    }

    fn write(
        &self,
        object: ObjectName,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'_, Result<Written, FsError>> {
        self.around(move |iod| iod.write(object, offset, data, stability))
    }

    fn probe(&self) -> MaybeReady<'_, Result<(), FsError>> {
        self.around(move |iod| iod.probe())
    }

    fn resize(&self, object: ObjectName, size: u64) -> MaybeReady<'_, Result<Extent, FsError>> {
        self.around(move |iod| iod.resize(object, size))
    }

    fn commit(&self, object: ObjectName) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.around(move |iod| iod.commit(object))
    }

    fn remove(&self, object: ObjectName) -> MaybeReady<'_, Result<(), FsError>> {
        self.around(move |iod| iod.remove(object))
    }

    fn give(
        &self,
        object: ObjectName,
        owner: Owner,
    ) -> MaybeReady<'_, Result<Option<Spot>, FsError>> {
        self.around(move |iod| iod.give(object, owner))
    }

    fn list(&self, first: u8) -> MaybeReady<'_, Result<Vec<ObjectName>, FsError>> {
        self.around(move |iod| iod.list(first))
    }

    fn verifier(&self) -> MaybeReady<'_, Result<Verifier, FsError>> {
        self.around(|iod| iod.verifier())
    }

    fn space(&self) -> MaybeReady<'_, Result<Room, FsError>> {
        self.around(|iod| iod.space())
    }

    fn is_away(&self) -> bool {
        self.seems_away()
    }

    fn traffic(&self) -> Traffic {
        self.traffic_so_far()
    }

    fn connections(&self) -> u64 {
        self.connections_so_far()
    }

    fn find_again(&self) {
        self.is_stale();
    }

    fn turns(&self) -> MaybeReady<'_, Result<NotedTurns, FsError>> {
        self.around(|iod| iod.turns())
    }

    fn note_turn(&self, turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        self.around(move |iod| iod.note_turn(turn))
    }

    fn let_clients_in(&self, turn: u64) -> MaybeReady<'_, Result<(), FsError>> {
        self.around(move |iod| iod.let_clients_in(turn))
    }
}
