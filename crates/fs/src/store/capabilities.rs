//! The capabilities of stores: operations that some stores have and others lack.
//!
//! A capability is a trait of its own. [`Store::capabilities`] returns the capabilities of a store,
//! and the methods of `dyn Store` call a capability, or return the result that is right for a store
//! without the capability. The capabilities that NFS 4.1 and 4.2 need are in modules of their own:
//! [`OpenFiles`], [`ExtendedAttributes`] and [`Ranges`].

use core::fmt;

use bytes::Bytes;
use leasehold_base::units::FileTime;

use super::{Access, ExtendedAttributes, Layout, OpenFiles, Purpose, Ranges, Space, Store};
use crate::{Attributes, Caller, FsError, MaybeReady, ObjectId};

/// The capabilities of a store; `None` for each capability that the store lacks.
///
/// The structure has no default value. A new capability is therefore an error of the compiler in
/// each store and wrapper until the store decides about the capability.
#[derive(Clone, Copy)]
pub struct Capabilities<'a> {
    /// The interlock against local programs.
    pub local_guard: Option<&'a dyn LocalGuard>,
    /// The leases between servers that share the files.
    pub coherence: Option<&'a dyn Coherence>,
    /// Layouts for direct data access by clients.
    pub direct_layouts: Option<&'a dyn DirectLayouts>,
    /// Layout policies of files and directories.
    pub layout_policies: Option<&'a dyn LayoutPolicies>,
    /// Metadata that is available without the servers of the data.
    pub local_metadata: Option<&'a dyn LocalMetadata>,
    /// Space that the server may reserve for clients.
    pub reservations: Option<&'a dyn Reservations>,
    /// Files that the store keeps after the removal of their last name.
    pub open_files: Option<&'a dyn OpenFiles>,
    /// Extended attributes.
    pub extended_attributes: Option<&'a dyn ExtendedAttributes>,
    /// Operations on byte ranges.
    pub ranges: Option<&'a dyn Ranges>,
}

/// The name of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// [`Capabilities::local_guard`].
    LocalGuard,
    /// [`Capabilities::coherence`].
    Coherence,
    /// [`Capabilities::direct_layouts`].
    DirectLayouts,
    /// [`Capabilities::layout_policies`].
    LayoutPolicies,
    /// [`Capabilities::local_metadata`].
    LocalMetadata,
    /// [`Capabilities::reservations`].
    Reservations,
    /// [`Capabilities::open_files`].
    OpenFiles,
    /// [`Capabilities::extended_attributes`].
    ExtendedAttributes,
    /// [`Capabilities::ranges`].
    Ranges,
}

impl Capabilities<'_> {
    /// No capability: the value for a store that has only the operations of [`Store`].
    pub const NONE: Self = Self {
        local_guard: None,
        coherence: None,
        direct_layouts: None,
        layout_policies: None,
        local_metadata: None,
        reservations: None,
        open_files: None,
        extended_attributes: None,
        ranges: None,
    };

    /// Returns the names of the capabilities that the store has.
    #[must_use]
    pub fn names(&self) -> Vec<Capability> {
        let Self {
            local_guard,
            coherence,
            direct_layouts,
            layout_policies,
            local_metadata,
            reservations,
            open_files,
            extended_attributes,
            ranges,
        } = self;
        let present = [
            (Capability::LocalGuard, local_guard.is_some()),
            (Capability::Coherence, coherence.is_some()),
            (Capability::DirectLayouts, direct_layouts.is_some()),
            (Capability::LayoutPolicies, layout_policies.is_some()),
            (Capability::LocalMetadata, local_metadata.is_some()),
            (Capability::Reservations, reservations.is_some()),
            (Capability::OpenFiles, open_files.is_some()),
            (Capability::ExtendedAttributes, extended_attributes.is_some()),
            (Capability::Ranges, ranges.is_some()),
        ];
        present.into_iter().filter_map(|(name, is_present)| is_present.then_some(name)).collect()
    }
}

impl fmt::Debug for Capabilities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The interlock against local programs, which change files without the server.
pub trait LocalGuard: Send + Sync {
    /// Sets the local-access interlock of an object: while clients hold leases on the object, local
    /// programs that open it wait, or the store reports them.
    ///
    /// # Errors
    /// [`FsError::Delay`] if a local program has already opened the object in a mode that conflicts
    /// with `guard`.
    fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError>;
}

