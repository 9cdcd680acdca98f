//! Maps the kernel's errors to the errors of the store.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_fs::FsError;
use rustix::io::Errno;

/// The number of operations that failed because the kernel had no free descriptor.
static DESCRIPTORS_LACKED: AtomicU64 = AtomicU64::new(0);

/// Returns the number of operations, over all stores, that failed because the process or the
/// machine had reached its limit of open files.
#[must_use]
pub fn descriptors_lacked() -> u64 {
    DESCRIPTORS_LACKED.load(Ordering::Relaxed)
}

/// Maps an error of the kernel. An error without a row below is a fault of the server.
pub(crate) fn meaning(errno: Errno) -> FsError {
    match errno {
        // BUSY: the object is a mount point, or the server itself uses it. The caller cannot change
        // it, so the client sees a permission error.
        Errno::ACCESS | Errno::BUSY | Errno::TXTBSY => FsError::Access,
        Errno::EXIST => FsError::AlreadyExists,
        Errno::XDEV => FsError::CrossDevice,
        Errno::FBIG | Errno::OVERFLOW => FsError::FileTooBig,
        // LOOP: a symbolic link is in the place of a file.
        Errno::INVAL | Errno::LOOP | Errno::ILSEQ => FsError::Invalid,
        Errno::IO | Errno::NOTRECOVERABLE => FsError::Io,
        Errno::ISDIR => FsError::IsDirectory,
        // The server lacks a resource, or another program holds a lease on the file: the client
        // retries later.
        Errno::AGAIN | Errno::INTR | Errno::NOMEM | Errno::NOBUFS => FsError::Delay,
        Errno::MFILE | Errno::NFILE => {
            DESCRIPTORS_LACKED.fetch_add(1, Ordering::Relaxed);
            FsError::Delay
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
