//! READ and WRITE of version 2.

use leasehold_wire::nfs2::{Status, read, write};

use super::prelude2::*;
use crate::client::encoded;
use crate::v2::{mode, procedure};

pub(crate) const GROUP: Group = Group {
    name: "v2_data",
    about: "READ and WRITE of version 2",
    needs: Needs::Version2,
    company: Company::Shared,
    cases: cases! {
        what_was_written_is_read: "RFC 1094 2.2.7",
        a_part_is_read: "RFC 1094 2.2.7, offset and count",
        behind_the_end_there_is_nothing: "RFC 1094 2.2.7",
        more_than_8_kib_are_not_given: "RFC 1094 2.3.1, MAXDATA",
        the_unused_count_is_ignored: "RFC 1094 2.2.7, totalcount",
        attributes_come_along: "RFC 1094 2.2.7, attributes",
        a_directory_is_not_read: "RFC 1094 2.3.1, NFSERR_ISDIR",
        a_stranger_needs_permission: "RFC 1094 2.3.1, NFSERR_ACCES",
        all_8_kib_are_written: "RFC 1094 2.2.9",
        more_than_8_kib_are_not_taken: "RFC 1094 2.3.1, MAXDATA",
        bytes_in_the_middle_are_replaced: "RFC 1094 2.2.9, offset",
        a_gap_is_zeros: "RFC 1094 2.2.9, offset",
        the_unused_offsets_are_ignored: "RFC 1094 2.2.9, beginoffset and totalcount",
        the_size_is_right_in_the_reply: "RFC 1094 2.2.9, attributes",
        a_directory_is_not_written: "RFC 1094 2.3.1, NFSERR_ISDIR",
        a_stranger_may_not_write: "RFC 1094 2.3.1, NFSERR_ACCES",
        nothing_can_be_written: "RFC 1094 2.2.9",
        a_removed_file_is_stale: "RFC 1094 2.3.1, NFSERR_STALE",
        writes_near_4_gib_are_whole_or_not_done: "RFC 1094 2.2.9",
        data_is_read_over_udp: "RFC 1094 2",
    },
};

fn what_was_written_is_read(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", &data)?;
    let got = b.v2.read(file, 0, 8192)?.done()?.data;
    ensure!(got == data, "other bytes are read than were written");
    Ok(())
}

fn a_part_is_read(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    equal("bytes 3 to 6", &b.v2.read(file, 3, 4)?.done()?.data[..], b"3456")?;
    equal("bytes from 8", &b.v2.read(file, 8, 100)?.done()?.data[..], b"89")
}

fn behind_the_end_there_is_nothing(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    for offset in [10, 11, 1 << 20, u32::MAX] {
        equal("bytes", b.v2.read(file, offset, 10)?.done()?.data.len(), 0)?;
    }
    Ok(())
}

fn more_than_8_kib_are_not_given(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", &data)?;
    b.v2.write(file, 8192, &data)?.done()?;
    for count in [8193, 65_536, u32::MAX] {
        let answered = b.v2.read(file, 0, count)?;
        if let Ok(done) = answered.either() {
            ensure!(data.starts_with(&done.data), "READ of {count} bytes gives other bytes");
        }
    }
    Ok(())
}

fn the_unused_count_is_ignored(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    let args = read::Args { file, offset: 2, count: 3, total_count: u32::MAX };
    let results = b.v2.client.call(procedure(read::NUMBER), &args)?;
    let reply = crate::v3::readable::<read::Reply>("NFS2 READ", &results)?;
    let leasehold_wire::outcome::Outcome::Done(done) = reply else {
        return Err(Stop::fail(format!("READ with a totalcount is answered {reply:?}")));
    };
    equal("data", &done.data[..], b"234")
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    let attributes = b.v2.read(file, 0, 1)?.done()?.attributes;
    let expected = b.v2.attributes(file)?;
    equal("(number, size)", (attributes.file_id, attributes.size), (expected.file_id, 10))
}

fn a_directory_is_not_read(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let answered = b.v2.read(dir, 0, 10)?;
    b.advise(answered.status() == Some(Status::IsDirectory), "the status should be NFSERR_ISDIR");
    ensure!(!answered.is_done(), "READ of a directory is answered with success");
    Ok(())
}

