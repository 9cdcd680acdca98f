//! From a credential on the wire to the user that an operation is done for.

use leasehold_base::groups::Groups;
use leasehold_base::xdr::{Decode as _, Reader};
use leasehold_fs::Caller;
use leasehold_wire::rpc::{AuthStatus, AuthSys, OpaqueAuth, flavor};

use crate::Trust;

/// Who the sender says that it is; none where it says nothing.
///
/// # Errors
/// What is wrong with the credential, to be answered.
pub(crate) fn claimed(credential: &OpaqueAuth<'_>) -> Result<Option<Caller>, AuthStatus> {
    match credential.flavor {
        flavor::NONE => Ok(None),
        flavor::SYS => system_user(credential).map(Some),
        // No shorthand was ever given out: the client has to send the whole credential.
        flavor::SHORT => Err(AuthStatus::RejectedCredential),
        _ => Err(AuthStatus::BadCredential),
    }
}

/// Who sends, in whichever export it is about: what tells equal messages of two senders apart.
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
