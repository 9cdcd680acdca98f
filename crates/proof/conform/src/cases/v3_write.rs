//! WRITE of version 3: data to a file.

use leasehold_wire::nfs3::write;

use super::prelude::*;
use crate::bench::after;
use crate::v3::{mode, write_args};

pub(crate) const GROUP: Group = Group {
    name: "v3_write",
    about: "WRITE of version 3: data to a file",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        bytes_in_the_middle_are_replaced: "RFC 1813 3.3.7",
        bytes_behind_the_end_make_the_file_longer: "RFC 1813 3.3.7",
        a_gap_is_zeros: "RFC 1813 3.3.7, offset",
        pieces_in_any_order_make_a_file: "RFC 1813 3.3.7",
        overlapping_pieces_leave_the_last: "RFC 1813 3.3.7",
        nothing_can_be_written: "RFC 1813 3.3.7, count",
        nothing_written_keeps_the_time: "RFC 1813 3.3.7, implementation",
        nothing_written_behind_the_end_keeps_the_size: "RFC 1813 3.3.7, count",
        file_sync_is_answered_so: "RFC 1813 3.3.7, committed",
        data_sync_is_not_answered_unstable: "RFC 1813 3.3.7, committed",
        unstable_is_taken: "RFC 1813 3.3.7, committed",
        unstable_data_is_read_at_once: "RFC 1813 3.3.7",
        the_count_is_at_most_what_was_sent: "RFC 1813 3.3.7, count",
        a_write_moves_both_times: "RFC 1813 3.3.7, implementation",
        the_size_is_right_in_the_reply: "RFC 1813 3.3.7, file_wcc",
        wtmax_can_be_written: "RFC 1813 3.3.19, wtmax",
        all_lengths_up_to_100_are_kept: "RFC 4506 4.10",
        an_offset_beyond_maxfilesize_is_refused: "RFC 1813 2.6, NFS3ERR_FBIG",
        a_directory_is_invalid: "RFC 1813 3.3.7, NFS3ERR_INVAL",
        a_symbolic_link_is_invalid: "RFC 1813 3.3.7, file",
        a_stranger_needs_permission: "RFC 1813 2.6, NFS3ERR_ACCES",
        the_owner_needs_none: "RFC 1813 4.4",
        a_group_that_may_write_can: "RFC 1813 2.6, mode",
        a_write_by_another_takes_setuid_away: "RFC 1813 2.6, mode",
        a_count_that_differs_from_the_data_does_no_harm: "RFC 1813 3.3.7, count",
        a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

fn bytes_in_the_middle_are_replaced(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    b.v3.put(file, 3, b"abc")?;
    equal("contents", b.v3.get(file, 0, 20)?, b"012abc6789".to_vec())
}

fn bytes_behind_the_end_make_the_file_longer(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    b.v3.put(file, 4, b"4567")?;
    equal("size", b.v3.attributes(file)?.size, 8)?;
    equal("contents", b.v3.get(file, 0, 20)?, b"01234567".to_vec())
}

fn a_gap_is_zeros(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"ab")?;
    b.v3.put(file, 6, b"cd")?;
    equal("contents", b.v3.get(file, 0, 20)?, b"ab\0\0\0\0cd".to_vec())
}

fn pieces_in_any_order_make_a_file(b: &mut Bench<'_>) -> Verdict {
    const PIECE: usize = 1000;
    let (dir, data) = (b.dir()?, b.bytes(30 * PIECE));
    let file = b.v3.file(dir, "file", b"")?;
    let mut pieces: Vec<usize> = (0..30).collect();
    while !pieces.is_empty() {
        let index = usize::try_from(b.random.below(pieces.len() as u64)).unwrap_or(0);
        let at = pieces.swap_remove(index) * PIECE;
        b.v3.put(file, at as u64, &data[at..at + PIECE])?;
    }
    ensure!(b.v3.get(file, 0, 40_000)? == data, "the file does not consist of the written data");
    Ok(())
}