fn a_stranger_needs_permission(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    b.v2.setattr(file, mode(0o600))?.done()?;
    let mut stranger = b.as_user2(&b.user(1)?);
    stranger.read(file, 0, 3)?.refused(&[Status::Access])?;
    Ok(())
}

fn all_8_kib_are_written(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", b"")?;
    // Unlike version 3, version 2 has no count for a partial write.
    equal("size", b.v2.write(file, 0, &data)?.done()?.size, 8192)
}

fn more_than_8_kib_are_not_taken(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir2()?, b.bytes(8193));
    let file = b.v2.file(dir, "file", b"0123")?;
    let mut args = encoded(&file);
    for word in [0, 0, 0, 8193] {
        args.extend_from_slice(&u32::to_be_bytes(word));
    }
    args.extend_from_slice(&data);
    args.extend_from_slice(&[0; 3]);
    let (xid, mut message) = b.message(procedure(write::NUMBER), &());
    message.extend(args);
    // With any status, the server must not write a part of it: the client could not detect that.
    b.v2.client.exchange(xid, &message)?;
    b.v2.client.disconnect();
    let size = b.v2.attributes(file)?.size;
    ensure!(size == 4 || size == 8193, "of 8193 bytes {size} were written");
    Ok(())
}

fn bytes_in_the_middle_are_replaced(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    b.v2.write(file, 3, b"abc")?.done()?;
    equal("contents", &b.v2.read(file, 0, 20)?.done()?.data[..], b"012abc6789")
}

fn a_gap_is_zeros(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"ab")?;
    b.v2.write(file, 5, b"cd")?.done()?;
    equal("contents", &b.v2.read(file, 0, 20)?.done()?.data[..], b"ab\0\0\0cd")
}

fn the_unused_offsets_are_ignored(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123456789")?;
    let data = bytes::Bytes::from_static(b"abc");
    let args = write::Args { file, begin_offset: 7, offset: 2, total_count: 1, data };
    let results = b.v2.client.call(procedure(write::NUMBER), &args)?;
    ensure!(results.starts_with(&[0; 4]), "WRITE with a beginoffset is refused");
    equal("contents", &b.v2.read(file, 0, 20)?.done()?.data[..], b"01abc56789")
}

fn the_size_is_right_in_the_reply(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123")?;
    for (offset, expected) in [(0, 4), (2, 6), (10, 14)] {
        equal("size", b.v2.write(file, offset, b"abcd")?.done()?.size, expected)?;
    }
    Ok(())
}

fn a_directory_is_not_written(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let answered = b.v2.write(dir, 0, b"abcd")?;
    b.advise(answered.status() == Some(Status::IsDirectory), "the status should be NFSERR_ISDIR");
    ensure!(!answered.is_done(), "WRITE of a directory is answered with success");
    Ok(())
}

fn a_stranger_may_not_write(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let mut stranger = b.as_user2(&b.user(1)?);
    stranger.write(file, 0, b"abc")?.refused(&[Status::Access])?;
    equal("contents", &b.v2.read(file, 0, 20)?.done()?.data[..], b"123")
}

fn nothing_can_be_written(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123")?;
    equal("size", b.v2.write(file, 100, b"")?.done()?.size, 4)
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123")?;
    b.v2.remove(dir, "file")?.done()?;
    let answered = b.v2.write(file, 0, b"abcd")?;
    b.advise(!answered.is_done(), "a removed file can still be written");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn writes_near_4_gib_are_whole_or_not_done(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"0123")?;
    let answered = b.v2.write(file, u32::MAX - 1, b"abcd")?;
    if !answered.is_done() {
        equal("size", b.v2.attributes(file)?.size, 4)?;
    }
    Ok(())
}

fn data_is_read_over_udp(b: &mut Bench<'_>) -> Verdict {
    let mut udp = b.udp2()?;
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", b"")?;
    udp.write(file, 0, &data)?.done()?;
    let got = udp.read(file, 0, 8192)?.done()?.data;
    ensure!(got == data, "other bytes are read than were written");
    Ok(())
}
