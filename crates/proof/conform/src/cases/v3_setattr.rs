//! SETATTR of version 3: changes the attributes of an object.

use leasehold_wire::nfs3::{Attributes, Time};

use super::prelude::*;
use crate::bench::after;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "v3_setattr",
    about: "SETATTR of version 3: changes the attributes of an object",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        the_mode_can_be_set_alone: "RFC 1813 3.3.2",
        setting_nothing_changes_nothing: "RFC 1813 3.3.2",
        a_size_of_0_empties_a_file: "RFC 1813 3.3.2, size",
        a_smaller_size_cuts_a_file: "RFC 1813 3.3.2, size",
        a_larger_size_adds_zeros: "RFC 1813 3.3.2, size",
        what_was_cut_off_does_not_come_back: "RFC 1813 3.3.2, size",
        a_size_beyond_4_gib_is_kept: "RFC 1813 1.1, 64-bit sizes",
        a_directory_has_no_size_to_set: "RFC 1813 3.3.2, size",
        a_change_of_size_changes_the_modification_time: "RFC 1813 3.3.2, size",
        the_modification_time_can_be_set: "RFC 1813 2.6, SET_TO_CLIENT_TIME",
        the_access_time_can_be_set: "RFC 1813 2.6, SET_TO_CLIENT_TIME",
        each_time_is_set_by_itself: "RFC 1813 2.6, set_atime and set_mtime",
        times_of_a_directory_can_be_set: "RFC 1813 2.6, SET_TO_CLIENT_TIME",
        a_time_in_1970_can_be_set: "RFC 1813 2.6, nfstime3",
        a_time_after_2038_can_be_set: "RFC 1813 2.6, nfstime3",
        times_are_kept_as_finely_as_fsinfo_says: "RFC 1813 3.3.19, time_delta",
        the_time_can_be_set_to_now: "RFC 1813 2.6, SET_TO_SERVER_TIME",
        a_change_moves_the_change_time: "RFC 1813 2.6, ctime",
        a_guard_that_matches_lets_it_through: "RFC 1813 3.3.2, guard",
        a_guard_that_does_not_match_keeps_it_out: "RFC 1813 3.3.2, NFS3ERR_NOT_SYNC",
        an_ordinary_user_gives_nothing_away: "RFC 1813 3.3.20, chown_restricted",
        an_owner_may_choose_among_its_groups: "RFC 1813 3.3.2",
        a_stranger_may_not_set_the_mode: "RFC 1813 2.6, NFS3ERR_PERM",
        a_stranger_may_not_set_the_size: "RFC 1813 2.6, NFS3ERR_ACCES",
        a_stranger_who_may_write_may_set_the_size: "RFC 1813 4.4",
        a_stranger_who_may_write_may_set_the_time_to_now: "RFC 1813 2.6, SET_TO_SERVER_TIME",
        a_stranger_who_may_write_may_not_choose_a_time: "RFC 1813 2.6, NFS3ERR_PERM",
        the_owner_may_set_the_size_of_what_it_may_not_write: "RFC 1813 4.4",
        a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        a_symbolic_link_can_be_given_times: "RFC 1813 3.3.2",
    },
};

const LONG_AGO: Time = Time { seconds: 1_000_000_000, nanoseconds: 0 };

fn modified(time: Time) -> SetAttributes {
    SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() }
}

fn accessed(time: Time) -> SetAttributes {
    SetAttributes { accessed: SetTime::To(time), ..SetAttributes::default() }
}

/// Skips the case if times cannot be set.
fn needs_times(b: &Bench<'_>) -> Verdict {
    match b.info()?.properties.can_set_time {
        true => Ok(()),
        false => Err(Stop::skip("FSINFO reports that times cannot be set")),
    }
}

