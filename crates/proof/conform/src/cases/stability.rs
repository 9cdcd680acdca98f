//! WRITE, COMMIT and the verifier: durable data, and the client's knowledge of it.

use std::collections::BTreeSet;

use leasehold_wire::nfs3::{Handle, commit, write};

use super::prelude::*;
use crate::v3::{procedure, write_args};

pub(crate) const GROUP: Group = Group {
    name: "stability",
    about: "WRITE, COMMIT and the verifier: durable data, and the client's knowledge of it",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        commit_is_answered: "RFC 1813 3.3.21",
        commit_of_an_empty_file_is_answered: "RFC 1813 3.3.21, implementation",
        commit_of_a_range_is_answered: "RFC 1813 3.3.21, offset and count",
        commit_behind_the_end_is_answered: "RFC 1813 3.3.21, implementation",
        commit_of_the_largest_range_is_answered: "RFC 1813 3.3.21, count",
        commit_twice_is_answered_twice: "RFC 1813 3.3.21, implementation",
        commit_changes_nothing: "RFC 1813 3.3.21",
        commit_of_a_directory_is_refused: "RFC 1813 3.3.21, file",
        commit_of_a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        write_and_commit_have_one_verifier: "RFC 1813 3.3.21, verf",
        all_writes_have_one_verifier: "RFC 1813 3.3.7, verf",
        all_files_have_one_verifier: "RFC 1813 3.3.7, verf",
        all_connections_have_one_verifier: "RFC 1813 3.3.7, verf",
        all_users_have_one_verifier: "RFC 1813 3.3.7, verf",
        a_file_is_written_in_the_background_and_committed: "NFS Version 3, 4.3.2",
        every_stability_gives_the_same_file: "RFC 1813 3.3.7, stable",
        no_write_is_less_stable_than_asked: "RFC 1813 3.3.7, committed",
        what_was_committed_is_read_by_others: "RFC 1813 3.3.21",
        many_commits_on_their_way_are_all_answered: "RFC 1813 3.3.21",
        commit_after_the_file_was_cut_is_answered: "RFC 1813 3.3.21, implementation",
        a_renamed_file_can_be_committed: "RFC 1813 3.3.21",
        a_stranger_may_not_commit_or_does_no_harm: "RFC 1813 3.3.21",
    },
};

/// A file with unstable data, and the verifier of the WRITE.
fn unstable(b: &mut Bench<'_>, name: &str, data: &[u8]) -> Result<(Handle, [u8; 8]), Stop> {
    let dir = b.dir()?;
    let file = b.v3.file(dir, name, b"")?;
    let done = b.v3.write(file, 0, data, Stability::Unstable)?.done()?;
    Ok((file, done.verifier))
}

fn commit_is_answered(b: &mut Bench<'_>) -> Verdict {
    let (file, _) = unstable(b, "file", b"0123456789")?;
    b.v3.commit(file, 0, 0)?.done()?;
    equal("contents", b.v3.get(file, 0, 20)?, b"0123456789".to_vec())
}

fn commit_of_an_empty_file_is_answered(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.commit(file, 0, 0)?.done()?;
    Ok(())
}

fn commit_of_a_range_is_answered(b: &mut Bench<'_>) -> Verdict {
    let data = b.bytes(20_000);
    let (file, verifier) = unstable(b, "file", &data)?;
    for (offset, count) in [(0, 10), (4096, 4096), (10_000, 0), (1, 1)] {
        equal("verifier", b.v3.commit(file, offset, count)?.done()?.verifier, verifier)?;
    }
    Ok(())
}

fn commit_behind_the_end_is_answered(b: &mut Bench<'_>) -> Verdict {
    let (file, _) = unstable(b, "file", b"0123456789")?;
    b.v3.commit(file, 1 << 20, 10)?.done()?;
    b.v3.commit(file, 5, 1 << 20)?.done()?;
    equal("size", b.v3.attributes(file)?.size, 10)
}

