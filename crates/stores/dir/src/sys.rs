//! System calls that the crate rustix does not provide.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use leasehold_fs::{ObjectId, RangeCopy};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::{Errno, Result};

/// The kernel's `struct file_handle`, with space for the longest handle that fits in an id.
#[repr(C)]
struct FileHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; ObjectId::BYTES_MAX],
}

/// A handle that the kernel has returned.
pub(crate) struct Handle {
    /// The file system's type of the handle.
    pub(crate) kind: i32,
    /// The bytes of the handle.
    pub(crate) id: ObjectId,
}

fn byte_count(bytes: usize) -> Result<u32> {
    u32::try_from(bytes).map_err(|_| Errno::OVERFLOW)
}

/// The kernel's `struct fsuuid2`.
#[repr(C)]
#[derive(Default)]
struct FileSystemUuid {
    length: u8,
    uuid: [u8; 16],
}

/// The number of the kernel's request `FS_IOC_GETFSUUID`.
const GET_FILE_SYSTEM_UUID: libc::Ioctl = libc::_IOR::<FileSystemUuid>(0x15, 0);

/// Returns the UUID of an object's file system.
pub(crate) fn file_system_uuid(object: BorrowedFd<'_>) -> Result<[u8; 16]> {
    let mut found = FileSystemUuid::default();
    // SAFETY: the request fills a `struct fsuuid2`, which `found` is.
    let result = unsafe { libc::ioctl(object.as_raw_fd(), GET_FILE_SYSTEM_UUID, &raw mut found) };
    if result != 0 {
        return Err(last_error());
    }
    if usize::from(found.length) != found.uuid.len() {
        return Err(Errno::NOTSUP);
    }
    Ok(found.uuid)
}

/// Makes the kernel start write-back of a file's data up to `end`. Sleeps if the disk's queue is
/// full, but does not wait until the data is written. If data is lost, each open descriptor still
/// receives the error.
pub(crate) fn begin_to_write(file: BorrowedFd<'_>, end: u64) -> Result<()> {
    let (file, end) = (file.as_raw_fd(), end.cast_signed());
    // SAFETY: the call takes no pointers.
    let result = unsafe { libc::sync_file_range(file, 0, end, libc::SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// The kernel's `struct file_clone_range`.
#[repr(C)]
struct FileCloneRange {
    source: i64,
    source_offset: u64,
    source_length: u64,
    target_offset: u64,
}

/// Makes a range of `target` share its blocks with a range of `source`.
pub(crate) fn clone_range(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    range: &RangeCopy,
    length: u64,
) -> Result<()> {
    let range = FileCloneRange {
        source: source.as_raw_fd().into(),
        source_offset: range.from_offset,
        source_length: length,
        target_offset: range.to_offset,
    };
    // SAFETY: the request reads a `struct file_clone_range`, which `range` is, and the descriptor
    // in it outlives the call.
    let result = unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONERANGE, &raw const range) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Returns the error of the last system call.
fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Returns the handle of a name in a directory, or of the directory itself with an empty name and
/// `AtFlags::EMPTY_PATH`. Returns [`Errno::OVERFLOW`] if the handle is longer than an id.
pub(crate) fn handle_at(directory: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<Handle> {
    let mut handle = FileHandle {
        handle_bytes: byte_count(ObjectId::BYTES_MAX)?,
        handle_type: 0,
        f_handle: [0; ObjectId::BYTES_MAX],
    };
    let mut mount = 0_i32;
    // SAFETY: the name ends with a NUL, and `handle` has as much space as its length field states.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            directory.as_raw_fd(),
            name.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            flags.bits(),
        )
    };
    if result != 0 {
        return Err(last_error());
    }
    let id = handle
        .f_handle
        .get(..handle.handle_bytes as usize)
        .and_then(ObjectId::new)
        .ok_or(Errno::OVERFLOW)?;
    Ok(Handle { kind: handle.handle_type, id })
}

/// Opens the object of a handle; `mount` is any descriptor on the object's mount.
pub(crate) fn open_by_handle(
    mount: BorrowedFd<'_>,
    kind: i32,
    id: &ObjectId,
    flags: OFlags,
) -> Result<OwnedFd> {
    let bytes = id.as_bytes();
    let mut handle = FileHandle {
        handle_bytes: byte_count(bytes.len())?,
        handle_type: kind,
        f_handle: [0; ObjectId::BYTES_MAX],
    };
    handle.f_handle[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: `handle` has as many bytes as its length field states.
    let result = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), &raw mut handle, flags.bits())
    };
    match i32::try_from(result) {
        // SAFETY: the kernel has just created this descriptor, and no other code owns it.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(last_error()),
    }
}

