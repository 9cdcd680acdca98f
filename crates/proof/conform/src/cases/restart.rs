//! The state that survives a restart of the server. The command determines the kind of restart.

use leasehold_wire::nfs3::{Handle, create::How, remove};

use super::prelude::*;
use super::v3_readdir::{filled, has_just};
use crate::net::{Got, Source};
use crate::v3::{Position, mode, place, procedure, size};

pub(crate) const GROUP: Group = Group {
    name: "restart",
    about: "the state that survives a restart of the server; needs --restart-command",
    needs: Needs::Version3,
    company: Company::Alone,
    cases: cases! {
        handles_of_files_stay_good: "NFS Version 3, 4.1",
        handles_of_directories_stay_good: "NFS Version 3, 4.1",
        handles_of_the_root_stay_good: "NFS Version 3, 4.1",
        handles_of_version_2_stay_good: "NFS Version 3, 4.1",
        a_handle_stays_good_after_a_rename: "NFS Version 3, 4.1",
        a_handle_of_a_removed_file_stays_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        attributes_are_the_same: "NFS Version 3, 4.1",
        stable_data_is_there: "RFC 1813 3.3.7, FILE_SYNC",
        data_synced_data_is_there: "RFC 1813 3.3.7, DATA_SYNC",
        committed_data_is_there: "RFC 1813 3.3.21",
        unstable_data_is_there_or_the_verifier_changes: "RFC 1813 3.3.7, verf",
        two_restarts_in_a_row_are_told_apart: "RFC 1813 3.3.7, verf",
        names_that_were_made_are_there: "RFC 1813 4.7",
        names_that_were_removed_are_gone: "RFC 1813 4.7",
        names_that_were_changed_are_changed: "RFC 1813 4.7",
        an_exclusive_create_can_be_asked_for_again: "RFC 1813 3.3.8, EXCLUSIVE",
        a_listing_goes_on: "RFC 1813 3.3.16, cookie",
        a_repeated_call_is_answered_again: "NFS Version 3, 4.1, note 1",
        version_2_writes_are_there: "RFC 1094 2.2",
    },
};

fn handles_of_files_stay_good(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.restart()?;
    equal("contents by the old handle", b.v3.get(file, 0, 10)?, b"123".to_vec())?;
    b.v3.put(file, 3, b"456")?;
    equal("size", b.v3.attributes(file)?.size, 6)
}

fn handles_of_directories_stay_good(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "file", b"")?;
    b.restart()?;
    b.v3.find(inner, "file")?;
    b.v3.file(inner, "another", b"")?;
    b.v3.find(inner, "..")?;
    Ok(())
}

fn handles_of_the_root_stay_good(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let root = b.root()?;
    let number = b.v3.attributes(root)?.file_id;
    b.restart()?;
    equal("number of the root", b.v3.attributes(root)?.file_id, number)?;
    let again = b.mounter().mnt(&b.server.export)?.done()?.directory;
    b.advise(again == root, "MNT returns another handle after a restart");
    Ok(())
}

fn handles_of_version_2_stay_good(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    b.restart()?;
    equal("contents", &b.v2.read(file, 0, 10)?.done()?.data[..], b"123")
}

fn a_handle_stays_good_after_a_rename(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.rename((dir, "file"), (inner, "moved"))?.done()?;
    let before = b.v3.getattr(file)?.is_done();
    b.restart()?;
    let after = b.v3.getattr(file)?.is_done();
    b.advise(after, "a handle does not survive a rename and a restart");
    ensure!(after || !before, "a handle survives a rename, but not a restart after it");
    Ok(())
}

fn a_handle_of_a_removed_file_stays_stale(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.file(dir, "file", b"456")?;
    b.restart()?;
    b.v3.getattr(file)?.refused(&[Status::Stale])
}

fn attributes_are_the_same(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.setattr(file, mode(0o640))?.done()?;
    let before = b.v3.attributes(file)?;
    b.restart()?;
    super::same("attributes", b.v3.attributes(file)?, before)
}

/// Checks that data written with this stability survives a restart.
fn survives(b: &mut Bench<'_>, stability: Stability, commit: bool) -> Verdict {
    b.needs_restart()?;
    let (dir, data) = (b.dir()?, b.bytes(30_000));
    let file = b.v3.file(dir, "file", b"")?;
    let mut at = 0;
    while at < data.len() {
        let done = b.v3.write(file, at as u64, &data[at..], stability)?.done()?;
        ensure!(done.count > 0, "WRITE of {} bytes writes none", data.len() - at);
        at += done.count as usize;
    }
    if commit {
        b.v3.commit(file, 0, 0)?.done()?;
    }
    b.restart()?;
    ensure!(b.v3.get(file, 0, 40_000)? == data, "data that was reported as stable is lost");
    Ok(())
}

fn stable_data_is_there(b: &mut Bench<'_>) -> Verdict {
    survives(b, Stability::FileSync, false)
}

fn data_synced_data_is_there(b: &mut Bench<'_>) -> Verdict {
    survives(b, Stability::DataSync, false)
}

fn committed_data_is_there(b: &mut Bench<'_>) -> Verdict {
    survives(b, Stability::Unstable, true)
}

/// Writes unstable data, restarts, and returns both verifiers.
fn across(b: &mut Bench<'_>, file: Handle, data: &[u8]) -> Result<([u8; 8], [u8; 8]), Stop> {
    let before = b.v3.write(file, 0, data, Stability::Unstable)?.done()?.verifier;
    b.restart()?;
    let after = b.v3.commit(file, 0, 0)?.done()?.verifier;
    Ok((before, after))
}