/// The leases between servers that share the files of a store.
pub trait Coherence: Send + Sync {
    /// Acquires a server-side lease from the object's home metaserver before clients receive leases
    /// that need `guard`. While the server holds that lease, no client of another server writes the
    /// object, or, for [`Guard::Everything`], reads it. If `opportunistic` is set, the method fails
    /// instead of contacting the home.
    ///
    /// # Errors
    /// [`FsError::Delay`] if the lease is not available soon, [`FsError::NotSupported`] if the
    /// lease is never available.
    fn acquire<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        opportunistic: bool,
    ) -> MaybeReady<'a, Result<(), FsError>>;

    /// Acquires exclusive access to an object: other servers of the same files, and their clients,
    /// cannot access it until the result is dropped. Their cached copies are void before this
    /// method returns.
    ///
    /// # Errors
    /// [`FsError::Delay`] if exclusive access is not available soon.
    fn exclusive<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>>;
}

/// Layouts, with which clients access the data of a file without this server.
pub trait DirectLayouts: Send + Sync {
    /// Returns the layout of a file for direct data access by a client, or None if only this server
    /// can access the data. A layout for writing is valid until
    /// [`DirectLayouts::recall_layout`]; while such a layout exists, the servers of the stripe
    /// objects determine the size of the file.
    fn open_layout<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        purpose: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>>;

    /// Ends a layout for writing (layout recall). After this method returns, no write under the
    /// layout succeeds, and the file's attributes include the effects of earlier writes under it.
    fn recall_layout<'a>(&'a self, object: &'a ObjectId) -> MaybeReady<'a, Result<(), FsError>>;
}

/// Layout policies, which an administrator sets for a file, or for the new files of a directory.
pub trait LayoutPolicies: Send + Sync {
    /// Returns the layout policy of an object, encoded by the store that wraps this store. Returns
    /// None if no policy is set.
    fn layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>>;

    /// Sets the layout policy of an object.
    fn set_layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
        policy: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>>;
}

/// Metadata that is available while servers of the data are unreachable. The capability of a store
/// that keeps data on other servers.
pub trait LocalMetadata: Send + Sync {
    /// Like [`Store::getattr`], but never waits for an unreachable server.
    fn getattr_local<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, Completeness), FsError>>;

    /// Returns the change time of an object, without a call to a server of the data.
    fn change_time<'a>(&'a self, object: &'a ObjectId)
    -> MaybeReady<'a, Result<FileTime, FsError>>;

    /// Like [`Store::access`], but the result contains no attributes and needs no call to a server
    /// of the data.
    fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<Access, FsError>>;

    /// Returns the change times `(before, after)` of the last internal maintenance of an object,
    /// for example a data migration, if no other change followed. The contents are the same at both
    /// times. A store may forget the two times and then returns None.
    fn maintenance_span(&self, object: &ObjectId) -> Option<(FileTime, FileTime)>;
}

/// Space that the server may reserve for a client that sends its data later.
pub trait Reservations: Send + Sync {
    /// Returns the space that the server may reserve. The result contains no attributes, so it does
    /// not wait for them. The result may be less than the result of [`Store::space`].
    fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>>;
}

