//! HELLO, procedure 23: the client identifies itself, and receives the server's epoch and terms.

use leasehold_base::xdr_struct;

use super::{Answer, ClientName};

/// The procedure's number.
pub const NUMBER: u32 = 23;

xdr_struct! {
    /// The identity of the client.
    #[doc(alias = "hello_args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The client.
        pub client: [u8; 16],
        /// The incarnation of the client.
        pub instance: u64,
        /// The display name of the client.
        pub name: ClientName<'a>,
    }

    /// The server's parameters for clients.
    #[doc(alias = "hello_ok")]
    #[derive(Copy)]
    pub struct Welcome {
        /// The epoch of the server.
        pub epoch: u64,
        /// True during the grace period, in which the server waits for leases from before its last
        /// start.
        pub recovering: bool,
        /// The default term of a lease, in milliseconds.
        pub default_term_ms: u32,
        /// The maximum term of a lease, in milliseconds.
        pub longest_term_ms: u32,
        /// The write slack, in milliseconds: the time for which the server waits for more writes
        /// after a lease has expired.
        pub write_slack_ms: u32,
        /// The maximum relative drift between the clocks of client and server, in millionths.
        pub drift_ppm: u32,
        /// True if the server grants leases on directories and other objects that are not regular
        /// files. If false, the client caches these objects by timeouts alone.
        pub leases_names: bool,
    }
}

/// The results.
pub type Reply = Answer<Welcome>;
