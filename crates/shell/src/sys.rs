//! System calls that need `unsafe`.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::ffi::{CStr, CString};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Receives into the free space of `buffer`; returns the number of bytes.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut BytesMut) -> Result<usize, Errno> {
    let ((received, _), _) = recv(socket, buffer.spare_capacity_mut(), RecvFlags::empty())?;
    let count = received.len();
    // SAFETY: the spare capacity begins at the buffer's length, and `recv` has just written its
    // first `count` bytes.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(count)
}

/// Makes a stream socket readable only when the given number of bytes or the end of the stream has
/// arrived.
pub(crate) fn readable_from(socket: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    set_number(socket, (libc::SOL_SOCKET, libc::SO_RCVLOWAT), bytes)
}

/// Limits the unsent bytes that a stream socket accepts.
pub(crate) fn hold_unsent(socket: &OwnedFd, bytes: usize) -> Result<(), Errno> {
    set_number(socket, (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT), bytes)
}

/// Sets a numeric socket option, given its level and name.
fn set_number(
    socket: &OwnedFd,
    (level, name): (libc::c_int, libc::c_int),
    number: usize,
) -> Result<(), Errno> {
    let number = libc::c_int::try_from(number).map_err(|_| Errno::INVAL)?;
    let (value, length) = ((&raw const number).cast(), length_of::<libc::c_int>());
    // SAFETY: the option's value is a whole integer that outlives the call.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Returns the number of bytes in the send queue of a stream socket that the peer has not
/// acknowledged.
pub(crate) fn unacknowledged(socket: &OwnedFd) -> Result<usize, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the request writes one integer, and `bytes` is one integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(last_error()) }
}

/// An invalid user or group id. With this argument `setfsuid` and `setfsgid` change nothing and
/// return the current id.
const NOBODY_AT_ALL: u32 = u32::MAX;

/// Returns the process and the user at the other end of a Unix socket, as the kernel recorded them
/// when the peer connected or listened. The process id is 0 for a process in another namespace. The
/// function does not use `rustix`, whose process id type cannot represent 0.
pub(crate) fn peer_of(socket: &UnixStream) -> io::Result<(i32, u32)> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = libc::socklen_t::try_from(size_of_val(&peer)).expect("it is small");
    // SAFETY: the kernel writes no more than `length` bytes, which `peer` has.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok((peer.pid, peer.uid)) } else { Err(io::Error::last_os_error()) }
}

/// Returns the file system user of this thread.
pub(crate) fn file_system_user() -> u32 {
    // SAFETY: a plain system call without pointers.
    unsafe { libc::setfsuid(NOBODY_AT_ALL) }.cast_unsigned()
}

/// Returns the file system group of this thread.
pub(crate) fn file_system_group() -> u32 {
    // SAFETY: as above.
    unsafe { libc::setfsgid(NOBODY_AT_ALL) }.cast_unsigned()
}