/// Appends up to `limit` bytes of the file, from `offset` on, to the buffer without growing it.
/// With `cached_only`, returns [`Errno::AGAIN`] if the read would wait for the disk.
pub(crate) fn read_at(
    file: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    limit: usize,
    offset: u64,
    cached_only: bool,
) -> Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| Errno::INVAL)?;
    let room = buffer.spare_capacity_mut();
    let piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len().min(limit) };
    let flags = if cached_only { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: `piece` lies within the buffer's spare capacity, which the kernel may write.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &raw const piece, 1, offset, flags) };
    let count = usize::try_from(count).map_err(|_| last_error())?;
    // SAFETY: the kernel has written `count` bytes behind the old end, within the capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Checks that this thread, with its file-system user and groups, has all the kinds of access in
/// `mode` (`R_OK`, `W_OK`, `X_OK`) to the object of a descriptor.
pub(crate) fn access(object: BorrowedFd<'_>, mode: i32) -> Result<()> {
    // SAFETY: the path is a constant that ends with a NUL.
    let result = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            object.as_raw_fd(),
            c"".as_ptr(),
            mode,
            libc::AT_EMPTY_PATH | libc::AT_EACCESS,
        )
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// An id that belongs to no user and no group. With this id, the calls below change nothing and
/// return the current id.
const NOBODY_AT_ALL: u32 = u32::MAX;

/// Sets the file-system user of this thread only; returns false if the kernel refused.
pub(crate) fn set_file_system_user(uid: u32) -> bool {
    // SAFETY: plain system calls without pointers. Unlike for setuid, the C library does not apply
    // them to all threads.
    let now = unsafe {
        libc::setfsuid(uid);
        libc::setfsuid(NOBODY_AT_ALL)
    };
    uid != NOBODY_AT_ALL && now.cast_unsigned() == uid
}

/// Sets the file-system group of this thread only; returns false if the kernel refused.
pub(crate) fn set_file_system_group(gid: u32) -> bool {
    // SAFETY: plain system calls without pointers, as in `set_file_system_user`.
    let now = unsafe {
        libc::setfsgid(gid);
        libc::setfsgid(NOBODY_AT_ALL)
    };
    gid != NOBODY_AT_ALL && now.cast_unsigned() == gid
}

/// The kinds of the kernel's leases on files.
pub(crate) const NO_LEASE: i32 = libc::F_UNLCK;
pub(crate) const READ_LEASE: i32 = libc::F_RDLCK;
pub(crate) const WRITE_LEASE: i32 = libc::F_WRLCK;

const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

/// The kernel's `struct f_owner_ex`.
#[repr(C)]
struct FileOwner {
    kind: libc::c_int,
    thread: libc::pid_t,
}

/// The signal for notifications of the kernel's leases. It is a real-time signal that no other code
/// uses, so the kernel queues each notification with its descriptor.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 5
}

/// Makes the kernel notify a thread when the open of a file by a program waits for the lease on the
/// file.
pub(crate) fn tell_of_lease(file: BorrowedFd<'_>, thread: i32) -> Result<()> {
    let owner = FileOwner { kind: F_OWNER_TID, thread };
    // SAFETY: the first call takes a number; the second call reads a `struct f_owner_ex`, and
    // `owner` has this layout.
    let failed = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, signal()) == -1
            || libc::fcntl(file.as_raw_fd(), F_SETOWN_EX, &raw const owner) == -1
    };
    if failed { Err(last_error()) } else { Ok(()) }
}

/// Sets the kernel's lease on a file.
pub(crate) fn set_lease(file: BorrowedFd<'_>, kind: i32) -> Result<()> {
    // SAFETY: the command takes a number.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if result == -1 { Err(last_error()) } else { Ok(()) }
}

/// Returns the kernel's lease on a file; if a program waits for the lease, returns the kind to
/// which the lease must change.
pub(crate) fn lease(file: BorrowedFd<'_>) -> Result<i32> {
    // SAFETY: the command takes no argument.
    let kind = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLEASE) };
    if kind == -1 { Err(last_error()) } else { Ok(kind) }
}

/// Blocks the notification signals for the calling thread. Returns the thread's id, and a
/// descriptor from which the thread reads later lease notifications.
pub(crate) fn hear_of_leases() -> Result<(i32, OwnedFd)> {
    // SAFETY: `set` is initialised before its use, and outlives the calls. `gettid` cannot fail.
    unsafe {
        let mut set: libc::sigset_t = core::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal());
        // The kernel sends SIGIO instead if too many signals are queued.
        libc::sigaddset(&raw mut set, libc::SIGIO);
        if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, core::ptr::null_mut()) != 0 {
            return Err(Errno::INVAL);
        }
        let file = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if file == -1 {
            return Err(last_error());
        }
        // The kernel has just created this descriptor, and no other code owns it.
        Ok((libc::gettid(), OwnedFd::from_raw_fd(file)))
    }
}

/// Returns the descriptor of the calling thread's next notification; `None` if notifications were
/// lost. Returns [`Errno::AGAIN`] if no notification is queued.
pub(crate) fn heard(signals: BorrowedFd<'_>) -> Result<Option<i32>> {
    // SAFETY: the structure consists of plain numbers, for which zero is a valid value.
    let mut told: libc::signalfd_siginfo = unsafe { core::mem::zeroed() };
    let length = size_of::<libc::signalfd_siginfo>();
    // SAFETY: `told` has the space that the call states.
    let count = unsafe { libc::read(signals.as_raw_fd(), (&raw mut told).cast(), length) };
    if count < 0 {
        return Err(last_error());
    }
    Ok((told.ssi_signo == signal().cast_unsigned()).then_some(told.ssi_fd))
}
