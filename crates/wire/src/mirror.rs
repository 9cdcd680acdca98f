//! Programs that have the procedures of NFS version 3 with additional fields before the arguments
//! and results.

/// Declares a module for each procedure of NFS version 3, with its number, arguments and results.
/// `$call` and `$answer` wrap arguments and results in the types of the program that declares them.
/// The macro omits WRITE, because some programs define WRITE differently.
macro_rules! mirrored {
    ($call:ident, $answer:ident) => {
        mirrored! { $call, $answer;
            "GETATTR" getattr => Reply;
            "SETATTR" setattr => Reply;
            "LOOKUP" lookup 'a => Reply;
            "ACCESS" access => Reply;
            "READLINK" readlink => Reply 'a;
            "READ" read => Reply;
            "CREATE" create 'a => Reply;
            "MKDIR" mkdir 'a => Reply;
            "SYMLINK" symlink 'a => Reply;
            "MKNOD" mknod 'a => Reply;
            "REMOVE" remove 'a => Reply;
            "RMDIR" rmdir 'a => Reply;
            "RENAME" rename 'a => Reply;
            "LINK" link 'a => Reply;
            "READDIR" readdir => Listing 'a;
            "READDIRPLUS" readdirplus => Listing 'a;
            "FSSTAT" fsstat => Reply;
            "FSINFO" fsinfo => Reply;
            "PATHCONF" pathconf => Reply;
            "COMMIT" commit => Reply;
        }
    };
    ($call:ident, $answer:ident; $(
        $name:literal $module:ident $($args_life:lifetime)? => $reply:ident $($reply_life:lifetime)?;
    )*) => {$(
        #[doc = concat!($name, " of NFS version 3, with the words of this program.")]
        pub mod $module {
            use crate::nfs3;

            pub use nfs3::$module::NUMBER;

            /// The arguments.
            pub type Args $(<$args_life>)? =
                super::$call<nfs3::$module::Args $(<$args_life>)?>;

            /// The results.
            pub type $reply $(<$reply_life>)? =
                super::$answer<nfs3::$module::$reply $(<$reply_life>)?>;
        }
    )*};
}
