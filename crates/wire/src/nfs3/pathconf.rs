//! PATHCONF, procedure 20: returns limits of names and links (RFC 1813 3.3.20).

use leasehold_base::xdr_struct;

use super::{Attributes, Handle};

/// The procedure's number.
pub const NUMBER: u32 = 20;

xdr_struct! {
    /// The object.
    #[doc(alias = "PATHCONF3args")]
    #[derive(Copy)]
    pub struct Args {
        /// The object.
        pub object: Handle,
    }
}

/// The limits; in case of an error only the object's attributes.
#[doc(alias = "PATHCONF3res")]
pub type Reply = super::Reply<Done, Option<Attributes>>;

xdr_struct! {
    /// The limits.
    #[doc(alias = "PATHCONF3resok")]
    #[derive(Copy)]
    pub struct Done {
        /// The object's attributes.
        pub attributes: Option<Attributes>,
        /// The maximum number of names of one object.
        pub link_max: u32,
        /// The maximum length of a name, in bytes.
        pub name_bytes_max: u32,
        /// True if a longer name is an error; false if the server truncates it.
        #[doc(alias = "no_trunc")]
        pub refuses_long_names: bool,
        /// True if only privileged users may change the owner of a file.
        pub chown_restricted: bool,
        /// True if names that differ only in case are equal.
        pub case_insensitive: bool,
        /// True if the file system preserves the case of names.
        pub case_preserving: bool,
    }
}
