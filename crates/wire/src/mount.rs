//! MOUNT (program 100005): returns the first file handle to a client. Versions 1 (RFC 1094 appendix
//! A) and 2 belong to version 2 of NFS, version 3 (RFC 1813 appendix I) to version 3.
//!
//! The structure is the same as in [`nfs3`](crate::nfs3). Procedure 0 (NULL) has neither arguments
//! nor results.

pub mod mnt;
pub mod pathconf;

use leasehold_base::limits::{MOUNT_NAME_BYTES_MAX, PATH_V2_BYTES_MAX};

/// The program's number.
pub const PROGRAM: u32 = 100_005;

/// The version that RFC 1094 describes.
pub const VERSION_1: u32 = 1;

/// Version 1 with PATHCONF; no RFC describes it.
pub const VERSION_2: u32 = 2;

/// The version that RFC 1813 describes.
pub const VERSION_3: u32 = 3;

opaques! {
    /// The path of a directory on the server (RFC 1813 5.1.5).
    #[doc(alias = "dirpath")]
    Path <= PATH_V2_BYTES_MAX;

    /// The name of a machine, or of a group of machines (RFC 1813 5.1.5).
    #[doc(alias = "name")]
    Name <= MOUNT_NAME_BYTES_MAX;
}

/// DUMP, procedure 2: lists the mounts of clients (RFC 1813 5.2.2).
pub mod dump {
    use leasehold_base::xdr_struct;

    use super::{Name, Path};
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 2;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The mounts that the server has recorded.
    #[doc(alias = "mountlist")]
    pub type Reply<'a> = List<Entry<'a>>;

    xdr_struct! {
        /// A mount by one machine.
        #[doc(alias = "mountbody")]
        #[derive(Copy)]
        pub struct Entry<'a> {
            /// The machine.
            pub host: Name<'a>,
            /// The mounted directory.
            pub directory: Path<'a>,
        }
    }
}

/// UMNT, procedure 3: one directory is no longer mounted (RFC 1813 5.2.3).
pub mod umnt {
    /// The procedure's number.
    pub const NUMBER: u32 = 3;

    /// The directory.
    pub type Args<'a> = super::Path<'a>;

    /// The procedure has no results.
    pub type Reply = ();
}

/// UMNTALL, procedure 4: nothing is mounted any more (RFC 1813 5.2.4).
pub mod umntall {
    /// The procedure's number.
    pub const NUMBER: u32 = 4;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The procedure has no results.
    pub type Reply = ();
}

/// EXPORT, procedure 5: lists the exports and the clients that may mount them (RFC 1813 5.2.5).
pub mod export {
    use leasehold_base::xdr_struct;

    use super::{Name, Path};
    use crate::list::List;

    /// The procedure's number.
    pub const NUMBER: u32 = 5;

    /// The procedure has no arguments.
    pub type Args = ();

    /// The exported directories.
    #[doc(alias = "exports")]
    pub type Reply<'a> = List<Entry<'a>>;

    xdr_struct! {
        /// A directory that can be mounted.
        #[doc(alias = "exportnode")]
        pub struct Entry<'a> {
            /// The directory.
            pub directory: Path<'a>,
            /// The machines and groups that may mount it; all clients if empty.
            pub groups: List<Name<'a>>,
        }
    }
}

/// EXPORTALL, procedure 6 of versions 1 and 2: equal to EXPORT.
pub mod exportall {
    pub use super::export::{Args, Reply};

    /// The procedure's number.
    pub const NUMBER: u32 = 6;
}

#[cfg(test)]
mod tests;
