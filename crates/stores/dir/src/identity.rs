//! The identity under which a thread acts: the identity of the caller if the server has the
//! privilege to take it, otherwise the identity of the server's own user.
//!
//! The kernel keeps a user and groups for each thread, and changing them costs more than most
//! operations. So a thread keeps the identity of its last operation, and changes it only when the
//! next operation has another caller. A new thread inherits the identity of the thread that starts
//! it. The shell therefore starts its threads from a thread that serves no request, and does the
//! server's own file work on those threads. This store tests the privileges of the process on a
//! separate thread that then ends, so that the thread that opens a store keeps its identity.

use std::cell::RefCell;
use std::thread;

use leasehold_base::groups::Groups;
use leasehold_fs::{Caller, FsError};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, Gid, capabilities, set_capabilities, set_thread_groups};

use crate::sys;

/// The identity under which operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acting {
    /// The caller. The kernel checks the caller's permissions, including access control lists and
    /// quotas.
    Caller,
    /// The server's own user, for every caller.
    Server,
}

/// The capabilities that a thread needs to act as any caller, and to become the server's user
/// again.
const POWERS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// The capabilities that override the kernel's checks of file permissions.
const OVERRIDES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SYS_RESOURCE);

/// A capability that no store needs, and that the superuser also has in containers. A thread gives
/// it up before it first acts as a caller. If the shell's own file work runs on a thread without
/// this capability, the shell reports a fault.
const MARK: CapabilitySet = CapabilitySet::SYS_CHROOT;

thread_local! {
    /// The caller for which this thread acts; `None` before its first operation.
    static NOW: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Returns the superuser, which is the server's identity if the server can act as any user.
fn superuser() -> Caller {
    Caller { uid: 0, gid: 0, groups: Groups::default() }
}

/// Runs work on a new thread, whose identity ends with the thread.
pub(crate) fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, work);
        let thread = thread.map_err(|_| Errno::AGAIN)?;
        thread.join().map_err(|_| Errno::IO)
    })
}

impl Acting {
    /// Tests the privileges: becomes an unprivileged user and checks that this removed the
    /// capabilities.
    ///
    /// # Errors
    /// The capabilities remain (securebits of the process): callers would have the server's
    /// privileges.
    pub(crate) fn probe() -> Result<Self, Errno> {
        aside(Self::try_out)?
    }

    /// Performs the test of `probe` on this thread. The thread must not do other work afterwards.
    fn try_out() -> Result<Self, Errno> {
        // This thread may still act as a caller without privileges, because it has served another
        // store. So try to become the superuser first. If that fails, the thread never was the
        // superuser, and the check below finds this.
        let _ = become_user(&superuser());
        if !capabilities(None)?.effective.contains(POWERS) {
            return Ok(Self::Server);
        }
        let switched = become_user(&superuser()).and_then(|()| become_user(&Caller::nobody()));
        let powers_left = capabilities(None)?.effective.intersects(CapabilitySet::DAC_OVERRIDE);
        match (switched, powers_left) {
            (Ok(()), false) => Ok(Self::Caller),
            (Ok(()), true) => Err(Errno::PERM),
            // The process cannot become another user, for example in a user namespace with only one
            // user: act as the server's user for all callers.
            (Err(_), _) => Ok(Self::Server),
        }
    }

    /// Makes this thread act for a caller.
    pub(crate) fn as_caller(self, caller: &Caller) -> Result<(), FsError> {
        match self {
            Self::Caller => switch(caller),
            Self::Server => keep(),
        }
    }

    /// Makes this thread act for the server itself.
    pub(crate) fn as_server(self) -> Result<(), FsError> {
        match self {
            Self::Caller => switch(&superuser()),
            Self::Server => keep(),
        }
    }
}

/// Makes this thread act for `caller`, if it does not already act for this caller.
fn switch(caller: &Caller) -> Result<(), FsError> {
    if NOW.with_borrow(|now| now.as_ref() == Some(caller)) {
        return Ok(());
    }
    if NOW.with_borrow(Option::is_none) {
        // Before its first operation the thread gives up the exemption from quotas and reserved
        // blocks, because these limits apply to callers. The thread must then become the superuser:
        // the kernel removes capabilities only when the user changes from 0 to another user, so
        // another user would keep its capabilities when the thread acts as a caller.
        give_up(CapabilitySet::SYS_RESOURCE.union(MARK))?;
        become_user(&superuser())?;
    }
    become_user(caller)
}

/// Ensures that this thread, which acts as the server's user for all callers, has no more
/// privileges than that user.
fn keep() -> Result<(), FsError> {
    if NOW.with_borrow(Option::is_none) {
        give_up(OVERRIDES)?;
        NOW.set(Some(Caller::nobody()));
    }
    Ok(())
}

/// Removes capabilities from this thread.
fn give_up(powers: CapabilitySet) -> Result<(), FsError> {
    let mut sets = capabilities(None).map_err(|_| FsError::ServerFault)?;
    if sets.effective.intersects(powers) {
        sets.effective.remove(powers);
        set_capabilities(None, sets).map_err(|_| FsError::ServerFault)?;
    }
    Ok(())
}

/// Sets the user and the groups that differ from the thread's current identity. Returns
/// [`FsError::Access`] for a user or group that the kernel does not accept. The thread's identity
/// is then unknown, and the next operation sets it completely.
fn become_user(caller: &Caller) -> Result<(), FsError> {
    let now = NOW.take();
    if now.as_ref().is_none_or(|now| now.groups != caller.groups) {
        let groups: Vec<Gid> =
            caller.groups.as_slice().iter().map(|&gid| Gid::from_raw_unchecked(gid)).collect();
        set_thread_groups(&groups).map_err(|_| FsError::Access)?;
    }
    let group_differs = now.as_ref().is_none_or(|now| now.gid != caller.gid);
    if group_differs && !sys::set_file_system_group(caller.gid) {
        return Err(FsError::Access);
    }
    let user_differs = now.as_ref().is_none_or(|now| now.uid != caller.uid);
    if user_differs && !sys::set_file_system_user(caller.uid) {
        return Err(FsError::Access);
    }
    NOW.set(Some(caller.clone()));
    Ok(())
}
