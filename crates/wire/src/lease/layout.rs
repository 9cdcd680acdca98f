//! LAYOUT, procedure 26: returns a layout to the server. In an earlier version of the program, the
//! reply contained the location of a file's data; OBJECTS has replaced this use, and the reply to
//! LAYOUT names no objects.

use leasehold_base::xdr_struct;

use super::{Answer, Call, Kind};
use crate::list::List;
use crate::nfs3::{self, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 26;

xdr_struct! {
    /// The file, and the purpose.
    #[doc(alias = "lease_layout_args")]
    #[derive(Copy)]
    pub struct Wanted {
        /// The file.
        pub file: Handle,
        /// The purpose of the access; `None` if the client returns the layout.
        pub kind: Option<Kind>,
    }

    /// One stripe object of a file, on a server of NFS version 3.
    #[doc(alias = "lease_layout_object")]
    #[derive(Copy)]
    pub struct Object {
        /// The server's IPv6 address, or a mapped IPv4 address.
        pub host: [u8; 16],
        /// The port of the server.
        pub port: u32,
        /// The handle of the stripe object at the server.
        pub object: Handle,
        /// The write verifier of the server as long as the server has lost no data.
        pub verifier: [u8; 8],
    }

    /// The location of a file's data.
    #[doc(alias = "lease_layout_ok")]
    pub struct Layout {
        /// The stripe unit in bytes.
        pub unit: u32,
        /// The id that is used as a user id and as a group id: this user and group may write the
        /// stripe objects, and the group may read them.
        pub owner: u32,
        /// The write verifier in replies to COMMIT of the file as long as no server of a stripe
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
