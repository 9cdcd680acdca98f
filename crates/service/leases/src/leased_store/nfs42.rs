//! The capabilities for NFS 4.1 and 4.2. A change passes through the operation guard of its object,
//! like a change of attributes.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_core::leases::table::Access as Turns;
use leasehold_fs::{
    self as fs, Allowance, ByteRange, Caller, Changed, Content, ExtendedAttributes, FsError,
    MaybeReady, ObjectId, OpenFiles, RangeCopy, Ranges, Seek, SetXattr, WriteDone, XattrName,
    XattrPage,
};
use leasehold_wire::lease::place;

use super::{Held, LeasedStore, Use};
use crate::room::{ROUNDS_MAX, Whose};
use crate::writing::Alone;

impl LeasedStore {
    /// Runs a change of one object under the guard and with the exclusive right to write it.
    pub(super) async fn change_object<'a, T: Send>(
        &'a self,
        id: &ObjectId,
        change: impl FnOnce() -> MaybeReady<'a, Changed<T>> + Send,
    ) -> Changed<T> {
        let mut held = match self.first(id, Turns::Write).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let _alone = match self.alone(&mut held).await {
            Ok(alone) => alone,
            Err(error) => return Changed::failed(error),
        };
        let changed = change().await;
        self.settle(&held, changed.result.is_ok(), changed.wcc.after).await;
        self.guard_again(&held);
        changed
    }
}

impl LeasedStore {
    async fn allocate_range(
        &self,
        caller: &Caller,
        id: &ObjectId,
        range: ByteRange,
    ) -> Changed<()> {
        let (mut held, _alone) = match self.with_room(caller, id, range.length).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = self.store.allocate(caller, id, range).await;
        self.end_change(&mut held, &changed).await;
        changed
    }

    /// Runs a copy under the guards of both files, with the exclusive right to write the target.
    /// Waits while the copy of `bytes` bytes would use space that is reserved for other clients.
    async fn copy_into<'a, T: Send>(
        &'a self,
        caller: &Caller,
        copy: &RangeCopy,
        bytes: u64,
        run: impl FnOnce() -> MaybeReady<'a, Changed<T>> + Send,
    ) -> Changed<T> {
        let (mut all, at, _alone) = match self.with_room_in(caller, copy, bytes).await {
            Ok(held) => held,
            Err(error) => return Changed::failed(error),
        };
        let changed = run().await;
        self.end_change(&mut all[at], &changed).await;
        changed
    }

    async fn end_change<T>(&self, held: &mut Held, changed: &Changed<T>) {
        if let Some(after) = &changed.wcc.after {
            held.turn.outcome.used = after.used.saturating_sub(held.attributes.used);
        }
        self.settle(held, changed.result.is_ok(), changed.wcc.after).await;
        self.guard_again(held);
    }

    /// Like `with_room`, for the target of a copy. Returns the guards of both files, and the index
    /// of the target.
    async fn with_room_in(
        &self,
        caller: &Caller,
        copy: &RangeCopy,
        bytes: u64,
    ) -> Result<(Vec<Held>, usize, Alone), FsError> {
        let source = Use { id: copy.from, access: Turns::Read, place: None };
        let target = Use { id: copy.to, access: Turns::Write, place: Some(place::FIRST) };
        let identity = self.store.identity(&copy.to);
        for _ in 0..ROUNDS_MAX {
            let mut all = self.hold_all(&[target, source]).await?;
            let is_target = |held: &Held| self.store.identity(&held.id) == identity;
            let at = all.iter().position(is_target).ok_or(FsError::ServerFault)?;
            let held = &mut all[at];
            let alone = self.alone(held).await?;
            let lacking = self.lacking(caller, held, bytes).await?;
            if lacking == 0 {
                return Ok((all, at, alone));
            }
            // As in `with_room`, this attempt must not leave a grant in the reply.
            held.turn.outcome.void = true;
            if let Some(asked) = self.asked() {
                asked.ungranted(place::FIRST);
            }
            let object = held.turn.object;
            drop((alone, all));
            if !self.leases.make_room(object, lacking, Whose::Anybodys).await {
                break;
            }
        }
        Err(FsError::Delay)
    }
}

impl OpenFiles for LeasedStore {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<fs::Held, FsError>> {
        self.store.hold(object)
    }
}

impl ExtendedAttributes for LeasedStore {
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        self.store.xattr(caller, object, name)
    }

    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        let set = move || self.store.set_xattr(caller, object, name, value, how);
        MaybeReady::later(self.change_object(object, set))
    }

    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        self.store.list_xattrs(caller, object, cookie, allowance)
    }

    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        let remove = move || self.store.remove_xattr(caller, object, name);
        MaybeReady::later(self.change_object(object, remove))
    }
}

impl Ranges for LeasedStore {
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        MaybeReady::later(async move {
            let _held = self.first(object, Turns::Read).await?;
            self.store.seek(caller, object, offset, content).await
        })
    }

    fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.allocate_range(caller, object, range))
    }

    fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        let deallocate = move || self.store.deallocate(caller, object, range);
        MaybeReady::later(self.change_object(object, deallocate))
    }

    fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        let clone = move || self.store.clone_range(caller, copy);
        MaybeReady::later(self.copy_into(caller, copy, 0, clone))
    }

    fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        let run = move || self.store.copy_range(caller, copy);
        MaybeReady::later(self.copy_into(caller, copy, copy.length, run))
    }
}
