//! ACCESS of version 3: the rights of a caller.

use leasehold_wire::nfs3::Handle;
use leasehold_wire::nfs3::access::Access;

use super::prelude::*;
use crate::client::{Both, Credential};
use crate::v3::{V3, mode, procedure};

pub(crate) const GROUP: Group = Group {
    name: "v3_access",
    about: "ACCESS of version 3: the rights of a caller",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        the_owner_may_read_and_write_its_file: "RFC 1813 3.3.4",
        the_owner_may_use_its_directory: "RFC 1813 3.3.4",
        only_what_was_asked_is_answered: "RFC 1813 3.3.4, access",
        nothing_asked_is_nothing_granted: "RFC 1813 3.3.4, access",
        unknown_bits_are_not_granted: "RFC 1813 3.3.4, access",
        attributes_come_along: "RFC 1813 2.6, post_op_attr",
        execution_needs_its_bit: "RFC 1813 3.3.4, ACCESS3_EXECUTE",
        a_stranger_gets_the_rights_of_others: "RFC 1813 3.3.4",
        a_stranger_gets_nothing_from_0700: "RFC 1813 3.3.4",
        a_group_gets_the_rights_of_the_group: "RFC 1813 3.3.4",
        a_further_group_counts_too: "RFC 5531 appendix A, gids",
        writing_a_directory_needs_its_bit: "RFC 1813 3.3.4, ACCESS3_EXTEND",
        what_is_granted_works: "RFC 1813 3.3.4",
        what_is_refused_does_not_work: "RFC 1813 3.3.4",
        a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

const ALL: Access =
    Access { read: true, lookup: true, modify: true, extend: true, delete: true, execute: true };

/// Returns the granted rights after a request for all rights.
fn granted(v3: &mut V3, object: Handle) -> Result<Access, Stop> {
    Ok(v3.access(object, ALL)?.done()?.access)
}

/// Returns the rights of a user other than the owner on a file with this mode.
fn stranger_gets(b: &mut Bench<'_>, bits: u32, credential: &Credential) -> Result<Access, Stop> {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"1")?;
    user.setattr(file, mode(bits))?.done()?;
    granted(&mut b.as_user(credential), file)
}

fn the_owner_may_read_and_write_its_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let access = granted(&mut b.v3, file)?;
    ensure!(access.read && access.modify && access.extend, "the owner gets {access:?}");
    Ok(())
}

fn the_owner_may_use_its_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let access = granted(&mut b.v3, dir)?;
    let all = access.read && access.lookup && access.modify && access.extend && access.delete;
    ensure!(all, "the owner gets {access:?}");
    Ok(())
}

fn only_what_was_asked_is_answered(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for asked in [
        Access { read: true, ..Access::default() },
        Access { lookup: true, ..Access::default() },
        Access { extend: true, ..Access::default() },
    ] {
        let access = b.v3.access(dir, asked)?.done()?.access;
        equal("rights", access, asked)?;
    }
    Ok(())
}

fn nothing_asked_is_nothing_granted(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let access = b.v3.access(dir, Access::default())?.done()?.access;
    equal("rights", access, Access::default())
}

fn unknown_bits_are_not_granted(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let access = procedure(leasehold_wire::nfs3::access::NUMBER);
    let results = b.v3.client.call(access, &Both(dir, u32::MAX))?;
    let granted = results.last_chunk().map_or(0, |word| u32::from_be_bytes(*word));
    ensure!(results.starts_with(&[0; 4]), "ACCESS with all bits is not answered with success");
    let unknown = granted & !0x3f;
    // "The server checks the permissions encoded in the bit mask"; these encode none.
    ensure!(unknown == 0, "bits without meaning are granted: {unknown:#x}");
    Ok(())
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let attributes = b.v3.access(dir, ALL)?.done()?.attributes;
    match attributes {
        Some(attributes) => super::same("attributes", attributes, b.v3.attributes(dir)?),
        None => {
            b.advise(false, "ACCESS should give the attributes of the object");
            Ok(())
        }
    }
}

fn execution_needs_its_bit(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let access = granted(&mut b.v3, file)?;
    ensure!(!access.execute, "a file of mode 0644 may be executed");
    b.v3.setattr(file, mode(0o755))?.done()?;
    let access = granted(&mut b.v3, file)?;
    ensure!(access.execute, "a file of mode 0755 may not be executed");
    Ok(())
}

fn a_stranger_gets_the_rights_of_others(b: &mut Bench<'_>) -> Verdict {
    let stranger = b.user(1)?;
    let access = stranger_gets(b, 0o704, &stranger)?;
    ensure!(
        access.read && !access.modify && !access.extend && !access.execute,
        "a stranger gets {access:?} of mode 0704"
    );
    Ok(())
}

fn a_stranger_gets_nothing_from_0700(b: &mut Bench<'_>) -> Verdict {
    let stranger = b.user(1)?;
    let access = stranger_gets(b, 0o770, &stranger)?;
    let nothing = Access { delete: access.delete, ..Access::default() };
    equal("rights of a stranger in a file of mode 0770", access, nothing)
}

fn a_group_gets_the_rights_of_the_group(b: &mut Bench<'_>) -> Verdict {
    let (Credential::Sys { gid, .. }, Credential::Sys { uid, .. }) = (b.user(0)?, b.user(1)?)
    else {
        return Err(Stop::skip("users have no numbers"));
    };
    let member = Credential::user(uid, gid);
    let access = stranger_gets(b, 0o060, &member)?;
    ensure!(access.read && access.modify, "a member of the group gets {access:?} of mode 0060");
    Ok(())
}

fn a_further_group_counts_too(b: &mut Bench<'_>) -> Verdict {
    let (Credential::Sys { gid: theirs, .. }, Credential::Sys { uid, gid, .. }) =
        (b.user(0)?, b.user(1)?)
    else {
        return Err(Stop::skip("users have no numbers"));
    };
    let member = Credential::Sys { uid, gid, groups: vec![7, theirs] };
    let access = stranger_gets(b, 0o040, &member)?;
    ensure!(access.read && !access.modify, "a member of the group gets {access:?} of mode 0040");
    Ok(())
}

fn writing_a_directory_needs_its_bit(b: &mut Bench<'_>) -> Verdict {
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    let access = granted(&mut stranger, own)?;
    ensure!(
        access.read && access.lookup && !access.modify && !access.extend && !access.delete,
        "a stranger gets {access:?} of a directory of mode 0755"
    );
    Ok(())
}

fn what_is_granted_works(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    for bits in [0o604, 0o602, 0o606, 0o600] {
        let file = user.file(own, format!("{bits:o}"), b"1")?;
        user.setattr(file, mode(bits))?.done()?;
        let access = granted(&mut stranger, file)?;
        if access.read {
            stranger.read(file, 0, 1)?.done()?;
        }
        if access.modify {
            stranger.write(file, 0, b"2", Stability::FileSync)?.done()?;
        }
    }
    Ok(())
}

fn what_is_refused_does_not_work(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    for bits in [0o604, 0o602, 0o600] {
        let file = user.file(own, format!("{bits:o}"), b"1")?;
        user.setattr(file, mode(bits))?.done()?;
        let access = granted(&mut stranger, file)?;
        if !access.read {
            stranger.read(file, 0, 1)?.refused(&[Status::Access])?;
        }
        if !access.modify {
            stranger.write(file, 0, b"2", Stability::FileSync)?.refused(&[Status::Access])?;
        }
    }
    Ok(())
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.access(file, ALL)?;
    b.advise(!answered.is_done(), "a removed file can still be used");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}
