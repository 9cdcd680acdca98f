//! The location of a file: on this machine or on a server.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use leasehold_shell::client::{Address, SCHEME};

/// The location of a file: on this machine or on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path on this machine.
    Here(PathBuf),
    /// The address of a file on a server.
    There(Address),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(path) => path.display().fmt(f),
            Self::There(address) => address.fmt(f),
        }
    }
}

impl Place {
    /// Parses the location of a file.
    ///
    /// # Errors
    /// The fault in the address of a server.
    pub fn of(text: &OsStr) -> Result<Self, String> {
        match text.as_bytes().starts_with(SCHEME.as_bytes()) {
            true => Address::of(text).map(Self::There),
            false => Ok(Self::Here(text.into())),
        }
    }

    /// Returns the location of the object with a name in this directory.
    #[must_use]
    pub fn within(&self, name: &[u8]) -> Self {
        match self {
            Self::Here(path) => Self::Here(path.join(OsString::from_vec(name.to_vec()))),
            Self::There(address) => Self::There(address.within(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed_by_their_scheme() {
        assert_eq!(Place::of(OsStr::new("nfs")), Ok(Place::Here("nfs".into())));
        let there = Place::of(OsStr::new("nfs://host/a")).expect("an address");
        assert_eq!(there.within(b"b").to_string(), "nfs://host/a/b");
        assert!(Place::of(OsStr::new("nfs://")).is_err());
    }
}
