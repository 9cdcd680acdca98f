//! CREATE of version 3: creates a file.

use leasehold_wire::nfs3::{FileType, create::How};

use super::prelude::*;
use crate::bench::after;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "v3_create",
    about: "CREATE of version 3: creates a file",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_new_file_is_empty: "RFC 1813 3.3.8",
        handle_and_attributes_come_along: "RFC 1813 3.3.8, obj and obj_attributes",
        the_mode_is_taken_as_it_is: "RFC 1813 3.3.8, obj_attributes",
        all_permission_bits_are_taken: "RFC 1813 2.6, mode",
        a_size_can_be_given: "RFC 1813 3.3.8, obj_attributes",
        times_can_be_given: "RFC 1813 3.3.8, obj_attributes",
        unchecked_makes_a_file: "RFC 1813 3.3.8, UNCHECKED",
        unchecked_takes_a_file_that_is_there: "RFC 1813 3.3.8, UNCHECKED",
        unchecked_keeps_what_is_in_the_file: "RFC 1813 3.3.8, UNCHECKED",
        unchecked_with_size_0_empties_the_file: "RFC 1813 3.3.8, UNCHECKED",
        guarded_refuses_a_file_that_is_there: "RFC 1813 3.3.8, GUARDED",
        guarded_leaves_the_file_as_it_is: "RFC 1813 3.3.8, GUARDED",
        a_directory_of_that_name_is_not_replaced: "RFC 1813 2.6, NFS3ERR_EXIST",
        a_symbolic_link_of_that_name_is_not_followed: "RFC 1813 3.3.8, GUARDED",
        unchecked_does_not_reach_through_a_symbolic_link: "RFC 1813 3.3.3",
        a_file_holds_no_files: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        an_empty_name_is_refused: "RFC 1813 3.2, comment 1",
        dot_and_dot_dot_are_refused: "RFC 1813 3.2, comments 2 and 3",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        a_name_with_a_zero_byte_is_not_cut: "RFC 1813 3.2, comment 5",
        the_longest_name_is_taken: "RFC 1813 3.3.20, name_max",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_stranger_may_not_make_files: "RFC 1813 2.6, NFS3ERR_ACCES",
        a_group_that_may_write_may_make_files: "RFC 1813 2.6, mode",
        the_group_of_a_setgid_directory_is_inherited: "RFC 1813 2.6, mode",
        the_directory_gets_new_times: "RFC 1813 2.6, mtime",
        a_removed_directory_takes_no_files: "RFC 1813 2.6, NFS3ERR_STALE",
        a_name_can_be_used_again: "RFC 1813 2.6, nfs_fh3",
    },
};

fn a_new_file_is_empty(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.create(dir, "file", super::plain_file())?;
    let file = b.v3.made(made, dir, "file")?;
    let attributes = b.v3.attributes(file)?;
    equal("(type, size)", (attributes.file_type, attributes.size), (FileType::Regular, 0))?;
    equal("contents", b.v3.get(file, 0, 10)?, Vec::new())
}

fn handle_and_attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.create(dir, "file", super::plain_file())?.done()?;
    let found = b.v3.find(dir, "file")?;
    let expected = b.v3.attributes(found)?;
    match made.object {
        Some(object) => equal("number", b.v3.attributes(object)?.file_id, expected.file_id)?,
        None => b.advise(false, "CREATE should give the handle of the file"),
    }
    match made.attributes {
        Some(attributes) => super::same("attributes", attributes, expected)?,
        None => b.advise(false, "CREATE should give the attributes of the file"),
    }
    Ok(())
}

fn the_mode_is_taken_as_it_is(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for bits in [0o600, 0o644, 0o666, 0o777, 0o000, 0o147] {
        let name = format!("{bits:o}");
        let made = b.v3.create(dir, &name, How::Guarded(mode(bits)))?;
        let file = b.v3.made(made, dir, &name)?;
        let got = b.v3.attributes(file)?.mode & 0o7777;
        ensure!(got == bits, "mode: expected {bits:o}, got {got:o}");
    }
    Ok(())
}

