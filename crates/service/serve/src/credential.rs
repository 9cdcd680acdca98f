//! From a credential on the wire to the user that an operation is done for.

use leasehold_base::groups::Groups;
use leasehold_base::xdr::{Decode as _, Reader};
use leasehold_fs::Caller;
use leasehold_wire::rpc::{AuthStatus, AuthSys, OpaqueAuth, flavor};

use crate::Trust;

/// Who the sender says that it is.
///
/// # Errors
/// What is wrong with the credential, to be answered.
pub(crate) fn claimed(credential: &OpaqueAuth<'_>) -> Result<Caller, AuthStatus> {
    match credential.flavor {
        flavor::NONE => Ok(Caller::nobody()),
        flavor::SYS => system_user(credential),
        // No shorthand was ever given out: the client has to send the whole credential.
        flavor::SHORT => Err(AuthStatus::RejectedCredential),
        _ => Err(AuthStatus::BadCredential),
    }
}

/// Who asks, as far as the sender's word is worth it.
///
/// # Errors
/// That it is worth nothing, to be answered.
pub(crate) fn believed(claimed: Caller, trust: Trust) -> Result<Caller, AuthStatus> {
    match trust {
        Trust::Claimed => Ok(claimed),
        Trust::Pinned { uid, gid } => Ok(Caller { uid, gid, groups: Groups::default() }),
        Trust::Nobody => Ok(Caller::nobody()),
        Trust::Refused => Err(AuthStatus::TooWeak),
    }
}

fn system_user(credential: &OpaqueAuth<'_>) -> Result<Caller, AuthStatus> {
    let mut reader = Reader::of_part(credential.body);
    let AuthSys { uid, gid, groups, .. } =
        AuthSys::decode(&mut reader).map_err(|_| AuthStatus::BadCredential)?;
    reader.finish().map_err(|_| AuthStatus::BadCredential)?;
    Ok(Caller { uid, gid, groups })
}