/// Rounds a time to the granularity of the server.
fn kept(b: &Bench<'_>, time: Time) -> Result<Time, Stop> {
    let step = b.info()?.time_step;
    let step_nanoseconds = u64::from(step.seconds) * 1_000_000_000 + u64::from(step.nanoseconds);
    if step_nanoseconds == 0 {
        return Ok(time);
    }
    let nanoseconds = u64::from(time.seconds) * 1_000_000_000 + u64::from(time.nanoseconds);
    let kept = nanoseconds - nanoseconds % step_nanoseconds;
    Ok(Time {
        seconds: u32::try_from(kept / 1_000_000_000).expect("the seconds were no larger before"),
        nanoseconds: u32::try_from(kept % 1_000_000_000).expect("the rest is below a second"),
    })
}

/// Sets the modification time of a new file, and returns the file's attributes.
fn time_set(b: &mut Bench<'_>, time: Time) -> Result<Attributes, Stop> {
    needs_times(b)?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    b.v3.setattr(file, modified(time))?.done()?;
    b.v3.attributes(file)
}

fn the_mode_can_be_set_alone(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let before = b.v3.attributes(file)?;
    b.v3.setattr(file, mode(0o640))?.done()?;
    let attributes = b.v3.attributes(file)?;
    let mode = attributes.mode;
    ensure!(mode & 0o7777 == 0o640, "mode: expected 640, got {mode:o}");
    // All attributes except the mode and the time of this change.
    let expected = Attributes { mode, changed: attributes.changed, ..before };
    super::same("the other attributes", attributes, expected)
}

fn setting_nothing_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let before = b.v3.attributes(file)?;
    b.v3.setattr(file, SetAttributes::default())?.done()?;
    let attributes = b.v3.attributes(file)?;
    super::same("attributes", Attributes { changed: before.changed, ..attributes }, before)
}

fn a_size_of_0_empties_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    b.v3.setattr(file, size(0))?.done()?;
    equal("size", b.v3.attributes(file)?.size, 0)?;
    equal("contents", b.v3.get(file, 0, 100)?, Vec::new())
}

fn a_smaller_size_cuts_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    b.v3.setattr(file, size(2))?.done()?;
    equal("size", b.v3.attributes(file)?.size, 2)?;
    equal("contents", b.v3.get(file, 0, 100)?, b"12".to_vec())
}

fn a_larger_size_adds_zeros(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12")?;
    b.v3.setattr(file, size(10_000))?.done()?;
    let mut expected = b"12".to_vec();
    expected.resize(10_000, 0);
    let got = b.v3.get(file, 0, 20_000)?;
    ensure!(got == expected, "{} bytes are read, and not 12 and zeros", got.len());
    Ok(())
}

fn what_was_cut_off_does_not_come_back(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"secret")?;
    b.v3.setattr(file, size(1))?.done()?;
    b.v3.setattr(file, size(6))?.done()?;
    equal("contents", b.v3.get(file, 0, 100)?, b"s\0\0\0\0\0".to_vec())
}

fn a_size_beyond_4_gib_is_kept(b: &mut Bench<'_>) -> Verdict {
    const SIZE: u64 = (5 << 30) + 1;
    if b.info()?.file_bytes_max < SIZE {
        return Err(Stop::skip("FSINFO reports that files are smaller"));
    }
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let answered = b.v3.setattr(file, size(SIZE))?;
    if answered.status() == Some(Status::NoSpace) {
        return Err(Stop::skip("there is no space for a file of 5 GiB"));
    }
    answered.done()?;
    equal("size", b.v3.attributes(file)?.size, SIZE)?;
    equal("last byte", b.v3.get(file, SIZE - 1, 10)?, vec![0])
}

fn a_directory_has_no_size_to_set(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.setattr(dir, size(0))?;
    ensure!(!answered.is_done(), "SETATTR of a directory's size is answered with success");
    Ok(())
}

fn a_change_of_size_changes_the_modification_time(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    let before = b.v3.attributes(file)?;
    b.wait_past(before.modified)?;
    b.v3.setattr(file, size(2))?.done()?;
    let time = b.v3.attributes(file)?.modified;
    ensure!(
        after(time) > after(before.modified),
        "the modification time does not change: {time:?}"
    );
    Ok(())
}

