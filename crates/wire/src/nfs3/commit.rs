//! COMMIT, procedure 21: unstable data to stable storage (RFC 1813 3.3.21).

use leasehold_base::xdr_struct;

use super::{Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 21;

xdr_struct! {
    /// Which bytes of which file.
    #[doc(alias = "COMMIT3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The file.
        pub file: Handle,
        /// Where in the file, in bytes.
        pub offset: u64,
        /// How many bytes; zero means to the end of the file.
        pub count: u32,
    }
}

/// What was committed, or the file before and after alone.
#[doc(alias = "COMMIT3res")]
pub type Reply = super::Reply<Done, Wcc>;

xdr_struct! {
    /// The data is on stable storage.
    #[doc(alias = "COMMIT3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The file before and after.
        pub file: Wcc,
        /// Equal to that of the WRITEs when nothing was lost.
        #[doc(alias = "writeverf3")]
        pub verifier: [u8; 8],
    }
}
