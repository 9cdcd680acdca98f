//! Operations that set, save or return the current file handle.

/// PUTFH, operation 22: sets the current file handle (RFC 8881 18.19).
pub mod putfh {
    use super::super::{Completion, Handle};

    /// The handle.
    #[doc(alias = "PUTFH4args")]
    pub type Args = Handle;

    /// The status.
    #[doc(alias = "PUTFH4res")]
    pub type Reply = Completion;
}

/// PUTPUBFH, operation 23: sets the current file handle to the public handle (RFC 8881 18.20).
pub mod putpubfh {
    /// The operation has no arguments.
    pub type Args = ();

    /// The status.
    #[doc(alias = "PUTPUBFH4res")]
    pub type Reply = super::super::Completion;
}

/// PUTROOTFH, operation 24: sets the current file handle to the root of the server (RFC 8881
/// 18.21).
pub mod putrootfh {
    /// The operation has no arguments.
    pub type Args = ();

    /// The status.
    #[doc(alias = "PUTROOTFH4res")]
    pub type Reply = super::super::Completion;
}

/// GETFH, operation 10: returns the current file handle (RFC 8881 18.8).
pub mod getfh {
    /// The operation has no arguments.
    pub type Args = ();

    /// The handle.
    #[doc(alias("GETFH4res", "GETFH4resok"))]
    pub type Reply = super::super::Reply<super::super::Handle>;
}

/// SAVEFH, operation 32: saves the current file handle (RFC 8881 18.28).
pub mod savefh {
    /// The operation has no arguments.
    pub type Args = ();

    /// The status.
    #[doc(alias = "SAVEFH4res")]
    pub type Reply = super::super::Completion;
}

/// RESTOREFH, operation 31: sets the current file handle to the saved handle (RFC 8881 18.27).
pub mod restorefh {
    /// The operation has no arguments.
    pub type Args = ();

    /// The status.
    #[doc(alias = "RESTOREFH4res")]
    pub type Reply = super::super::Completion;
}

/// LOOKUP, operation 15: sets the current file handle to a named object of the current directory
/// (RFC 8881 18.13).
pub mod lookup {
    use super::super::{Completion, Name};

    /// The name.
    #[doc(alias = "LOOKUP4args")]
    pub type Args<'a> = Name<'a>;

    /// The status.
    #[doc(alias = "LOOKUP4res")]
    pub type Reply = Completion;
}

/// LOOKUPP, operation 16: sets the current file handle to the parent of the current directory (RFC
/// 8881 18.14).
pub mod lookupp {
    /// The operation has no arguments.
    pub type Args = ();

    /// The status.
    #[doc(alias = "LOOKUPP4res")]
    pub type Reply = super::super::Completion;
}

/// OPENATTR, operation 19: sets the current file handle to the directory of named attributes of the
/// current object (RFC 8881 18.17).
pub mod openattr {
    use leasehold_base::xdr_struct;

    xdr_struct! {
        /// The option.
        #[doc(alias = "OPENATTR4args")]
        #[derive(Copy)]
        pub struct Args {
            /// True if the server must make a missing directory.
            pub create: bool,
        }
    }

    /// The status.
    #[doc(alias = "OPENATTR4res")]
    pub type Reply = super::super::Completion;
}