impl dyn Store + '_ {
    /// Calls [`LocalGuard::guard`]; does nothing for a store without an interlock.
    ///
    /// # Errors
    /// Returns the errors of [`LocalGuard::guard`].
    pub fn guard(&self, object: &ObjectId, guard: Guard) -> Result<(), FsError> {
        match self.capabilities().local_guard {
            Some(local) => local.guard(object, guard),
            None => Ok(()),
        }
    }

    /// Calls [`Coherence::acquire`]; succeeds if no other server has the files.
    pub fn acquire<'a>(
        &'a self,
        object: &'a ObjectId,
        guard: Guard,
        opportunistic: bool,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        match self.capabilities().coherence {
            Some(coherence) => coherence.acquire(object, guard, opportunistic),
            None => MaybeReady::now(Ok(())),
        }
    }

    /// Calls [`Coherence::exclusive`]; succeeds if no other server has the files.
    pub fn exclusive<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<ExclusiveAccess, FsError>> {
        match self.capabilities().coherence {
            Some(coherence) => coherence.exclusive(object),
            None => MaybeReady::now(Ok(ExclusiveAccess::default())),
        }
    }

    /// Calls [`DirectLayouts::open_layout`]; returns None for a store without layouts.
    pub fn open_layout<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        purpose: Purpose,
    ) -> MaybeReady<'a, Result<Option<Layout>, FsError>> {
        match self.capabilities().direct_layouts {
            Some(layouts) => layouts.open_layout(caller, object, purpose),
            None => MaybeReady::now(Ok(None)),
        }
    }

    /// Calls [`DirectLayouts::recall_layout`]; does nothing for a store without layouts.
    pub fn recall_layout<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        match self.capabilities().direct_layouts {
            Some(layouts) => layouts.recall_layout(object),
            None => MaybeReady::now(Ok(())),
        }
    }

    /// Calls [`LayoutPolicies::layout_policy`]; returns None for a store without policies.
    pub fn layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Option<Bytes>, FsError>> {
        match self.capabilities().layout_policies {
            Some(policies) => policies.layout_policy(object),
            None => MaybeReady::now(Ok(None)),
        }
    }

    /// Calls [`LayoutPolicies::set_layout_policy`]; fails with [`FsError::NotSupported`] for a store
    /// without policies.
    pub fn set_layout_policy<'a>(
        &'a self,
        object: &'a ObjectId,
        policy: Bytes,
    ) -> MaybeReady<'a, Result<(), FsError>> {
        match self.capabilities().layout_policies {
            Some(policies) => policies.set_layout_policy(object, policy),
            None => MaybeReady::now(Err(FsError::NotSupported)),
        }
    }

    /// Calls [`LocalMetadata::getattr_local`], or [`Store::getattr`] for a store that has its data
    /// at hand.
    pub fn getattr_local<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<(Attributes, Completeness), FsError>> {
        match self.capabilities().local_metadata {
            Some(metadata) => metadata.getattr_local(object),
            None => MaybeReady::later(async move {
                Ok((self.getattr(object).await?, Completeness::Complete))
            }),
        }
    }

    /// Calls [`LocalMetadata::change_time`], or [`Store::getattr`] for a store that has its data at
    /// hand.
    pub fn change_time<'a>(
        &'a self,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<FileTime, FsError>> {
        match self.capabilities().local_metadata {
            Some(metadata) => metadata.change_time(object),
            None => MaybeReady::later(async move { Ok(self.getattr(object).await?.changed) }),
        }
    }

    /// Calls [`LocalMetadata::rights`], or [`Store::access`] for a store that has its data at hand.
    pub fn rights<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        wanted: Access,
    ) -> MaybeReady<'a, Result<Access, FsError>> {
        match self.capabilities().local_metadata {
            Some(metadata) => metadata.rights(caller, object, wanted),
            None => {
                MaybeReady::later(async move { Ok(self.access(caller, object, wanted).await?.0) })
            }
        }
    }

    /// Calls [`LocalMetadata::maintenance_span`]; returns None for a store without maintenance.
    #[must_use]
    pub fn maintenance_span(&self, object: &ObjectId) -> Option<(FileTime, FileTime)> {
        self.capabilities().local_metadata?.maintenance_span(object)
    }

    /// Calls [`Reservations::reservable_space`], or [`Store::space`] for a store without a margin.
    pub fn reservable_space<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
    ) -> MaybeReady<'a, Result<Space, FsError>> {
        match self.capabilities().reservations {
            Some(reservations) => reservations.reservable_space(caller, object),
            None => MaybeReady::later(async move { Ok(self.space(caller, object).await?.0) }),
        }
    }
}

/// The extent to which attributes are up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// All attributes are up to date.
    Complete,
    /// The size and the bytes used may be out of date, because a server of the data is unreachable.
    SizeMayBeOld,
}

/// An access by a local program to an object with a local-access interlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// No program has accessed the object for a long time; the object may no longer need the
    /// interlock.
    Nothing,
    /// A program is about to read the object.
    Reads,
    /// A program is about to change the object, or has changed names in it.
    Changes,
}

/// The accesses that the local-access interlock delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// No access is delayed.
    Nothing,
    /// Changes of data or names are delayed.
    Changes,
    /// Changes and reads are delayed.
    Everything,
}

/// Exclusive access to an object, which ends when this value is dropped.
#[derive(Default)]
pub struct ExclusiveAccess {
    /// A sequence number. If it equals the number of this server's previous exclusive access, no
    /// other server has accessed the object in between. Zero carries no information.
    pub number: u64,
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl ExclusiveAccess {
    /// Returns a value that calls `end` when it is dropped.
    pub fn until(number: u64, end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { number, end: Some(Box::new(end)) }
    }
}

impl Drop for ExclusiveAccess {
    fn drop(&mut self) {
        self.end.take().into_iter().for_each(|end| end());
    }
}

impl fmt::Debug for ExclusiveAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveAccess").field("number", &self.number).finish_non_exhaustive()
    }
}
