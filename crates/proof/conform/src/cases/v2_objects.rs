//! GETATTR, SETATTR, LOOKUP and STATFS of version 2.

use leasehold_wire::nfs2::{FileType, SetAttributes, SetTime, Status, Time, root, writecache};
use leasehold_wire::rpc::ReplyStatus;

use super::prelude2::*;
use crate::v2::{mode, procedure, size};

pub(crate) const GROUP: Group = Group {
    name: "v2_objects",
    about: "version 2: attributes of objects and names",
    needs: Needs::Version2,
    company: Company::Shared,
    cases: cases! {
        null_is_answered: "RFC 1094 2.2.1",
        root_and_writecache_do_no_harm: "RFC 1094 2.2.4 and 2.2.8",
        a_file_is_a_file_of_its_size: "RFC 1094 2.3.5",
        a_directory_is_a_directory: "RFC 1094 2.3.5",
        the_mode_says_the_type_too: "RFC 1094 2.3.5, mode",
        a_symbolic_link_is_one: "RFC 1094 2.3.5",
        blocks_and_their_size_are_given: "RFC 1094 2.3.5, blocksize and blocks",
        all_that_is_made_lies_in_one_file_system: "RFC 1094 2.3.5, fsid",
        microseconds_stay_below_a_second: "RFC 1094 2.3.4",
        a_removed_file_is_stale: "RFC 1094 2.3.1, NFSERR_STALE",
        a_made_up_handle_is_stale: "RFC 1094 2.3.1, NFSERR_STALE",
        the_mode_can_be_set_alone: "RFC 1094 2.2.3",
        minus_one_changes_nothing: "RFC 1094 2.2.3",
        a_size_of_0_empties_a_file: "RFC 1094 2.3.6, size",
        a_size_cuts_and_lengthens_a_file: "RFC 1094 2.3.6, size",
        times_can_be_set: "RFC 1094 2.3.6, atime and mtime",
        attributes_after_the_change_come_back: "RFC 1094 2.2.3",
        a_stranger_may_not_set_the_mode: "RFC 1094 2.3.1, NFSERR_PERM",
        a_name_leads_to_its_object: "RFC 1094 2.2.5",
        a_name_that_is_not_there_is_not_found: "RFC 1094 2.3.1, NFSERR_NOENT",
        a_file_has_no_names_in_it: "RFC 1094 2.3.1, NFSERR_NOTDIR",
        two_dots_are_the_parent: "RFC 1094 3.2",
        two_dots_at_the_root_lead_nowhere: "RFC 1094 3.2",
        a_path_is_no_name: "RFC 1094 2.1",
        an_empty_name_is_refused: "RFC 1094 2.1",
        a_stranger_needs_search_permission: "RFC 1094 2.3.1, NFSERR_ACCES",
        statfs_adds_up: "RFC 1094 2.2.18",
    },
};

fn null_is_answered(b: &mut Bench<'_>) -> Verdict {
    b.v2.null()
}

fn root_and_writecache_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    for number in [root::NUMBER, writecache::NUMBER] {
        let status = b.v2.client.received(procedure(number), &())?;
        let right = matches!(status, ReplyStatus::Success | ReplyStatus::ProcedureUnavailable);
        ensure!(right, "procedure {number}, which does nothing, is answered {status:?}");
    }
    b.v2.null()
}

fn a_file_is_a_file_of_its_size(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"12345")?;
    let a = b.v2.attributes(file)?;
    equal("(type, size, names)", (a.file_type, a.size, a.link_count), (FileType::Regular, 5, 1))
}

fn a_directory_is_a_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    equal("type", b.v2.attributes(dir)?.file_type, FileType::Directory)
}

fn the_mode_says_the_type_too(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"")?;
    b.v2.setattr(file, mode(0o640))?.done()?;
    equal("mode of a file", b.v2.attributes(file)?.mode, 0o100_640)?;
    equal("type in a directory's mode", b.v2.attributes(dir)?.mode & 0o170_000, 0o040_000)
}

fn a_symbolic_link_is_one(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.symlink(dir, "link", "some/where")?.done()?;
    let link = b.v2.find(dir, "link")?;
    let attributes = b.v2.attributes(link)?;
    equal("type", attributes.file_type, FileType::Symlink)?;
    equal("type in the mode", attributes.mode & 0o170_000, 0o120_000)
}

fn blocks_and_their_size_are_given(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", data)?;
    let attributes = b.v2.attributes(file)?;
    b.advise(attributes.block_bytes > 0, "the block size is zero");
    b.advise(attributes.blocks > 0, "a file of 8 KiB has no blocks");
    Ok(())
}

fn all_that_is_made_lies_in_one_file_system(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"")?;
    let (one, two) = (b.v2.attributes(file)?, b.v2.attributes(dir)?);
    equal("file system", one.file_system, two.file_system)?;
    ensure!(one.file_id != two.file_id, "a file and its directory have the same number");
    Ok(())
}

