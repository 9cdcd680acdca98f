//! Weak cache consistency: attributes from before and after a change, and their order in time.

use leasehold_wire::nfs3::{Attributes, Before, Handle, Wcc, create::How};

use super::prelude::*;
use crate::bench::after;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "wcc",
    about: "weak cache consistency: attributes from before and after a change",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        write_gives_both: "RFC 1813 3.3.7, file_wcc",
        setattr_gives_both: "RFC 1813 3.3.2, obj_wcc",
        commit_gives_both: "RFC 1813 3.3.21, file_wcc",
        create_gives_both_of_the_directory: "RFC 1813 3.3.8, dir_wcc",
        mkdir_gives_both_of_the_directory: "RFC 1813 3.3.9, dir_wcc",
        symlink_gives_both_of_the_directory: "RFC 1813 3.3.10, dir_wcc",
        mknod_gives_both_of_the_directory: "RFC 1813 3.3.11, dir_wcc",
        remove_gives_both_of_the_directory: "RFC 1813 3.3.12, dir_wcc",
        rmdir_gives_both_of_the_directory: "RFC 1813 3.3.13, dir_wcc",
        rename_gives_both_of_both_directories: "RFC 1813 3.3.14, fromdir_wcc and todir_wcc",
        rename_within_a_directory_says_the_same_twice: "RFC 1813 3.3.14",
        link_gives_both_of_the_directory: "RFC 1813 3.3.15, linkdir_wcc",
        a_failed_create_changes_nothing: "RFC 1813 3.3.8, dir_wcc",
        a_failed_remove_changes_nothing: "RFC 1813 3.3.12, dir_wcc",
        a_failed_write_changes_nothing: "RFC 1813 3.3.7, file_wcc",
        a_failed_guard_shows_the_object: "RFC 1813 3.3.2, obj_wcc",
        one_change_follows_another: "NFS Version 3, 4.3.5",
        changes_of_a_directory_follow_each_other: "NFS Version 3, 4.3.5",
        a_change_by_another_client_shows: "NFS Version 3, 4.3.5",
        changes_on_their_way_together_make_a_chain: "NFS Version 3, 4.3.5",
        times_do_not_go_back: "RFC 1813 2.6, ctime",
        the_size_is_that_of_the_moment: "RFC 1813 3.3.7, file_wcc",
    },
};

const fn before(attributes: &Attributes) -> Before {
    Before { size: attributes.size, modified: attributes.modified, changed: attributes.changed }
}

/// Compares the attributes in a change's reply with the replies of GETATTR before and after it. A
/// client without these attributes has as much information as in version 2.
fn fits(b: &mut Bench<'_>, what: &str, object: Handle, was: &Attributes, wcc: &Wcc) -> Verdict {
    match &wcc.before {
        Some(got) => equal(&format!("{what}, before"), *got, before(was))?,
        None => b.advise(false, format!("{what} returns no attributes from before")),
    }
    match wcc.after {
        Some(got) => super::same(&format!("{what}, after"), got, b.v3.attributes(object)?)?,
        None => b.advise(false, format!("{what} returns no attributes from after")),
    }
    Ok(())
}

/// Gets a directory's attributes, changes it, and compares.
fn changes(
    b: &mut Bench<'_>,
    what: &str,
    change: impl FnOnce(&mut Bench<'_>, Handle) -> Result<Wcc, Stop>,
) -> Verdict {
    let dir = b.dir()?;
    let was = b.v3.attributes(dir)?;
    let wcc = change(b, dir)?;
    fits(b, what, dir, &was, &wcc)
}

fn write_gives_both(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    for stability in [Stability::Unstable, Stability::DataSync, Stability::FileSync] {
        let was = b.v3.attributes(file)?;
        let wcc = b.v3.write(file, was.size, b"abcd", stability)?.done()?.file;
        fits(b, "WRITE", file, &was, &wcc)?;
    }
    Ok(())
}

fn setattr_gives_both(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    for set in [mode(0o600), size(2), size(5000)] {
        let was = b.v3.attributes(file)?;
        let wcc = b.v3.setattr(file, set)?.done()?;
        fits(b, "SETATTR", file, &was, &wcc)?;
    }
    Ok(())
}

fn commit_gives_both(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.write(file, 0, b"0123", Stability::Unstable)?.done()?;
    let was = b.v3.attributes(file)?;
    let wcc = b.v3.commit(file, 0, 0)?.done()?.file;
    fits(b, "COMMIT", file, &was, &wcc)
}

fn create_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    changes(b, "CREATE", |b, dir| {
        Ok(b.v3.create(dir, "new", super::plain_file())?.done()?.directory)
    })?;
    changes(b, "CREATE of an existing file", |b, dir| {
        Ok(b.v3.create(dir, "new", How::Unchecked(size(0)))?.done()?.directory)
    })
}

