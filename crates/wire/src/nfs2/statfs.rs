//! STATFS, procedure 17: returns the size and free space of a file system (RFC 1094 2.2.18).

use leasehold_base::xdr_struct;

use super::Handle;

/// The procedure's number.
pub const NUMBER: u32 = 17;

/// An object of the file system.
pub type Args = Handle;

/// The size and free space.
#[doc(alias = "statfsres")]
pub type Reply = super::Reply<Done>;

xdr_struct! {
    /// The size and free space.
    #[derive(Copy)]
    pub struct Done {
        /// The best size of a READ or WRITE, in bytes.
        #[doc(alias = "tsize")]
        pub transfer_bytes_best: u32,
        /// The size of a block, in bytes.
        #[doc(alias = "bsize")]
        pub block_bytes: u32,
        /// The number of blocks.
        pub blocks: u32,
        /// The number of free blocks.
        #[doc(alias = "bfree")]
        pub free_blocks: u32,
        /// The number of free blocks that unprivileged users may use.
        #[doc(alias = "bavail")]
        pub available_blocks: u32,
    }
}
