//! OBJECTS, procedure 27: where a file's data lies, and the user and the group that a client goes there
//! as.

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

    /// Where a file's data lies.
    #[doc(alias = "lease_objects_ok")]
    pub struct Layout {
        /// Bytes of a stripe.
        pub unit: u32,
        /// The user that the client calls the servers of the objects as.
        pub user: u32,
        /// The group that the client calls the servers of the objects as.
        pub group: u32,
        /// The verifier of the answer to a COMMIT of the file, as long as no server of an object
        /// has lost anything.
        pub verifier: [u8; 8],
        /// The objects in the order of the stripes; none where no object is to be called.
        pub objects: List<Object>,
    }
}

/// The arguments.
pub type Args = Call<Wanted>;

/// Where the data lies.
pub type Reply = Answer<nfs3::Reply<Layout, ()>>;
