//! The capability of extended attributes (RFC 8276).

use bytes::Bytes;
use leasehold_base::units::Cookie;

use super::{Allowance, Changed, Store};
use crate::{Caller, FsError, MaybeReady, ObjectId};

/// The user attributes of files and directories: short values by name, which the store does not
/// interpret. Objects of other types have none.
///
/// The names that begin with `leasehold.` belong to stores: clients can neither see nor change
/// them. The methods of `dyn Store` ensure this for all operations except a listing.
pub trait ExtendedAttributes: Send + Sync {
    /// Returns the value of an attribute. Needs read permission; the owner needs it, too.
    ///
    /// # Errors
    /// [`FsError::NoAttribute`] if the object has no attribute of this name.
    fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>>;

    /// Sets an attribute, on stable storage. Needs write permission; the owner needs it, too.
    /// Changes the change time.
    ///
    /// # Errors
    /// [`FsError::AlreadyExists`] and [`FsError::NoAttribute`] as `how` requires,
    /// [`FsError::AttributeTooBig`] beyond a limit of the store, [`FsError::WrongType`] for an
    /// object that is neither a file nor a directory.
    fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>>;

    /// Returns names of attributes, from a cookie on; zero is the cookie of the start. Needs read
    /// permission. If the attributes change between two pages, the listing may repeat or omit
    /// names.
    ///
    /// # Errors
    /// [`FsError::TooSmall`] if the allowance is too small for the next name.
    fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>>;

    /// Removes an attribute, on stable storage. Needs write permission. Changes the change time.
    ///
    /// # Errors
    /// [`FsError::NoAttribute`] if the object has no attribute of this name.
    fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>>;
}

/// The name of an extended attribute, without the prefix `user.` of a local file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XattrName<'a>(&'a [u8]);

impl<'a> XattrName<'a> {
    /// The maximum length in bytes, as in Linux. A store may permit less.
    pub const BYTES_MAX: usize = 255;

    /// The first bytes of the names that belong to stores.
    pub const PRIVATE: &'static [u8] = b"leasehold.";

    /// Parses a name from a client.
    ///
    /// # Errors
    /// [`FsError::Invalid`] for an empty name or a name with a zero byte, [`FsError::NameTooLong`]
    /// beyond [`XattrName::BYTES_MAX`].
    pub fn parse(name: &'a [u8]) -> Result<Self, FsError> {
        if name.is_empty() || name.contains(&0) {
            return Err(FsError::Invalid);
        }
        if name.len() > Self::BYTES_MAX { Err(FsError::NameTooLong) } else { Ok(Self(name)) }
    }

    /// Returns the bytes of the name.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns true if the name belongs to stores.
    #[must_use]
    pub fn is_private(self) -> bool {
        self.0.starts_with(Self::PRIVATE)
    }
}

/// The condition under which an extended attribute is set (RFC 8276 8.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetXattr {
    /// No condition.
    Either,
    /// The object has no attribute of this name.
    Create,
    /// The object has an attribute of this name.
    Replace,
}

/// The maximum size of the value of an extended attribute in bytes, as on the wire. A store may
/// permit less.
pub const XATTR_BYTES_MAX: usize = leasehold_base::limits::XATTR_BYTES_MAX as usize;

/// A page of names of extended attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XattrPage {
    /// The names, in their order.
    pub names: Vec<Vec<u8>>,
    /// The cookie from which the listing continues.
    pub next: Cookie,
    /// True if the page reaches the end.
    pub end: bool,
}

impl XattrPage {
    /// Returns the part of a sorted list of all names that begins at a cookie.
    ///
    /// # Errors
    /// [`FsError::TooSmall`] if the allowance is too small for one name.
    pub fn of(
        all: Vec<Vec<u8>>,
        cookie: Cookie,
        mut allowance: Allowance,
    ) -> Result<Self, FsError> {
        let count = all.len();
        let start = usize::try_from(cookie.0).unwrap_or(usize::MAX).min(count);
        let rest = all.into_iter().skip(start);
        let names: Vec<_> = rest.take_while(|name| allowance.take(name.len())).collect();
        let next = start + names.len();
        if names.is_empty() && next < count {
            return Err(FsError::TooSmall);
        }
        Ok(Self { names, next: Cookie(next as u64), end: next == count })
    }
}

impl dyn Store + '_ {
    /// Calls [`ExtendedAttributes::xattr`]; fails with [`FsError::NotSupported`] for a store
    /// without extended attributes.
    pub fn xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Result<Bytes, FsError>> {
        match self.capabilities().extended_attributes {
            None => MaybeReady::now(Err(FsError::NotSupported)),
            Some(_) if name.is_private() => MaybeReady::now(Err(FsError::NoAttribute)),
            Some(attributes) => attributes.xattr(caller, object, name),
        }
    }

    /// Calls [`ExtendedAttributes::set_xattr`]; fails with [`FsError::NotSupported`] for a store
    /// without extended attributes, with [`FsError::Access`] for the name of a store, and with
    /// [`FsError::AttributeTooBig`] for a value above [`XATTR_BYTES_MAX`].
    pub fn set_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
        value: Bytes,
        how: SetXattr,
    ) -> MaybeReady<'a, Changed<()>> {
        let failed = |error| MaybeReady::now(Changed::failed(error));
        match self.capabilities().extended_attributes {
            None => failed(FsError::NotSupported),
            Some(_) if name.is_private() => failed(FsError::Access),
            Some(_) if value.len() > XATTR_BYTES_MAX => failed(FsError::AttributeTooBig),
            Some(attributes) => attributes.set_xattr(caller, object, name, value, how),
        }
    }

    /// Calls [`ExtendedAttributes::list_xattrs`]; fails with [`FsError::NotSupported`] for a store
    /// without extended attributes.
    pub fn list_xattrs<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        cookie: Cookie,
        allowance: Allowance,
    ) -> MaybeReady<'a, Result<XattrPage, FsError>> {
        match self.capabilities().extended_attributes {
            None => MaybeReady::now(Err(FsError::NotSupported)),
            Some(attributes) => attributes.list_xattrs(caller, object, cookie, allowance),
        }
    }

    /// Calls [`ExtendedAttributes::remove_xattr`]; fails with [`FsError::NotSupported`] for a store
    /// without extended attributes.
    pub fn remove_xattr<'a>(
        &'a self,
        caller: &'a Caller,
        object: &'a ObjectId,
        name: XattrName<'a>,
    ) -> MaybeReady<'a, Changed<()>> {
        let failed = |error| MaybeReady::now(Changed::failed(error));
        match self.capabilities().extended_attributes {
            None => failed(FsError::NotSupported),
            Some(_) if name.is_private() => failed(FsError::NoAttribute),
            Some(attributes) => attributes.remove_xattr(caller, object, name),
        }
    }
}
