//! RENAME of version 3: gives an object another name.

use leasehold_wire::nfs3::FileType;

use super::prelude::*;
use crate::bench::after;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_rename",
    about: "RENAME of version 3: gives an object another name",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_file_gets_another_name: "RFC 1813 3.3.14",
        a_file_moves_to_another_directory: "RFC 1813 3.3.14",
        the_handle_stays_good: "RFC 1813 3.3.14, implementation",
        a_directory_moves_with_all_in_it: "RFC 1813 3.3.14",
        a_moved_directory_has_a_new_parent: "RFC 1813 3.2, comment 3",
        a_symbolic_link_moves_itself: "RFC 1813 3.3.3",
        a_file_replaces_a_file: "RFC 1813 3.3.14, to.name",
        a_replaced_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        a_directory_replaces_an_empty_directory: "RFC 1813 3.3.14, to.name",
        a_directory_with_names_is_not_replaced: "RFC 1813 3.3.14, NFS3ERR_EXIST",
        a_file_does_not_replace_a_directory: "RFC 1813 3.3.14, NFS3ERR_EXIST",
        a_directory_does_not_replace_a_file: "RFC 1813 3.3.14, NFS3ERR_EXIST",
        a_name_given_to_itself_stays: "RFC 1813 3.3.14, implementation",
        two_names_of_one_file_stay: "RFC 1813 3.3.14, implementation",
        what_is_not_there_is_not_found: "RFC 1813 2.6, NFS3ERR_NOENT",
        a_directory_does_not_go_into_itself: "RFC 1813 2.6, NFS3ERR_INVAL",
        dot_and_dot_dot_are_refused: "RFC 1813 3.3.14, NFS3ERR_INVAL",
        a_file_holds_no_names: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_new_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        an_old_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        an_empty_name_is_refused: "RFC 1813 3.2, comment 1",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_stranger_may_not: "RFC 1813 2.6, NFS3ERR_ACCES",
        a_stranger_may_not_move_things_in: "RFC 1813 2.6, NFS3ERR_ACCES",
        the_times_of_both_directories_move: "RFC 1813 2.6, mtime",
        case_alone_can_change: "RFC 1813 3.3.20, case_preserving",
    },
};

fn a_file_gets_another_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"123")?;
    b.v3.rename((dir, "old"), (dir, "new"))?.done()?;
    b.v3.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    let found = b.v3.find(dir, "new")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"123".to_vec())
}

fn a_file_moves_to_another_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let (from, to) = (b.v3.directory(dir, "from")?, b.v3.directory(dir, "to")?);
    b.v3.file(from, "file", b"123")?;
    b.v3.rename((from, "file"), (to, "file"))?.done()?;
    b.v3.lookup(from, "file")?.refused(&[Status::NotFound])?;
    let found = b.v3.find(to, "file")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"123".to_vec())
}

fn the_handle_stays_good(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let to = b.v3.directory(dir, "to")?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.rename((dir, "file"), (to, "other"))?.done()?;
    // "May or may not become stale"; servers "are strongly encouraged" to keep it.
    let answered = b.v3.getattr(file)?;
    b.advise(answered.is_done(), "a handle does not survive a rename");
    if !answered.is_done() {
        return answered.refused(&[Status::Stale]);
    }
    equal("contents by the old handle", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn a_directory_moves_with_all_in_it(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let (old, to) = (b.v3.directory(dir, "old")?, b.v3.directory(dir, "to")?);
    b.v3.file(old, "file", b"123")?;
    b.v3.rename((dir, "old"), (to, "new"))?.done()?;
    b.v3.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    let moved = b.v3.find(to, "new")?;
    let file = b.v3.find(moved, "file")?;
    equal("contents", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn a_moved_directory_has_a_new_parent(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "old")?;
    let to = b.v3.directory(dir, "to")?;
    b.v3.rename((dir, "old"), (to, "new"))?.done()?;
    let moved = b.v3.find(to, "new")?;
    let above = b.v3.find(moved, "..")?;
    equal("number", b.v3.attributes(above)?.file_id, b.v3.attributes(to)?.file_id)
}

fn a_symbolic_link_moves_itself(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.symlink(dir, "link", "file")?.done()?;
    b.v3.rename((dir, "link"), (dir, "other"))?.done()?;
    let other = b.v3.find(dir, "other")?;
    ensure!(b.v3.is(other, FileType::Symlink)?, "RENAME of a symbolic link moves another file");
    b.v3.find(dir, "file")?;
    Ok(())
}

fn a_file_replaces_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "one", b"1")?;
    b.v3.file(dir, "two", b"2")?;
    b.v3.rename((dir, "one"), (dir, "two"))?.done()?;
    b.v3.lookup(dir, "one")?.refused(&[Status::NotFound])?;
    let found = b.v3.find(dir, "two")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"1".to_vec())
}

