//! The credentials of calls, and the users that they claim.

use leasehold_base::groups::Groups;
use leasehold_base::xdr::{Decode as _, Reader};
use leasehold_fs::Caller;
use leasehold_wire::rpc::{AuthStatus, AuthSys, OpaqueAuth, flavor};

use crate::Trust;

/// Returns the user and the groups that the sender claims; None for a call without a credential.
///
/// # Errors
/// The status of the reply to an invalid credential.
pub(crate) fn claimed(credential: &OpaqueAuth<'_>) -> Result<Option<Caller>, AuthStatus> {
    match credential.flavor {
        flavor::NONE => Ok(None),
        flavor::SYS => system_user(credential).map(Some),
        // The server never issues a shorthand credential, so the client must send the whole
        // credential again.
        flavor::SHORT => Err(AuthStatus::RejectedCredential),
        _ => Err(AuthStatus::BadCredential),
    }
}

/// Returns the sender by which the duplicate request cache distinguishes equal messages of two
/// senders. The sender does not depend on the export.
pub(crate) fn sender(claimed: Option<&Caller>, trust: Trust) -> Caller {
    match trust {
        Trust::Claimed | Trust::Unvouched { .. } => claimed.cloned().unwrap_or_else(Caller::nobody),
        Trust::Pinned { uid, gid } => Caller { uid, gid, groups: Groups::default() },
        Trust::Nobody | Trust::Refused => Caller::nobody(),
    }
}

fn system_user(credential: &OpaqueAuth<'_>) -> Result<Caller, AuthStatus> {
    let mut reader = Reader::of_part(credential.body);
    let AuthSys { uid, gid, groups, .. } =
        AuthSys::decode(&mut reader).map_err(|_| AuthStatus::BadCredential)?;
    reader.finish().map_err(|_| AuthStatus::BadCredential)?;
    Ok(Caller { uid, gid, groups })
}