fn unstable_data_is_there_or_the_verifier_changes(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let (dir, data) = (b.dir()?, b.bytes(5000));
    let file = b.v3.file(dir, "file", b"")?;
    let (before, after) = across(b, file, &data)?;
    let there = b.v3.get(file, 0, 10_000)? == data;
    ensure!(there || before != after, "data is lost and the verifier stays {after:?}");
    b.advise(
        before != after,
        "the verifier does not change; this is right only if no data was lost",
    );
    Ok(())
}

fn two_restarts_in_a_row_are_told_apart(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let (first, second) = across(b, file, b"one")?;
    let (again, third) = across(b, file, b"two")?;
    equal("verifier of one instance", again, second)?;
    let lost = b.v3.get(file, 0, 10)? != b"two";
    // Verifiers that consist of seconds are equal when a server starts twice within one second.
    ensure!(!lost || (first != second && second != third), "two starts have one verifier");
    b.advise((first == second) == (second == third), "the verifier sometimes changes");
    Ok(())
}

fn names_that_were_made_are_there(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.file(inner, "inner", b"")?;
    let symlinks = b.info()?.properties.symlinks;
    if symlinks {
        b.v3.symlink(dir, "link", "text")?.done()?;
    }
    b.restart()?;
    b.v3.find(dir, "file")?;
    b.v3.find(inner, "inner")?;
    if symlinks {
        let link = b.v3.find(dir, "link")?;
        equal("text", b.v3.readlink(link)?.done()?.target, b"text".to_vec())?;
    }
    Ok(())
}

fn names_that_were_removed_are_gone(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.directory(dir, "dir")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.rmdir(dir, "dir")?.done()?;
    b.restart()?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    b.v3.lookup(dir, "dir")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn names_that_were_changed_are_changed(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "old", b"12345")?;
    b.v3.rename((dir, "old"), (dir, "new"))?.done()?;
    b.v3.setattr(file, SetAttributes { mode: Some(0o611), ..size(3) })?.done()?;
    b.restart()?;
    b.v3.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    let found = b.v3.find(dir, "new")?;
    let attributes = b.v3.attributes(found)?;
    equal("(mode, size)", (attributes.mode & 0o7777, attributes.size), (0o611, 3))
}

fn an_exclusive_create_can_be_asked_for_again(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    let how = How::Exclusive(*b"restart!");
    let answered = b.v3.create(dir, "file", how)?;
    if answered.status() == Some(Status::NotSupported) {
        return Err(Stop::skip("exclusive CREATE is not supported"));
    }
    let file = b.v3.made(answered, dir, "file")?;
    let number = b.v3.attributes(file)?.file_id;
    b.restart()?;
    // The client may have missed the reply: it repeats the call until it gets one.
    let answered = b.v3.create(dir, "file", how)?;
    let again = b.v3.made(answered, dir, "file")?;
    equal("number", b.v3.attributes(again)?.file_id, number)?;
    let other = How::Exclusive(*b"another!");
    b.v3.create(dir, "file", other)?.refused(&[Status::AlreadyExists])?;
    Ok(())
}

fn a_listing_goes_on(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let (dir, names) = filled(b, 60)?;
    let first = b.v3.readdir(dir, Position::default(), 1024)?.done()?;
    let cookie = first.entries.last().map(|entry| entry.cookie).unwrap_or_default();
    b.restart()?;
    let from = Position { cookie, verifier: first.verifier };
    let answered = b.v3.readdir(dir, from, 32_768)?;
    if !answered.is_done() {
        b.advise(false, "cookies do not survive a restart");
        answered.refused(&[Status::BadCookie])?;
        return Ok(());
    }
    let all = [first.entries, answered.done()?.entries].concat();
    has_just(&all, &names)
}

fn a_repeated_call_is_answered_again(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    let (_, message) = b.message(procedure(remove::NUMBER), &place(dir, "file"));
    let mut stream = b.stream_from(Source::Port(0))?;
    let port = stream.port();
    let sent = |error: std::io::Error| Stop::fail(error.to_string());
    stream.send(&message).map_err(sent)?;
    let first = stream.receive(b.server.patience);
    stream.abort();
    b.restart()?;
    let mut stream = b.stream_from(Source::Port(port))?;
    stream.send(&message).map_err(sent)?;
    let second = stream.receive(b.server.patience);
    let status = |got: &Got| match got {
        Got::Message(reply) => reply.get(24..28).map(<[u8]>::to_vec),
        Got::Silence | Got::Closed | Got::Nonsense(_) => None,
    };
    equal("status of the first reply", status(&first), Some(vec![0; 4]))?;
    // A duplicate request cache need not survive; if it does, no client notices the restart.
    b.advise(
        status(&second) == Some(vec![0; 4]),
        "the duplicate request cache does not survive a restart",
    );
    let gone = (Status::NotFound as u32).to_be_bytes().to_vec();
    let right = [Some(vec![0; 4]), Some(gone)].contains(&status(&second));
    ensure!(right, "a repeated REMOVE is answered {second:?}");
    Ok(())
}

fn version_2_writes_are_there(b: &mut Bench<'_>) -> Verdict {
    b.needs_restart()?;
    let (dir, data) = (b.dir2()?, b.bytes(8192));
    let file = b.v2.file(dir, "file", &data)?;
    b.restart()?;
    let got = b.v2.read(file, 0, 8192)?.done()?.data;
    ensure!(got == data, "data that version 2 has written is lost");
    Ok(())
}