fn commit_of_the_largest_range_is_answered(b: &mut Bench<'_>) -> Verdict {
    let (file, _) = unstable(b, "file", b"0123456789")?;
    b.v3.commit(file, 0, u32::MAX)?.done()?;
    let answered = b.v3.commit(file, u64::MAX, u32::MAX)?;
    if !answered.is_done() {
        // The end of the range exceeds 64 bits.
        answered.refused(&[Status::Invalid])?;
    }
    Ok(())
}

fn commit_twice_is_answered_twice(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    for _ in 0..2 {
        equal("verifier", b.v3.commit(file, 0, 0)?.done()?.verifier, verifier)?;
    }
    Ok(())
}

fn commit_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    let (file, _) = unstable(b, "file", b"0123456789")?;
    let before = b.v3.attributes(file)?;
    b.v3.commit(file, 0, 0)?.done()?;
    let mut after = b.v3.attributes(file)?;
    // File systems often allocate space only when data goes to the disk.
    after.used = before.used;
    super::same("attributes", after, before)
}

fn commit_of_a_directory_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.commit(dir, 0, 0)?;
    // "This must identify a file system object of type NF3REG."
    b.advise(!answered.is_done(), "COMMIT of a directory is answered with success");
    if !answered.is_done() {
        answered.refused(&[Status::Invalid, Status::IsDirectory])?;
    }
    Ok(())
}

fn commit_of_a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let (file, _) = unstable(b, "file", b"0123456789")?;
    let dir = b.dir()?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.commit(file, 0, 0)?;
    b.advise(!answered.is_done(), "a removed file can still be committed");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn write_and_commit_have_one_verifier(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    equal("verifier of COMMIT", b.v3.commit(file, 0, 0)?.done()?.verifier, verifier)
}

fn all_writes_have_one_verifier(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        for offset in [0, 5, 1000] {
            let done = b.v3.write(file, offset, b"abc", stability)?.done()?;
            equal("verifier", done.verifier, verifier)?;
        }
    }
    Ok(())
}

fn all_files_have_one_verifier(b: &mut Bench<'_>) -> Verdict {
    let mut verifiers = BTreeSet::new();
    for name in ["a", "b", "c", "d", "e"] {
        let (file, verifier) = unstable(b, name, b"0123456789")?;
        verifiers.insert(verifier);
        verifiers.insert(b.v3.commit(file, 0, 0)?.done()?.verifier);
    }
    equal("different verifiers", verifiers.len(), 1)
}

fn all_connections_have_one_verifier(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    for _ in 0..3 {
        let done = b.another_here().write(file, 0, b"abc", Stability::Unstable)?.done()?;
        equal("verifier of WRITE", done.verifier, verifier)?;
        let done = b.another_here().commit(file, 0, 0)?.done()?;
        equal("verifier of COMMIT", done.verifier, verifier)?;
    }
    Ok(())
}

fn all_users_have_one_verifier(b: &mut Bench<'_>) -> Verdict {
    let (_, verifier) = unstable(b, "file", b"0123456789")?;
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    let done = user.write(file, 0, b"abc", Stability::Unstable)?.done()?;
    equal("verifier", done.verifier, verifier)
}

fn a_file_is_written_in_the_background_and_committed(b: &mut Bench<'_>) -> Verdict {
    const PIECE: usize = 32 << 10;
    let (dir, data) = (b.dir()?, b.bytes(40 * PIECE));
    let file = b.v3.file(dir, "file", b"")?;
    let args: Vec<write::Args> = data
        .chunks(PIECE)
        .zip(0_u64..)
        .map(|(piece, number)| write_args(file, number * PIECE as u64, piece, Stability::Unstable))
        .collect();
    let mut verifiers = BTreeSet::new();
    for results in b.v3.client.call_many(procedure(write::NUMBER), &args)? {
        let reply = crate::v3::readable::<write::Reply>("NFS3 WRITE", &results)?;
        let leasehold_wire::nfs3::Reply::Done(done) = reply else {
            return Err(Stop::fail(format!("one of many WRITEs is answered {reply:?}")));
        };
        equal("count", done.count as usize, PIECE)?;
        verifiers.insert(done.verifier);
    }
    verifiers.insert(b.v3.commit(file, 0, 0)?.done()?.verifier);
    equal("different verifiers", verifiers.len(), 1)?;
    let length = u32::try_from(data.len()).expect("the data is short");
    ensure!(b.another().get(file, 0, length)? == data, "other bytes are read than were written");
    Ok(())
}

