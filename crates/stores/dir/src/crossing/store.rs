//! The operations of the store with the file systems below it: each runs on the store that contains
//! its id.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Allowance, Attributes, Budget, ByteRange, Caller, Capabilities, Changed, Committed,
    Content, Entries, Entry, ExtendedAttributes, Found, FsError, Guard, Held, LayoutPolicies,
    Linked, LocalGuard, MaybeReady, Name, NewFile, NewNode, ObjectId, OpenFiles, Page, Place,
    Properties, RangeCopy, Ranges, ReadDone, Renamed, Reservations, Seek, SetAttributes, SetXattr,
    Space, Stability, Store, Target, Wanted, WriteDone, XattrName, XattrPage,
};

use super::{Crossing, Side};
use crate::handle::{is_placeholder, tag_of};
use crate::store::Failure;

/// Runs an operation on the store that contains an id.
macro_rules! on {
    ($crossing:expr, $id:expr, |$store:ident| $operation:expr) => {
        match tag_of(&$id) {
            None => {
                let $store = &$crossing.shared.root;
                $operation
            }
            Some(_) => MaybeReady::later(async move {
                match $crossing.side(&$id).await {
                    Ok(side) => {
                        let $store = side.store();
                        $operation.await
                    }
                    Err(error) => Failure::failed(error),
                }
            }),
        }
    };
}

impl Crossing {
    /// Lists a part of a directory. The entries of mount points contain no object, so that a client
    /// looks them up; the entry `..` of a file system's root leads to the directory above the mount
    /// point.
    async fn list(
        &self,
        caller: &Caller,
        directory: &ObjectId,
        (cookie, budget, wanted): (Cookie, Budget, Wanted),
    ) -> Result<Page, FsError> {
        let side = self.side(directory).await?;
        let page = side.store().readdir(caller, directory, cookie, budget, wanted).await?;
        let above = match &side {
            Side::Below(child) if side.is_top(directory) => Self::above(child, caller).await.ok(),
            Side::Below(_) | Side::Root(_) => None,
        };
        let mut entries = Entries::default();
        for entry in page.entries.iter() {
            let entry = match above.filter(|_| entry.name == b"..") {
                Some(above) => Entry {
                    file_id: above.attributes.file_id,
                    attributes: entry.attributes.map(|_| above.attributes),
                    object: entry.object.map(|_| above.object),
                    ..entry
                },
                None if entry.object.as_ref().is_some_and(is_placeholder) => {
                    Entry { attributes: None, object: None, ..entry }
                }
                None => entry,
            };
            entries.push(&entry);
        }
        Ok(Page { entries, ..page })
    }
}