fn overlapping_pieces_leave_the_last(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut expected = Vec::new();
    for round in 0..50_u8 {
        let at = usize::try_from(b.random.below(5000)).unwrap_or(0);
        let piece = vec![round; usize::try_from(b.random.below(3000)).unwrap_or(0) + 1];
        b.v3.put(file, at as u64, &piece)?;
        if expected.len() < at + piece.len() {
            expected.resize(at + piece.len(), 0);
        }
        expected[at..at + piece.len()].copy_from_slice(&piece);
    }
    ensure!(
        b.v3.get(file, 0, 20_000)? == expected,
        "the file does not have the data of the last writes"
    );
    Ok(())
}

fn nothing_can_be_written(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    equal("count", b.v3.write(file, 2, b"", Stability::FileSync)?.done()?.count, 0)?;
    equal("contents", b.v3.get(file, 0, 20)?, b"0123".to_vec())
}

fn nothing_written_keeps_the_time(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    let before = b.v3.attributes(file)?.modified;
    b.wait_past(before)?;
    b.v3.write(file, 2, b"", Stability::FileSync)?.done()?;
    let same = b.v3.attributes(file)?.modified == before;
    // "Should not cause the mtime of the file to be updated."
    b.advise(same, "an empty WRITE changes the modification time");
    Ok(())
}

fn nothing_written_behind_the_end_keeps_the_size(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    b.v3.write(file, 100, b"", Stability::FileSync)?.done()?;
    equal("size", b.v3.attributes(file)?.size, 4)
}

fn written(b: &mut Bench<'_>, stability: Stability) -> Result<write::Done, Stop> {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    b.v3.write(file, 0, b"abcd", stability)?.done()
}

fn file_sync_is_answered_so(b: &mut Bench<'_>) -> Verdict {
    let done = written(b, Stability::FileSync)?;
    equal("committed", done.stability, Stability::FileSync)
}

fn data_sync_is_not_answered_unstable(b: &mut Bench<'_>) -> Verdict {
    let done = written(b, Stability::DataSync)?;
    ensure!(done.stability != Stability::Unstable, "DATA_SYNC is answered UNSTABLE");
    Ok(())
}

fn unstable_is_taken(b: &mut Bench<'_>) -> Verdict {
    let done = written(b, Stability::Unstable)?;
    b.advise(done.stability == Stability::Unstable, "every WRITE is synced");
    Ok(())
}

fn unstable_data_is_read_at_once(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let data = b.bytes(20_000);
    let file = b.v3.file(dir, "file", b"")?;
    let done = b.v3.write(file, 0, &data, Stability::Unstable)?.done()?;
    let count = usize::try_from(done.count).unwrap_or(0);
    ensure!(count > 0, "a WRITE of 20,000 bytes writes none");
    equal("size", b.v3.attributes(file)?.size, u64::from(done.count))?;
    let got = b.another().get(file, 0, done.count)?;
    ensure!(got == data[..count], "another client reads other bytes");
    Ok(())
}

fn the_count_is_at_most_what_was_sent(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for length in [1, 2, 3, 4, 5, 1000, 8192] {
        let data = b.bytes(length);
        let done = b.v3.write(file, 0, &data, Stability::Unstable)?.done()?;
        let count = usize::try_from(done.count).unwrap_or(usize::MAX);
        ensure!((1..=length).contains(&count), "WRITE of {length} bytes writes {count}");
    }
    Ok(())
}

fn a_write_moves_both_times(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    let before = b.v3.attributes(file)?;
    b.wait_past(before.changed)?;
    b.v3.put(file, 0, b"abcd")?;
    let attributes = b.v3.attributes(file)?;
    ensure!(
        after(attributes.modified) > after(before.modified)
            && after(attributes.changed) > after(before.changed),
        "the times do not change: modified {:?}, changed {:?}",
        attributes.modified,
        attributes.changed
    );
    Ok(())
}

fn the_size_is_right_in_the_reply(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    for (offset, expected) in [(0, 4), (2, 6), (10, 14)] {
        let done = b.v3.write(file, offset, b"abcd", Stability::Unstable)?.done()?;
        equal("count", done.count, 4)?;
        match done.file.after {
            Some(attributes) => equal("size", attributes.size, expected)?,
            None => b.advise(false, "WRITE should give the attributes of the file"),
        }
    }
    Ok(())
}

