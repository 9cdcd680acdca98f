//! The implementation of `Store`.

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Answer, Attributes, Budget, Caller, Changed, Committed, Found, FsError, Layout, Linked,
    Name, NewFile, NewNode, ObjectId, Page, Place, Properties, Purpose, ReadDone, Renamed,
    SetAttributes, Space, Stability, Store, Target, Wanted, WriteDone,
};

use super::LeasedStore;

impl Store for LeasedStore {
    fn root(&self) -> ObjectId {
        self.store.root()
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        self.store.identity(object)
    }

    fn path(&self, object: &ObjectId) -> Option<Vec<u8>> {
        self.store.path(object)
    }

    fn properties(&self) -> Properties {
        self.store.properties()
    }

    fn properties_of(&self, object: &ObjectId) -> Properties {
        self.store.properties_of(object)
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> Answer<'a, Result<Attributes, FsError>> {
        Answer::later(self.get_attributes(object))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> Answer<'a, Changed<()>> {
        Answer::later(self.set_attributes(caller, object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> Answer<'a, Result<Found, FsError>> {
        Answer::later(self.look_up(caller, directory, Some(name)))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> Answer<'a, Result<Found, FsError>> {
        Answer::later(self.look_up(caller, directory, None))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> Answer<'a, Result<(Access, Attributes), FsError>> {
        Answer::later(self.look_at_access(caller, object, wanted))
    }

    fn readlink<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<(Target, Attributes), FsError>> {
        Answer::later(self.read_link(caller, object))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> Answer<'a, Result<ReadDone, FsError>> {
        Answer::later(self.read_data(caller, object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Answer<'a, Changed<WriteDone>> {
        Answer::later(self.write_data(caller, object, offset, data, stability))
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> Answer<'a, Changed<Found>> {
        Answer::later(self.create_file(caller, place, file))
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> Answer<'a, Changed<Found>> {
        Answer::later(self.make_node(caller, place, node, attributes))
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> Answer<'a, Changed<()>> {
        Answer::later(self.remove_name(caller, place))
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> Answer<'a, Changed<()>> {
        Answer::later(self.remove_directory(caller, place))
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> Answer<'a, Renamed> {
        Answer::later(self.rename_names(caller, from, to))
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> Answer<'a, Linked> {
        Answer::later(self.link_name(caller, object, place))
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> Answer<'a, Result<Page, FsError>> {
        Answer::later(self.list(caller, directory, (cookie, budget), wanted))
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> Answer<'a, Result<(Space, Attributes), FsError>> {
        self.store.space(caller, object)
    }

    fn commit<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        length: u32,
    ) -> Answer<'a, Changed<Committed>> {
        match self.asked() {
            Some(_) => Answer::later(self.commit_data(caller, object, offset, length)),
            None => self.store.commit(caller, object, offset, length),
        }
    }

    fn open_layout<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        purpose: Purpose,
    ) -> Answer<'a, Result<Option<Layout>, FsError>> {
        Answer::later(self.tell_layout(caller, object, purpose))
    }

    fn recall<'a>(&'a self, object: &'a ObjectId) -> Answer<'a, Result<(), FsError>> {
        Answer::later(self.end_layout(object))
    }
}