fn the_modification_time_can_be_set(b: &mut Bench<'_>) -> Verdict {
    let attributes = time_set(b, LONG_AGO)?;
    equal("modification time", attributes.modified, LONG_AGO)
}

fn the_access_time_can_be_set(b: &mut Bench<'_>) -> Verdict {
    needs_times(b)?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    b.v3.setattr(file, accessed(LONG_AGO))?.done()?;
    equal("access time", b.v3.attributes(file)?.accessed, LONG_AGO)
}

fn each_time_is_set_by_itself(b: &mut Bench<'_>) -> Verdict {
    needs_times(b)?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let before = b.v3.attributes(file)?;
    b.v3.setattr(file, accessed(LONG_AGO))?.done()?;
    equal("modification time", b.v3.attributes(file)?.modified, before.modified)?;
    let time = Time { seconds: LONG_AGO.seconds + 5, ..LONG_AGO };
    b.v3.setattr(file, modified(time))?.done()?;
    let attributes = b.v3.attributes(file)?;
    equal("both times", (attributes.accessed, attributes.modified), (LONG_AGO, time))
}

fn times_of_a_directory_can_be_set(b: &mut Bench<'_>) -> Verdict {
    needs_times(b)?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.setattr(inner, modified(LONG_AGO))?.done()?;
    equal("modification time", b.v3.attributes(inner)?.modified, LONG_AGO)
}

fn a_time_in_1970_can_be_set(b: &mut Bench<'_>) -> Verdict {
    let time = Time { seconds: 1, nanoseconds: 0 };
    equal("modification time", time_set(b, time)?.modified, time)
}

fn a_time_after_2038_can_be_set(b: &mut Bench<'_>) -> Verdict {
    let time = Time { seconds: 0x8000_0005, nanoseconds: 0 };
    let attributes = time_set(b, time)?;
    // A file system may not support such times; then it must not store a time before 1970.
    b.advise(attributes.modified == time, "times after 2038 are not kept");
    ensure!(attributes.modified.seconds > 0x7f00_0000, "2038 became {:?}", attributes.modified);
    Ok(())
}

fn times_are_kept_as_finely_as_fsinfo_says(b: &mut Bench<'_>) -> Verdict {
    let time = Time { seconds: 1_234_567_890, nanoseconds: 123_456_789 };
    let attributes = time_set(b, time)?;
    equal("modification time", kept(b, attributes.modified)?, kept(b, time)?)
}

fn the_time_can_be_set_to_now(b: &mut Bench<'_>) -> Verdict {
    time_set(b, LONG_AGO)?;
    let dir = b.dir()?;
    let file = b.v3.find(dir, "file")?;
    let now = SetAttributes {
        accessed: SetTime::Now,
        modified: SetTime::Now,
        ..SetAttributes::default()
    };
    b.v3.setattr(file, now)?.done()?;
    let a = b.v3.attributes(file)?;
    // The same clock made the time of the change, approximately.
    let apart = a.changed.seconds.abs_diff(a.modified.seconds);
    ensure!(apart <= 2, "now is {:?}, and the change was at {:?}", a.modified, a.changed);
    ensure!(
        after(a.accessed) > after(LONG_AGO),
        "the access time does not change: {:?}",
        a.accessed
    );
    Ok(())
}

fn a_change_moves_the_change_time(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let before = b.v3.attributes(file)?.changed;
    b.wait_past(before)?;
    b.v3.setattr(file, mode(0o600))?.done()?;
    let changed = b.v3.attributes(file)?.changed;
    ensure!(after(changed) > after(before), "the change time does not change: {changed:?}");
    Ok(())
}

fn a_guard_that_matches_lets_it_through(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let changed = b.v3.attributes(file)?.changed;
    b.v3.setattr_guarded(file, mode(0o600), changed)?.done()?;
    equal("mode", b.v3.attributes(file)?.mode & 0o7777, 0o600)
}

