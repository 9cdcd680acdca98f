//! Versions 2 and 3 side by side: one file system, seen by both.

use leasehold_wire::nfs2;

use super::prelude::*;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "versions",
    about: "versions 2 and 3 side by side: one file system, seen by both",
    needs: Needs::Version2,
    company: Company::Shared,
    cases: cases! {
        what_one_writes_the_other_reads: "RFC 1813 4.1",
        what_one_makes_the_other_lists: "RFC 1813 4.1",
        numbers_are_the_same: "RFC 1094 2.3.5, fileid",
        attributes_are_the_same: "RFC 1094 2.3.5",
        what_one_removes_the_other_does_not_find: "RFC 1813 4.1",
        a_file_beyond_4_gib_has_the_largest_size: "NFS Version 3, 4.3.1",
        a_file_beyond_4_gib_can_be_read_at_its_start: "NFS Version 3, 4.3.1",
        version_2_reads_what_it_can_reach: "NFS Version 3, 4.3.1",
        links_of_one_are_links_of_the_other: "RFC 1094 2.2.13",
        a_time_is_the_same_to_the_microsecond: "RFC 1094 2.3.4",
    },
};

fn what_one_writes_the_other_reads(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    b.v2.file(dir2, "two", b"by 2")?;
    b.v3.file(dir, "three", b"by 3")?;
    let two = b.v3.find(dir, "two")?;
    equal("by version 3", b.v3.get(two, 0, 10)?, b"by 2".to_vec())?;
    let three = b.v2.find(dir2, "three")?;
    equal("by version 2", &b.v2.read(three, 0, 10)?.done()?.data[..], b"by 3")
}

fn what_one_makes_the_other_lists(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    b.v2.directory(dir2, "two")?;
    b.v3.directory(dir, "three")?;
    let by2 = b.v2.list(dir2, 4096)?;
    let by3 = b.v3.list(dir, 4096)?;
    for name in [&b"two"[..], b"three"] {
        let both = by2.iter().any(|e| e.name == name) && by3.iter().any(|e| e.name == name);
        ensure!(both, "{} is not listed by both versions", name.escape_ascii());
    }
    Ok(())
}

fn numbers_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let two = b.v2.file(dir2, "file", b"")?;
    let three = b.v3.find(dir, "file")?;
    let long = b.v3.attributes(three)?.file_id.0;
    let same = u32::try_from(long)
        .is_ok_and(|long| b.v2.attributes(two).is_ok_and(|a| a.file_id.0 == long));
    // The server has to shorten a longer number.
    b.advise(same || u32::try_from(long).is_err(), "a file has two numbers");
    Ok(())
}

fn attributes_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let two = b.v2.file(dir2, "file", b"12345")?;
    let three = b.v3.find(dir, "file")?;
    b.v3.setattr(three, mode(0o640))?.done()?;
    let (a, c) = (b.v2.attributes(two)?, b.v3.attributes(three)?);
    equal("owner", (a.uid, a.gid), (c.uid, c.gid))?;
    equal("size", u64::from(a.size), c.size)?;
    equal("mode", a.mode & 0o7777, c.mode & 0o7777)?;
    equal("number of names", a.link_count, c.link_count)
}

fn what_one_removes_the_other_does_not_find(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let two = b.v2.file(dir2, "file", b"12345")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v2.lookup(dir2, "file")?.refused(&[nfs2::Status::NotFound])?;
    let answered = b.v2.getattr(two)?;
    b.advise(!answered.is_done(), "a removed file can still be used");
    Ok(())
}

/// A file that is too large for version 2, by its handle in version 2.
fn large(b: &mut Bench<'_>) -> Result<nfs2::Handle, Stop> {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let file = b.v3.file(dir, "large", b"start")?;
    let answered = b.v3.setattr(file, size((4 << 30) + 10))?;
    if !answered.is_done() {
        return Err(Stop::skip("there is no space for a file of 4 GiB"));
    }
    let found = b.v2.lookup(dir2, "large")?;
    // "One solution is to deny access to any file whose size cannot be expressed."
    if found.status() == Some(nfs2::Status::FileTooBig) {
        return Err(Stop::skip("version 2 denies access to such files"));
    }
    Ok(found.done()?.object)
}

fn a_file_beyond_4_gib_has_the_largest_size(b: &mut Bench<'_>) -> Verdict {
    let file = large(b)?;
    let size = b.v2.attributes(file)?.size;
    ensure!(size >= 0x7fff_ffff, "a file beyond 4 GiB has size {size} in version 2");
    Ok(())
}

fn a_file_beyond_4_gib_can_be_read_at_its_start(b: &mut Bench<'_>) -> Verdict {
    let file = large(b)?;
    equal("contents", &b.v2.read(file, 0, 7)?.done()?.data[..], b"start\0\0")
}

fn version_2_reads_what_it_can_reach(b: &mut Bench<'_>) -> Verdict {
    let file = large(b)?;
    // The last reachable bytes; the data behind them has no offset in version 2.
    let answered = b.v2.read(file, u32::MAX - 3, 8)?;
    match answered.either() {
        Ok(done) => {
            ensure!(done.data.iter().all(|byte| *byte == 0), "the end of 4 GiB is not zeros");
            Ok(())
        }
        Err((nfs2::Status::FileTooBig, ())) => Ok(()),
        Err((status, ())) => Err(Stop::fail(format!("READ near 4 GiB gives {status:?}"))),
    }
}

fn links_of_one_are_links_of_the_other(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let two = b.v2.file(dir2, "one", b"")?;
    b.v2.link(two, dir2, "two")?.done()?;
    let three = b.v3.find(dir, "two")?;
    b.v3.link(three, dir, "three")?.done()?;
    equal("number of names", b.v2.attributes(two)?.link_count, 3)
}

fn a_time_is_the_same_to_the_microsecond(b: &mut Bench<'_>) -> Verdict {
    let (dir2, dir) = (b.dir2()?, b.dir()?);
    let two = b.v2.file(dir2, "file", b"1")?;
    let three = b.v3.find(dir, "file")?;
    let (a, c) = (b.v2.attributes(two)?.modified, b.v3.attributes(three)?.modified);
    equal("time", (a.seconds, a.microseconds), (c.seconds, c.nanoseconds / 1000))
}
