//! SYMLINK and READLINK of version 3: a text in place of a file.

use leasehold_wire::nfs3::{FileType, Handle};

use super::prelude::*;

pub(crate) const GROUP: Group = Group {
    name: "v3_symlink",
    about: "SYMLINK and READLINK of version 3: a text in place of a file",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        the_text_comes_back: "RFC 1813 3.3.5",
        the_text_is_not_interpreted: "RFC 1813 3.3.5",
        a_text_of_1023_bytes_comes_back: "RFC 1813 3.3.5",
        a_link_need_not_lead_anywhere: "RFC 1813 3.3.5",
        attributes_come_along: "RFC 1813 2.6, post_op_attr",
        a_new_link_is_a_link: "RFC 1813 3.3.10",
        a_name_that_is_taken_is_refused: "RFC 1813 2.6, NFS3ERR_EXIST",
        a_file_holds_no_links: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        a_name_that_is_too_long_is_refused: "RFC 1813 3.2, comment 4",
        a_stranger_may_not_make_one: "RFC 1813 2.6, NFS3ERR_ACCES",
        readlink_of_a_file_is_invalid: "RFC 1813 3.3.5, NFS3ERR_INVAL",
        readlink_of_a_directory_is_invalid: "RFC 1813 3.3.5, NFS3ERR_INVAL",
        readlink_of_a_removed_link_is_stale: "RFC 1813 2.6, NFS3ERR_STALE",
        removing_a_link_leaves_its_target: "RFC 1813 3.3.12",
    },
};

fn link(b: &mut Bench<'_>, text: impl AsRef<[u8]>) -> Result<Handle, Stop> {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let made = b.v3.symlink(dir, "link", text)?;
    b.v3.made(made, dir, "link")
}

fn the_text_comes_back(b: &mut Bench<'_>) -> Verdict {
    let link = link(b, "a/b/c")?;
    equal("text", b.v3.readlink(link)?.done()?.target, b"a/b/c".to_vec())
}

fn the_text_is_not_interpreted(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    for (number, text) in
        [&b"/etc/passwd"[..], b"../../..", b"a//b/./c/", b"host:/x y", b"caf\xc3\xa9", b"\xff\x01"]
            .into_iter()
            .enumerate()
    {
        let name = format!("link {number}");
        let made = b.v3.symlink(dir, &name, text)?;
        let link = b.v3.made(made, dir, &name)?;
        equal("text", b.v3.readlink(link)?.done()?.target, text.to_vec())?;
    }
    Ok(())
}

fn a_text_of_1023_bytes_comes_back(b: &mut Bench<'_>) -> Verdict {
    let text = "a/".repeat(511) + "b";
    let link = link(b, &text)?;
    equal("text", b.v3.readlink(link)?.done()?.target, text.into_bytes())
}

fn a_link_need_not_lead_anywhere(b: &mut Bench<'_>) -> Verdict {
    let link = link(b, "nowhere")?;
    ensure!(b.v3.is(link, FileType::Symlink)?, "a link without a target is not a symbolic link");
    equal("text", b.v3.readlink(link)?.done()?.target, b"nowhere".to_vec())
}

fn attributes_come_along(b: &mut Bench<'_>) -> Verdict {
    let link = link(b, "x")?;
    let Some(attributes) = b.v3.readlink(link)?.done()?.attributes else {
        b.advise(false, "READLINK should give the attributes of the link");
        return Ok(());
    };
    equal("number", attributes.file_id, b.v3.attributes(link)?.file_id)
}

fn a_new_link_is_a_link(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let made = b.v3.symlink(dir, "link", "x")?.done()?;
    b.advise(made.object.is_some(), "SYMLINK should give the handle of the link");
    b.advise(made.attributes.is_some(), "SYMLINK should give the attributes of the link");
    let wrong = made.attributes.is_some_and(|a| a.file_type != FileType::Symlink);
    ensure!(!wrong, "SYMLINK gives the attributes {:?}", made.attributes);
    let found = b.v3.find(dir, "link")?;
    ensure!(
        b.v3.is(found, FileType::Symlink)?,
        "the object that SYMLINK created is not a symbolic link"
    );
    Ok(())
}

fn a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    let link = link(b, "first")?;
    let dir = b.dir()?;
    b.v3.symlink(dir, "link", "second")?.refused(&[Status::AlreadyExists])?;
    equal("text", b.v3.readlink(link)?.done()?.target, b"first".to_vec())
}

fn a_file_holds_no_links(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.symlink(file, "link", "x")?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    super::refuses_paths(b, |b, name| Ok(b.v3.symlink(dir, name, "x")?.is_done()))
}

fn a_name_that_is_too_long_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let (dir, name) = (b.dir()?, super::too_long(b)?);
    b.v3.symlink(dir, name, "x")?.refused(&[Status::NameTooLong])?;
    Ok(())
}

fn a_stranger_may_not_make_one(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.symlink(own, "link", "x")?.refused(&[Status::Access])?;
    Ok(())
}

fn readlink_of_a_file_is_invalid(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"text")?;
    b.v3.readlink(file)?.refused(&[Status::Invalid])?;
    Ok(())
}

fn readlink_of_a_directory_is_invalid(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.readlink(dir)?.refused(&[Status::Invalid])?;
    Ok(())
}

fn readlink_of_a_removed_link_is_stale(b: &mut Bench<'_>) -> Verdict {
    let link = link(b, "x")?;
    let dir = b.dir()?;
    b.v3.remove(dir, "link")?.done()?;
    let answered = b.v3.readlink(link)?;
    b.advise(!answered.is_done(), "a removed symbolic link can still be read");
    if !answered.is_done() {
        answered.refused(&[Status::Stale])?;
    }
    Ok(())
}

fn removing_a_link_leaves_its_target(b: &mut Bench<'_>) -> Verdict {
    link(b, "file")?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"123")?;
    b.v3.remove(dir, "link")?.done()?;
    b.v3.lookup(dir, "link")?.refused(&[Status::NotFound])?;
    equal("contents of the target", b.v3.get(file, 0, 10)?, b"123".to_vec())
}