fn all_permission_bits_are_taken(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for bits in [0o4755, 0o2755, 0o1644] {
        let name = format!("{bits:o}");
        let made = b.v3.create(dir, &name, How::Guarded(mode(bits)))?;
        let file = b.v3.made(made, dir, &name)?;
        let got = b.v3.attributes(file)?.mode & 0o7777;
        b.advise(got == bits, format!("mode {bits:o} became {got:o}"));
        ensure!(got & 0o777 == bits & 0o777, "mode: expected {bits:o}, got {got:o}");
    }
    Ok(())
}

fn a_size_can_be_given(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let how = How::Guarded(SetAttributes { mode: Some(0o644), ..size(1000) });
    let made = b.v3.create(dir, "file", how)?;
    let file = b.v3.made(made, dir, "file")?;
    let got = b.v3.attributes(file)?.size;
    b.advise(got == 1000, format!("a file made with size 1000 has size {got}"));
    ensure!(got == 1000 || got == 0, "a file made with size 1000 has size {got}");
    Ok(())
}

fn times_can_be_given(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let time = leasehold_wire::nfs3::Time { seconds: 1_000_000_000, nanoseconds: 0 };
    let how = How::Guarded(SetAttributes { modified: SetTime::To(time), ..mode(0o644) });
    let made = b.v3.create(dir, "file", how)?;
    let file = b.v3.made(made, dir, "file")?;
    let got = b.v3.attributes(file)?.modified;
    b.advise(got == time, "a time given to CREATE is not kept");
    Ok(())
}

fn unchecked_makes_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.create(dir, "file", How::Unchecked(mode(0o644)))?.done()?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn unchecked_takes_a_file_that_is_there(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let made = b.v3.create(dir, "file", How::Unchecked(SetAttributes::default()))?;
    let taken = b.v3.made(made, dir, "file")?;
    equal("number", b.v3.attributes(taken)?.file_id, b.v3.attributes(file)?.file_id)
}

fn unchecked_keeps_what_is_in_the_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.create(dir, "file", How::Unchecked(SetAttributes::default()))?.done()?;
    equal("contents", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn unchecked_with_size_0_empties_the_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.create(dir, "file", How::Unchecked(size(0)))?.done()?;
    equal("size", b.v3.attributes(file)?.size, 0)
}

fn guarded_refuses_a_file_that_is_there(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    b.v3.create(dir, "file", super::plain_file())?.refused(&[Status::AlreadyExists])?;
    Ok(())
}

fn guarded_leaves_the_file_as_it_is(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let before = b.v3.attributes(file)?;
    let how = How::Guarded(SetAttributes { mode: Some(0o600), ..size(0) });
    b.v3.create(dir, "file", how)?.refused(&[Status::AlreadyExists])?;
    super::same("attributes", b.v3.attributes(file)?, before)
}

fn a_directory_of_that_name_is_not_replaced(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "name")?;
    b.v3.create(dir, "name", super::plain_file())?.refused(&[Status::AlreadyExists])?;
    let how = How::Unchecked(mode(0o644));
    let expected = [Status::AlreadyExists, Status::IsDirectory];
    b.v3.create(dir, "name", how)?.refused(&expected)?;
    ensure!(b.v3.is(inner, FileType::Directory)?, "the object is not a directory any more");
    Ok(())
}

fn a_symbolic_link_of_that_name_is_not_followed(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.symlink(dir, "name", "target")?.done()?;
    b.v3.create(dir, "name", super::plain_file())?.refused(&[Status::AlreadyExists])?;
    b.v3.lookup(dir, "target")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn unchecked_does_not_reach_through_a_symbolic_link(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "target", b"123")?;
    b.v3.symlink(dir, "name", "target")?.done()?;
    b.v3.symlink(dir, "dangling", "nowhere")?.done()?;
    for name in ["name", "dangling"] {
        // With any status, the server must not touch the link's target.
        b.v3.create(dir, name, How::Unchecked(size(0)))?.status();
    }
    equal("contents of the target", b.v3.get(file, 0, 10)?, b"123".to_vec())?;
    b.v3.lookup(dir, "nowhere")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_file_holds_no_files(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.create(file, "inner", super::plain_file())?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.create(dir, "", super::plain_file())?;
    let right = answered.status() == Some(Status::Access);
    b.advise(right, "an empty name should be answered NFS3ERR_ACCES");
    ensure!(!answered.is_done(), "CREATE of an empty name is answered with success");
    Ok(())
}

fn dot_and_dot_dot_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for name in [".", ".."] {
        for how in [super::plain_file(), How::Unchecked(mode(0o644))] {
            let answered = b.v3.create(dir, name, how)?;
            ensure!(!answered.is_done(), "CREATE of {name} is answered with success");
        }
    }
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    super::refuses_paths(b, |b, name| Ok(b.v3.create(dir, name, super::plain_file())?.is_done()))
}

