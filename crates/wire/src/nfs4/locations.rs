//! The servers of a file system (RFC 8881 11.16).

use leasehold_base::limits::LOCATIONS_MAX;
use leasehold_base::xdr_struct;

use super::{Name, Text};
use crate::list::Array;

/// A path from the root of a server, as its components.
#[doc(alias = "pathname4")]
pub type PathName<'a> = Array<Name<'a>, LOCATIONS_MAX>;

xdr_struct! {
    /// Servers with the same path to the file system.
    #[doc(alias = "fs_location4")]
    pub struct FsLocation<'a> {
        /// The names or addresses of the servers.
        pub servers: Array<Text<'a>, LOCATIONS_MAX>,
        /// The path to the file system.
        pub root: PathName<'a>,
    }

    /// All servers of a file system.
    #[doc(alias = "fs_locations4")]
    pub struct FsLocations<'a> {
        /// The path to the file system at this server.
        pub root: PathName<'a>,
        /// The servers.
        pub locations: Array<FsLocation<'a>, LOCATIONS_MAX>,
    }
}