fn a_replaced_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "one", b"1")?;
    let replaced = b.v3.file(dir, "two", b"2")?;
    b.v3.rename((dir, "one"), (dir, "two"))?.done()?;
    let answered = b.v3.read(replaced, 0, 10)?;
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
        return Ok(());
    }
    b.advise(false, "a replaced file can still be read");
    equal("contents of the replaced file", &answered.done()?.data[..], b"2")
}

fn a_directory_replaces_an_empty_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let one = b.v3.directory(dir, "one")?;
    b.v3.file(one, "file", b"")?;
    b.v3.directory(dir, "two")?;
    b.v3.rename((dir, "one"), (dir, "two"))?.done()?;
    let found = b.v3.find(dir, "two")?;
    b.v3.find(found, "file")?;
    Ok(())
}

/// Tries a rename that must fail, with two names that must both stay.
fn stays(b: &mut Bench<'_>, from: &str, to: &str, expected: &[Status]) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.rename((dir, from), (dir, to))?;
    let right = answered.status() == Some(Status::AlreadyExists);
    b.advise(right, "RENAME to an incompatible target should be answered NFS3ERR_EXIST");
    answered.refused(expected)?;
    b.v3.find(dir, from)?;
    b.v3.find(dir, to)?;
    Ok(())
}

fn a_directory_with_names_is_not_replaced(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "one")?;
    let two = b.v3.directory(dir, "two")?;
    b.v3.file(two, "file", b"")?;
    stays(b, "one", "two", &[Status::AlreadyExists, Status::NotEmpty])?;
    b.v3.find(two, "file")?;
    Ok(())
}

fn a_file_does_not_replace_a_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.directory(dir, "dir")?;
    // The list of errors also has ISDIR, which fits no other case.
    stays(b, "file", "dir", &[Status::AlreadyExists, Status::IsDirectory])
}

fn a_directory_does_not_replace_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.directory(dir, "dir")?;
    stays(b, "dir", "file", &[Status::AlreadyExists, Status::NotDirectory])
}

fn a_name_given_to_itself_stays(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.directory(dir, "dir")?;
    b.v3.rename((dir, "file"), (dir, "file"))?.done()?;
    b.v3.rename((dir, "dir"), (dir, "dir"))?.done()?;
    b.v3.find(dir, "dir")?;
    let found = b.v3.find(dir, "file")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"123".to_vec())
}

fn two_names_of_one_file_stay(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    b.v3.rename((dir, "one"), (dir, "two"))?.done()?;
    let gone = !b.v3.lookup(dir, "one")?.is_done();
    // "RENAME should perform no action and return NFS3_OK."
    b.advise(!gone, "RENAME between two names of one file should do nothing");
    let names = if gone { 1 } else { 2 };
    equal("number of names", b.v3.attributes(file)?.link_count, names)?;
    b.v3.find(dir, "two")?;
    Ok(())
}

fn what_is_not_there_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.rename((dir, "absent"), (dir, "new"))?.refused(&[Status::NotFound])?;
    b.v3.rename((dir, "absent"), (dir, "file"))?.refused(&[Status::NotFound])?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn a_directory_does_not_go_into_itself(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let outer = b.v3.directory(dir, "outer")?;
    let inner = b.v3.directory(outer, "inner")?;
    let right = |status| status == Some(Status::Invalid);
    for to in [outer, inner] {
        let answered = b.v3.rename((dir, "outer"), (to, "moved"))?;
        b.advise(
            right(answered.status()),
            "a RENAME of a directory into itself should get NFS3ERR_INVAL",
        );
        ensure!(!answered.is_done(), "a directory was moved into itself");
    }
    b.v3.find(dir, "outer")?;
    Ok(())
}