fn a_name_with_a_zero_byte_is_not_cut(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.create(dir, b"cut\0here", super::plain_file())?;
    b.advise(!answered.is_done(), "a name with a zero byte is accepted");
    b.v3.lookup(dir, "cut")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn the_longest_name_is_taken(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let length = usize::try_from(b.limits()?.name_bytes_max.min(4096)).unwrap_or(0);
    let name = vec![b'n'; length];
    b.v3.create(dir, &name, super::plain_file())?.done()?;
    b.v3.find(dir, &name)?;
    let listed = b.v3.list(dir, 16_384)?;
    ensure!(listed.iter().any(|entry| entry.name == name), "the longest name is not listed");
    Ok(())
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.create(dir, name, super::plain_file())?.refused(&[Status::NameTooLong])?;
    Ok(())
}

fn a_stranger_may_not_make_files(b: &mut Bench<'_>) -> Verdict {
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.create(own, "file", super::plain_file())?.refused(&[Status::Access])?;
    Ok(())
}

fn a_group_that_may_write_may_make_files(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.setattr(own, mode(0o775))?.done()?;
    let gid = user.attributes(own)?.gid;
    let mut credential = b.user(1)?;
    if let crate::client::Credential::Sys { groups, .. } = &mut credential {
        groups.push(gid);
    }
    let mut member = b.as_user(&credential);
    member.create(own, "file", super::plain_file())?.done()?;
    Ok(())
}

fn the_group_of_a_setgid_directory_is_inherited(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.setattr(own, mode(0o2777))?.done()?;
    let directory = user.attributes(own)?;
    if directory.mode & 0o2000 == 0 {
        return Err(Stop::skip("the file system has no set-group-ID bit"));
    }
    let mut stranger = b.as_user(&b.user(1)?);
    let made = stranger.create(own, "file", super::plain_file())?;
    let file = stranger.made(made, own, "file")?;
    let gid = stranger.attributes(file)?.gid;
    b.advise(gid == directory.gid, "a set-group-ID directory does not give its group");
    Ok(())
}

fn the_directory_gets_new_times(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let before = b.v3.attributes(inner)?;
    b.wait_past(before.changed)?;
    b.v3.file(inner, "file", b"")?;
    let attributes = b.v3.attributes(inner)?;
    ensure!(
        after(attributes.modified) > after(before.modified)
            && after(attributes.changed) > after(before.changed),
        "the times of the directory do not change: modified {:?}, changed {:?}",
        attributes.modified,
        attributes.changed
    );
    Ok(())
}

fn a_removed_directory_takes_no_files(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    let expected = [Status::Stale, Status::NotFound];
    b.v3.create(inner, "file", super::plain_file())?.refused(&expected)?;
    Ok(())
}

fn a_name_can_be_used_again(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let first = b.v3.file(dir, "file", b"first")?;
    b.v3.remove(dir, "file")?.done()?;
    let second = b.v3.file(dir, "file", b"second")?;
    ensure!(first != second, "two files, one after the other, have one handle");
    // The handle of the first must not name the second.
    let answered = b.v3.read(first, 0, 10)?;
    if answered.is_done() {
        equal("contents of the removed file", &answered.done()?.data[..], b"first")?;
    }
    equal("contents", b.v3.get(second, 0, 10)?, b"second".to_vec())
}
