//! COMMIT, procedure 21: writes unstable data to stable storage (RFC 1813 3.3.21).

use leasehold_base::xdr_struct;

use super::{Handle, Wcc};

/// The procedure's number.
pub const NUMBER: u32 = 21;

xdr_struct! {
    /// The range of the file.
    #[doc(alias = "COMMIT3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The file.
        pub file: Handle,
        /// The offset in the file, in bytes.
        pub offset: u64,
        /// The number of bytes; zero means to the end of the file.
        pub count: u32,
    }
}

/// The result of the commit; in case of an error only the file before and after.
#[doc(alias = "COMMIT3res")]
pub type Reply = super::Reply<Done, Wcc>;

xdr_struct! {
    /// The data is on stable storage.
    #[doc(alias = "COMMIT3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The file before and after.
        pub file: Wcc,
        /// The write verifier, which equals the verifier in the replies to WRITE if the server has
        /// lost no data.
        #[doc(alias = "writeverf3")]
        pub verifier: [u8; 8],
    }
}
