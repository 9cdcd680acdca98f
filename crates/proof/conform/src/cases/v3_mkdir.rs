//! MKDIR and RMDIR of version 3: creates and removes directories.

use leasehold_wire::nfs3::FileType;

use super::prelude::*;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_mkdir",
    about: "MKDIR and RMDIR of version 3: creates and removes directories",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_new_directory_is_empty: "RFC 1813 3.3.9",
        handle_and_attributes_come_along: "RFC 1813 3.3.9, obj and obj_attributes",
        the_mode_is_taken_as_it_is: "RFC 1813 3.3.9, attributes",
        its_parent_is_where_it_was_made: "RFC 1813 3.2, comment 3",
        a_name_that_is_taken_is_refused: "RFC 1813 2.6, NFS3ERR_EXIST",
        dot_and_dot_dot_are_refused: "RFC 1813 3.3.9, implementation",
        an_empty_name_is_refused: "RFC 1813 3.2, comment 1",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_file_holds_no_directories: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_stranger_may_not_make_any: "RFC 1813 2.6, NFS3ERR_ACCES",
        directories_lie_within_each_other: "RFC 1813 3.3.9",
        an_empty_directory_is_removed: "RFC 1813 3.3.13",
        a_directory_that_is_not_empty_stays: "RFC 1813 2.6, NFS3ERR_NOTEMPTY",
        rmdir_of_what_is_not_there_is_not_found: "RFC 1813 2.6, NFS3ERR_NOENT",
        rmdir_of_a_file_is_refused: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        rmdir_of_a_symbolic_link_is_refused: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        rmdir_of_dot_is_refused: "RFC 1813 3.3.13, NFS3ERR_INVAL",
        rmdir_of_dot_dot_is_refused: "RFC 1813 3.3.13, NFS3ERR_EXIST",
        rmdir_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        rmdir_in_a_file_is_refused: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_stranger_may_not_remove_any: "RFC 1813 2.6, NFS3ERR_ACCES",
        a_removed_directory_has_no_names: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

fn a_new_directory_is_empty(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let entries = b.v3.list(inner, 4096)?;
    let real = entries.iter().filter(|entry| entry.name != b"." && entry.name != b"..").count();
    equal("entries", real, 0)
}

fn handle_and_attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.mkdir(dir, "dir", mode(0o755))?.done()?;
    let found = b.v3.find(dir, "dir")?;
    let expected = b.v3.attributes(found)?;
    equal("type", expected.file_type, FileType::Directory)?;
    match made.object {
        Some(object) => equal("number", b.v3.attributes(object)?.file_id, expected.file_id)?,
        None => b.advise(false, "MKDIR should give the handle of the directory"),
    }
    match made.attributes {
        Some(attributes) => super::same("attributes", attributes, expected)?,
        None => b.advise(false, "MKDIR should give the attributes of the directory"),
    }
    Ok(())
}

fn the_mode_is_taken_as_it_is(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for bits in [0o700, 0o755, 0o777, 0o711] {
        let name = format!("{bits:o}");
        let made = b.v3.mkdir(dir, &name, mode(bits))?;
        let inner = b.v3.made(made, dir, &name)?;
        let got = b.v3.attributes(inner)?.mode & 0o777;
        ensure!(got == bits, "mode: expected {bits:o}, got {got:o}");
    }
    Ok(())
}

fn its_parent_is_where_it_was_made(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let above = b.v3.find(inner, "..")?;
    equal("number", b.v3.attributes(above)?.file_id, b.v3.attributes(dir)?.file_id)
}

fn a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "dir")?;
    b.v3.file(dir, "file", b"")?;
    b.v3.mkdir(dir, "dir", mode(0o755))?.refused(&[Status::AlreadyExists])?;
    b.v3.mkdir(dir, "file", mode(0o755))?.refused(&[Status::AlreadyExists])?;
    Ok(())
}

