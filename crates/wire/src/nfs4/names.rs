//! Operations on names in directories.

use leasehold_base::xdr_struct;

use super::ChangeId;

xdr_struct! {
    /// The change attribute of a directory before and after an operation (RFC 8881 3.3.5).
    #[doc(alias = "change_info4")]
    #[derive(Copy, Default)]
    pub struct ChangeInfo {
        /// True if no other change occurred between the two values.
        pub atomic: bool,
        /// The value before the operation.
        pub before: ChangeId,
        /// The value after the operation.
        pub after: ChangeId,
    }
}

/// LINK, operation 11: adds a name in the current directory to the saved object (RFC 8881 18.9).
pub mod link {
    use super::super::{Name, Reply as ReplyOf};
    use super::ChangeInfo;

    /// The new name.
    #[doc(alias = "LINK4args")]
    pub type Args<'a> = Name<'a>;

    /// The change of the directory.
    #[doc(alias("LINK4res", "LINK4resok"))]
    pub type Reply = ReplyOf<ChangeInfo>;
}

/// READLINK, operation 27: returns the target of the current symbolic link (RFC 8881 18.24).
pub mod readlink {
    use super::super::{Path, Reply as ReplyOf};

    /// The operation has no arguments.
    pub type Args = ();

    /// The target, which the client resolves.
    #[doc(alias("READLINK4res", "READLINK4resok"))]
    pub type Reply<'a> = ReplyOf<Path<'a>>;
}

/// REMOVE, operation 28: removes a name of the current directory (RFC 8881 18.25).
pub mod remove {
    use super::super::{Name, Reply as ReplyOf};
    use super::ChangeInfo;

    /// The name.
    #[doc(alias = "REMOVE4args")]
    pub type Args<'a> = Name<'a>;

    /// The change of the directory.
    #[doc(alias("REMOVE4res", "REMOVE4resok"))]
    pub type Reply = ReplyOf<ChangeInfo>;
}

/// RENAME, operation 29: moves a name from the saved directory to the current directory (RFC 8881
/// 18.26).
pub mod rename {
    use super::super::{Name, Reply as ReplyOf};
    use super::{ChangeInfo, xdr_struct};

    xdr_struct! {
        /// The names.
        #[doc(alias = "RENAME4args")]
        #[derive(Copy)]
        pub struct Args<'a> {
            /// The old name.
            pub from: Name<'a>,
            /// The new name.
            pub to: Name<'a>,
        }

        /// The changes of the directories.
        #[doc(alias = "RENAME4resok")]
        #[derive(Copy)]
        pub struct Done {
            /// The change of the saved directory.
            pub from: ChangeInfo,
            /// The change of the current directory.
            pub to: ChangeInfo,
        }
    }

    /// The results.
    #[doc(alias = "RENAME4res")]
    pub type Reply = ReplyOf<Done>;
}
