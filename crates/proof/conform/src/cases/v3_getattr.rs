//! GETATTR of version 3: the attributes of an object.

use leasehold_wire::nfs3::{Device, FileType, Handle, mknod};

use super::prelude::*;
use crate::client::Credential;

pub(crate) const GROUP: Group = Group {
    name: "v3_getattr",
    about: "GETATTR of version 3: the attributes of an object",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_file_is_a_file_of_its_size: "RFC 1813 2.6, fattr3",
        a_directory_is_a_directory: "RFC 1813 2.6, fattr3",
        a_symbolic_link_is_a_symbolic_link: "RFC 1813 2.6, fattr3",
        a_named_pipe_is_a_named_pipe: "RFC 1813 2.6, fattr3",
        a_socket_is_a_socket: "RFC 1813 2.6, fattr3",
        a_device_shows_its_numbers: "RFC 1813 2.6, specdata3",
        a_new_file_has_one_name: "RFC 1813 2.6, nlink",
        the_mode_is_what_was_set: "RFC 1813 2.6, mode",
        the_owner_is_who_made_it: "RFC 1813 2.6, uid",
        every_object_has_a_number_of_its_own: "RFC 1813 2.6, fileid",
        the_number_stays_with_the_object: "RFC 1813 2.6, fileid",
        all_that_is_made_lies_in_one_file_system: "RFC 1813 2.6, fsid",
        a_written_file_takes_room: "RFC 1813 2.6, used",
        nanoseconds_stay_below_a_second: "RFC 1813 2.6, nfstime3",
        nothing_changes_by_being_looked_at: "RFC 1813 2.6, ctime",
        the_root_is_a_directory: "RFC 1813 5.2.1",
        a_removed_file_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        a_removed_directory_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
    },
};

/// Creates a special file, or skips the case with a reason.
fn special(b: &mut Bench<'_>, node: mknod::Node) -> Result<Handle, Stop> {
    let dir = b.dir()?;
    let made = b.v3.mknod(dir, "special", node)?;
    match made.status() {
        Some(Status::NotSupported | Status::BadType) => Err(Stop::skip("MKNOD is not supported")),
        Some(Status::NotOwner | Status::Access) => {
            Err(Stop::skip("the user of the run may not make devices"))
        }
        _ => b.v3.made(made, dir, "special"),
    }
}

fn a_file_is_a_file_of_its_size(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"12345")?;
    let attributes = b.v3.attributes(file)?;
    equal("type", attributes.file_type, FileType::Regular)?;
    equal("size", attributes.size, 5)
}

fn a_directory_is_a_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    equal("type", b.v3.attributes(dir)?.file_type, FileType::Directory)
}

fn a_symbolic_link_is_a_symbolic_link(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let made = b.v3.symlink(dir, "link", "some/where")?;
    let link = b.v3.made(made, dir, "link")?;
    let attributes = b.v3.attributes(link)?;
    equal("type", attributes.file_type, FileType::Symlink)?;
    b.advise(attributes.size == 10, "the size of a symbolic link should be that of its text");
    Ok(())
}

fn a_named_pipe_is_a_named_pipe(b: &mut Bench<'_>) -> Verdict {
    let pipe = special(b, mknod::Node::Fifo(SetAttributes::default()))?;
    equal("type", b.v3.attributes(pipe)?.file_type, FileType::Fifo)
}

fn a_socket_is_a_socket(b: &mut Bench<'_>) -> Verdict {
    let socket = special(b, mknod::Node::Socket(SetAttributes::default()))?;
    equal("type", b.v3.attributes(socket)?.file_type, FileType::Socket)
}

fn a_device_shows_its_numbers(b: &mut Bench<'_>) -> Verdict {
    let device = Device { major: 4, minor: 64 };
    let data = mknod::DeviceData { attributes: SetAttributes::default(), device };
    let made = special(b, mknod::Node::CharacterDevice(data))?;
    let attributes = b.v3.attributes(made)?;
    equal("type", attributes.file_type, FileType::CharacterDevice)?;
    equal("device", attributes.device, device)
}

