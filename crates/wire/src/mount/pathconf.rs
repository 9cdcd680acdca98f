//! PATHCONF, procedure 7 of version 2: returns the POSIX limits of a directory. No RFC describes
//! it; the layout is from the interface definition that servers use.

use leasehold_base::xdr_struct;

use super::Path;

/// The procedure's number.
pub const NUMBER: u32 = 7;

/// The directory.
pub type Args<'a> = Path<'a>;

xdr_struct! {
    /// The limits. All but the first are short integers or bytes, which take a word each.
    #[doc(alias = "ppathcnf")]
    #[derive(Copy, Default)]
    pub struct Reply {
        /// The largest number of names of one object.
        pub link_max: u32,
        /// The longest line that is edited on a terminal, in bytes.
        pub canonical_bytes_max: u32,
        /// The longest input of a terminal, in bytes.
        pub input_bytes_max: u32,
        /// The longest name, in bytes.
        pub name_bytes_max: u32,
        /// The longest path, in bytes.
        pub path_bytes_max: u32,
        /// The number of bytes that a write to a pipe transfers atomically.
        pub pipe_bytes: u32,
        /// The character that switches a control character off.
        #[doc(alias = "pc_vdisable")]
        pub disabling_character: u32,
        /// The client ignores this field.
        pub unused: u32,
        /// The mask of valid fields, first word.
        pub mask: u32,
        /// The mask of valid fields, second word.
        pub mask_more: u32,
    }
}