fn mkdir_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    changes(b, "MKDIR", |b, dir| Ok(b.v3.mkdir(dir, "new", mode(0o755))?.done()?.directory))
}

fn symlink_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    changes(b, "SYMLINK", |b, dir| Ok(b.v3.symlink(dir, "new", "x")?.done()?.directory))
}

fn mknod_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    changes(b, "MKNOD", |b, dir| {
        let node = leasehold_wire::nfs3::mknod::Node::Fifo(mode(0o644));
        let answered = b.v3.mknod(dir, "new", node)?;
        match answered.status() {
            Some(Status::NotSupported | Status::BadType) => {
                Err(Stop::skip("MKNOD is not supported"))
            }
            _ => Ok(answered.done()?.directory),
        }
    })
}

fn remove_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"")?;
    changes(b, "REMOVE", |b, dir| b.v3.remove(dir, "old")?.done())
}

fn rmdir_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "old")?;
    changes(b, "RMDIR", |b, dir| b.v3.rmdir(dir, "old")?.done())
}

fn rename_gives_both_of_both_directories(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let to = b.v3.directory(dir, "to")?;
    b.v3.file(dir, "file", b"")?;
    let (was_from, was_to) = (b.v3.attributes(dir)?, b.v3.attributes(to)?);
    let done = b.v3.rename((dir, "file"), (to, "file"))?.done()?;
    fits(b, "RENAME, from", dir, &was_from, &done.from)?;
    fits(b, "RENAME, to", to, &was_to, &done.to)
}

fn rename_within_a_directory_says_the_same_twice(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"")?;
    let was = b.v3.attributes(dir)?;
    let done = b.v3.rename((dir, "old"), (dir, "new"))?.done()?;
    fits(b, "RENAME, from", dir, &was, &done.from)?;
    fits(b, "RENAME, to", dir, &was, &done.to)
}

fn link_gives_both_of_the_directory(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    changes(b, "LINK", |b, dir| Ok(b.v3.link(file, dir, "other")?.done()?.directory))
}

fn a_failed_create_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    changes(b, "a failed CREATE", |b, dir| {
        b.v3.create(dir, "file", super::plain_file())?.refused(&[Status::AlreadyExists])
    })
}

fn a_failed_remove_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    changes(b, "a failed REMOVE", |b, dir| b.v3.remove(dir, "absent")?.refused(&[Status::NotFound]))
}

fn a_failed_write_changes_nothing(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    let was = b.v3.attributes(file)?;
    let mut stranger = b.as_user(&b.user(1)?);
    let wcc = stranger.write(file, 0, b"abc", Stability::FileSync)?.refused(&[Status::Access])?;
    fits(b, "a failed WRITE", file, &was, &wcc)
}

fn a_failed_guard_shows_the_object(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    let was = b.v3.attributes(file)?;
    let guard = leasehold_wire::nfs3::Time { seconds: 1, nanoseconds: 2 };
    let answered = b.v3.setattr_guarded(file, mode(0o600), guard)?;
    let wcc = answered.refused(&[Status::NotSynchronized])?;
    fits(b, "a failed guard", file, &was, &wcc)
}

/// Checks that each change begins with the attributes at the end of the previous one.
fn chain(b: &mut Bench<'_>, wccs: &[Wcc]) -> Verdict {
    let mut missing = 0;
    for (number, pair) in wccs.windows(2).enumerate() {
        match (pair[0].after, pair[1].before) {
            (Some(one), Some(next)) => {
                equal(&format!("before change {}", number + 1), next, before(&one))?;
            }
            _ => missing += 1,
        }
    }
    b.advise(missing == 0, format!("{missing} changes came without all attributes"));
    Ok(())
}

