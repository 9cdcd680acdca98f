//! REMOVE of version 3: removes a name.

use super::prelude::*;
use crate::bench::after;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_remove",
    about: "REMOVE of version 3: removes a name",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_file_is_removed: "RFC 1813 3.3.12",
        only_the_named_file_is_removed: "RFC 1813 3.3.12",
        what_is_not_there_is_not_found: "RFC 1813 2.6, NFS3ERR_NOENT",
        a_second_time_is_not_found: "RFC 1813 2.6, NFS3ERR_NOENT",
        a_directory_with_names_stays: "RFC 1813 3.3.12, implementation",
        one_of_two_names_leaves_the_file: "RFC 1813 3.3.12",
        a_file_holds_no_names: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        dot_and_dot_dot_are_refused: "RFC 1813 3.2, comments 2 and 3",
        an_empty_name_is_refused: "RFC 1813 3.2, comment 1",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        a_path_through_the_parent_is_refused: "RFC 1813 3.2, comment 5",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_stranger_may_not: "RFC 1813 2.6, NFS3ERR_ACCES",
        permission_on_the_file_does_not_matter: "RFC 1813 3.3.4, ACCESS3_DELETE",
        a_sticky_directory_protects_what_others_own: "RFC 1813 2.6, NFS3ERR_PERM",
        the_change_time_of_a_file_with_another_name_moves: "RFC 1813 2.6, ctime",
        a_removed_directory_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

fn a_file_is_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    let listed = b.v3.list(dir, 4096)?;
    ensure!(!listed.iter().any(|entry| entry.name == b"file"), "a removed file is still listed");
    Ok(())
}

fn only_the_named_file_is_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for name in ["file", "File", "file2", "fil"] {
        b.v3.file(dir, name, name)?;
    }
    b.v3.remove(dir, "file")?.done()?;
    for name in ["File", "file2", "fil"] {
        let file = b.v3.find(dir, name)?;
        equal("contents", b.v3.get(file, 0, 10)?, name.as_bytes().to_vec())?;
    }
    Ok(())
}

fn what_is_not_there_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.remove(dir, "absent")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_second_time_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.remove(dir, "file")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_directory_with_names_stays(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "file", b"")?;
    // "REMOVE can be used to remove directories, subject to restrictions."
    let answered = b.v3.remove(dir, "dir")?;
    ensure!(!answered.is_done(), "REMOVE of a directory with a file in it succeeds");
    b.v3.find(inner, "file")?;
    Ok(())
}

fn one_of_two_names_leaves_the_file(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    b.v3.remove(dir, "one")?.done()?;
    equal("number of names", b.v3.attributes(file)?.link_count, 1)?;
    let found = b.v3.find(dir, "two")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"123".to_vec())
}

fn a_file_holds_no_names(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.remove(file, "name")?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn dot_and_dot_dot_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    for name in [".", ".."] {
        let answered = b.v3.remove(inner, name)?;
        ensure!(!answered.is_done(), "REMOVE of {name} is answered with success");
    }
    b.v3.find(dir, "dir")?;
    Ok(())
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let answered = b.v3.remove(inner, "")?;
    ensure!(!answered.is_done(), "REMOVE of an empty name is answered with success");
    b.v3.find(dir, "dir")?;
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "inner")?;
    b.v3.file(inner, "x", b"")?;
    let answered = b.v3.remove(dir, "inner/x")?;
    ensure!(!answered.is_done(), "REMOVE of inner/x removes x from inner");
    b.v3.find(inner, "x")?;
    Ok(())
}

fn a_path_through_the_parent_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "inner")?;
    b.v3.file(dir, "x", b"")?;
    let answered = b.v3.remove(inner, "../x")?;
    ensure!(!answered.is_done(), "REMOVE of ../x removes x from the parent");
    b.v3.find(dir, "x")?;
    Ok(())
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.remove(dir, name)?.refused(&[Status::NameTooLong, Status::NotFound])?;
    Ok(())
}

fn a_stranger_may_not(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.remove(own, "file")?.refused(&[Status::Access, Status::NotOwner])?;
    user.find(own, "file")?;
    Ok(())
}

fn permission_on_the_file_does_not_matter(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    user.setattr(file, mode(0o000))?.done()?;
    user.remove(own, "file")?.done()?;
    Ok(())
}

fn a_sticky_directory_protects_what_others_own(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.setattr(own, mode(0o1777))?.done()?;
    if user.attributes(own)?.mode & 0o1000 == 0 {
        return Err(Stop::skip("the file system has no sticky bit"));
    }
    user.file(own, "file", b"")?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.file(own, "theirs", b"")?;
    stranger.remove(own, "file")?.refused(&[Status::NotOwner, Status::Access])?;
    stranger.remove(own, "theirs")?.done()?;
    Ok(())
}

fn the_change_time_of_a_file_with_another_name_moves(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    let before = b.v3.attributes(file)?.changed;
    b.wait_past(before)?;
    b.v3.remove(dir, "one")?.done()?;
    let changed = b.v3.attributes(file)?.changed;
    ensure!(after(changed) > after(before), "the change time does not change: {changed:?}");
    Ok(())
}

fn a_removed_directory_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    b.v3.remove(inner, "name")?.refused(&[Status::Stale, Status::NotFound])?;
    Ok(())
}
