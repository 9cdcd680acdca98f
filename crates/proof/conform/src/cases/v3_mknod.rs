//! MKNOD of version 3: creates special files.

use leasehold_wire::nfs3::mknod::{DeviceData, Node};
use leasehold_wire::nfs3::{Device, FileType};

use super::prelude::*;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "v3_mknod",
    about: "MKNOD of version 3: creates special files",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_named_pipe_is_made: "RFC 1813 3.3.11, NF3FIFO",
        a_socket_is_made: "RFC 1813 3.3.11, NF3SOCK",
        a_character_device_is_made: "RFC 1813 3.3.11, NF3CHR",
        a_block_device_is_made: "RFC 1813 3.3.11, NF3BLK",
        the_mode_is_taken_as_it_is: "RFC 1813 3.3.11, pipe_attributes",
        a_regular_file_is_an_illegal_type: "RFC 1813 3.3.11, NFS3ERR_BADTYPE",
        a_directory_is_an_illegal_type: "RFC 1813 3.3.11, NFS3ERR_BADTYPE",
        a_symbolic_link_is_an_illegal_type: "RFC 1813 3.3.11, NFS3ERR_BADTYPE",
        a_name_that_is_taken_is_refused: "RFC 1813 2.6, NFS3ERR_EXIST",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        an_ordinary_user_makes_no_devices: "RFC 1813 2.6, NFS3ERR_PERM",
        a_stranger_makes_no_pipes: "RFC 1813 2.6, NFS3ERR_ACCES",
        a_pipe_is_not_read_by_the_server: "RFC 1813 3.3.6, file",
        a_special_file_can_be_removed: "RFC 1813 3.3.12",
    },
};

const DEVICE: Device = Device { major: 4, minor: 65 };

fn pipe(bits: u32) -> Node {
    Node::Fifo(mode(bits))
}

/// Creates a node of a type and checks it; skips the case if the server creates none of that type.
fn makes(b: &mut Bench<'_>, node: Node) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.mknod(dir, "node", node)?;
    match made.status() {
        Some(Status::NotSupported) => return Err(Stop::skip("MKNOD is not supported")),
        Some(Status::BadType) => return Err(Stop::skip("nodes of this type are not supported")),
        Some(Status::NotOwner | Status::Access) => {
            return Err(Stop::skip("the user of the run may not make such nodes"));
        }
        _ => {}
    }
    let object = b.v3.made(made, dir, "node")?;
    let attributes = b.v3.attributes(object)?;
    equal("type", attributes.file_type, node.file_type())?;
    if let Node::BlockDevice(data) | Node::CharacterDevice(data) = node {
        equal("device", attributes.device, data.device)?;
    }
    let listed = b.v3.list(dir, 4096)?;
    ensure!(listed.iter().any(|entry| entry.name == b"node"), "the node is not listed");
    Ok(())
}

/// Skips the case if the server creates no pipes at all.
fn needs_pipes(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let made = b.v3.mknod(dir, "probe", pipe(0o600))?;
    match made.status() {
        Some(Status::NotSupported | Status::BadType) => Err(Stop::skip("MKNOD is not supported")),
        _ => made.done().map(|_| ()),
    }
}

fn a_named_pipe_is_made(b: &mut Bench<'_>) -> Verdict {
    makes(b, pipe(0o644))
}

fn a_socket_is_made(b: &mut Bench<'_>) -> Verdict {
    makes(b, Node::Socket(mode(0o644)))
}

fn a_character_device_is_made(b: &mut Bench<'_>) -> Verdict {
    makes(b, Node::CharacterDevice(DeviceData { attributes: mode(0o600), device: DEVICE }))
}

fn a_block_device_is_made(b: &mut Bench<'_>) -> Verdict {
    makes(b, Node::BlockDevice(DeviceData { attributes: mode(0o600), device: DEVICE }))
}

fn the_mode_is_taken_as_it_is(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let dir = b.dir()?;
    for bits in [0o600, 0o666, 0o777] {
        let name = format!("{bits:o}");
        let made = b.v3.mknod(dir, &name, pipe(bits))?;
        let object = b.v3.made(made, dir, &name)?;
        let got = b.v3.attributes(object)?.mode & 0o7777;
        ensure!(got == bits, "mode: expected {bits:o}, got {got:o}");
    }
    Ok(())
}

fn illegal(b: &mut Bench<'_>, node: Node) -> Verdict {
    let dir = b.dir()?;
    let answered = b.v3.mknod(dir, "node", node)?;
    // A server without any special types may report that it does not support the procedure.
    answered.refused(&[Status::BadType, Status::NotSupported])?;
    b.v3.lookup(dir, "node")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn a_regular_file_is_an_illegal_type(b: &mut Bench<'_>) -> Verdict {
    illegal(b, Node::Regular)
}

fn a_directory_is_an_illegal_type(b: &mut Bench<'_>) -> Verdict {
    illegal(b, Node::Directory)
}

fn a_symbolic_link_is_an_illegal_type(b: &mut Bench<'_>) -> Verdict {
    illegal(b, Node::Symlink)
}

fn a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.mknod(dir, "file", pipe(0o644))?.refused(&[Status::AlreadyExists])?;
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let dir = b.dir()?;
    super::refuses_paths(b, |b, name| Ok(b.v3.mknod(dir, name, pipe(0o644))?.is_done()))
}

fn an_ordinary_user_makes_no_devices(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let node = Node::BlockDevice(DeviceData { attributes: mode(0o600), device: DEVICE });
    let expected = [Status::NotOwner, Status::Access, Status::NotSupported, Status::BadType];
    user.mknod(own, "node", node)?.refused(&expected)?;
    Ok(())
}

fn a_stranger_makes_no_pipes(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.mknod(own, "pipe", pipe(0o644))?.refused(&[Status::Access])?;
    Ok(())
}

fn a_pipe_is_not_read_by_the_server(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let dir = b.dir()?;
    let object = b.v3.find(dir, "probe")?;
    // A server that opens the pipe would wait for a writer without limit.
    b.v3.read(object, 0, 10)?.refused(&[Status::Invalid, Status::NoSuchAddress])?;
    let answered = b.v3.write(object, 0, b"abc", Stability::FileSync)?;
    answered.refused(&[Status::Invalid, Status::NoSuchAddress])?;
    Ok(())
}

fn a_special_file_can_be_removed(b: &mut Bench<'_>) -> Verdict {
    needs_pipes(b)?;
    let dir = b.dir()?;
    let object = b.v3.find(dir, "probe")?;
    ensure!(b.v3.is(object, FileType::Fifo)?, "MKNOD created an object that is not a pipe");
    b.v3.remove(dir, "probe")?.done()?;
    b.v3.lookup(dir, "probe")?.refused(&[Status::NotFound])?;
    Ok(())
}
