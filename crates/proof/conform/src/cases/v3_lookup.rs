//! LOOKUP of version 3: the object of a name.

use leasehold_wire::nfs3::FileType;

use super::prelude::*;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_lookup",
    about: "LOOKUP of version 3: the object of a name",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_name_leads_to_its_object: "RFC 1813 3.3.3",
        attributes_come_along: "RFC 1813 2.6, post_op_attr",
        a_name_that_is_not_there_is_not_found: "RFC 1813 2.6, NFS3ERR_NOENT",
        a_removed_name_is_not_found: "RFC 1813 3.3.12",
        a_file_has_no_names_in_it: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_dot_is_the_directory_itself: "RFC 1813 3.2, comment 2",
        two_dots_are_the_parent: "RFC 1813 3.2, comment 3",
        two_dots_at_the_root_lead_nowhere: "RFC 1813 3.2, comment 3",
        an_empty_name_is_refused: "RFC 1813 3.2, comment 1",
        a_path_is_no_name: "RFC 1813 4.6",
        a_path_through_the_parent_is_no_name: "RFC 1813 4.6",
        an_absolute_path_is_no_name: "RFC 1813 4.6",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_name_of_4000_bytes_is_refused: "RFC 1813 3.2, comment 4",
        bytes_of_a_name_are_kept: "RFC 1813 2.5, filename3",
        spaces_and_dots_belong_to_names: "RFC 1813 2.5, filename3",
        the_case_of_letters_counts_as_pathconf_says: "RFC 1813 3.3.20, case_insensitive",
        a_symbolic_link_is_not_followed: "RFC 1813 3.3.3",
        a_removed_directory_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        a_stranger_needs_search_permission: "RFC 1813 2.6, NFS3ERR_ACCES",
        search_permission_is_enough: "RFC 1813 2.6, mode",
    },
};

fn a_name_leads_to_its_object(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.file(dir, "file", b"123")?;
    let found = b.v3.find(dir, "file")?;
    let (expected, got) = (b.v3.attributes(made)?, b.v3.attributes(found)?);
    super::same("attributes of the found object", got, expected)
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let found = b.v3.lookup(dir, "file")?.done()?;
    let (attributes, directory) = (b.v3.attributes(file)?, b.v3.attributes(dir)?);
    match (found.attributes, found.directory) {
        (Some(of_file), Some(of_dir)) => {
            super::same("attributes of the object", of_file, attributes)?;
            super::same("attributes of the directory", of_dir, directory)
        }
        _ => {
            b.advise(false, "LOOKUP should give the attributes of object and directory");
            Ok(())
        }
    }
}

fn a_name_that_is_not_there_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let directory = b.v3.lookup(dir, "absent")?.refused(&[Status::NotFound])?;
    b.advise(directory.is_some(), "a failed LOOKUP should give the directory's attributes");
    Ok(())
}

fn a_removed_name_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.find(dir, "file")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_file_has_no_names_in_it(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.lookup(file, "name")?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_dot_is_the_directory_itself(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let found = b.v3.find(dir, ".")?;
    equal("number", b.v3.attributes(found)?.file_id, b.v3.attributes(dir)?.file_id)
}

fn two_dots_are_the_parent(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let found = b.v3.find(inner, "..")?;
    equal("number", b.v3.attributes(found)?.file_id, b.v3.attributes(dir)?.file_id)
}

fn two_dots_at_the_root_lead_nowhere(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    let answered = b.v3.lookup(root, "..")?;
    if !answered.is_done() {
        return Ok(());
    }
    let above = answered.done()?.object;
    let (above, root) = (b.v3.attributes(above)?, b.v3.attributes(root)?);
    equal("number above the root", above.file_id, root.file_id)
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.lookup(dir, "")?;
    let right = answered.status() == Some(Status::Access);
    b.advise(right, "an empty name should be answered NFS3ERR_ACCES");
    ensure!(!answered.is_done(), "LOOKUP of an empty name is answered with success");
    Ok(())
}

fn a_path_is_no_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "file", b"")?;
    let answered = b.v3.lookup(dir, "dir/file")?;
    ensure!(!answered.is_done(), "LOOKUP of dir/file leads to the file in dir");
    Ok(())
}