impl Store for Crossing {
    fn root(&self) -> ObjectId {
        self.shared.root.root()
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    fn properties(&self, object: &ObjectId) -> Properties {
        let side = self.side_at_hand(object);
        side.map_or_else(
            || self.shared.root.properties(object),
            |side| side.store().properties(object),
        )
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities {
            local_guard: Some(self),
            coherence: None,
            direct_layouts: None,
            layout_policies: Some(self),
            local_metadata: None,
            reservations: Some(self),
            open_files: Some(self),
            extended_attributes: Some(self),
            ranges: Some(self),
        }
    }

    fn path(&self, object: &ObjectId) -> Option<Vec<u8>> {
        let side = self.side_at_hand(object)?;
        let path = side.store().path(object)?;
        let front = side.path();
        Some(match (front.is_empty(), path.is_empty()) {
            (true, _) => path,
            (false, true) => front.to_vec(),
            (false, false) => [front, b"/", &path].concat(),
        })
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        on!(self, *object, |store| store.getattr(object))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        on!(self, *object, |store| store.setattr(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::later(async move {
            let side = self.side(directory).await?;
            let found = side.store().lookup(caller, directory, name).await?;
            self.crossed(&side, found).await
        })
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::later(async move {
            let side = self.side(directory).await?;
            match &side {
                Side::Below(child) if side.is_top(directory) => Self::above(child, caller).await,
                Side::Below(_) | Side::Root(_) => side.store().parent(caller, directory).await,
            }
        })
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        on!(self, *object, |store| store.access(caller, object, wanted))
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        on!(self, *object, |store| store.readlink(caller, object))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        on!(self, *object, |store| store.read(caller, object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        on!(self, *object, |store| store.write(caller, object, offset, data, stability))
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        on!(self, place.directory, |store| store.create(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        on!(self, place.directory, |store| store.make(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        on!(self, place.directory, |store| store.remove(caller, place))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        on!(self, place.directory, |store| store.rmdir(caller, place))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        if tag_of(&from.directory) != tag_of(&to.directory) {
            return MaybeReady::now(Failure::failed(FsError::CrossDevice));
        }
        on!(self, from.directory, |store| store.rename(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        if tag_of(object) != tag_of(&place.directory) {
            return MaybeReady::now(Failure::failed(FsError::CrossDevice));
        }
        on!(self, place.directory, |store| store.link(caller, object, place))
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        MaybeReady::later(self.list(caller, directory, (cookie, budget, wanted)))
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        on!(self, *object, |store| store.space(caller, object))
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        on!(self, *object, |store| store.commit(caller, object, offset, length))
    }
}

impl LocalGuard for Crossing {
    fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError> {
        let root = &self.shared.root;
        if tag_of(object).is_none() {
            return root.guard(object, guard);
        }
        // The thread that watches local programs does not cover this file system, so a guard would
        // not work: refuse it, so that no client caches.
        let is_kept = guard != Guard::Nothing && root.volume.guards.is_told();
        if is_kept { Err(FsError::Delay) } else { Ok(()) }
    }
}

impl LayoutPolicies for Crossing {
    fn layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>> {
        on!(self, *object, |store| store.layout_policy(object))
    }

    fn set_layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
        policy: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        on!(self, *object, |store| store.set_layout_policy(object, policy))
    }
}

impl Reservations for Crossing {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        on!(self, *object, |store| store.reservable_space(caller, object))
    }
}

impl OpenFiles for Crossing {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
        if tag_of(object).is_none() {
            return self.shared.root.hold(object);
        }
        MaybeReady::later(async move {
            let side = self.side(object).await?;
            let held = side.store().hold(object).await?;
            // The file system below stays open as long as a client holds one of its files.
            Ok(Held::until(move || drop((held, side))))
        })
    }
}

impl ExtendedAttributes for Crossing {
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        on!(self, *object, |store| store.xattr(caller, object, name))
    }

    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        on!(self, *object, |store| store.set_xattr(caller, object, name, value, how))
    }

    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        on!(self, *object, |store| store.list_xattrs(caller, object, cookie, allowance))
    }

    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        on!(self, *object, |store| store.remove_xattr(caller, object, name))
    }
}

impl Ranges for Crossing {
    fn seek<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        content: Content,
    ) -> MaybeReady<'a, Result<Seek, FsError>> {
        on!(self, *object, |store| store.seek(caller, object, offset, content))
    }

    fn allocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        on!(self, *object, |store| store.allocate(caller, object, range))
    }

    fn deallocate<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        range: ByteRange,
    ) -> MaybeReady<'a, Changed<()>> {
        on!(self, *object, |store| store.deallocate(caller, object, range))
    }

    fn clone_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<()>> {
        if tag_of(&copy.from) != tag_of(&copy.to) {
            return MaybeReady::now(Failure::failed(FsError::CrossDevice));
        }
        on!(self, copy.to, |store| store.clone_range(caller, copy))
    }

    fn copy_range<'a>(
        &'a self,
        caller: &'a Caller,
        copy: &'a RangeCopy,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        if tag_of(&copy.from) != tag_of(&copy.to) {
            return MaybeReady::now(Failure::failed(FsError::CrossDevice));
        }
        on!(self, copy.to, |store| store.copy_range(caller, copy))
    }
}
