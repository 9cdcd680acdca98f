//! The errors that each procedure may return, and the substitutes for other errors.

use leasehold_fs::FsError;

/// The errors that a procedure may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    standard: u32,
    beyond: u32,
}

const _: () = assert!(FsError::ALL.len() <= u32::BITS as usize);

impl Errors {
    /// No errors: the procedure cannot fail.
    pub(crate) const NONE: Self = Self { standard: 0, beyond: 0 };

    /// Returns these errors, which the standard lists.
    pub(crate) const fn of(errors: &[FsError]) -> Self {
        Self::NONE.with(errors)
    }

    /// Adds these errors, which the standard lists.
    pub(crate) const fn with(self, errors: &[FsError]) -> Self {
        Self { standard: self.standard | bits(errors), ..self }
    }

    /// Adds these errors, which the standard does not list; see `docs/design/0006-statuses.md`.
    pub(crate) const fn beyond(self, errors: &[FsError]) -> Self {
        Self { beyond: self.beyond | bits(errors), ..self }
    }

    /// Returns true if the procedure may return the error.
    #[must_use]
    pub const fn contains(self, error: FsError) -> bool {
        (self.standard | self.beyond) & bits(&[error]) != 0
    }

    /// Returns true if the procedure may return the error although its standard does not list it.
    #[must_use]
    pub const fn goes_beyond_with(self, error: FsError) -> bool {
        self.beyond & bits(&[error]) != 0
    }

    /// Returns the error itself if the procedure may return it, and otherwise the nearest error
    /// that it may return.
    #[must_use]
    pub fn word(self, error: FsError) -> FsError {
        let hard = [FsError::Io, FsError::ServerFault];
        [error]
            .iter()
            .chain(nearest(error))
            .chain(&hard)
            .copied()
            .find(|&word| self.contains(word))
            .unwrap_or(FsError::ServerFault)
    }
}

const fn bits(errors: &[FsError]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < errors.len() {
        bits |= 1 << errors[at] as u32;
        at += 1;
    }
    bits
}

/// Returns the substitutes for an error that a procedure may not return, the nearest first; a hard
/// error can replace every other error. A substitute never weakens an error: only a hard error
/// replaces a hard error, and no substitute reports success.
pub(crate) const fn nearest(error: FsError) -> &'static [FsError] {
    match error {
        FsError::BadCookie | FsError::IsDirectory | FsError::TooSmall | FsError::WrongType => {
            &[FsError::Invalid]
        }
        // Both errors mean to a client that the handle identifies no existing object.
        FsError::BadHandle => &[FsError::Stale, FsError::NotFound],
        FsError::Stale => &[FsError::BadHandle, FsError::NotFound],
        FsError::BadType => &[FsError::NotSupported, FsError::Invalid],
        FsError::AttributeTooBig | FsError::FileTooBig => &[FsError::Invalid, FsError::NoSpace],
        FsError::NoAttribute => &[FsError::Invalid],
        // RFC 1813 3.2 permits ACCES for a name that no directory can contain.
        FsError::Invalid | FsError::NotOwner => &[FsError::Access],
        FsError::NotEmpty => &[FsError::AlreadyExists],
        FsError::NotDirectory => &[FsError::Invalid],
        // In a procedure without a lookup the object of the handle itself is missing, so its handle
        // is stale.
        FsError::NotFound => &[FsError::Stale],
        FsError::NotSupported => &[FsError::Invalid],
        FsError::QuotaExceeded | FsError::TooManyLinks => &[FsError::NoSpace],
        FsError::ReadOnly => &[FsError::Access],
        FsError::Access
        | FsError::AlreadyExists
        | FsError::CrossDevice
        | FsError::Io
        | FsError::Delay
        | FsError::NameTooLong
        | FsError::NoSpace
        | FsError::NoSuchDevice
        | FsError::NotSynchronized
        | FsError::ServerFault => &[],
    }
}

#[cfg(test)]
mod tests;