fn a_guard_that_does_not_match_keeps_it_out(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    let before = b.v3.attributes(file)?;
    let wrong = Time { seconds: before.changed.seconds - 1, ..before.changed };
    let set = SetAttributes { mode: Some(0o600), ..size(0) };
    b.v3.setattr_guarded(file, set, wrong)?.refused(&[Status::NotSynchronized])?;
    super::same("attributes", b.v3.attributes(file)?, before)
}

fn an_ordinary_user_gives_nothing_away(b: &mut Bench<'_>) -> Verdict {
    if !b.limits()?.chown_restricted {
        return Err(Stop::skip("PATHCONF reports that every owner may give files away"));
    }
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    let before = user.attributes(file)?;
    let to_another = SetAttributes { uid: Some(before.uid + 1), ..SetAttributes::default() };
    user.setattr(file, to_another)?.refused(&[Status::NotOwner, Status::Access])?;
    let to_others = SetAttributes { gid: Some(before.gid + 1), ..SetAttributes::default() };
    user.setattr(file, to_others)?.refused(&[Status::NotOwner, Status::Access])?;
    equal("owner", user.attributes(file)?.uid, before.uid)
}

fn an_owner_may_choose_among_its_groups(b: &mut Bench<'_>) -> Verdict {
    let (user, own) = b.users_dir(0)?;
    let mut credential = user.client.credential;
    if let crate::client::Credential::Sys { groups, .. } = &mut credential {
        groups.push(50_123);
    }
    let mut user = b.as_user(&credential);
    let file = user.file(own, "file", b"")?;
    let to_group = SetAttributes { gid: Some(50_123), ..SetAttributes::default() };
    let answered = user.setattr(file, to_group)?;
    // By the text of chown_restricted only the privileged user may; POSIX and practice permit it.
    if answered.status() == Some(Status::NotOwner) && b.limits()?.chown_restricted {
        b.advise(false, "an owner should be able to choose among its groups");
        return Ok(());
    }
    answered.done()?;
    equal("group", user.attributes(file)?.gid, 50_123)
}

fn a_stranger_may_not_set_the_mode(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.setattr(file, mode(0o777))?.refused(&[Status::NotOwner, Status::Access])?;
    equal("mode", user.attributes(file)?.mode & 0o7777, 0o666)
}

fn a_stranger_may_not_set_the_size(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.setattr(file, size(0))?.refused(&[Status::Access, Status::NotOwner])?;
    equal("size", user.attributes(file)?.size, 3)
}

fn a_stranger_who_may_write_may_set_the_size(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.setattr(file, size(1))?.done()?;
    equal("size", user.attributes(file)?.size, 1)
}

fn a_stranger_who_may_write_may_set_the_time_to_now(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    let now = SetAttributes {
        accessed: SetTime::Now,
        modified: SetTime::Now,
        ..SetAttributes::default()
    };
    let answered = stranger.setattr(file, now)?;
    b.advise(answered.is_done(), "a user who may write should be able to set the time to now");
    Ok(())
}

fn a_stranger_who_may_write_may_not_choose_a_time(b: &mut Bench<'_>) -> Verdict {
    needs_times(b)?;
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o666))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.setattr(file, modified(LONG_AGO))?.refused(&[Status::NotOwner, Status::Access])?;
    Ok(())
}

fn the_owner_may_set_the_size_of_what_it_may_not_write(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o444))?.done()?;
    let answered = user.setattr(file, size(0))?;
    // A client with the file open for writing has checked that at open.
    b.advise(answered.is_done(), "the owner should be able to truncate a file that it has open");
    Ok(())
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.setattr(file, mode(0o600))?;
    b.advise(!answered.is_done(), "a removed file can still be changed");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn a_symbolic_link_can_be_given_times(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    needs_times(b)?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let made = b.v3.symlink(dir, "link", "file")?;
    let link = b.v3.made(made, dir, "link")?;
    let before = b.v3.attributes(file)?;
    let answered = b.v3.setattr(link, modified(LONG_AGO))?;
    b.advise(answered.is_done(), "the times of a symbolic link cannot be set");
    // With any result for the link, the file that it names is another object.
    super::same("attributes of the file", b.v3.attributes(file)?, before)
}
