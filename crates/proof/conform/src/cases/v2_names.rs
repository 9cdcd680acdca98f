//! CREATE, REMOVE, RENAME, LINK, SYMLINK, READLINK, MKDIR, RMDIR and READDIR of version 2.

use leasehold_wire::nfs2::{Cookie, FileType, Handle, Status, create, lookup};

use super::prelude2::*;
use crate::client::encoded;
use crate::v2::{Entry, mode, place, procedure, size};

pub(crate) const GROUP: Group = Group {
    name: "v2_names",
    about: "version 2: names are created, removed and listed",
    needs: Needs::Version2,
    company: Company::Shared,
    cases: cases! {
        a_new_file_is_empty: "RFC 1094 2.2.10",
        the_mode_is_taken_as_it_is: "RFC 1094 2.2.10, attributes",
        a_file_that_is_there_is_not_another: "RFC 1094 2.2.10",
        a_size_of_0_empties_a_file_that_is_there: "RFC 1094 2.2.10, attributes",
        a_name_with_a_slash_is_refused: "RFC 1094 2.1",
        the_longest_name_is_255_bytes: "RFC 1094 2.3.1, MAXNAMLEN",
        a_stranger_may_not_make_files: "RFC 1094 2.3.1, NFSERR_ACCES",
        a_file_is_removed: "RFC 1094 2.2.11",
        what_is_not_there_is_not_removed: "RFC 1094 2.3.1, NFSERR_NOENT",
        a_file_gets_another_name: "RFC 1094 2.2.12",
        a_file_replaces_a_file: "RFC 1094 2.2.12",
        a_directory_moves_with_all_in_it: "RFC 1094 2.2.12",
        names_are_counted: "RFC 1094 2.2.13, nlink",
        a_link_to_a_name_that_is_taken_is_refused: "RFC 1094 2.3.1, NFSERR_EXIST",
        the_text_of_a_link_comes_back: "RFC 1094 2.2.14 and 2.2.6",
        the_text_of_a_link_is_not_interpreted: "RFC 1094 2.2.14",
        readlink_of_a_file_is_refused: "RFC 1094 2.2.6",
        a_new_directory_is_empty: "RFC 1094 2.2.15",
        a_name_that_is_taken_is_refused: "RFC 1094 2.3.1, NFSERR_EXIST",
        an_empty_directory_is_removed: "RFC 1094 2.2.16",
        a_directory_that_is_not_empty_stays: "RFC 1094 2.3.1, NFSERR_NOTEMPTY",
        rmdir_of_a_file_is_refused: "RFC 1094 2.3.1, NFSERR_NOTDIR",
        all_names_are_listed_once: "RFC 1094 2.2.17",
        small_pages_list_all_names_once: "RFC 1094 2.2.17, count",
        a_page_is_not_larger_than_asked: "RFC 1094 2.2.17, count",
        numbers_are_those_of_the_objects: "RFC 1094 2.2.17, fileid",
        a_cookie_of_four_bytes_goes_on_anywhere: "RFC 1094 2.2.17, cookie",
        a_file_is_not_listed: "RFC 1094 2.3.1, NFSERR_NOTDIR",
        names_that_live_throughout_are_listed_once: "RFC 1094 2.2.17, cookie",
    },
};

fn a_new_file_is_empty(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let made = b.v2.create(dir, "file", mode(0o644))?.done()?;
    let a = made.attributes;
    equal("(type, size)", (a.file_type, a.size), (FileType::Regular, 0))?;
    equal("number", b.v2.attributes(made.object)?.file_id, a.file_id)
}

fn the_mode_is_taken_as_it_is(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    for bits in [0o600, 0o666, 0o777, 0o000] {
        let made = b.v2.create(dir, format!("{bits:o}"), mode(bits))?.done()?;
        equal("mode", made.attributes.mode & 0o7777, bits)?;
    }
    Ok(())
}

fn a_file_that_is_there_is_not_another(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    let number = b.v2.attributes(file)?.file_id;
    // "Should pass an exclusive create flag": servers behave in either way, and clients check
    // first.
    match b.v2.create(dir, "file", mode(0o644))?.either() {
        Ok(made) => equal("number", made.attributes.file_id, number),
        Err((Status::AlreadyExists, ())) => Ok(()),
        Err((status, ())) => Err(Stop::fail(format!("CREATE of a file twice gives {status:?}"))),
    }
}

fn a_size_of_0_empties_a_file_that_is_there(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"123")?;
    if b.v2.create(dir, "file", size(0))?.is_done() {
        equal("size", b.v2.attributes(file)?.size, 0)?;
    }
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.directory(dir, "inner")?;
    for name in ["inner/x", "../escaped", "inner/", "./x", ".", "..", ""] {
        let answered = b.v2.create(dir, name, mode(0o644))?;
        ensure!(!answered.is_done(), "CREATE of '{name}' is answered with success");
        let answered = b.v2.mkdir(dir, name, mode(0o755))?;
        ensure!(!answered.is_done(), "MKDIR of '{name}' is answered with success");
    }
    Ok(())
}

