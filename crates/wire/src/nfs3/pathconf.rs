//! PATHCONF, procedure 20: limits of names and links (RFC 1813 3.3.20).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 20;

xdr_struct! {
    /// Which object.
    #[doc(alias = "PATHCONF3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
    }
}

/// The limits, or the object's attributes alone.
#[doc(alias = "PATHCONF3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The limits.
    #[doc(alias = "PATHCONF3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The largest number of names of one object.
        pub link_max: u32,
        /// The longest name, in bytes.
        pub name_bytes_max: u32,
        /// Whether a longer name is an error; else it is cut.
        #[doc(alias = "no_trunc")]
        pub refuses_long_names: bool,
        /// Whether only the privileged may give files away.
        pub chown_restricted: bool,
        /// Whether names that differ only in case are the same name.
        pub case_insensitive: bool,
        /// Whether names keep their case.
        pub case_preserving: bool,
    }
}
