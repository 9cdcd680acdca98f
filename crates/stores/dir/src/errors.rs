//! What the kernel's errors mean.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_fs::FsError;
use rustix::io::Errno;

/// The number of operations for which the kernel had no descriptor left.
static DESCRIPTORS_LACKED: AtomicU64 = AtomicU64::new(0);

/// How often an operation of any store failed because the process, or the machine, had as many
/// files open as its limit permits.
#[must_use]
pub fn descriptors_lacked() -> u64 {
    DESCRIPTORS_LACKED.load(Ordering::Relaxed)
}

/// The meaning of an error of the kernel. What stands in no row has no meaning to a caller.
pub(crate) fn meaning(errno: Errno) -> FsError {
    match errno {
        // What is busy is a mount point or in use by the server itself: not the caller's to change.
        Errno::ACCESS | Errno::BUSY | Errno::TXTBSY => FsError::Access,
        Errno::EXIST => FsError::AlreadyExists,
        Errno::XDEV => FsError::CrossDevice,
        Errno::FBIG | Errno::OVERFLOW => FsError::FileTooBig,
        // A link that is met where a file was wanted, too.
        Errno::INVAL | Errno::LOOP | Errno::ILSEQ => FsError::Invalid,
        Errno::IO | Errno::NOTRECOVERABLE => FsError::Io,
        Errno::ISDIR => FsError::IsDirectory,
        // The server is short of something, or another program holds a lease on the file.
        Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::NOBUFS => FsError::Later,
        Errno::MFILE | Errno::NFILE => {
            DESCRIPTORS_LACKED.fetch_add(1, Ordering::Relaxed);
            FsError::Later
        }
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::NOSPC => FsError::NoSpace,
        Errno::NXIO | Errno::NODEV => FsError::NoSuchDevice,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::NOTDIR => FsError::NotDirectory,
        Errno::NOENT => FsError::NotFound,
        Errno::PERM => FsError::NotOwner,
        Errno::OPNOTSUPP | Errno::NOSYS => FsError::NotSupported,
        Errno::DQUOT => FsError::QuotaExceeded,
        Errno::ROFS => FsError::ReadOnly,
        Errno::STALE => FsError::Stale,
        Errno::MLINK => FsError::TooManyLinks,
        _ => FsError::ServerFault,
    }
}
