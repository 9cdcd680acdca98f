//! The capabilities for NFS 4.1 and 4.2. A change passes through the operation guard of its object,
//! like a change of attributes.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_core::leases::table::Access as Turns;
use leasehold_fs::{
    Allowance, Caller, Changed, ExtendedAttributes, FsError, Held, MaybeReady, ObjectId, OpenFiles,
    SetXattr, XattrName, XattrPage,
};

use super::LeasedStore;

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

impl OpenFiles for LeasedStore {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
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
