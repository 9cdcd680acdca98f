//! READ of version 3: data of a file.

use leasehold_wire::nfs3::{Handle, read};

use super::prelude::*;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "v3_read",
    about: "READ of version 3: data of a file",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        what_was_written_is_read: "RFC 1813 3.3.6",
        a_part_is_read: "RFC 1813 3.3.6, offset and count",
        the_end_is_said_at_the_end: "RFC 1813 3.3.6, eof",
        the_end_is_not_said_before: "RFC 1813 3.3.6, eof",
        a_read_across_the_end_is_short: "RFC 1813 3.3.6, eof",
        at_the_end_there_is_nothing: "RFC 1813 3.3.6, offset",
        beyond_the_end_there_is_nothing: "RFC 1813 3.3.6, offset",
        far_beyond_the_end_there_is_nothing: "RFC 1813 3.3.6, offset",
        nothing_can_be_asked_for: "RFC 1813 3.3.6, count",
        an_empty_file_ends_at_once: "RFC 1813 3.3.6, eof",
        the_count_is_that_of_the_data: "RFC 1813 3.3.6, count",
        more_than_rtmax_is_a_short_read: "RFC 1813 3.3.6, count",
        the_largest_count_does_no_harm: "RFC 1813 3.3.6, count",
        rtmax_can_be_read: "RFC 1813 3.3.19, rtmax",
        any_offset_and_count_give_the_same_bytes: "RFC 1813 3.3.6",
        holes_are_zeros: "RFC 1813 3.3.2, size",
        data_beyond_4_gib_is_read: "RFC 1813 1.1, 64-bit offsets",
        attributes_come_along: "RFC 1813 2.6, post_op_attr",
        a_directory_is_invalid: "RFC 1813 3.3.6, NFS3ERR_INVAL",
        a_symbolic_link_is_invalid: "RFC 1813 3.3.6, file",
        a_stranger_needs_permission: "RFC 1813 2.6, NFS3ERR_ACCES",
        the_owner_needs_none: "RFC 1813 4.4",
        who_may_execute_may_read: "RFC 1813 4.4",
        permission_is_checked_for_nothing_too: "RFC 1813 3.3.6, count",
        a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

/// Does a READ that must return data, and checks the invariants of its results.
fn read(b: &mut Bench<'_>, file: Handle, offset: u64, count: u32) -> Result<read::Done, Stop> {
    let done = b.v3.read(file, offset, count)?.done()?;
    ensure!(
        done.data.len() as u64 == u64::from(done.count) && done.count <= count,
        "READ of {count} bytes says {} and gives {}",
        done.count,
        done.data.len()
    );
    Ok(done)
}

fn what_was_written_is_read(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir()?, b.bytes(10_000));
    let file = b.v3.file(dir, "file", &data)?;
    let got = b.v3.get(file, 0, 20_000)?;
    ensure!(got == data, "other bytes are read than were written");
    Ok(())
}

fn a_part_is_read(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    equal("bytes 3 to 6", &read(b, file, 3, 4)?.data[..], b"3456")
}

fn the_end_is_said_at_the_end(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let done = read(b, file, 4, 6)?;
    equal("data", &done.data[..], b"456789")?;
    ensure!(done.end, "a READ of the last bytes does not report the end");
    Ok(())
}

fn the_end_is_not_said_before(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let done = read(b, file, 0, 9)?;
    ensure!(!done.end, "a READ up to the last byte but one reports the end");
    Ok(())
}

fn a_read_across_the_end_is_short(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let done = read(b, file, 8, 100)?;
    equal("data", &done.data[..], b"89")?;
    ensure!(done.end, "a READ across the end does not report the end");
    Ok(())
}

fn nothing_at(b: &mut Bench<'_>, offset: u64) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let done = read(b, file, offset, 10)?;
    equal("(count, end)", (done.count, done.end), (0, true))
}

fn at_the_end_there_is_nothing(b: &mut Bench<'_>) -> Verdict {
    nothing_at(b, 10)
}

fn beyond_the_end_there_is_nothing(b: &mut Bench<'_>) -> Verdict {
    nothing_at(b, 1 << 20)
}

fn far_beyond_the_end_there_is_nothing(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    for offset in [1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 5, u64::MAX] {
        let answered = b.v3.read(file, offset, 10)?;
        if offset >= 1 << 63 && answered.status() == Some(Status::Invalid) {
            b.advise(false, "offsets of 2^63 and more are refused");
            continue;
        }
        let done = answered.done()?;
        equal("(count, end)", (done.count, done.end), (0, true))?;
    }
    Ok(())
}

fn nothing_can_be_asked_for(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    equal("count", read(b, file, 3, 0)?.count, 0)
}

fn an_empty_file_ends_at_once(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let done = read(b, file, 0, 100)?;
    equal("(count, end)", (done.count, done.end), (0, true))
}