fn every_stability_gives_the_same_file(b: &mut Bench<'_>) -> Verdict {
    let (dir, data) = (b.dir()?, b.bytes(3000));
    let file = b.v3.file(dir, "file", b"")?;
    for (piece, stability) in
        [Stability::Unstable, Stability::DataSync, Stability::FileSync].into_iter().enumerate()
    {
        let at = piece * 1000;
        let done = b.v3.write(file, at as u64, &data[at..at + 1000], stability)?.done()?;
        equal("count", done.count, 1000)?;
    }
    ensure!(b.v3.get(file, 0, 5000)? == data, "other bytes are read than were written");
    Ok(())
}

fn no_write_is_less_stable_than_asked(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for asked in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        for length in [0, 1, 5000] {
            let data = b.bytes(length);
            let got = b.v3.write(file, 0, data, asked)?.done()?.stability;
            ensure!(got >= asked, "{asked:?} of {length} bytes is answered {got:?}");
        }
    }
    Ok(())
}

fn what_was_committed_is_read_by_others(b: &mut Bench<'_>) -> Verdict {
    let data = b.bytes(10_000);
    let (file, _) = unstable(b, "file", &data)?;
    b.v3.commit(file, 0, 0)?.done()?;
    ensure!(b.another().get(file, 0, 20_000)? == data, "another client reads other bytes");
    Ok(())
}

fn many_commits_on_their_way_are_all_answered(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    let args = vec![commit::Args { file, offset: 0, count: 0 }; 50];
    for results in b.v3.client.call_many(procedure(commit::NUMBER), &args)? {
        let reply = crate::v3::readable::<commit::Reply>("NFS3 COMMIT", &results)?;
        let leasehold_wire::nfs3::Reply::Done(done) = reply else {
            return Err(Stop::fail(format!("one of many COMMITs is answered {reply:?}")));
        };
        equal("verifier", done.verifier, verifier)?;
    }
    Ok(())
}

fn commit_after_the_file_was_cut_is_answered(b: &mut Bench<'_>) -> Verdict {
    let data = b.bytes(10_000);
    let (file, _) = unstable(b, "file", &data)?;
    b.v3.setattr(file, crate::v3::size(100))?.done()?;
    b.v3.commit(file, 0, 10_000)?.done()?;
    equal("size", b.v3.attributes(file)?.size, 100)
}

fn a_renamed_file_can_be_committed(b: &mut Bench<'_>) -> Verdict {
    let (file, verifier) = unstable(b, "file", b"0123456789")?;
    let dir = b.dir()?;
    b.v3.rename((dir, "file"), (dir, "other"))?.done()?;
    let found = b.v3.find(dir, "other")?;
    equal("verifier", b.v3.commit(found, 0, 0)?.done()?.verifier, verifier)?;
    let by_old_handle = b.v3.commit(file, 0, 0)?;
    b.advise(by_old_handle.is_done(), "a handle does not survive a rename");
    Ok(())
}

fn a_stranger_may_not_commit_or_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, crate::v3::mode(0o600))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    // The standard lists no error for it: a server may permit it, because it reveals nothing.
    let answered = stranger.commit(file, 0, 0)?;
    if !answered.is_done() {
        answered.refused(&[Status::Access, Status::NotOwner])?;
    }
    equal("contents", user.get(file, 0, 10)?, b"123".to_vec())
}
