//! Which errors a procedure may answer, and which takes the place of one that it may not.

use leasehold_fs::FsError;

/// The errors that a procedure may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errors {
    standard: u32,
    beyond: u32,
}

const _: () = assert!(FsError::ALL.len() <= u32::BITS as usize);

impl Errors {
    /// None: the procedure cannot fail.
    pub(crate) const NONE: Self = Self { standard: 0, beyond: 0 };

    /// These, which the standard names.
    pub(crate) const fn of(errors: &[FsError]) -> Self {
        Self::NONE.with(errors)
    }

    /// These as well, which the standard names.
    pub(crate) const fn with(self, errors: &[FsError]) -> Self {
        Self { standard: self.standard | bits(errors), ..self }
    }

    /// These as well, which the standard does not name; `docs/design/0006-statuses.md` says why.
    pub(crate) const fn beyond(self, errors: &[FsError]) -> Self {
        Self { beyond: self.beyond | bits(errors), ..self }
    }

    /// Whether the procedure may answer it.
    #[must_use]
    pub const fn contains(self, error: FsError) -> bool {
        (self.standard | self.beyond) & bits(&[error]) != 0
    }

    /// Whether the procedure may answer it though its standard does not name it.
    #[must_use]
    pub const fn goes_beyond_with(self, error: FsError) -> bool {
        self.beyond & bits(&[error]) != 0
    }

    /// What the procedure answers for an error: the error itself where it may, else what comes
    /// nearest of what it may answer.
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

/// What may stand for an error where a procedure has no word for it, the nearest first; a hard
/// error stands for all. What is harmful is never lessened: nothing stands for a hard error but
/// another one, and nothing is said to be done that is not.
pub(crate) const fn nearest(error: FsError) -> &'static [FsError] {
    match error {
        FsError::BadCookie | FsError::IsDirectory | FsError::TooSmall => &[FsError::Invalid],
        // The handle names no object, or none any more.
        FsError::BadHandle => &[FsError::Stale, FsError::NotFound],
        FsError::Stale => &[FsError::BadHandle, FsError::NotFound],
        FsError::BadType => &[FsError::NotSupported, FsError::Invalid],
        FsError::FileTooBig => &[FsError::Invalid, FsError::NoSpace],
        // Of names, what no directory can hold is refused so (RFC 1813 3.2).
        FsError::Invalid | FsError::NotOwner => &[FsError::Access],
        FsError::NotEmpty => &[FsError::AlreadyExists],
        FsError::NotDirectory => &[FsError::Invalid],
        // A procedure that looks for no name can miss only the object itself.
        FsError::NotFound => &[FsError::Stale],
        FsError::NotSupported => &[FsError::Invalid],
        FsError::QuotaExceeded | FsError::TooManyLinks => &[FsError::NoSpace],
        FsError::ReadOnly => &[FsError::Access],
        FsError::Access
        | FsError::AlreadyExists
        | FsError::CrossDevice
        | FsError::Io
        | FsError::Later
        | FsError::NameTooLong
        | FsError::NoSpace
        | FsError::NoSuchDevice
        | FsError::NotSynchronized
        | FsError::ServerFault => &[],
    }
}

#[cfg(test)]
mod tests;