fn one_change_follows_another(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut wccs = Vec::new();
    for number in 0..20 {
        wccs.push(b.v3.write(file, number * 3, b"abcd", Stability::Unstable)?.done()?.file);
        if number % 5 == 0 {
            wccs.push(b.v3.setattr(file, mode(0o600))?.done()?);
        }
    }
    chain(b, &wccs)
}

fn changes_of_a_directory_follow_each_other(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    let mut wccs = Vec::new();
    for number in 0..10 {
        let name = number.to_string();
        wccs.push(b.v3.create(inner, &name, super::plain_file())?.done()?.directory);
        wccs.push(b.v3.rename((inner, &name), (inner, "moved"))?.done()?.from);
        wccs.push(b.v3.remove(inner, "moved")?.done()?);
    }
    chain(b, &wccs)
}

fn a_change_by_another_client_shows(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    let mine = b.v3.write(file, 0, b"a", Stability::Unstable)?.done()?.file.after;
    b.another().write(file, 10, b"b", Stability::Unstable)?.done()?;
    let next = b.v3.write(file, 20, b"c", Stability::Unstable)?.done()?.file.before;
    if let (Some(mine), Some(next)) = (mine, next) {
        ensure!(next != before(&mine), "another client's change is not visible in between");
    }
    Ok(())
}

fn changes_on_their_way_together_make_a_chain(b: &mut Bench<'_>) -> Verdict {
    use leasehold_wire::nfs3::{Reply, write};
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    // Every write makes the file longer, so that sizes show the order.
    let args: Vec<write::Args> = (0..40)
        .map(|number| crate::v3::write_args(file, number, b"x", Stability::Unstable))
        .collect();
    let mut wccs = Vec::new();
    for results in b.v3.client.call_many(crate::v3::procedure(write::NUMBER), &args)? {
        match crate::v3::readable::<write::Reply>("NFS3 WRITE", &results)? {
            Reply::Done(done) => wccs.push(done.file),
            Reply::Failed(status, _) => {
                return Err(Stop::fail(format!("one of many WRITEs is answered {status:?}")));
            }
        }
    }
    // Attributes from before and after enclose one change alone: they differ by one byte at most,
    // and no two changes begin at one state unless they leave the size unchanged.
    for wcc in &wccs {
        if let (Some(before), Some(after)) = (&wcc.before, &wcc.after) {
            ensure!(before.size <= after.size, "a write made the file shorter: {wcc:?}");
        }
    }
    let mut pairs: Vec<(u64, u64)> = wccs
        .iter()
        .filter_map(|wcc| Some((wcc.before?.size, wcc.after?.size)))
        .filter(|(before, after)| before != after)
        .collect();
    pairs.sort_unstable();
    for pair in pairs.windows(2) {
        ensure!(pair[0].1 <= pair[1].0, "changes overlap: {:?} and {:?}", pair[0], pair[1]);
    }
    Ok(())
}

fn times_do_not_go_back(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut last = b.v3.attributes(file)?;
    for number in 0..50 {
        let now = match number % 3 {
            0 => b.v3.write(file, number, b"abc", Stability::Unstable)?.done()?.file.after,
            1 => b.v3.setattr(file, mode(0o600))?.done()?.after,
            _ => Some(b.v3.attributes(file)?),
        };
        let Some(now) = now else { continue };
        ensure!(
            after(now.changed) >= after(last.changed)
                && after(now.modified) >= after(last.modified),
            "a time decreases from {last:?} to {now:?}"
        );
        last = now;
    }
    Ok(())
}

fn the_size_is_that_of_the_moment(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for number in 0..30 {
        let wcc = b.v3.write(file, number, b"x", Stability::Unstable)?.done()?.file;
        if let Some(before) = wcc.before {
            equal("size before", before.size, number)?;
        }
        if let Some(after) = wcc.after {
            equal("size after", after.size, number + 1)?;
        }
        equal("size", b.v3.attributes(file)?.size, number + 1)?;
    }
    Ok(())
}
