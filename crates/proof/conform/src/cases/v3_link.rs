//! LINK of version 3: gives an object one more name.

use leasehold_wire::nfs3::FileType;

use super::prelude::*;
use crate::bench::after;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_link",
    about: "LINK of version 3: gives an object one more name",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        fsinfo_says_whether_there_are_links: "RFC 1813 3.3.19, FSF3_LINK",
        both_names_lead_to_one_file: "RFC 1813 3.3.15",
        names_are_counted: "RFC 1813 3.3.15, implementation",
        what_is_written_by_one_is_read_by_the_other: "RFC 1813 3.3.15, implementation",
        a_change_by_one_shows_by_the_other: "RFC 1813 3.3.15, implementation",
        a_name_in_another_directory_is_given: "RFC 1813 3.3.15",
        attributes_come_along: "RFC 1813 3.3.15, file_attributes",
        a_name_that_is_taken_is_refused: "RFC 1813 2.6, NFS3ERR_EXIST",
        a_file_holds_no_names: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_directory_gets_no_second_name: "RFC 1813 3.3.3",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        dot_and_dot_dot_are_refused: "RFC 1813 3.2, comments 2 and 3",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_stranger_may_not: "RFC 1813 2.6, NFS3ERR_ACCES",
        the_change_time_moves: "RFC 1813 2.6, ctime",
        a_removed_file_gets_no_name: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

fn fsinfo_says_whether_there_are_links(b: &mut Bench<'_>) -> Verdict {
    let (dir, links) = (b.dir()?, b.info()?.properties.links);
    let file = b.v3.file(dir, "one", b"")?;
    let answered = b.v3.link(file, dir, "two")?;
    if links {
        answered.done()?;
    } else {
        answered.refused(&[Status::NotSupported])?;
    }
    Ok(())
}

fn both_names_lead_to_one_file(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    let other = b.v3.find(dir, "two")?;
    equal("number", b.v3.attributes(other)?.file_id, b.v3.attributes(file)?.file_id)
}

fn names_are_counted(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "1", b"123")?;
    for count in 2..=10 {
        b.v3.link(file, dir, count.to_string())?.done()?;
        equal("number of names", b.v3.attributes(file)?.link_count, count)?;
    }
    for count in (1..10).rev() {
        b.v3.remove(dir, (count + 1).to_string())?.done()?;
        equal("number of names", b.v3.attributes(file)?.link_count, count)?;
    }
    Ok(())
}

fn what_is_written_by_one_is_read_by_the_other(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    let other = b.v3.find(dir, "two")?;
    b.v3.put(other, 1, b"abc")?;
    equal("contents", b.v3.get(file, 0, 10)?, b"1abc".to_vec())
}

fn a_change_by_one_shows_by_the_other(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, dir, "two")?.done()?;
    let other = b.v3.find(dir, "two")?;
    b.v3.setattr(other, mode(0o640))?.done()?;
    let (one, two) = (b.v3.attributes(file)?, b.v3.attributes(other)?);
    super::same("attributes by the other name", two, one)
}

fn a_name_in_another_directory_is_given(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let file = b.v3.file(dir, "one", b"123")?;
    b.v3.link(file, inner, "two")?.done()?;
    let other = b.v3.find(inner, "two")?;
    b.v3.remove(dir, "one")?.done()?;
    equal("contents", b.v3.get(other, 0, 10)?, b"123".to_vec())
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"123")?;
    let Some(attributes) = b.v3.link(file, dir, "two")?.done()?.attributes else {
        b.advise(false, "LINK should give the attributes of the file");
        return Ok(());
    };
    equal("number of names", attributes.link_count, 2)
}

fn a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"1")?;
    let other = b.v3.file(dir, "two", b"2")?;
    b.v3.link(file, dir, "two")?.refused(&[Status::AlreadyExists])?;
    b.v3.link(file, dir, "one")?.refused(&[Status::AlreadyExists])?;
    equal("contents", b.v3.get(other, 0, 10)?, b"2".to_vec())
}

fn a_file_holds_no_names(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"1")?;
    let other = b.v3.file(dir, "two", b"2")?;
    b.v3.link(file, other, "name")?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_directory_gets_no_second_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    // "There is no facility for dealing with a multiparented directory."
    let answered = b.v3.link(inner, dir, "other")?;
    ensure!(!answered.is_done(), "LINK of a directory is answered with success");
    b.v3.lookup(dir, "other")?.refused(&[Status::NotFound])?;
    ensure!(b.v3.is(inner, FileType::Directory)?, "the object is not a directory any more");
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    super::refuses_paths(b, |b, name| Ok(b.v3.link(file, dir, name)?.is_done()))
}

fn dot_and_dot_dot_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for name in [".", "..", ""] {
        let answered = b.v3.link(file, dir, name)?;
        ensure!(!answered.is_done(), "LINK to the name '{name}' is answered with success");
    }
    Ok(())
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.link(file, dir, name)?.refused(&[Status::NameTooLong])?;
    Ok(())
}

fn a_stranger_may_not(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.link(file, own, "other")?.refused(&[Status::Access, Status::NotOwner])?;
    Ok(())
}

fn the_change_time_moves(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"")?;
    let before = b.v3.attributes(file)?.changed;
    b.wait_past(before)?;
    b.v3.link(file, dir, "two")?.done()?;
    let changed = b.v3.attributes(file)?.changed;
    ensure!(after(changed) > after(before), "the change time does not change: {changed:?}");
    Ok(())
}

fn a_removed_file_gets_no_name(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"")?;
    b.v3.remove(dir, "one")?.done()?;
    b.v3.link(file, dir, "two")?.refused(&[Status::Stale, Status::NotFound])?;
    b.v3.lookup(dir, "two")?.refused(&[Status::NotFound])?;
    Ok(())
}
