//! The negotiation with the kernel at the start of a session.

use rustix::io::Errno;

use crate::TRANSFER_BYTES_MAX;
use crate::request::Hello;

/// The only supported major version.
const MAJOR: u32 = 7;
/// The oldest supported minor version (Linux 5.4). Older versions have messages of other lengths.
const MINOR_MIN: u32 = 31;
/// The newest minor version whose messages have the lengths that this crate uses.
const MINOR_MAX: u32 = 41;

/// The minor version from which the kernel can invalidate names without a wait (Linux 6.16).
const MINOR_OF_EPOCHS: u32 = 44;

/// The maximum number of background requests in progress (read-ahead and parts of direct I/O).
const BACKGROUND_MAX: u16 = 64;

mod flag {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const BIG_WRITES: u64 = 1 << 5;
    pub(super) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(super) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(super) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(super) const ASYNC_DIO: u64 = 1 << 15;
    pub(super) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(super) const MAX_PAGES: u64 = 1 << 22;
    pub(super) const CACHE_SYMLINKS: u64 = 1 << 23;
    pub(super) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(super) const INIT_EXT: u64 = 1 << 30;
    pub(super) const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub(super) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// The features that the session requests if the kernel supports them. The session does not request
/// WRITEBACK_CACHE, which would give the kernel control of size and times. It does not request
/// POSIX_LOCKS and FLOCK_LOCKS, because locks are local to the machine.
const WANTED: u64 = flag::ASYNC_READ
    | flag::BIG_WRITES
    | flag::DO_READDIRPLUS
    | flag::READDIRPLUS_AUTO
    | flag::ASYNC_DIO
    | flag::PARALLEL_DIROPS
    | flag::MAX_PAGES
    | flag::CACHE_SYMLINKS
    | flag::HANDLE_KILLPRIV_V2
    | flag::INIT_EXT
    | flag::HAS_EXPIRE_ONLY
    | flag::DIRECT_IO_ALLOW_MMAP;

/// The kernel's features that other code queries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kernel {
    /// True if the kernel can invalidate all names at once by a new epoch.
    pub(crate) has_epochs: bool,
    /// True if the kernel can map files that are open for direct I/O.
    pub(crate) maps_direct: bool,
}

impl Kernel {
    pub(crate) const fn of(hello: &Hello) -> Self {
        Self {
            has_epochs: hello.minor >= MINOR_OF_EPOCHS,
            maps_direct: hello.flags & flag::DIRECT_IO_ALLOW_MMAP != 0,
        }
    }
}

/// Encodes the reply to INIT without the reply header. With `checks_pages`, the kernel uses cached
/// pages of a file only while the attributes of the file are valid.
pub(crate) fn answer(hello: &Hello, checks_pages: bool) -> Result<Vec<u8>, Errno> {
    if hello.major != MAJOR || hello.minor < MINOR_MIN {
        return Err(Errno::PROTO);
    }
    let wanted = if checks_pages { WANTED | flag::AUTO_INVAL_DATA } else { WANTED };
    let flags = hello.flags & wanted;
    let [low, high] = [flags, flags >> 32].map(|flags| (flags & 0xffff_ffff) as u32);
    let mut body = vec![0; 16];
    for word in [MAJOR, hello.minor.min(MINOR_MAX), hello.read_ahead, low] {
        body.extend(word.to_ne_bytes());
    }
    body.extend(BACKGROUND_MAX.to_ne_bytes());
    body.extend((BACKGROUND_MAX * 3 / 4).to_ne_bytes());
    body.extend(TRANSFER_BYTES_MAX.to_ne_bytes());
    // The resolution of times is one nanosecond.
    body.extend(1_u32.to_ne_bytes());
    let pages = u16::try_from(TRANSFER_BYTES_MAX / 4096).expect("a constant");
    body.extend(pages.to_ne_bytes());
    body.extend([0; 2]);
    body.extend(high.to_ne_bytes());
    body.extend([0; 28]);
    Ok(body)
}