fn the_longest_name_is_255_bytes(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let made = b.v2.create(dir, "n".repeat(255), mode(0o644))?;
    if made.status() != Some(Status::NameTooLong) {
        made.done()?;
        b.v2.find(dir, "n".repeat(255))?;
    }
    // A name with one more byte is invalid in version 2.
    let args = [encoded(&dir), encoded(&leasehold_wire::nfs3::Name(&[b'n'; 256]))].concat();
    let (xid, mut message) = b.message(procedure(lookup::NUMBER), &());
    message.extend(args);
    let got = b.v2.client.exchange(xid, &message)?;
    if let crate::net::Got::Message(reply) = got {
        ensure!(reply.len() < 60, "LOOKUP of 256 bytes is answered with an object");
    }
    b.v2.client.disconnect();
    b.v2.null()
}

fn a_stranger_may_not_make_files(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let mut stranger = b.as_user2(&b.user(1)?);
    stranger.create(dir, "file", mode(0o644))?.refused(&[Status::Access])
}

fn a_file_is_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.file(dir, "file", b"")?;
    b.v2.remove(dir, "file")?.done()?;
    b.v2.lookup(dir, "file")?.refused(&[Status::NotFound])
}

fn what_is_not_there_is_not_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.remove(dir, "absent")?.refused(&[Status::NotFound])?;
    b.v2.rmdir(dir, "absent")?.refused(&[Status::NotFound])
}

fn a_file_gets_another_name(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let to = b.v2.directory(dir, "to")?;
    b.v2.file(dir, "old", b"123")?;
    b.v2.rename((dir, "old"), (to, "new"))?.done()?;
    b.v2.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    let found = b.v2.find(to, "new")?;
    equal("contents", &b.v2.read(found, 0, 10)?.done()?.data[..], b"123")
}

fn a_file_replaces_a_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.file(dir, "one", b"1")?;
    b.v2.file(dir, "two", b"2")?;
    b.v2.rename((dir, "one"), (dir, "two"))?.done()?;
    let found = b.v2.find(dir, "two")?;
    equal("contents", &b.v2.read(found, 0, 10)?.done()?.data[..], b"1")
}

fn a_directory_moves_with_all_in_it(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let old = b.v2.directory(dir, "old")?;
    b.v2.file(old, "file", b"")?;
    b.v2.rename((dir, "old"), (dir, "new"))?.done()?;
    let moved = b.v2.find(dir, "new")?;
    b.v2.find(moved, "file")?;
    Ok(())
}

fn names_are_counted(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "one", b"")?;
    b.v2.link(file, dir, "two")?.done()?;
    equal("number of names", b.v2.attributes(file)?.link_count, 2)?;
    let found = b.v2.find(dir, "two")?;
    equal("number", b.v2.attributes(found)?.file_id, b.v2.attributes(file)?.file_id)?;
    b.v2.remove(dir, "one")?.done()?;
    equal("number of names", b.v2.attributes(found)?.link_count, 1)
}

fn a_link_to_a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "one", b"")?;
    b.v2.file(dir, "two", b"")?;
    b.v2.link(file, dir, "two")?.refused(&[Status::AlreadyExists])
}

fn the_text_of_a_link_comes_back(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.symlink(dir, "link", "a/b/c")?.done()?;
    let link = b.v2.find(dir, "link")?;
    equal("text", b.v2.readlink(link)?.done()?.0, b"a/b/c".to_vec())
}

fn the_text_of_a_link_is_not_interpreted(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    for (number, text) in [&b"/etc/passwd"[..], b"../..", b"a//b/.", b"\xff\xe9"].iter().enumerate()
    {
        let name = number.to_string();
        b.v2.symlink(dir, &name, text)?.done()?;
        let link = b.v2.find(dir, &name)?;
        equal("text", b.v2.readlink(link)?.done()?.0, text.to_vec())?;
    }
    Ok(())
}

fn readlink_of_a_file_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"text")?;
    let answered = b.v2.readlink(file)?;
    ensure!(!answered.is_done(), "READLINK of a file is answered with success");
    Ok(())
}

fn a_new_directory_is_empty(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let made = b.v2.mkdir(dir, "dir", mode(0o750))?.done()?;
    let a = made.attributes;
    equal("(type, mode)", (a.file_type, a.mode & 0o777), (FileType::Directory, 0o750))?;
    has_just(&b.v2.list(made.object, 4096)?, &[])
}

fn a_name_that_is_taken_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.file(dir, "file", b"")?;
    b.v2.mkdir(dir, "file", mode(0o755))?.refused(&[Status::AlreadyExists])?;
    b.v2.symlink(dir, "file", "x")?.refused(&[Status::AlreadyExists])
}

