//! HELLO, procedure 23: a client says who it is, and learns the server's epoch and terms.

use leasehold_base::xdr_struct;

use super::{Answer, ClientName};

/// The procedure's number.
pub const NUMBER: u32 = 23;

xdr_struct! {
    /// Who calls.
    #[doc(alias = "hello_args")]
    #[derive(Copy)]
    pub struct Args<'a> {
        /// The client.
        pub client: [u8; 16],
        /// Its instance.
        pub instance: u64,
        /// What it calls itself.
        pub name: ClientName<'a>,
    }

    /// What the client has to know of the server.
    #[doc(alias = "hello_ok")]
    #[derive(Copy)]
    pub struct Welcome {
        /// The epoch.
        pub epoch: u64,
        /// Whether leases of before the last start are waited for.
        pub recovering: bool,
        /// The term that is granted when none is asked for, in milliseconds.
        pub default_term_ms: u32,
        /// The longest term that is granted, in milliseconds.
        pub longest_term_ms: u32,
        /// How long the server waits for more writes after a lease has run out, in milliseconds.
        pub write_slack_ms: u32,
        /// How differently the clocks of both may run, in millionths.
        pub drift_ppm: u32,
        /// Whether names are leased: directories, and all else that is no regular file. If not, what
        /// is known of those is good by time alone.
        pub leases_names: bool,
    }
}

/// The results.
pub type Reply = Answer<Welcome>;
