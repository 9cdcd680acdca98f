//! Extended attributes.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileId};
use leasehold_fs::{
    Allowance, Caller, Changed, ExtendedAttributes, FsError, MaybeReady, ObjectId, SetXattr,
    XattrName, XattrPage,
};

use crate::MemStore;
use crate::node::Body;
use crate::tree::Tree;

/// The maximum size of the names and values of one object, in bytes: a few values of the largest
/// size.
const TOTAL_BYTES_MAX: usize = 256 << 10;

impl Tree {
    pub(crate) fn xattr(
        &self,
        caller: &Caller,
        object: &ObjectId,
        name: XattrName<'_>,
    ) -> Result<Bytes, FsError> {
        let id = self.resolve(object)?;
        self.may_read(caller, id)?;
        self.node(id).xattrs.get(name.as_bytes()).cloned().ok_or(FsError::NoAttribute)
    }

    pub(crate) fn list_xattrs(
        &self,
        caller: &Caller,
        object: &ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> Result<XattrPage, FsError> {
        let id = self.resolve(object)?;
        self.may_read(caller, id)?;
        XattrPage::of(self.node(id).xattrs.keys().cloned().collect(), cookie, allowance)
    }

    fn may_read(&self, caller: &Caller, id: FileId) -> Result<(), FsError> {
        if self.rights(caller, id).read { Ok(()) } else { Err(FsError::Access) }
    }

    fn may_set_xattrs(&self, caller: &Caller, id: FileId) -> Result<(), FsError> {
        match self.node(id).body {
            Body::Regular { .. } | Body::Directory(_) if self.rights(caller, id).write => Ok(()),
            Body::Regular { .. } | Body::Directory(_) => Err(FsError::Access),
            Body::Symlink(_) | Body::Special { .. } => Err(FsError::WrongType),
        }
    }

    pub(crate) fn set_xattr(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        name: XattrName<'_>,
        value: Bytes,
        how: SetXattr,
    ) -> Changed<()> {
        self.change(object, |tree, id| {
            tree.may_set_xattrs(caller, id)?;
            let stamp = tree.stamp();
            let xattrs = &mut tree.node_mut(id).xattrs;
            let present = xattrs.get(name.as_bytes());
            match how {
                SetXattr::Create if present.is_some() => return Err(FsError::AlreadyExists),
                SetXattr::Replace if present.is_none() => return Err(FsError::NoAttribute),
                SetXattr::Either | SetXattr::Create | SetXattr::Replace => {}
            }
            let others = xattrs.iter().filter(|(other, _)| **other != name.as_bytes());
            let used: usize = others.map(|(name, value)| name.len() + value.len()).sum();
            if used + name.as_bytes().len() + value.len() > TOTAL_BYTES_MAX {
                return Err(FsError::AttributeTooBig);
            }
            xattrs.insert(name.as_bytes().to_vec(), value);
            tree.touch(id, stamp, false);
            Ok(())
        })
    }

    pub(crate) fn remove_xattr(
        &mut self,
        caller: &Caller,
        object: &ObjectId,
        name: XattrName<'_>,
    ) -> Changed<()> {
        self.change(object, |tree, id| {
            tree.may_set_xattrs(caller, id)?;
            let removed = tree.node_mut(id).xattrs.remove(name.as_bytes());
            removed.ok_or(FsError::NoAttribute)?;
            let stamp = tree.stamp();
            tree.touch(id, stamp, false);
            Ok(())
        })
    }
}

impl ExtendedAttributes for MemStore {
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        MaybeReady::now(self.tree().xattr(caller, object, name))
    }

    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().set_xattr(caller, object, name, value, how))
    }

    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        MaybeReady::now(self.tree().list_xattrs(caller, object, cookie, allowance))
    }

    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::now(self.tree().remove_xattr(caller, object, name))
    }
}