/// Sets the file system user of this thread alone, like a store that acts as a user.
#[cfg(test)]
pub(crate) fn set_file_system_user(uid: u32) {
    // SAFETY: a plain system call without pointers. The C library does not apply it to other
    // threads.
    unsafe { libc::setfsuid(uid) };
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the pointer is valid. `sigemptyset` initialises the whole set, so each `sigaddset`
    // receives an initialised set, and `assume_init` is correct afterwards.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

/// Blocks or unblocks signals for this thread and the threads that it starts.
pub(crate) fn block_signals(signals: &[i32], block: bool) {
    let how = if block { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is initialised, and the null pointer means that the old set is not returned.
    unsafe { libc::pthread_sigmask(how, &set_of(signals), core::ptr::null_mut()) };
}

/// Sleeps until one of the given blocked signals is pending, and consumes that signal.
pub(crate) fn wait_for_signal(signals: &[i32]) -> i32 {
    let mut signal = 0;
    // SAFETY: the set is initialised, and the pointer refers to `signal`, which the call writes.
    unsafe { libc::sigwait(&set_of(signals), &raw mut signal) };
    signal
}

/// Like [`wait_for_signal`], but also returns the id of the process that sent the signal; 0 for the
/// kernel.
pub(crate) fn wait_for_signal_of(signals: &[i32]) -> (i32, i32) {
    loop {
        // SAFETY: the structure consists of integers and unions of integers, for which zero bytes
        // are valid.
        let mut about: libc::siginfo_t = unsafe { core::mem::zeroed() };
        // SAFETY: the set is initialised, and the pointer refers to `about`, which the call writes.
        let signal = unsafe { libc::sigwaitinfo(&set_of(signals), &raw mut about) };
        if signal > 0 {
            // SAFETY: for these signals the kernel fills in the sender's process id, so the field
            // of the union is initialised.
            return (signal, unsafe { about.si_pid() });
        }
    }
}

/// Makes a write beyond the file size limit fail instead of ending the process.
pub(crate) fn ignore_file_size_signal() {
    // SAFETY: the call sets no handler function; it makes the process ignore the signal.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Makes the process ignore the signals of [`crate::process::Termination`] that do not request an
/// end. The next program in the process also ignores them until it blocks them itself.
pub(crate) fn ignore_restart_signals() {
    for signal in [libc::SIGHUP, libc::SIGUSR2] {
        // SAFETY: the call sets no handler function; it makes the process ignore the signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Returns an inherited descriptor of the process as an owned descriptor.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: the call only checks whether the number is an open descriptor.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        let what = format!("the given descriptor {number} is not open");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // SAFETY: the descriptor is open, and by the protocol of the starting process it belongs to
    // this process alone: this function runs once, before the process opens anything else.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Returns the time since boot, suspended time included.
///
/// Uses the C library: rustix aborts if the kernel's vDSO has no `getcpu`, as in user-mode Linux 7.
pub(crate) fn time_since_boot() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to `now`, which the call writes. The call cannot fail, because
    // every supported kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now
}

/// Returns the clock's parameters and the kernel's synchronization state.
pub(crate) fn clock_discipline() -> io::Result<(libc::timex, i32)> {
    // SAFETY: the structure contains only integers, for which zero is valid.
    let mut kept: libc::timex = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer refers to `kept`, which the call writes. Without a mode the call changes
    // nothing.
    match unsafe { libc::adjtimex(&raw mut kept) } {
        -1 => Err(io::Error::last_os_error()),
        state => Ok((kept, state)),
    }
}

/// The local destination address of a datagram, and its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) address: IpAddr,
    interface: u32,
}

impl Local {
    /// Creates the local address from which to reach a client.
    pub(crate) const fn towards(client: SocketAddr, address: IpAddr) -> Self {
        let interface = match client {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(client) => client.scope_id(),
        };
        Self { address, interface }
    }
}

/// The source and the destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) from: SocketAddr,
    pub(crate) to: Local,
}

/// A buffer for one control message with an address, with the alignment that the kernel requires.
type Control = [u64; 8];

const _: () = assert!(size_of::<Control>() >= 2 * size_of::<libc::in6_pktinfo>() + 16);

/// Makes the kernel report the local destination address of each datagram.
pub(crate) fn tell_local_address(socket: &OwnedFd, address: IpAddr) -> Result<(), Errno> {
    let option = match address {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    set_number(socket, option, 1)
}

/// Receives one datagram into the free space of `buffer`.
///
/// Returns no route if the server cannot reply to the sender; the caller then ignores the datagram.
pub(crate) fn receive_datagram(
    socket: &OwnedFd,
    buffer: &mut BytesMut,
) -> Result<Option<Route>, Errno> {
    // SAFETY: all these structures contain only integers and raw pointers, for which zero is valid.
    let (mut name, mut control, mut header): (libc::sockaddr_storage, Control, libc::msghdr) =
        unsafe { core::mem::zeroed() };
    let room = buffer.spare_capacity_mut();
    let mut data = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = length_of::<libc::sockaddr_storage>();
    header.msg_iov = &raw mut data;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>();
    // SAFETY: the pointers to the name, the data and the control data are valid for the lengths in
    // the header.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, 0) };
    let count = usize::try_from(count).map_err(|_| last_error())?;
    // SAFETY: the spare capacity begins at the buffer's length, and `recvmsg` has written its first
    // `count` bytes: without MSG_TRUNC in the flags of the call, `recvmsg` returns the number of
    // written bytes.
    unsafe { buffer.set_len(buffer.len() + count) };
    let whole = header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) == 0;
    Ok(whole.then(|| Some(Route { from: read_name(&name)?, to: read_local(&header)? })).flatten())
}

fn read_name(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let name: *const libc::sockaddr_storage = name;
    // SAFETY: the storage is large enough and aligned for the address of every family; the family
    // selects the type, and every bit pattern is a valid value.
    unsafe {
        match libc::c_int::from((*name).ss_family) {
            libc::AF_INET => {
                let name = &*name.cast::<libc::sockaddr_in>();
                let address = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
                Some((address, u16::from_be(name.sin_port)).into())
            }
            libc::AF_INET6 => {
                let name = &*name.cast::<libc::sockaddr_in6>();
                let address = Ipv6Addr::from(name.sin6_addr.s6_addr);
                let port = u16::from_be(name.sin6_port);
                Some(SocketAddrV6::new(address, port, 0, name.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

fn read_local(header: &libc::msghdr) -> Option<Local> {
    // SAFETY: the kernel has filled in the header and its control data, and the macros of the C
    // library visit the messages. Each value has the length that the kernel gives to messages of
    // its type.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = next.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (message.cmsg_level, message.cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    let address = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
                    return Some(Local { address: address.into(), interface: 0 });
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    let address = Ipv6Addr::from(info.ipi6_addr.s6_addr).into();
                    return Some(Local { address, interface: info.ipi6_ifindex });
                }
                _ => next = libc::CMSG_NXTHDR(header, message),
            }
        }
    }
    None
}

/// Sends one datagram to the source of a route, from the route's local address.
pub(crate) fn send_datagram(
    socket: &OwnedFd,
    parts: &mut [IoSlice<'_>],
    route: &Route,
) -> Result<(), Errno> {
    // SAFETY: all these structures contain only integers and raw pointers, for which zero is valid.
    let (mut control, mut header): (Control, libc::msghdr) = unsafe { core::mem::zeroed() };
    let (mut name, name_length) = write_name(route.from);
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = name_length;
    // By its documentation an `IoSlice` has the same layout as an `iovec`, so the cast is correct.
    header.msg_iov = parts.as_mut_ptr().cast();
    header.msg_iovlen = parts.len();
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of::<Control>();
    write_local(&mut header, route.to);
    // SAFETY: the pointers to the name, the parts and the control data are valid for the lengths in
    // the header.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
    if sent >= 0 { Ok(()) } else { Err(last_error()) }
}

fn write_name(to: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: the structure contains only integers, for which zero is valid.
    let mut name: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let storage = &raw mut name;
    let length = match to {
        SocketAddr::V4(to) => {
            let address = libc::sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*to.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the storage is large enough and aligned for the address of every family.
            unsafe { storage.cast::<libc::sockaddr_in>().write(address) };
            length_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(to) => {
            let address = libc::sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: to.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr { s6_addr: to.ip().octets() },
                sin6_scope_id: to.scope_id(),
            };
            // SAFETY: as above.
            unsafe { storage.cast::<libc::sockaddr_in6>().write(address) };
            length_of::<libc::sockaddr_in6>()
        }
    };
    (name, length)
}

/// Writes the control message that sets the source address of a datagram.
fn write_local(header: &mut libc::msghdr, local: Local) {
    match local.address {
        IpAddr::V4(address) => {
            let address = libc::in_addr { s_addr: u32::from(address).to_be() };
            let any = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: any };
            write_control(header, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
        }
        IpAddr::V6(address) => {
            let ipi6_addr = libc::in6_addr { s6_addr: address.octets() };
            let info = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: local.interface };
            write_control(header, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
        }
    }
}

/// Writes one control message and sets the length of the header's control data.
fn write_control<T: Copy>(
    header: &mut libc::msghdr,
    level: libc::c_int,
    kind: libc::c_int,
    value: T,
) {
    let length = u32::try_from(size_of::<T>()).expect("a few bytes");
    // SAFETY: the control data of the header is a `Control`, which is large enough for the message.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(length) as usize;
        libc::CMSG_DATA(message).cast::<T>().write_unaligned(value);
        header.msg_controllen = libc::CMSG_SPACE(length) as usize;
    }
}

fn family(family: libc::c_int) -> libc::sa_family_t {
    libc::sa_family_t::try_from(family).expect("a small number")
}

fn length_of<T>() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<T>()).expect("a few bytes")
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The maximum size of an entry in the list of users or groups, in bytes: enough for a group with
/// many thousand members.
const ENTRY_BYTES_MAX: usize = 8 << 20;

/// Requests an entry of a system list from the C library. The function provides a buffer for the
/// texts of the entry, which grows until the entry fits. `ask` returns the library's error number
/// and sets a pointer, which is null if there is no such entry.
fn entry<T, U>(
    mut ask: impl FnMut(*mut T, &mut [libc::c_char], *mut *mut T) -> i32,
    take: impl Fn(&T) -> U,
) -> Option<U> {
    let mut room = vec![0; 4096];
    loop {
        let mut entry = MaybeUninit::<T>::uninit();
        let mut found = core::ptr::null_mut();
        match ask(entry.as_mut_ptr(), &mut room, &raw mut found) {
            0 if found.is_null() => return None,
            // SAFETY: the pointer is not null, so the library has filled in the entry. The texts to
            // which the entry points are in `room`, which outlives the call of `take`.
            0 => return Some(take(unsafe { entry.assume_init_ref() })),
            libc::ERANGE if room.len() < ENTRY_BYTES_MAX => room.resize(room.len() * 4, 0),
            _ => return None,
        }
    }
}

/// Returns the user id of the user with the given name.
pub(crate) fn user_named(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let ask = |entry, room: &mut [libc::c_char], found| {
        // SAFETY: the name ends with a NUL, and the call may write the entry, the buffer and the
        // pointer.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, room.as_mut_ptr(), room.len(), found) }
    };
    entry(ask, |user: &libc::passwd| user.pw_uid)
}

/// Returns the group id of the group with the given name.
pub(crate) fn group_named(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let ask = |entry, room: &mut [libc::c_char], found| {
        // SAFETY: the name ends with a NUL, and the call may write the entry, the buffer and the
        // pointer.
        unsafe { libc::getgrnam_r(name.as_ptr(), entry, room.as_mut_ptr(), room.len(), found) }
    };
    entry(ask, |group: &libc::group| group.gr_gid)
}

/// Returns the groups of a user, the primary one first.
pub(crate) fn groups_of(uid: u32) -> Option<Vec<u32>> {
    let ask = |entry, room: &mut [libc::c_char], found| {
        // SAFETY: the call may write the entry, the buffer and the pointer.
        unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr(), room.len(), found) }
    };
    let (name, main) = entry(ask, |user: &libc::passwd| {
        // SAFETY: the name in a user entry is a valid pointer to a text that ends with a NUL.
        (unsafe { CStr::from_ptr(user.pw_name) }.to_owned(), user.pw_gid)
    })?;
    let mut groups = vec![0; 64];
    loop {
        let mut count = i32::try_from(groups.len()).ok()?;
        // SAFETY: the name ends with a NUL, and `groups` has space for `count` groups.
        let got =
            unsafe { libc::getgrouplist(name.as_ptr(), main, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).ok()?;
        if got >= 0 {
            groups.truncate(count);
            return Some(groups);
        }
        // The kernel supports at most 65,536 groups of a user, so a larger list is an error.
        if groups.len() > 1 << 16 {
            return None;
        }
        groups.resize(count.max(groups.len() * 2), 0);
    }
}