fn the_count_is_that_of_the_data(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    for count in 0..12 {
        read(b, file, 0, count)?;
    }
    Ok(())
}

fn more_than_rtmax_is_a_short_read(b: &mut Bench<'_>) -> Verdict {
    let (dir, most) = (b.dir()?, b.info()?.read_bytes_max);
    if most >= 1 << 20 {
        return Err(Stop::skip("rtmax is the largest READ of this client"));
    }
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.setattr(file, size(u64::from(most) * 2))?.done()?;
    let done = read(b, file, 0, most + 1)?;
    ensure!(done.count <= most, "READ of rtmax + 1 bytes gives {}", done.count);
    ensure!(!done.end, "a short READ reports the end");
    Ok(())
}

fn the_largest_count_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let done = read(b, file, 0, u32::MAX)?;
    equal("data", &done.data[..], b"0123456789")?;
    ensure!(done.end, "a READ of the whole file does not report the end");
    Ok(())
}

fn rtmax_can_be_read(b: &mut Bench<'_>) -> Verdict {
    let (dir, most) = (b.dir()?, b.info()?.read_bytes_max.min(1 << 20));
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.setattr(file, size(u64::from(most)))?.done()?;
    let done = read(b, file, 0, most)?;
    b.advise(done.count == most, format!("READ of {most} bytes gives {}", done.count));
    Ok(())
}

fn any_offset_and_count_give_the_same_bytes(b: &mut Bench<'_>) -> Verdict {
    const SIZE: usize = 50_000;
    let (dir, data) = (b.dir()?, b.bytes(SIZE));
    let file = b.v3.file(dir, "file", &data)?;
    for _ in 0..40 {
        let offset = usize::try_from(b.random.below(SIZE as u64)).unwrap_or(0);
        let count = usize::try_from(b.random.below(20_000)).unwrap_or(0);
        let expected = &data[offset..(offset + count).min(SIZE)];
        let wanted = u32::try_from(count).unwrap_or(0);
        let got = b.v3.get(file, offset as u64, wanted)?;
        ensure!(got == expected, "READ of {count} bytes at {offset} gives other bytes");
    }
    Ok(())
}

fn holes_are_zeros(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"start")?;
    b.v3.put(file, 200_000, b"end")?;
    let got = b.v3.get(file, 0, 300_000)?;
    equal("size", got.len(), 200_003)?;
    ensure!(got[5..200_000].iter().all(|byte| *byte == 0), "a hole does not read as zeros");
    equal("data after the hole", &got[200_000..], b"end")
}

fn data_beyond_4_gib_is_read(b: &mut Bench<'_>) -> Verdict {
    const OFFSET: u64 = (4 << 30) + 12_345;
    if b.info()?.file_bytes_max < OFFSET + 10 {
        return Err(Stop::skip("FSINFO reports that files are smaller"));
    }
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"low")?;
    let answered = b.v3.write(file, OFFSET, b"high", Stability::FileSync)?;
    if answered.status() == Some(Status::NoSpace) {
        return Err(Stop::skip("there is no space for a file of 4 GiB"));
    }
    answered.done()?;
    equal("high bytes", b.v3.get(file, OFFSET, 10)?, b"high".to_vec())?;
    equal("low bytes", b.v3.get(file, 0, 4)?, b"low\0".to_vec())
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    let Some(attributes) = read(b, file, 0, 4)?.attributes else {
        b.advise(false, "READ should give the attributes of the file");
        return Ok(());
    };
    super::same("attributes", attributes, b.v3.attributes(file)?)
}

fn a_directory_is_invalid(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.read(dir, 0, 10)?.refused(&[Status::Invalid])?;
    Ok(())
}

fn a_symbolic_link_is_invalid(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"123")?;
    let made = b.v3.symlink(dir, "link", "file")?;
    let link = b.v3.made(made, dir, "link")?;
    b.v3.read(link, 0, 10)?.refused(&[Status::Invalid])?;
    Ok(())
}

fn a_stranger_needs_permission(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o600))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.read(file, 0, 3)?.refused(&[Status::Access])?;
    Ok(())
}

fn the_owner_needs_none(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o000))?.done()?;
    let answered = user.read(file, 0, 3)?;
    // "One solution is": a client with the file open has checked the permission at open.
    b.advise(answered.is_done(), "the owner should be able to read a file that it has open");
    Ok(())
}

fn who_may_execute_may_read(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o711))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    let answered = stranger.read(file, 0, 3)?;
    b.advise(answered.is_done(), "a user who may execute a file must be able to read it");
    Ok(())
}

fn permission_is_checked_for_nothing_too(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o600))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.read(file, 0, 0)?.refused(&[Status::Access])?;
    stranger.read(file, 100, 10)?.refused(&[Status::Access])?;
    Ok(())
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.read(file, 0, 3)?;
    b.advise(!answered.is_done(), "a removed file can still be read");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}