fn a_new_file_has_one_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    equal("number of names", b.v3.attributes(file)?.link_count, 1)
}

fn the_mode_is_what_was_set(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    for mode in [0o600, 0o755, 0o421, 0o000, 0o777] {
        b.v3.setattr(file, crate::v3::mode(mode))?.done()?;
        let got = b.v3.attributes(file)?.mode;
        ensure!(got & 0o7777 == mode, "mode: expected {mode:o}, got {got:o}");
        b.advise(got == mode, "the mode should hold permission bits only");
    }
    Ok(())
}

fn the_owner_is_who_made_it(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"")?;
    let (attributes, directory) = (user.attributes(file)?, user.attributes(own)?);
    let Credential::Sys { uid, gid, .. } = b.user(0)? else {
        return Err(Stop::skip("the user has no number"));
    };
    equal("owner", attributes.uid, uid)?;
    // A file may get the group of its directory instead; here both are equal.
    equal("group of the directory", directory.gid, gid)?;
    equal("group", attributes.gid, gid)
}

fn every_object_has_a_number_of_its_own(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut numbers = vec![b.v3.attributes(dir)?.file_id];
    for name in ["a", "b", "c", "d"] {
        let file = b.v3.file(dir, name, b"")?;
        numbers.push(b.v3.attributes(file)?.file_id);
    }
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    equal("different numbers", numbers.len(), count)?;
    b.advise(numbers[0].0 != 0, "zero is a bad number: it has a meaning for some clients");
    Ok(())
}

fn the_number_stays_with_the_object(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let number = b.v3.attributes(file)?.file_id;
    b.v3.put(file, 1, b"23")?;
    b.v3.setattr(file, crate::v3::mode(0o600))?.done()?;
    b.v3.rename((dir, "file"), (dir, "other"))?.done()?;
    let found = b.v3.find(dir, "other")?;
    equal("number after a rename", b.v3.attributes(found)?.file_id, number)
}

fn all_that_is_made_lies_in_one_file_system(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let inner = b.v3.directory(dir, "dir")?;
    let expected = b.v3.attributes(dir)?.file_system;
    equal("file system of a file", b.v3.attributes(file)?.file_system, expected)?;
    equal("file system of a directory", b.v3.attributes(inner)?.file_system, expected)
}

fn a_written_file_takes_room(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let data = b.bytes(100_000);
    let file = b.v3.file(dir, "file", data)?;
    let used = b.v3.attributes(file)?.used;
    b.advise(used > 0, "a file of 100,000 bytes reports that it uses no space");
    Ok(())
}

fn nanoseconds_stay_below_a_second(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let a = b.v3.attributes(file)?;
    for time in [a.accessed, a.modified, a.changed] {
        ensure!(time.nanoseconds < 1_000_000_000, "a time is {time:?}");
    }
    Ok(())
}

fn nothing_changes_by_being_looked_at(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    let before = b.v3.attributes(file)?;
    b.v3.find(dir, "file")?;
    b.v3.list(dir, 4096)?;
    let after = b.v3.attributes(file)?;
    super::same("attributes after GETATTR, LOOKUP and READDIR", after, before)
}

fn the_root_is_a_directory(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    equal("type", b.v3.attributes(root)?.file_type, FileType::Directory)
}

fn a_removed_file_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"1")?;
    b.v3.remove(dir, "file")?.done()?;
    let answered = b.v3.getattr(file)?;
    // "The object may be destroyed": it need not be at once.
    b.advise(!answered.is_done(), "a removed file can still be used");
    if answered.is_done() {
        return Ok(());
    }
    answered.refused(&[Status::Stale])
}

fn a_removed_directory_is_stale(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "dir")?;
    b.v3.rmdir(dir, "dir")?.done()?;
    let answered = b.v3.getattr(inner)?;
    b.advise(!answered.is_done(), "a removed directory can still be used");
    if answered.is_done() {
        return Ok(());
    }
    answered.refused(&[Status::Stale])
}
