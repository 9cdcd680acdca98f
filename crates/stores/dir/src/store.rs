//! The operations of the store: each finds the open object of an id and runs on it.

use std::sync::Arc;

use bytes::Bytes;
use leasehold_base::units::{Cookie, FileTime};
use leasehold_fs::{
    Access, Attributes, Budget, Caller, Capabilities, Changed, Committed, Found, FsError, Guard,
    Held, LayoutPolicies, Linked, LocalGuard, MaybeReady, Name, NewFile, NewNode, ObjectId,
    OpenFiles, Page, Place, Properties, ReadDone, Renamed, Reservations, SetAttributes, Space,
    Stability, Store, Target, Wanted, Wcc, WriteDone,
};

use crate::DirStore;
use crate::names::Spot;
use crate::object::Object;
use crate::placeholder::Placeholder;
use crate::volume::Missing;

/// A result type that can express the failure to find the operation's object.
pub(crate) trait Failure {
    fn failed(error: FsError) -> Self;
}

impl<T> Failure for Result<T, FsError> {
    fn failed(error: FsError) -> Self {
        Err(error)
    }
}

impl<T> Failure for Changed<T> {
    fn failed(error: FsError) -> Self {
        Self::failed(error)
    }
}

impl Failure for Renamed {
    fn failed(error: FsError) -> Self {
        Self { result: Err(error), from: Wcc::default(), to: Wcc::default() }
    }
}

impl Failure for Linked {
    fn failed(error: FsError) -> Self {
        Self { result: Err(error), attributes: None, directory: Wcc::default() }
    }
}

impl DirStore {
    /// Runs an operation on an object: immediately if the object can be opened now, otherwise after
    /// a search. An operation on a placeholder fails.
    pub(crate) fn on<'a, T: Failure + Send + 'a>(
        &'a self,
        id: ObjectId,
        operation: impl FnOnce(Arc<Object>) -> MaybeReady<'a, T> + Send + 'a,
    ) -> MaybeReady<'a, T> {
        self.on_each(id, operation, |_| T::failed(FsError::ReadOnly))
    }

    /// Like `on`, for an operation that does not apply to directories.
    fn on_file<'a, T: Failure + Send + 'a>(
        &'a self,
        id: ObjectId,
        operation: impl FnOnce(Arc<Object>) -> MaybeReady<'a, T> + Send + 'a,
    ) -> MaybeReady<'a, T> {
        self.on_each(id, operation, |_| T::failed(FsError::IsDirectory))
    }

    /// Like `on`, for an operation that placeholders support too.
    pub(crate) fn on_each<'a, T: Failure + Send + 'a>(
        &'a self,
        id: ObjectId,
        operation: impl FnOnce(Arc<Object>) -> MaybeReady<'a, T> + Send + 'a,
        made_up: impl FnOnce(Placeholder) -> T + Send + 'a,
    ) -> MaybeReady<'a, T> {
        match self.volume.handles.placed(&id) {
            None => self.on_object(id, operation),
            Some((directory, listed)) => self.on_object(directory, move |directory| {
                let found = self.volume.placeholder(&id, directory, listed);
                MaybeReady::now(found.map_or_else(T::failed, made_up))
            }),
        }
    }

    fn on_object<'a, T: Failure + Send + 'a>(
        &'a self,
        id: ObjectId,
        operation: impl FnOnce(Arc<Object>) -> MaybeReady<'a, T> + Send + 'a,
    ) -> MaybeReady<'a, T> {
        match self.volume.object(&id) {
            Ok(object) => operation(object),
            Err(Missing::Failed(error)) => MaybeReady::now(T::failed(error)),
            Err(Missing::Busy | Missing::Lost) => MaybeReady::later(async move {
                match self.volume.find(id).await {
                    Ok(object) => operation(object).await,
                    Err(error) => T::failed(error),
                }
            }),
        }
    }
}

impl Store for DirStore {
    fn root(&self) -> ObjectId {
        self.volume.root.id
    }

    fn identity(&self, object: &ObjectId) -> ObjectId {
        *object
    }

    fn properties(&self, _object: &ObjectId) -> Properties {
        self.volume.properties
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
        let Some((directory, listed)) = self.volume.handles.placed(object) else {
            return self.volume.path(object);
        };
        let directory = self.volume.object(&directory).ok()?;
        self.volume.placeholder(object, directory, listed).ok()?.path(&self.volume)
    }

    fn getattr<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Attributes, FsError>> {
        let getattr = |object| MaybeReady::now(self.volume.getattr(&object));
        self.on_each(*object, getattr, |made_up| Ok(made_up.attributes))
    }

