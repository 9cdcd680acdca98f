//! The macro that defines the operations which a wrapper of a store forwards unchanged.

/// Defines operations of [`Store`](crate::Store) that call the same operation of a store below:
/// `forward_store!(below: root identity path);` inside the `impl Store` of a wrapper with a field
/// `below`.
#[macro_export]
macro_rules! forward_store {
    ($below:ident: $($operation:ident)*) => {
        $($crate::forward_store!(@$operation $below);)*
    };
    (@root $below:ident) => {
        fn root(&self) -> $crate::ObjectId {
            self.$below.root()
        }
    };
    (@identity $below:ident) => {
        fn identity(&self, object: &$crate::ObjectId) -> $crate::ObjectId {
            self.$below.identity(object)
        }
    };
    (@path $below:ident) => {
        fn path(&self, object: &$crate::ObjectId) -> Option<Vec<u8>> {
            self.$below.path(object)
        }
    };
    (@properties $below:ident) => {
        fn properties(&self, object: &$crate::ObjectId) -> $crate::Properties {
            self.$below.properties(object)
        }
    };
    (@getattr $below:ident) => {
        fn getattr<'a>(
            &'a self,
            object: &'a $crate::ObjectId,
        ) -> $crate::MaybeReady<'a, Result<$crate::Attributes, $crate::FsError>> {
            self.$below.getattr(object)
        }
    };
    (@setattr $below:ident) => {
        fn setattr<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            changes: &'a $crate::SetAttributes,
            guard: Option<$crate::FileTime>,
        ) -> $crate::MaybeReady<'a, $crate::Changed<()>> {
            self.$below.setattr(caller, object, changes, guard)
        }
    };
    (@lookup $below:ident) => {
        fn lookup<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            directory: &'a $crate::ObjectId,
            name: $crate::Name<'a>,
        ) -> $crate::MaybeReady<'a, Result<$crate::Found, $crate::FsError>> {
            self.$below.lookup(caller, directory, name)
        }
    };
    (@parent $below:ident) => {
        fn parent<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            directory: &'a $crate::ObjectId,
        ) -> $crate::MaybeReady<'a, Result<$crate::Found, $crate::FsError>> {
            self.$below.parent(caller, directory)
        }
    };
    (@access $below:ident) => {
        fn access<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            wanted: $crate::Access,
        ) -> $crate::MaybeReady<'a, Result<($crate::Access, $crate::Attributes), $crate::FsError>> {
            self.$below.access(caller, object, wanted)
        }
    };
    (@readlink $below:ident) => {
        fn readlink<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
        ) -> $crate::MaybeReady<'a, Result<($crate::Target, $crate::Attributes), $crate::FsError>> {
            self.$below.readlink(caller, object)
        }
    };
    (@read $below:ident) => {
        fn read<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            offset: u64,
            count: u32,
        ) -> $crate::MaybeReady<'a, Result<$crate::ReadDone, $crate::FsError>> {
            self.$below.read(caller, object, offset, count)
        }
    };
    (@write $below:ident) => {
        fn write<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            offset: u64,
            data: $crate::Bytes,
            stability: $crate::Stability,
        ) -> $crate::MaybeReady<'a, $crate::Changed<$crate::WriteDone>> {
            self.$below.write(caller, object, offset, data, stability)
        }
    };
    (@create $below:ident) => {
        fn create<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            place: $crate::Place<'a>,
            file: &'a $crate::NewFile,
        ) -> $crate::MaybeReady<'a, $crate::Changed<$crate::Found>> {
            self.$below.create(caller, place, file)
        }
    };
    (@make $below:ident) => {
        fn make<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            place: $crate::Place<'a>,
            node: &'a $crate::NewNode<'a>,
            attributes: &'a $crate::SetAttributes,
        ) -> $crate::MaybeReady<'a, $crate::Changed<$crate::Found>> {
            self.$below.make(caller, place, node, attributes)
        }
    };
    (@remove $below:ident) => {
        fn remove<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            place: $crate::Place<'a>,
        ) -> $crate::MaybeReady<'a, $crate::Changed<()>> {
            self.$below.remove(caller, place)
        }
    };
    (@rmdir $below:ident) => {
        fn rmdir<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            place: $crate::Place<'a>,
        ) -> $crate::MaybeReady<'a, $crate::Changed<()>> {
            self.$below.rmdir(caller, place)
        }
    };
    (@rename $below:ident) => {
        fn rename<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            from: $crate::Place<'a>,
            to: $crate::Place<'a>,
        ) -> $crate::MaybeReady<'a, $crate::Renamed> {
            self.$below.rename(caller, from, to)
        }
    };
    (@link $below:ident) => {
        fn link<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            place: $crate::Place<'a>,
        ) -> $crate::MaybeReady<'a, $crate::Linked> {
            self.$below.link(caller, object, place)
        }
    };
    (@readdir $below:ident) => {
        fn readdir<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            directory: &'a $crate::ObjectId,
            cookie: $crate::Cookie,
            budget: $crate::Budget,
            wanted: $crate::Wanted,
        ) -> $crate::MaybeReady<'a, Result<$crate::Page, $crate::FsError>> {
            self.$below.readdir(caller, directory, cookie, budget, wanted)
        }
    };
    (@space $below:ident) => {
        fn space<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
        ) -> $crate::MaybeReady<'a, Result<($crate::Space, $crate::Attributes), $crate::FsError>> {
            self.$below.space(caller, object)
        }
    };
    (@commit $below:ident) => {
        fn commit<'a>(
            &'a self,
            caller: &'a $crate::Caller,
            object: &'a $crate::ObjectId,
            offset: u64,
            length: u32,
        ) -> $crate::MaybeReady<'a, $crate::Changed<$crate::Committed>> {
            self.$below.commit(caller, object, offset, length)
        }
    };
}
