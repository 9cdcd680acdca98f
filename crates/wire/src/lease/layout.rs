//! LAYOUT, procedure 26: gives a layout back. An earlier version of the program answered where a
//! file's data lies; OBJECTS does so now, and LAYOUT names no objects.

use leasehold_base::xdr_struct;

use super::{Answer, Call, Kind};
use crate::list::List;
use crate::nfs3::{self, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 26;

xdr_struct! {
    /// Which file, and what for.
    #[doc(alias = "lease_layout_args")]
    #[derive(Copy)]
    pub struct Wanted {
        /// The file.
        pub file: Handle,
        /// What its data is wanted for; none where it is given back.
        pub kind: Option<Kind>,
    }

    /// One object of a file, on a server of NFS version 3.
    #[doc(alias = "lease_layout_object")]
    #[derive(Copy)]
    pub struct Object {
        /// The server's address, of version 6; one of version 4 as it is mapped there.
        pub host: [u8; 16],
        /// Its port.
        pub port: u32,
        /// The object there.
        pub object: Handle,
        /// What a WRITE there is answered with, as long as the server has lost nothing.
        pub verifier: [u8; 8],
    }

    /// Where a file's data lies.
    #[doc(alias = "lease_layout_ok")]
    pub struct Layout {
        /// Bytes of a stripe.
        pub unit: u32,
        /// User and group by whom objects are written, and the group by which they are read.
        pub owner: u32,
        /// What a COMMIT of the file is answered with, as long as no server of an object has lost
        /// anything.
        pub verifier: [u8; 8],
        /// The objects in the order of the stripes; none where there is nowhere to go.
        pub objects: List<Object>,
    }
}

/// The arguments.
pub type Args = Call<Wanted>;

/// Where the data lies.
pub type Reply = Answer<nfs3::Reply<Layout, ()>>;