    fn setattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        changes: &'a SetAttributes,
        guard: Option<FileTime>,
    ) -> MaybeReady<'a, Changed<()>> {
        self.on(*object, move |object| self.volume.setattr(caller, &object, changes, guard))
    }

    fn lookup<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        name: Name<'a>,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        let lookup = move |directory| {
            let spot = Spot { directory: &directory, name };
            MaybeReady::now(self.volume.lookup(caller, spot))
        };
        self.on_each(*directory, lookup, |_| Err(FsError::NotFound))
    }

    fn parent<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Found, FsError>> {
        let parent = move |directory| MaybeReady::now(self.volume.parent(caller, &directory));
        self.on_each(*directory, parent, |made_up| made_up.parent(&self.volume))
    }

    fn access<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<(Access, Attributes), FsError>> {
        let access =
            move |object: Arc<Object>| MaybeReady::now(self.volume.access(caller, &object, wanted));
        self.on_each(*object, access, move |made_up| Ok(made_up.access(wanted)))
    }

    fn readlink<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Target, Attributes), FsError>> {
        let readlink = |object: Arc<Object>| MaybeReady::now(self.volume.readlink(&object));
        self.on_each(*object, readlink, |_| Err(FsError::Invalid))
    }

    fn read<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        count: u32,
    ) -> MaybeReady<'a, Result<ReadDone, FsError>> {
        self.on_file(*object, move |object| self.volume.read(caller, &object, offset, count))
    }

    fn write<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> MaybeReady<'a, Changed<WriteDone>> {
        self.on_file(*object, move |object| {
            self.volume.write(caller, &object, offset, &data, stability)
        })
    }

    fn create<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        file: &'a NewFile,
    ) -> MaybeReady<'a, Changed<Found>> {
        self.on(place.directory, move |directory| {
            let spot = Spot { directory: &directory, name: place.name };
            self.volume.create(caller, spot, file)
        })
    }

    fn make<'a>(
        &'a self,
        caller: &'a Caller,
        place: Place<'a>,
        node: &'a NewNode<'a>,
        attributes: &'a SetAttributes,
    ) -> MaybeReady<'a, Changed<Found>> {
        self.on(place.directory, move |directory| {
            let spot = Spot { directory: &directory, name: place.name };
            self.volume.make(caller, spot, node, attributes)
        })
    }

    fn remove<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        self.on(place.directory, move |directory| {
            let spot = Spot { directory: &directory, name: place.name };
            self.volume.remove(caller, spot)
        })
    }

    fn rmdir<'a>(&'a self, caller: &'a Caller, place: Place<'a>) -> MaybeReady<'a, Changed<()>> {
        self.on(place.directory, move |directory| {
            let spot = Spot { directory: &directory, name: place.name };
            self.volume.rmdir(caller, spot)
        })
    }

    fn rename<'a>(
        &'a self,
        caller: &'a Caller,
        from: Place<'a>,
        to: Place<'a>,
    ) -> MaybeReady<'a, Renamed> {
        self.on(from.directory, move |source| {
            self.on(to.directory, move |target| {
                let from = Spot { directory: &source, name: from.name };
                let to = Spot { directory: &target, name: to.name };
                self.volume.rename(caller, from, to)
            })
        })
    }

    fn link<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        place: Place<'a>,
    ) -> MaybeReady<'a, Linked> {
        self.on(*object, move |object| {
            self.on(place.directory, move |directory| {
                let spot = Spot { directory: &directory, name: place.name };
                self.volume.link(caller, &object, spot)
            })
        })
    }

    fn readdir<'a>(
        &'a self,
        caller: &'a Caller,
        directory: &'a ObjectId,
        cookie: Cookie,
        budget: Budget,
        wanted: Wanted,
    ) -> MaybeReady<'a, Result<Page, FsError>> {
        let readdir = move |directory| {
            MaybeReady::now(self.volume.readdir(caller, &directory, cookie, budget, wanted))
        };
        self.on_each(*directory, readdir, move |made_up| {
            made_up.readdir(&self.volume, cookie, budget, wanted)
        })
    }

    fn space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Space, Attributes), FsError>> {
        let space = move |object: Arc<Object>| MaybeReady::now(self.volume.space(caller, &object));
        self.on_each(*object, space, move |made_up| {
            let (space, _) = self.volume.space(caller, &made_up.directory)?;
            Ok((space, made_up.attributes))
        })
    }

    fn commit<'a>(
        &'a self,
        _caller: &'a Caller,
        object: &'a ObjectId,
        _offset: u64,
        _length: u32,
    ) -> MaybeReady<'a, Changed<Committed>> {
        self.on_file(*object, |object| self.volume.commit(&object))
    }
}

impl LocalGuard for DirStore {
    fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError> {
        // A placeholder must not be cached, because the kernel does not notify the store when the
        // mount ends. So refuse the guard.
        if self.volume.handles.placed(object).is_some() {
            return if guard == Guard::Nothing { Ok(()) } else { Err(FsError::Delay) };
        }
        // If finding the object needs a search, the object gets no guard.
        match self.volume.object(object) {
            Ok(object) => self.volume.guard(&object, guard),
            Err(_) if guard == Guard::Nothing => {
                // The object may be removed, and its guard would keep it open: release the guard by
                // the id.
                self.volume.guard_no_more(object);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }
}

impl LayoutPolicies for DirStore {
    fn layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>> {
        let layout = |object: Arc<Object>| MaybeReady::now(self.volume.layout(&object));
        self.on_each(*object, layout, |_| Ok(None))
    }

    fn set_layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
        policy: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        self.on(*object, move |object| MaybeReady::now(self.volume.set_layout(&object, &policy)))
    }
}

impl Reservations for DirStore {
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        let room = move |object: Arc<Object>| MaybeReady::now(self.volume.room(caller, &object));
        self.on_each(*object, room, move |made_up| self.volume.room(caller, &made_up.directory))
    }
}

impl OpenFiles for DirStore {
    fn hold<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<Held, FsError>> {
        let hold = |object| MaybeReady::now(self.volume.hold(&object));
        self.on_each(*object, hold, |_| Err(FsError::WrongType))
    }
}