fn microseconds_stay_below_a_second(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let a = b.v2.attributes(dir)?;
    for time in [a.accessed, a.modified, a.changed] {
        ensure!(time.microseconds < 1_000_000, "a time is {time:?}");
    }
    Ok(())
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"")?;
    b.v2.remove(dir, "file")?.done()?;
    let answered = b.v2.getattr(file)?;
    b.advise(!answered.is_done(), "a removed file can still be used");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn a_made_up_handle_is_stale(b: &mut Bench<'_>) -> Verdict {
    for byte in [0, 0x55, 0xff] {
        let handle = leasehold_wire::nfs2::Handle([byte; 32]);
        // Version 2 has no other status for it.
        let answered = b.v2.getattr(handle)?;
        b.advise(answered.status() == Some(Status::Stale), "a made-up handle should be stale");
        ensure!(!answered.is_done(), "a made-up handle has attributes");
    }
    Ok(())
}

fn the_mode_can_be_set_alone(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let before = b.v2.attributes(file)?;
    b.v2.setattr(file, mode(0o600))?.done()?;
    let a = b.v2.attributes(file)?;
    equal("mode", a.mode & 0o7777, 0o600)?;
    equal("(size, owner)", (a.size, a.uid), (before.size, before.uid))?;
    equal("modification time", a.modified, before.modified)
}

fn minus_one_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let before = b.v2.attributes(file)?;
    b.v2.setattr(file, SetAttributes::default())?.done()?;
    let a = b.v2.attributes(file)?;
    equal("(mode, size, owner)", (a.mode, a.size, a.uid), (before.mode, before.size, before.uid))?;
    equal("modification time", a.modified, before.modified)
}

fn a_size_of_0_empties_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    equal("size", b.v2.setattr(file, size(0))?.done()?.size, 0)?;
    equal("contents", b.v2.read(file, 0, 10)?.done()?.data.len(), 0)
}

fn a_size_cuts_and_lengthens_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"12345")?;
    b.v2.setattr(file, size(2))?.done()?;
    b.v2.setattr(file, size(4))?.done()?;
    equal("contents", &b.v2.read(file, 0, 10)?.done()?.data[..], b"12\0\0")
}

fn times_can_be_set(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"1")?;
    let accessed = Time { seconds: 1_000_000_000, microseconds: 0 };
    let modified = Time { seconds: 1_100_000_000, microseconds: 0 };
    let set = SetAttributes {
        accessed: SetTime::To(accessed),
        modified: SetTime::To(modified),
        ..SetAttributes::default()
    };
    b.v2.setattr(file, set)?.done()?;
    let a = b.v2.attributes(file)?;
    equal("times", (a.accessed, a.modified), (accessed, modified))
}

fn attributes_after_the_change_come_back(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let answered = b.v2.setattr(file, mode(0o611))?.done()?;
    let a = b.v2.attributes(file)?;
    equal("(mode, changed)", (answered.mode, answered.changed), (a.mode, a.changed))
}

fn a_stranger_may_not_set_the_mode(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let mut stranger = b.as_user2(&b.user(1)?);
    stranger.setattr(file, mode(0o777))?.refused(&[Status::NotOwner, Status::Access])?;
    Ok(())
}

fn a_name_leads_to_its_object(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let found = b.v2.lookup(dir, "file")?.done()?;
    let expected = b.v2.attributes(file)?;
    equal("number", found.attributes.file_id, expected.file_id)?;
    equal("number by the handle", b.v2.attributes(found.object)?.file_id, expected.file_id)
}

fn a_name_that_is_not_there_is_not_found(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.lookup(dir, "absent")?.refused(&[Status::NotFound])
}

fn a_file_has_no_names_in_it(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"")?;
    b.v2.lookup(file, "name")?.refused(&[Status::NotDirectory])
}

fn two_dots_are_the_parent(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let inner = b.v2.directory(dir, "dir")?;
    let found = b.v2.lookup(inner, "..")?.done()?;
    equal("number", found.attributes.file_id, b.v2.attributes(dir)?.file_id)
}

fn two_dots_at_the_root_lead_nowhere(b: &mut Bench<'_>) -> Verdict {
    let root = b.root2()?;
    let expected = b.v2.attributes(root)?.file_id;
    match b.v2.lookup(root, "..")?.either() {
        Ok(found) => equal("number above the root", found.attributes.file_id, expected),
        Err(_) => Ok(()),
    }
}

fn a_path_is_no_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let inner = b.v2.directory(dir, "dir")?;
    b.v2.file(inner, "file", b"")?;
    for name in ["dir/file", "/etc", "/", "dir/"] {
        let answered = b.v2.lookup(dir, name)?;
        ensure!(!answered.is_done(), "LOOKUP of {name} is answered with success");
    }
    Ok(())
}

fn an_empty_name_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let answered = b.v2.lookup(dir, "")?;
    // Old clients used it for the directory itself.
    b.advise(!answered.is_done(), "LOOKUP of an empty name is answered with success");
    Ok(())
}

fn a_stranger_needs_search_permission(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.file(dir, "file", b"")?;
    b.v2.setattr(dir, mode(0o700))?.done()?;
    let mut stranger = b.as_user2(&b.user(1)?);
    stranger.lookup(dir, "file")?.refused(&[Status::Access])
}

fn statfs_adds_up(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let stat = b.v2.statfs(dir)?.done()?;
    ensure!(
        stat.available_blocks <= stat.free_blocks && stat.free_blocks <= stat.blocks,
        "{} of {} free of {} blocks are available",
        stat.available_blocks,
        stat.free_blocks,
        stat.blocks
    );
    ensure!(stat.block_bytes > 0, "the block size is zero");
    let best = stat.transfer_bytes_best;
    b.advise((512..=8192).contains(&best), format!("the best transfer size is {best}"));
    Ok(())
}
