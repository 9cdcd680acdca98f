//! From a credential on the wire to the user that an operation is done for.

use leasehold_base::groups::Groups;
use leasehold_base::xdr::{Decode as _, Reader};
use leasehold_fs::Caller;
use leasehold_wire::rpc::{AuthStatus, AuthSys, OpaqueAuth, flavor};

use crate::Trust;

/// Who asks, as far as the sender's word is worth it.
///
/// # Errors
/// What is wrong with the credential, to be answered.
pub(crate) fn caller(credential: &OpaqueAuth<'_>, trust: Trust) -> Result<Caller, AuthStatus> {
    let claimed = match credential.flavor {
        flavor::NONE => Caller::nobody(),
        flavor::SYS => claimed(credential)?,
        // No shorthand was ever given out: the client has to send the whole credential.
        flavor::SHORT => return Err(AuthStatus::RejectedCredential),
        _ => return Err(AuthStatus::BadCredential),
    };
    match trust {
        Trust::Claimed => Ok(claimed),
        Trust::Pinned { uid, gid } => Ok(Caller { uid, gid, groups: Groups::default() }),
        Trust::Nobody => Ok(Caller::nobody()),
        Trust::Refused => Err(AuthStatus::TooWeak),
    }
}

fn claimed(credential: &OpaqueAuth<'_>) -> Result<Caller, AuthStatus> {
    let mut reader = Reader::of_part(credential.body);
    let AuthSys { uid, gid, groups, .. } =
        AuthSys::decode(&mut reader).map_err(|_| AuthStatus::BadCredential)?;
    reader.finish().map_err(|_| AuthStatus::BadCredential)?;
    Ok(Caller { uid, gid, groups })
}