fn dot_and_dot_dot_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "file", b"")?;
    for name in [".", ".."] {
        let from = b.v3.rename((inner, name), (dir, "new"))?;
        ensure!(!from.is_done(), "RENAME of {name} is answered with success");
        let to = b.v3.rename((inner, "file"), (inner, name))?;
        ensure!(!to.is_done(), "RENAME to {name} is answered with success");
    }
    b.v3.find(inner, "file")?;
    Ok(())
}

fn a_file_holds_no_names(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.file(dir, "other", b"")?;
    b.v3.rename((file, "x"), (dir, "y"))?.refused(&[Status::NotDirectory])?;
    b.v3.rename((dir, "other"), (file, "y"))?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_new_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    super::refuses_paths(b, |b, name| Ok(b.v3.rename((dir, "file"), (dir, name))?.is_done()))?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn an_old_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "inner")?;
    b.v3.file(inner, "x", b"")?;
    let answered = b.v3.rename((dir, "inner/x"), (dir, "y"))?;
    ensure!(!answered.is_done(), "RENAME of inner/x moves x out of inner");
    b.v3.find(inner, "x")?;
    Ok(())
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    let inner = b.v3.directory(dir, "dir")?;
    let from = b.v3.rename((inner, ""), (dir, "new"))?;
    ensure!(!from.is_done(), "RENAME of an empty name is answered with success");
    let to = b.v3.rename((dir, "file"), (inner, ""))?;
    ensure!(!to.is_done(), "RENAME to an empty name is answered with success");
    b.v3.find(dir, "file")?;
    Ok(())
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.file(dir, "file", b"")?;
    b.v3.rename((dir, "file"), (dir, name))?.refused(&[Status::NameTooLong])?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn a_stranger_may_not(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.file(own, "file", b"")?;
    let mut stranger = b.as_user(&b.user(1)?);
    let answered = stranger.rename((own, "file"), (own, "new"))?;
    answered.refused(&[Status::Access, Status::NotOwner])?;
    user.find(own, "file")?;
    Ok(())
}

fn a_stranger_may_not_move_things_in(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let (mut stranger, theirs) = b.users_dir(1)?;
    stranger.file(theirs, "file", b"")?;
    let answered = stranger.rename((theirs, "file"), (own, "file"))?;
    answered.refused(&[Status::Access, Status::NotOwner])?;
    user.setattr(own, mode(0o777))?.done()?;
    stranger.rename((theirs, "file"), (own, "file"))?.done()?;
    Ok(())
}

fn the_times_of_both_directories_move(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let (from, to) = (b.v3.directory(dir, "from")?, b.v3.directory(dir, "to")?);
    b.v3.file(from, "file", b"")?;
    let before = (b.v3.attributes(from)?.modified, b.v3.attributes(to)?.modified);
    b.wait_past(before.0)?;
    b.v3.rename((from, "file"), (to, "file"))?.done()?;
    let later = (b.v3.attributes(from)?.modified, b.v3.attributes(to)?.modified);
    ensure!(after(later.0) > after(before.0), "the time of the old directory does not change");
    ensure!(after(later.1) > after(before.1), "the time of the new directory does not change");
    Ok(())
}

fn case_alone_can_change(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    if !b.limits()?.case_preserving {
        return Err(Stop::skip("PATHCONF says that case is not kept"));
    }
    b.v3.file(dir, "name", b"")?;
    b.v3.rename((dir, "name"), (dir, "NAME"))?.done()?;
    let listed = b.v3.list(dir, 4096)?;
    ensure!(listed.iter().any(|entry| entry.name == b"NAME"), "the new name is not listed");
    ensure!(!listed.iter().any(|entry| entry.name == b"name"), "the old name is still listed");
    Ok(())
}