fn an_empty_directory_is_removed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.directory(dir, "dir")?;
    b.v2.rmdir(dir, "dir")?.done()?;
    b.v2.lookup(dir, "dir")?.refused(&[Status::NotFound])
}

fn a_directory_that_is_not_empty_stays(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let inner = b.v2.directory(dir, "dir")?;
    b.v2.file(inner, "file", b"")?;
    b.v2.rmdir(dir, "dir")?.refused(&[Status::NotEmpty, Status::AlreadyExists])?;
    b.v2.find(inner, "file")?;
    Ok(())
}

fn rmdir_of_a_file_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    b.v2.file(dir, "file", b"")?;
    b.v2.rmdir(dir, "file")?.refused(&[Status::NotDirectory])?;
    b.v2.find(dir, "file")?;
    Ok(())
}

/// A directory with files, and their names.
fn filled(b: &mut Bench<'_>, count: usize) -> Result<(Handle, Vec<String>), Stop> {
    let dir = b.dir2()?;
    let inner = b.v2.directory(dir, "listed")?;
    let names: Vec<String> = (0..count).map(|number| format!("name {number:05}")).collect();
    fill(b, inner, &names)?;
    Ok((inner, names))
}

fn fill(b: &mut Bench<'_>, dir: Handle, names: &[String]) -> Verdict {
    let args: Vec<create::Args<'_>> = names
        .iter()
        .map(|name| create::Args { place: place(dir, name), attributes: mode(0o644) })
        .collect();
    for results in b.v2.client.call_many(procedure(create::NUMBER), &args)? {
        ensure!(results.starts_with(&[0; 4]), "one of many CREATEs failed");
    }
    Ok(())
}

fn has_just(entries: &[Entry], names: &[String]) -> Verdict {
    let real = |entry: &&Entry| entry.name != b"." && entry.name != b"..";
    let mut listed: Vec<&[u8]> = entries.iter().filter(real).map(|e| e.name.as_slice()).collect();
    listed.sort_unstable();
    let mut expected: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
    expected.sort_unstable();
    ensure!(
        listed == expected,
        "{} names are listed instead of {}, or others",
        listed.len(),
        expected.len()
    );
    Ok(())
}

fn all_names_are_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 100)?;
    has_just(&b.v2.list(dir, 8192)?, &names)
}

fn small_pages_list_all_names_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 100)?;
    has_just(&b.v2.list(dir, 512)?, &names)?;
    has_just(&b.v2.list(dir, 1024)?, &names)
}

fn a_page_is_not_larger_than_asked(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 100)?;
    for count in [512, 1000, 4096] {
        let page = b.v2.readdir(dir, Cookie(0), count)?.done()?;
        // "Directory entries with a total size of up to count bytes": without the bytes around
        // them.
        let around = 8;
        ensure!(
            page.bytes <= count as usize + around,
            "READDIR of {count} bytes gives {}",
            page.bytes
        );
    }
    Ok(())
}

fn numbers_are_those_of_the_objects(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 5)?;
    for entry in b.v2.list(dir, 4096)?.iter().filter(|entry| !entry.name.starts_with(b".")) {
        let found = b.v2.lookup(dir, &entry.name)?.done()?;
        equal("number", entry.file_id, found.attributes.file_id.0)?;
    }
    Ok(())
}

fn a_cookie_of_four_bytes_goes_on_anywhere(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 30)?;
    let all = b.v2.list(dir, 8192)?;
    for (index, entry) in all.iter().enumerate() {
        let page = b.v2.readdir(dir, entry.cookie, 8192)?.done()?;
        let rest: Vec<&[u8]> = page.entries.iter().map(|e| e.name.as_slice()).collect();
        let expected: Vec<&[u8]> = all[index + 1..].iter().map(|e| e.name.as_slice()).collect();
        ensure!(rest == expected, "behind entry {index} come {} others", rest.len());
    }
    Ok(())
}

fn a_file_is_not_listed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir2()?;
    let file = b.v2.file(dir, "file", b"")?;
    b.v2.readdir(file, Cookie(0), 4096)?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn names_that_live_throughout_are_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 200)?;
    let (mut listed, mut cookie, mut round) = (Vec::new(), Cookie(0), 0);
    loop {
        let page = b.v2.readdir(dir, cookie, 1024)?.done()?;
        listed.extend(page.entries.iter().map(|entry| entry.name.clone()));
        cookie = page.entries.last().map_or(cookie, |entry| entry.cookie);
        if page.end {
            break;
        }
        // Between two pages one name is removed and two are created.
        b.v2.remove(dir, &names[round])?.done()?;
        fill(b, dir, &[format!("new {round}"), format!("a new {round}")])?;
        round += 1;
    }
    for name in &names[round..] {
        let count = listed.iter().filter(|listed| *listed == name.as_bytes()).count();
        equal(&format!("times that {name} is listed"), count, 1)?;
    }
    Ok(())
}
