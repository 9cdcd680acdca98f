//! The users, groups and hosts in the name services of this machine.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_base::groups::Groups;
use leasehold_base::units::Time;
use leasehold_fs::{Caller, MaybeReady, offload};
use leasehold_serve::Users;

use crate::limits::KNOWN_USERS_MAX;
use crate::pool::Pool;
use crate::{clock, sys};

/// The time for which the groups of a user are cached.
const GROUPS_VALID: Duration = Duration::from_secs(60);

/// Returns the user id of a user of this machine.
#[must_use]
pub fn user_named(name: &str) -> Option<u32> {
    sys::user_named(name)
}

/// Returns the group id of a group of this machine.
#[must_use]
pub fn group_named(name: &str) -> Option<u32> {
    sys::group_named(name)
}

/// Returns all groups of a user of this machine, the primary group first; `None` if there is no
/// such user.
#[must_use]
pub fn groups_of(uid: u32) -> Option<Vec<u32>> {
    sys::groups_of(uid)
}

/// Returns the addresses of a host; may take long.
///
/// # Errors
/// The name has no address, or the name service does not answer.
pub fn addresses_of(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<_> = (host, 0).to_socket_addrs()?.map(|one| one.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// The groups of this machine's users, cached for a minute; lookups run on a thread that may block.
#[derive(Default)]
pub struct ServerGroups {
    known: Arc<Mutex<BTreeMap<u32, Known>>>,
    pool: Pool,
}

/// The primary group and all groups of a user, if the user exists, and the time of the lookup.
type Known = (Option<(u32, Groups)>, Time);

impl Users for ServerGroups {
    fn with_groups(&self, caller: Caller) -> MaybeReady<'_, Caller> {
        let uid = caller.uid;
        let now = clock::now();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&uid) {
            Some((found, since)) if now.since(*since) < GROUPS_VALID => {
                MaybeReady::now(replaced(&caller, found.as_ref()))
            }
            Some(_) | None => {
                drop(known);
                let known = Arc::clone(&self.known);
                let found = offload(&self.pool, move || look_up(uid, now, &known));
                MaybeReady::later(async move { replaced(&caller, found.await.as_ref()) })
            }
        }
    }
}

fn look_up(uid: u32, now: Time, known: &Mutex<BTreeMap<u32, Known>>) -> Option<(u32, Groups)> {
    let found = groups_of(uid).map(|groups| {
        let main = groups.first().copied().unwrap_or(leasehold_fs::NOBODY);
        (main, Groups::of_server(&groups))
    });
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KNOWN_USERS_MAX {
        known.clear();
    }
    known.insert(uid, (found.clone(), now));
    found
}

/// Returns the caller with the groups in `found`. If this machine does not know the user, returns
/// the caller without supplementary groups.
fn replaced(caller: &Caller, found: Option<&(u32, Groups)>) -> Caller {
    match found {
        Some((gid, groups)) => Caller { gid: *gid, groups: groups.clone(), ..caller.clone() },
        None => Caller { gid: leasehold_fs::NOBODY, groups: Groups::default(), ..caller.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_unused_names_are_not() {
        assert_eq!((user_named("root"), group_named("root")), (Some(0), Some(0)));
        assert_eq!(groups_of(0).and_then(|groups| groups.first().copied()), Some(0));
        let none = "no-such-name";
        assert_eq!((user_named(none), group_named(none)), (None, None));
        assert_eq!((user_named("a\0b"), groups_of(4_000_000_000)), (None, None));
    }

    #[test]
    fn server_groups_replace_the_clients_groups() {
        let groups = Groups::of_server(&(1..=40).collect::<Vec<_>>());
        let claimed = Caller { uid: 7, gid: 8, groups: Groups::default() };
        let caller = replaced(&claimed, Some(&(1, groups)));
        assert!(caller.uid == 7 && caller.gid == 1 && caller.in_group(40));
        let unknown = replaced(&claimed, None);
        assert_eq!((unknown.uid, unknown.gid), (7, leasehold_fs::NOBODY));
    }
}
