//! System calls that need `unsafe`.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Receives into the free room of `buffer`; says how many bytes came.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut BytesMut) -> Result<usize, Errno> {
    let ((received, _), _) = recv(socket, buffer.spare_capacity_mut(), RecvFlags::empty())?;
    let count = received.len();
    // SAFETY: the spare room begins at the buffer's length, and its first `count` bytes were
    // written just now.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// SIGINT and SIGTERM.
fn termination() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` makes a whole set of the memory, and `sigaddset` gets one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
        set.assume_init()
    }
}

/// Has SIGINT and SIGTERM wait, or no longer wait, for this thread and those that it starts.
pub(crate) fn block_termination(block: bool) {
    let how = if block { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is whole, and the old one is not asked for.
    unsafe { libc::pthread_sigmask(how, &termination(), core::ptr::null_mut()) };
}

/// Sleeps until SIGINT or SIGTERM comes, which must be blocked, and takes it.
pub(crate) fn wait_for_termination() {
    let mut signal = 0;
    // SAFETY: the set is whole and the signal has room.
    unsafe { libc::sigwait(&termination(), &raw mut signal) };
}

/// Has a write beyond the limit of a file's size fail, rather than end the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: no handler is set, the signal is ignored.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