fn a_path_through_the_parent_is_no_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let answered = b.v3.lookup(inner, "../dir")?;
    ensure!(!answered.is_done(), "LOOKUP of ../dir leads through the parent");
    Ok(())
}

fn an_absolute_path_is_no_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for name in ["/", "/etc", "/etc/passwd", "/.", "//"] {
        let answered = b.v3.lookup(dir, name)?;
        ensure!(!answered.is_done(), "LOOKUP of {name} is answered with success");
    }
    Ok(())
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    let answered = b.v3.lookup(dir, name)?;
    let right = answered.status() == Some(Status::NameTooLong);
    // The name cannot exist either, and the standard prescribes no order of errors.
    b.advise(right, "a name that is too long should be answered NFS3ERR_NAMETOOLONG");
    answered.refused(&[Status::NameTooLong, Status::NotFound])?;
    Ok(())
}

fn a_name_of_4000_bytes_is_refused(b: &mut Bench<'_>) -> Verdict {
    super::too_long(b)?;
    let dir = b.dir()?;
    b.v3.lookup(dir, vec![b'n'; 4000])?.refused(&[Status::NameTooLong, Status::NotFound])?;
    Ok(())
}

/// Checks that a name is created, found and listed with the same bytes.
fn kept(b: &mut Bench<'_>, name: &[u8]) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.create(dir, name, super::plain_file())?;
    let text = name.escape_ascii();
    if made.status() == Some(Status::Access) || made.status() == Some(Status::Invalid) {
        b.advise(false, format!("the name {text} is not accepted"));
        return Ok(());
    }
    made.done()?;
    b.v3.find(dir, name)?;
    let listed = b.v3.list(dir, 8192)?;
    ensure!(listed.iter().any(|entry| entry.name == name), "the name {text} is not listed so");
    b.v3.remove(dir, name)?.done()?;
    Ok(())
}

fn bytes_of_a_name_are_kept(b: &mut Bench<'_>) -> Verdict {
    for name in [&b"caf\xc3\xa9"[..], b"caf\xe9", b"\xff\xfe", b"\x01\x7f", b"a\nb", b"\xc3\x28"] {
        kept(b, name)?;
    }
    Ok(())
}

fn spaces_and_dots_belong_to_names(b: &mut Bench<'_>) -> Verdict {
    for name in [&b" "[..], b"a b", b"...", b".hidden", b"a.", b" a", b"a ", b"-rf", b"*", b"~"] {
        kept(b, name)?;
    }
    Ok(())
}

fn the_case_of_letters_counts_as_pathconf_says(b: &mut Bench<'_>) -> Verdict {
    let (dir, insensitive) = (b.dir()?, b.limits()?.case_insensitive);
    b.v3.file(dir, "Name", b"")?;
    let answered = b.v3.lookup(dir, "nAME")?;
    ensure!(
        answered.is_done() == insensitive,
        "PATHCONF says case_insensitive {insensitive}, and LOOKUP gives {:?}",
        answered.status()
    );
    Ok(())
}

fn a_symbolic_link_is_not_followed(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.symlink(dir, "link", "file")?.done()?;
    let found = b.v3.find(dir, "link")?;
    ensure!(b.v3.is(found, FileType::Symlink)?, "LOOKUP of a symbolic link finds another file");
    Ok(())
}

fn a_removed_directory_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    b.v3.lookup(inner, "name")?.refused(&[Status::Stale, Status::NotFound])?;
    Ok(())
}

fn a_stranger_needs_search_permission(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.file(own, "file", b"")?;
    user.setattr(own, mode(0o744))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.lookup(own, "file")?.refused(&[Status::Access])?;
    // The replies for missing and for existing names must be equal.
    stranger.lookup(own, "absent")?.refused(&[Status::Access])?;
    Ok(())
}

fn search_permission_is_enough(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.file(own, "file", b"")?;
    user.setattr(own, mode(0o711))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.find(own, "file")?;
    Ok(())
}
