//! Compares the server's own directory with the server's replies: they must agree.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use leasehold_wire::nfs3::{Time, mknod};

use super::prelude::*;
use crate::bench::after;
use crate::v3::{mode, size};

pub(crate) const GROUP: Group = Group {
    name: "back_dir",
    about: "the server's own directory agrees with its replies; needs --back-dir",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        what_was_written_is_there: "RFC 1813 3.3.7",
        what_was_committed_is_there: "RFC 1813 3.3.21",
        what_was_made_is_there: "RFC 1813 3.3.8",
        what_was_removed_is_gone: "RFC 1813 3.3.12",
        what_was_renamed_is_renamed: "RFC 1813 3.3.14",
        bytes_of_names_are_the_same: "RFC 1813 2.5, filename3",
        modes_are_the_same: "RFC 1813 2.6, mode",
        owners_are_the_same: "RFC 1813 2.6, uid",
        sizes_and_times_are_the_same: "RFC 1813 2.6, mtime",
        a_time_that_was_set_is_there: "RFC 1813 3.3.2",
        links_are_counted_the_same: "RFC 1813 2.6, nlink",
        the_text_of_a_link_is_there: "RFC 1813 3.3.10",
        a_pipe_is_there: "RFC 1813 3.3.11",
        a_cut_file_is_cut: "RFC 1813 3.3.2, size",
        nothing_else_is_there: "RFC 1813 3.3.8",
        nothing_is_made_outside: "RFC 1813 3.2, comment 5",
        a_local_file_is_found (advice): "RFC 1813 4.11",
        a_local_write_is_read (advice): "RFC 1813 4.11",
        a_local_write_moves_the_times (advice): "RFC 1813 4.11",
        a_local_removal_makes_stale (advice): "RFC 1813 4.11",
        a_local_rename_keeps_the_handle (advice): "RFC 1813 4.11",
        a_local_move_of_a_directory_keeps_the_handles (advice): "RFC 1813 4.11",
        a_local_mode_binds (advice): "RFC 1813 4.11",
        a_local_link_leads_nowhere_outside: "RFC 1813 3.3.3",
        local_names_are_listed (advice): "RFC 1813 4.11",
        a_locally_replaced_file_is_another (advice): "RFC 1813 4.11",
    },
};

/// Converts an error on the server's own disk.
fn local(error: &io::Error) -> Stop {
    Stop::fail(format!("on the server's disk: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, Stop> {
    fs::read(path).map_err(|error| local(&error))
}

fn write(path: &Path, data: &[u8]) -> Verdict {
    fs::write(path, data).map_err(|error| local(&error))
}

fn metadata(path: &Path) -> Result<fs::Metadata, Stop> {
    fs::symlink_metadata(path).map_err(|error| local(&error))
}

fn what_was_written_is_there(b: &mut Bench<'_>) -> Verdict {
    let (back, data) = (b.back()?, b.bytes(20_000));
    let dir = b.dir()?;
    b.v3.file(dir, "file", &data)?;
    ensure!(read(&back.join("file"))? == data, "the file holds other bytes");
    Ok(())
}

fn what_was_committed_is_there(b: &mut Bench<'_>) -> Verdict {
    let (back, data) = (b.back()?, b.bytes(20_000));
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let done = b.v3.write(file, 0, &data, Stability::Unstable)?.done()?;
    b.v3.commit(file, 0, 0)?.done()?;
    let count = done.count as usize;
    ensure!(read(&back.join("file"))? == data[..count], "the file holds other bytes");
    Ok(())
}

fn what_was_made_is_there(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.directory(dir, "dir")?;
    ensure!(metadata(&back.join("file"))?.is_file(), "the object is not a file");
    ensure!(metadata(&back.join("dir"))?.is_dir(), "the object is not a directory");
    Ok(())
}

fn what_was_removed_is_gone(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.directory(dir, "dir")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.rmdir(dir, "dir")?.done()?;
    ensure!(!back.join("file").exists() && !back.join("dir").exists(), "a name still exists");
    Ok(())
}

fn what_was_renamed_is_renamed(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"123")?;
    b.v3.rename((dir, "old"), (dir, "new"))?.done()?;
    ensure!(!back.join("old").exists(), "the old name still exists");
    equal("contents", read(&back.join("new"))?, b"123".to_vec())
}

fn bytes_of_names_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    for name in [&b"caf\xc3\xa9"[..], b"caf\xe9", b"\xff", b"a b", b"\x01", b"..."] {
        let made = b.v3.create(dir, name, super::plain_file())?;
        if made.is_done() {
            let there = back.join(OsStr::from_bytes(name)).exists();
            ensure!(there, "{} has another name on the disk", name.escape_ascii());
        }
    }
    Ok(())
}

