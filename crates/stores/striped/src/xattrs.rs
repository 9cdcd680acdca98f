//! Extended attributes, which the store of names keeps with the metafile.

use bytes::Bytes;
use leasehold_base::units::Cookie;
use leasehold_fs::{
    Allowance, Caller, Changed, ExclusiveAccess, ExtendedAttributes, FileType, FsError, MaybeReady,
    ObjectId, SetXattr, XattrName, XattrPage,
};

use crate::Striped;
use crate::file::Data;

impl Striped {
    /// Changes an extended attribute of an object, like a change of other attributes: without
    /// concurrent access by other metaservers, and after the end of a layout for writing.
    async fn change_xattr<'a>(
        &'a self,
        object: &ObjectId,
        change: impl FnOnce() -> MaybeReady<'a, Changed<()>> + Send,
    ) -> Changed<()> {
        let attributes = match self.names.getattr(object).await {
            Ok(attributes) => attributes,
            Err(error) => return Changed::failed(error),
        };
        if attributes.file_type != FileType::Regular {
            return change().await;
        }
        let _alone = if attributes.size > 0 {
            match self.alone_without_layout(object).await {
                Ok(alone) => alone,
                Err(error) => return Changed::failed(error),
            }
        } else {
            ExclusiveAccess::default()
        };
        let file = self.file(object);
        let done = {
            let data = file.read().await;
            let _times = match &*data {
                Data::OnIods(objects) => Some(objects.times.read().await),
                Data::Nowhere | Data::Inline(_) | Data::Unknown | Data::Gone => None,
            };
            self.upkeep.forget(&self.names.identity(object));
            change().await
        };
        self.true_change(object, done).await
    }

    async fn alone_without_layout(&self, object: &ObjectId) -> Result<ExclusiveAccess, FsError> {
        let alone = self.keep_alone(object).await?;
        self.end_known_layout(object).await?;
        Ok(alone)
    }
}

impl ExtendedAttributes for Striped {
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        self.names.xattr(caller, object, name)
    }

    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            let set = || self.names.set_xattr(caller, object, name, value, how);
            let done = self.change_xattr(object, set).await;
            self.changed_unless_gone(object, done).await
        })
    }

    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        self.names.list_xattrs(caller, object, cookie, allowance)
    }

    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(async move {
            let remove = || self.names.remove_xattr(caller, object, name);
            let done = self.change_xattr(object, remove).await;
            self.changed_unless_gone(object, done).await
        })
    }
}
