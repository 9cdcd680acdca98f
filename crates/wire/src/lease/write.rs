//! WRITE, procedure 7: writes data to a file, and then sets attributes.

use leasehold_base::xdr_struct;

use super::{Answer, Call};
use crate::nfs3::{self, SetAttributes};

pub use nfs3::write::NUMBER;

xdr_struct! {
    /// The arguments of WRITE, and attributes to set after the write.
    #[doc(alias = "lease_write_args")]
    pub struct Merged {
        /// The attributes to set.
        pub attributes: SetAttributes,
        /// The data and its offset.
        pub write: nfs3::write::Args,
    }
}

/// The arguments.
pub type Args = Call<Merged>;

/// The results.
pub type Reply = Answer<nfs3::write::Reply>;
