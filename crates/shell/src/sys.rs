//! System calls that need `unsafe`.

#![allow(unsafe_code)]

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
