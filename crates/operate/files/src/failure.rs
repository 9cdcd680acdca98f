//! The reasons why an object cannot be found, and why a copy cannot begin.

use std::{fmt, io};

use leasehold_session as session;
use leasehold_shell::client::NotFound;
use leasehold_wire::nfs3::Status;

use crate::{Error, Place};

/// The failure of an operation, with the place that it concerns.
#[derive(Debug)]
pub enum Failure {
    /// An object cannot be found or used.
    At(Box<Place>, Cause),
    /// Both sides of a copy are on this machine.
    NoServer,
    /// The client cannot start.
    Start(io::Error),
}

/// The reason why a place cannot be found or used.
#[derive(Debug)]
pub enum Cause {
    /// The object is a directory, and the operation needs a file.
    Directory,
    /// A call or a system call failed.
    Failed(Error),
    /// A directory would be copied into itself.
    Inside,
    /// A path has too many symbolic links.
    Links,
    /// The destination has no name.
    NoName,
    /// The parent directory of the destination does not exist.
    NoParent,
    /// The server or its export cannot be reached.
    NotFound(NotFound),
    /// A symbolic link leads out of the export.
    Outside,
    /// Several sources have a destination that is not a directory.
    Several,
    /// The source has no name that the copy could have.
    Unnamed,
}

impl Failure {
    pub(crate) fn at(place: &Place, cause: impl Into<Cause>) -> Self {
        Self::At(Box::new(place.clone()), cause.into())
    }

    /// Returns true if the arguments are wrong: no state of the servers makes them valid.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self, Self::NoServer | Self::At(_, Cause::Inside | Cause::Several))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(place, cause) => write!(f, "{place}: {cause}"),
            Self::NoServer => {
                f.write_str("one side of a copy must be on a server: nfs://HOST/PATH")
            }
            Self::Start(error) => write!(f, "cannot start to call servers: {error}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Failed(error) => return error.fmt(f),
            Self::NotFound(error) => return error.fmt(f),
            Self::Directory => "is a directory",
            Self::Inside => "a directory cannot be copied into itself",
            Self::Links => "too many symbolic links",
            Self::NoName => "has no name",
            Self::NoParent => "its directory does not exist",
            Self::Outside => "a symbolic link leads out of the export",
            Self::Several => "several sources need a directory",
            Self::Unnamed => "has no name: give the name of the copy",
        };
        f.write_str(text)
    }
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<session::Error> for Cause {
    fn from(error: session::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Status> for Cause {
    fn from(status: Status) -> Self {
        Self::Failed(status.into())
    }
}

impl From<NotFound> for Cause {
    fn from(error: NotFound) -> Self {
        Self::NotFound(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_its_place_and_its_cause() {
        let place = Place::of("nfs://host/a%20b".as_ref()).expect("an address");
        for (cause, text, is_usage) in [
            (Cause::Directory, "nfs://host/a%20b: is a directory", false),
            (Cause::Inside, "nfs://host/a%20b: a directory cannot be copied into itself", true),
            (Cause::Several, "nfs://host/a%20b: several sources need a directory", true),
        ] {
            let failure = Failure::at(&place, cause);
            assert_eq!((failure.to_string().as_str(), failure.is_usage()), (text, is_usage));
        }
        assert!(Failure::NoServer.is_usage());
        let failed = Failure::at(&place, io::Error::other("full"));
        assert_eq!(
            (failed.to_string().as_str(), failed.is_usage()),
            ("nfs://host/a%20b: full", false)
        );
    }
}
