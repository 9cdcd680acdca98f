//! The implementation of `Store` for the lease-enforcing store, which forwards to the functions of
//! this module.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, DirectLayouts,
    ExtendedAttributes, Found, FsError, Layout, Linked, MaybeReady, Name, NewFile, NewNode,
    ObjectId, OpenFiles, Page, Place, Purpose, Ranges, ReadDone, Renamed, SetAttributes, Stability,
    Store, Target, Wanted, WriteDone, forward_store,
};

use super::LeasedStore;

impl Store for LeasedStore {
    forward_store!(store: root identity path properties space);

    fn capabilities(&self) -> Capabilities<'_> {
        // The front ends use no other capability. This store itself calls the rest of the store below.
        let below = self.store.capabilities();
        Capabilities {
            local_guard: None,
            coherence: None,
            direct_layouts: below.direct_layouts.map(|_| self as &dyn DirectLayouts),
            layout_policies: None,
            local_metadata: None,
            reservations: None,
            open_files: below.open_files.map(|_| self as &dyn OpenFiles),
            extended_attributes: below.extended_attributes.map(|_| self as &dyn ExtendedAttributes),
            ranges: below.ranges.map(|_| self as &dyn Ranges),
        }
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        MaybeReady::later(self.get_attributes(object))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.set_attributes(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::later(self.look_up(caller, directory, Some(name)))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        MaybeReady::later(self.look_up(caller, directory, None))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        MaybeReady::later(self.look_at_access(caller, object, wanted))
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        MaybeReady::later(self.read_link(caller, object))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        MaybeReady::later(self.read_data(caller, object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        MaybeReady::later(self.write_data(caller, object, offset, data, stability))
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(self.create_file(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        MaybeReady::later(self.make_node(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.remove_name(caller, place))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        MaybeReady::later(self.remove_directory(caller, place))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        MaybeReady::later(self.rename_names(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        MaybeReady::later(self.link_name(caller, object, place))
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        MaybeReady::later(self.list(caller, directory, (cookie, budget), wanted))
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        match self.asked() {
            Some(_) => MaybeReady::later(self.commit_data(caller, object, offset, length)),
            None => self.store.commit(caller, object, offset, length),
        }
    }
}

impl DirectLayouts for LeasedStore {
    fn open_layout<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        purpose: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>> {
        MaybeReady::later(self.tell_layout(caller, object, purpose))
    }

    fn recall_layout<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>> {
        MaybeReady::later(self.end_layout(object))
    }
}
