//! OBJECTS, procedure 27: returns the location of a file's data, and the user and group for direct
//! access by the client.

use leasehold_base::xdr_struct;

use super::layout::Object;
use super::{Answer, Call, Kind};
use crate::list::List;
use crate::nfs3::{self, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 27;

xdr_struct! {
    /// The file, and the purpose.
    #[doc(alias = "lease_objects_args")]
    #[derive(Copy)]
    pub struct Wanted {
        /// The file.
        pub file: Handle,
        /// The purpose of the client: to read or to write the data.
        pub kind: Kind,
    }

    /// The location of a file's data.
    #[doc(alias = "lease_objects_ok")]
    pub struct Layout {
        /// The stripe unit in bytes.
        pub unit: u32,
        /// The user id in the client's calls to the servers of the stripe objects.
        pub user: u32,
        /// The group id in the client's calls to the servers of the stripe objects.
        pub group: u32,
        /// The write verifier in the reply to a COMMIT of the file as long as no server of an
        /// object has lost data.
        pub verifier: [u8; 8],
        /// The stripe objects in the order of the stripes; empty if direct access is not possible.
        pub objects: List<Object>,
    }
}

/// The arguments.
pub type Args = Call<Wanted>;

/// The location of the data.
pub type Reply = Answer<nfs3::Reply<Layout, ()>>;
