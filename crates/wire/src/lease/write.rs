//! WRITE, procedure 7: data to a file, and attributes behind it.

use leasehold_base::xdr_struct;

use super::{Answer, Call};
use crate::nfs3::{self, SetAttributes};

pub use nfs3::write::NUMBER;

xdr_struct! {
    /// WRITE, and what is set behind it.
    #[doc(alias = "lease_write_args")]
    pub struct Merged {
        /// What is set.
        pub attributes: SetAttributes,
        /// The data and where it goes.
        pub write: nfs3::write::Args,
    }
}

/// The arguments.
pub type Args = Call<Merged>;

/// The results.
pub type Reply = Answer<nfs3::write::Reply>;
