//! Names in a directory.

use core::fmt;

use crate::FsError;

/// A valid name in a directory: not empty, without slash and NUL, neither `.` nor `..`. It need not
/// be UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name<'a>(&'a [u8]);

/// One component of a path, as LOOKUP receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// `.`: the directory itself.
    This,
    /// `..`: the parent directory; at an export's root, the root itself.
    Parent,
    /// A name in the directory.
    Child(Name<'a>),
}

impl<'a> Name<'a> {
    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Step<'a> {
    /// Parses a name from the network.
    ///
    /// # Errors
    /// [`FsError::Access`] for a name that no directory can contain (RFC 1813 3.2): an empty name,
    /// or a name with a slash or a NUL.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FsError> {
        match bytes {
            b"" => Err(FsError::Access),
            b"." => Ok(Self::This),
            b".." => Ok(Self::Parent),
            _ if bytes.contains(&b'/') || bytes.contains(&0) => Err(FsError::Access),
            _ => Ok(Self::Child(Name(bytes))),
        }
    }

    /// Returns the name, for operations that do not accept `.` and `..`.
    ///
    /// # Errors
    /// `otherwise` for `.` and `..`.
    pub const fn child(self, otherwise: FsError) -> Result<Name<'a>, FsError> {
        match self {
            Self::Child(name) => Ok(name),
            Self::This | Self::Parent => Err(otherwise),
        }
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.escape_ascii().to_string())
    }
}