fn modes_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for bits in [0o600, 0o644, 0o777, 0o4711, 0o000] {
        b.v3.setattr(file, mode(bits))?.done()?;
        let (said, there) = (b.v3.attributes(file)?.mode, metadata(&back.join("file"))?.mode());
        equal("mode on the disk", there & 0o7777, said & 0o7777)?;
    }
    Ok(())
}

fn owners_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let (said, there) = (b.v3.attributes(file)?, metadata(&back.join("file"))?);
    let same = (there.uid(), there.gid()) == (said.uid, said.gid);
    // A server may map the numbers of owners.
    b.advise(same, "owners are shown by other numbers than they have");
    Ok(())
}

fn sizes_and_times_are_the_same(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    let (said, there) = (b.v3.attributes(file)?, metadata(&back.join("file"))?);
    equal("size", said.size, there.size())?;
    equal("modification time", i64::from(said.modified.seconds), there.mtime())?;
    b.advise(said.file_id.0 == there.ino(), "files are shown by other numbers than they have");
    Ok(())
}

fn a_time_that_was_set_is_there(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let time = Time { seconds: 1_000_000_000, nanoseconds: 0 };
    let set = SetAttributes { modified: SetTime::To(time), ..SetAttributes::default() };
    b.v3.setattr(file, set)?.done()?;
    equal("modification time", metadata(&back.join("file"))?.mtime(), 1_000_000_000)
}

fn links_are_counted_the_same(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"")?;
    b.v3.link(file, dir, "two")?.done()?;
    let (one, two) = (metadata(&back.join("one"))?, metadata(&back.join("two"))?);
    equal("(number, names)", (one.ino(), one.nlink()), (two.ino(), 2))
}

fn the_text_of_a_link_is_there(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.symlink(dir, "link", "../some/where")?.done()?;
    let text = fs::read_link(back.join("link")).map_err(|error| local(&error))?;
    equal("text", text.as_os_str().as_bytes(), b"../some/where")
}

fn a_pipe_is_there(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let answered = b.v3.mknod(dir, "pipe", mknod::Node::Fifo(mode(0o644)))?;
    if !answered.is_done() {
        return Err(Stop::skip("MKNOD is not supported"));
    }
    ensure!(metadata(&back.join("pipe"))?.file_type().is_fifo(), "the object is not a pipe");
    Ok(())
}

fn a_cut_file_is_cut(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    b.v3.setattr(file, size(2))?.done()?;
    equal("contents", read(&back.join("file"))?, b"12".to_vec())
}

/// Returns the names in a directory of the server.
fn names(path: &Path) -> Result<Vec<Vec<u8>>, Stop> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| local(&error))? {
        names.push(entry.map_err(|error| local(&error))?.file_name().as_bytes().to_vec());
    }
    names.sort_unstable();
    Ok(names)
}

fn nothing_else_is_there(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.write(file, 0, b"456", Stability::Unstable)?.done()?;
    b.v3.create(dir, "exclusive", leasehold_wire::nfs3::create::How::Exclusive([7; 8]))?.status();
    b.v3.remove(dir, "exclusive")?.status();
    // A server that stores its own files beside the export's files shows them to all clients.
    equal("names on the disk", names(&back)?, vec![b"file".to_vec()])
}

fn nothing_is_made_outside(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let above = back.parent().ok_or_else(|| Stop::skip("the directory has no parent"))?;
    let dir = b.dir()?;
    for name in ["../outside-1", "./../outside-2"] {
        b.v3.create(dir, name, super::plain_file())?.status();
        b.v3.mkdir(dir, name, mode(0o755))?.status();
    }
    let outside: Vec<Vec<u8>> =
        names(above)?.into_iter().filter(|name| name.starts_with(b"outside-")).collect();
    ensure!(outside.is_empty(), "a name with a slash is made in the directory above");
    Ok(())
}