fn wtmax_can_be_written(b: &mut Bench<'_>) -> Verdict {
    let most = b.info()?.write_bytes_max.min(1 << 20);
    let (dir, data) = (b.dir()?, b.bytes(usize::try_from(most).unwrap_or(0)));
    let file = b.v3.file(dir, "file", b"")?;
    let done = b.v3.write(file, 0, &data, Stability::Unstable)?.done()?;
    ensure!(done.count > 0 && done.count <= most, "WRITE of {most} bytes writes {}", done.count);
    b.advise(done.count == most, format!("WRITE of {most} bytes writes {}", done.count));
    let got = b.v3.get(file, 0, done.count)?;
    ensure!(data.starts_with(&got), "other bytes are read than were written");
    Ok(())
}

fn all_lengths_up_to_100_are_kept(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut expected = Vec::new();
    for length in 1..=100 {
        let piece = b.bytes(length);
        b.v3.put(file, expected.len() as u64, &piece)?;
        expected.extend(piece);
    }
    ensure!(b.v3.get(file, 0, 10_000)? == expected, "the file does not have the written data");
    Ok(())
}

fn an_offset_beyond_maxfilesize_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (dir, most) = (b.dir()?, b.info()?.file_bytes_max);
    let file = b.v3.file(dir, "file", b"0123")?;
    for offset in [most, u64::MAX - 4] {
        let answered = b.v3.write(file, offset, b"abcd", Stability::FileSync)?;
        let allowed = [Status::FileTooBig, Status::Invalid, Status::NoSpace];
        let right = answered.status() == Some(Status::FileTooBig);
        b.advise(right, format!("WRITE at {offset} should be answered NFS3ERR_FBIG"));
        answered.refused(&allowed)?;
    }
    equal("size", b.v3.attributes(file)?.size, 4)
}

fn a_directory_is_invalid(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.write(dir, 0, b"abcd", Stability::FileSync)?.refused(&[Status::Invalid])?;
    Ok(())
}

fn a_symbolic_link_is_invalid(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let made = b.v3.symlink(dir, "link", "file")?;
    let link = b.v3.made(made, dir, "link")?;
    b.v3.write(link, 0, b"abcd", Stability::FileSync)?.refused(&[Status::Invalid])?;
    equal("contents of the target", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn a_stranger_needs_permission(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.write(file, 0, b"abc", Stability::FileSync)?.refused(&[Status::Access])?;
    equal("contents", user.get(file, 0, 10)?, b"123".to_vec())
}

fn the_owner_needs_none(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o444))?.done()?;
    let answered = user.write(file, 0, b"abc", Stability::FileSync)?;
    b.advise(answered.is_done(), "the owner should be able to write a file that it has open");
    Ok(())
}

fn a_group_that_may_write_can(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o620))?.done()?;
    let gid = user.attributes(file)?.gid;
    let mut credential = b.user(1)?;
    if let crate::client::Credential::Sys { groups, .. } = &mut credential {
        groups.push(gid);
    }
    let mut member = b.as_user(&credential);
    member.write(file, 0, b"abc", Stability::FileSync)?.done()?;
    member.read(file, 0, 3)?.refused(&[Status::Access])?;
    Ok(())
}

fn a_write_by_another_takes_setuid_away(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o4777))?.done()?;
    if user.attributes(file)?.mode & 0o4000 == 0 {
        return Err(Stop::skip("the file system has no set-user-ID bit"));
    }
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.write(file, 0, b"abc", Stability::FileSync)?.done()?;
    let mode = user.attributes(file)?.mode;
    b.advise(mode & 0o4000 == 0, "a write by another user leaves the set-user-ID bit");
    Ok(())
}

fn a_count_that_differs_from_the_data_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123456789")?;
    for count in [2, 100, u32::MAX] {
        let args = write::Args { count, ..write_args(file, 0, b"abcd", Stability::FileSync) };
        let status = b.v3.client.received(crate::v3::procedure(write::NUMBER), &args);
        // With any status: the server writes no more bytes than the client sent, and invents none.
        status?;
        let got = b.v3.get(file, 0, 20)?;
        let right = got[4..] == b"456789"[..] && (got.starts_with(b"ab") || got.starts_with(b"01"));
        ensure!(right, "a count of {count} for 4 bytes makes the file {}", got.escape_ascii());
    }
    Ok(())
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.write(file, 0, b"abc", Stability::FileSync)?;
    b.advise(!answered.is_done(), "a removed file can still be written");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}
