//! PATHCONF, procedure 7 of version 2: limits of a directory, as POSIX has them. No RFC describes
//! it; the layout is that of the interface definition that servers are built from.

use leasehold_base::xdr_struct;

use super::Path;

/// The procedure's number.
pub const NUMBER: u32 = 7;

/// Which directory.
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
        /// What is written to a pipe in one piece, in bytes.
        pub pipe_bytes: u32,
        /// The character that switches a control character off.
        #[doc(alias = "pc_vdisable")]
        pub disabling_character: u32,
        /// Without meaning.
        pub unused: u32,
        /// Which of the values hold, first word.
        pub mask: u32,
        /// Which of the values hold, second word.
        pub mask_more: u32,
    }
}