fn a_local_file_is_found(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.lookup(dir, "local")?.refused(&[Status::NotFound])?;
    write(&back.join("local"), b"123")?;
    let found = b.v3.find(dir, "local")?;
    equal("contents", b.v3.get(found, 0, 10)?, b"123".to_vec())
}

fn a_local_write_is_read(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.get(file, 0, 10)?;
    for text in [&b"4"[..], b"56789", b""] {
        write(&back.join("file"), text)?;
        equal("size", b.v3.attributes(file)?.size, text.len() as u64)?;
        equal("contents", b.v3.get(file, 0, 10)?, text.to_vec())?;
    }
    Ok(())
}

fn a_local_write_moves_the_times(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    let before = b.v3.attributes(file)?;
    b.wait_past(before.changed)?;
    write(&back.join("file"), b"456")?;
    let attributes = b.v3.attributes(file)?;
    ensure!(after(attributes.modified) > after(before.modified), "the time does not change");
    ensure!(after(attributes.changed) > after(before.changed), "the change time does not change");
    Ok(())
}

fn a_local_removal_makes_stale(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    fs::remove_file(back.join("file")).map_err(|error| local(&error))?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    let answered = b.v3.getattr(file)?;
    b.advise(!answered.is_done(), "a file that was removed locally can still be used");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn a_local_rename_keeps_the_handle(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "old", b"123")?;
    fs::rename(back.join("old"), back.join("new")).map_err(|error| local(&error))?;
    b.v3.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    b.v3.find(dir, "new")?;
    let answered = b.v3.getattr(file)?;
    b.advise(answered.is_done(), "a handle does not survive a local rename");
    Ok(())
}

fn a_local_move_of_a_directory_keeps_the_handles(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "inner")?;
    b.v3.directory(dir, "other")?;
    let file = b.v3.file(inner, "file", b"123")?;
    fs::rename(back.join("inner"), back.join("other/moved")).map_err(|error| local(&error))?;
    b.v3.lookup(dir, "inner")?.refused(&[Status::NotFound])?;
    let answered = b.v3.getattr(file)?;
    b.advise(answered.is_done(), "a handle does not survive a local move of its directory");
    Ok(())
}

fn a_local_mode_binds(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.read(file, 0, 3)?.done()?;
    let path = back.join("of user 0/file");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(path, mode).map_err(|error| local(&error))?;
    stranger.read(file, 0, 3)?.refused(&[Status::Access])?;
    Ok(())
}

fn a_local_link_leads_nowhere_outside(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    symlink("/", back.join("link")).map_err(|error| local(&error))?;
    let Ok(found) = b.v3.lookup(dir, "link")?.either() else {
        return Err(Stop::skip("the server does not see local changes"));
    };
    let link = found.object;
    let answered = b.v3.lookup(link, "etc")?;
    ensure!(!answered.is_done(), "LOOKUP leads through a symbolic link out of the export");
    let listed = b.v3.readdir(link, crate::v3::Position::default(), 4096)?;
    ensure!(!listed.is_done(), "READDIR lists the target of a symbolic link");
    Ok(())
}

fn local_names_are_listed(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    b.v3.list(dir, 4096)?;
    for name in ["a", "b", "c"] {
        write(&back.join(name), b"")?;
    }
    let entries = b.v3.list(dir, 4096)?;
    for name in ["a", "b", "c"] {
        let listed = entries.iter().any(|entry| entry.name == name.as_bytes());
        ensure!(listed, "{name} is not listed");
    }
    Ok(())
}

fn a_locally_replaced_file_is_another(b: &mut Bench<'_>) -> Verdict {
    let back = b.back()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"old")?;
    // Editors save in this way: a new file takes the name.
    write(&back.join("new"), b"new")?;
    fs::rename(back.join("new"), back.join("file")).map_err(|error| local(&error))?;
    let found = b.v3.find(dir, "file")?;
    equal("contents by the name", b.v3.get(found, 0, 10)?, b"new".to_vec())?;
    let answered = b.v3.read(file, 0, 10)?;
    if answered.is_done() {
        let data = answered.done()?.data;
        ensure!(&data[..] == b"old", "the old handle leads to the new file");
        return Ok(());
    }
    answered.refused(&[Status::Stale])?;
    Ok(())
}