fn dot_and_dot_dot_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for name in [".", ".."] {
        let answered = b.v3.mkdir(dir, name, mode(0o755))?;
        let right = answered.status() == Some(Status::AlreadyExists);
        b.advise(right, format!("MKDIR of {name} should be answered NFS3ERR_EXIST"));
        ensure!(!answered.is_done(), "MKDIR of {name} is answered with success");
    }
    Ok(())
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.mkdir(dir, "", mode(0o755))?;
    let right = answered.status() == Some(Status::Access);
    b.advise(right, "an empty name should be answered NFS3ERR_ACCES");
    ensure!(!answered.is_done(), "MKDIR of an empty name is answered with success");
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    super::refuses_paths(b, |b, name| Ok(b.v3.mkdir(dir, name, mode(0o755))?.is_done()))
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.mkdir(dir, name, mode(0o755))?.refused(&[Status::NameTooLong])?;
    Ok(())
}

fn a_file_holds_no_directories(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.mkdir(file, "dir", mode(0o755))?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_stranger_may_not_make_any(b: &mut Bench<'_>) -> Verdict {
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.mkdir(own, "dir", mode(0o755))?.refused(&[Status::Access])?;
    Ok(())
}

fn directories_lie_within_each_other(b: &mut Bench<'_>) -> Verdict {
    let top = b.dir()?;
    let mut dirs = vec![top];
    for _ in 0..20 {
        let inner = b.v3.directory(dirs[dirs.len() - 1], "d")?;
        dirs.push(inner);
    }
    // Goes back to the top.
    let mut here = dirs[dirs.len() - 1];
    for expected in dirs.iter().rev().skip(1) {
        here = b.v3.find(here, "..")?;
        equal("number", b.v3.attributes(here)?.file_id, b.v3.attributes(*expected)?.file_id)?;
    }
    Ok(())
}

fn an_empty_directory_is_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    b.v3.lookup(dir, "dir")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_directory_that_is_not_empty_stays(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "file", b"")?;
    // "On some servers, removal of a non-empty directory is disallowed." Some systems return EXIST
    // in this case.
    b.v3.rmdir(dir, "dir")?.refused(&[Status::NotEmpty, Status::AlreadyExists])?;
    b.v3.find(inner, "file")?;
    Ok(())
}

fn rmdir_of_what_is_not_there_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.rmdir(dir, "absent")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn rmdir_of_a_file_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.rmdir(dir, "file")?.refused(&[Status::NotDirectory])?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn rmdir_of_a_symbolic_link_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.directory(dir, "dir")?;
    b.v3.symlink(dir, "link", "dir")?.done()?;
    b.v3.rmdir(dir, "link")?.refused(&[Status::NotDirectory])?;
    b.v3.find(dir, "dir")?;
    Ok(())
}

fn rmdir_of_dot_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let answered = b.v3.rmdir(inner, ".")?;
    let right = answered.status() == Some(Status::Invalid);
    b.advise(right, "RMDIR of . should be answered NFS3ERR_INVAL");
    ensure!(!answered.is_done(), "RMDIR of . is answered with success");
    b.v3.find(dir, "dir")?;
    Ok(())
}

fn rmdir_of_dot_dot_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let answered = b.v3.rmdir(inner, "..")?;
    let named = [Status::AlreadyExists, Status::NotEmpty, Status::Invalid];
    let right = answered.status().is_some_and(|status| named.contains(&status));
    b.advise(right, "RMDIR of .. should be answered NFS3ERR_EXIST");
    ensure!(!answered.is_done(), "RMDIR of .. is answered with success");
    b.v3.find(dir, "dir")?;
    Ok(())
}

fn rmdir_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "inner")?;
    b.v3.directory(inner, "x")?;
    let answered = b.v3.rmdir(dir, "inner/x")?;
    ensure!(!answered.is_done(), "RMDIR of inner/x removes x from inner");
    b.v3.find(inner, "x")?;
    Ok(())
}

fn rmdir_in_a_file_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.rmdir(file, "dir")?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_stranger_may_not_remove_any(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.directory(own, "dir")?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.rmdir(own, "dir")?.refused(&[Status::Access, Status::NotOwner])?;
    user.find(own, "dir")?;
    Ok(())
}

fn a_removed_directory_has_no_names(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    let answered = b.v3.readdir(inner, crate::v3::Position::default(), 4096)?;
    if answered.is_done() {
        b.advise(false, "a removed directory can still be listed");
        return Ok(());
    }
    answered.refused(&[Status::Stale, Status::NotFound])?;
    Ok(())
}
