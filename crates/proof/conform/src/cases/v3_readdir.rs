//! READDIR and READDIRPLUS of version 3: the names in a directory.

use std::collections::BTreeMap;

use leasehold_base::units::Cookie;
use leasehold_wire::nfs3::{Handle, create};

use super::prelude::*;
use crate::v3::{Entry, Page, Position, V3, mode, place, procedure};

pub(crate) const GROUP: Group = Group {
    name: "v3_readdir",
    about: "READDIR and READDIRPLUS of version 3: the names in a directory",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        all_names_are_listed_once: "RFC 1813 3.3.16",
        an_empty_directory_ends_at_once: "RFC 1813 3.3.16, eof",
        numbers_are_those_of_the_objects: "RFC 1813 3.3.16, fileid",
        dot_and_dot_dot_have_their_numbers: "RFC 1813 3.2, comments 2 and 3",
        dot_dot_of_the_root_shows_nothing_above: "RFC 1813 3.2, comment 3",
        no_number_is_zero: "RFC 1813 3.3.16, implementation",
        small_pages_list_all_names_once: "RFC 1813 3.3.16, count",
        a_page_is_not_larger_than_asked: "RFC 1813 3.3.16, count",
        a_page_without_room_is_too_small: "RFC 1813 2.6, NFS3ERR_TOOSMALL",
        each_cookie_goes_on_behind_its_name: "RFC 1813 3.3.16, cookie",
        the_last_cookie_leads_to_the_end: "RFC 1813 3.3.16, eof",
        cookies_differ: "RFC 1813 3.3.16, cookie",
        a_wrong_verifier_does_no_harm: "RFC 1813 3.3.16, cookieverf",
        a_made_up_cookie_does_no_harm: "RFC 1813 3.3.16, NFS3ERR_BAD_COOKIE",
        a_file_is_no_directory: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        a_stranger_needs_permission: "RFC 1813 2.6, NFS3ERR_ACCES",
        attributes_of_the_directory_come_along: "RFC 1813 3.3.16, dir_attributes",
        a_thousand_names_are_listed_once: "RFC 1813 3.3.16",
        long_names_are_listed_whole: "RFC 1813 3.3.16, name",
        plus_lists_all_names_once: "RFC 1813 3.3.17",
        plus_gives_the_attributes_of_each: "RFC 1813 3.3.17, name_attributes",
        plus_gives_handles_that_work: "RFC 1813 3.3.17, name_handle",
        plus_is_not_larger_than_asked: "RFC 1813 3.3.17, maxcount",
        plus_in_small_pages_lists_all_names_once: "RFC 1813 3.3.17, dircount and maxcount",
        plus_without_room_is_too_small: "RFC 1813 2.6, NFS3ERR_TOOSMALL",
        plus_of_a_file_is_refused: "RFC 1813 2.6, NFS3ERR_NOTDIR",
        plus_shows_what_just_changed: "RFC 1813 3.3.17, name_attributes",
        plus_with_a_small_dircount_goes_on: "RFC 1813 3.3.17, dircount",
    },
};

/// Creates files with these names, many at a time.
pub(super) fn fill(v3: &mut V3, dir: Handle, names: &[String]) -> Verdict {
    let args: Vec<create::Args<'_>> = names
        .iter()
        .map(|name| create::Args { place: place(dir, name), how: super::plain_file() })
        .collect();
    for results in v3.client.call_many(procedure(create::NUMBER), &args)? {
        ensure!(results.starts_with(&[0; 4]), "one of many CREATEs failed");
    }
    Ok(())
}

/// A directory with files, and their names.
pub(super) fn filled(b: &mut Bench<'_>, count: usize) -> Result<(Handle, Vec<String>), Stop> {
    let dir = b.dir()?;
    let inner = b.v3.directory(dir, "listed")?;
    let names: Vec<String> = (0..count).map(|number| format!("name {number:05}")).collect();
    fill(&mut b.v3, inner, &names)?;
    Ok((inner, names))
}

/// Fails unless a listing has exactly these names, each once; `.` and `..` may occur once, too.
pub(super) fn has_just(entries: &[Entry], names: &[String]) -> Verdict {
    let mut counts = BTreeMap::<&[u8], usize>::new();
    for entry in entries {
        *counts.entry(&entry.name).or_default() += 1;
    }
    if let Some((name, count)) = counts.iter().find(|(_, count)| **count > 1) {
        return Err(Stop::fail(format!("{} is listed {count} times", name.escape_ascii())));
    }
    for name in names {
        ensure!(counts.contains_key(name.as_bytes()), "{name} is not listed");
    }
    let dots = [&b"."[..], b".."].iter().filter(|dots| counts.contains_key(**dots)).count();
    equal("number of entries", counts.len(), names.len() + dots)
}

fn first_page(b: &mut Bench<'_>, dir: Handle, count: u32) -> Result<Page, Stop> {
    b.v3.readdir(dir, Position::default(), count)?.done()
}

fn all_names_are_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 20)?;
    has_just(&b.v3.list(dir, 32_768)?, &names)
}

fn an_empty_directory_ends_at_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 0)?;
    let page = first_page(b, dir, 4096)?;
    ensure!(page.end, "the listing of an empty directory does not end with its first page");
    let dots = page.entries.iter().filter(|e| e.name == b"." || e.name == b"..").count();
    b.advise(dots == 2, "clients expect . and .. in a listing");
    has_just(&page.entries, &[])
}

fn numbers_are_those_of_the_objects(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 10)?;
    for entry in b.v3.list(dir, 4096)? {
        if entry.name.starts_with(b".") {
            continue;
        }
        let object = b.v3.find(dir, &entry.name)?;
        let expected = b.v3.attributes(object)?.file_id.0;
        equal(&entry.name.escape_ascii().to_string(), entry.file_id, expected)?;
    }
    Ok(())
}

fn dot_and_dot_dot_have_their_numbers(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 0)?;
    let above = b.dir()?;
    for (name, object) in [(&b"."[..], dir), (b"..", above)] {
        let expected = b.v3.attributes(object)?.file_id.0;
        if let Some(entry) = b.v3.list(dir, 4096)?.iter().find(|entry| entry.name == name) {
            equal(&name.escape_ascii().to_string(), entry.file_id, expected)?;
        }
    }
    Ok(())
}

fn dot_dot_of_the_root_shows_nothing_above(b: &mut Bench<'_>) -> Verdict {
    let root = b.root()?;
    let expected = b.v3.attributes(root)?.file_id.0;
    let page = b.v3.readdirplus(root, Position::default(), 4096, 16_384)?;
    let Ok(page) = page.either() else {
        return Err(Stop::skip("READDIRPLUS is not supported"));
    };
    let Some(above) = page.entries.into_iter().find(|entry| entry.name == b"..") else {
        return Ok(());
    };
    let right = above.file_id == expected;
    b.advise(right, "the number of the root's .. is not the root's number");
    if let Some(object) = above.object {
        let got = b.v3.attributes(object)?.file_id.0;
        equal("number of the object of the root's ..", got, expected)?;
    }
    Ok(())
}

fn no_number_is_zero(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 5)?;
    let zero = b.v3.list(dir, 4096)?.iter().any(|entry| entry.file_id == 0);
    b.advise(!zero, "servers should try to avoid a number of zero");
    Ok(())
}

fn small_pages_list_all_names_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 100)?;
    for count in [512, 1024, 4096] {
        has_just(&b.v3.list(dir, count)?, &names)?;
    }
    Ok(())
}

fn a_page_is_not_larger_than_asked(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 200)?;
    for count in [300, 512, 1000, 1024, 4096, 8192] {
        let page = first_page(b, dir, count)?;
        ensure!(page.bytes <= count as usize, "READDIR of {count} bytes gives {}", page.bytes);
    }
    Ok(())
}

fn a_page_without_room_is_too_small(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 3)?;
    for count in [0, 1, 16, 100] {
        let answered = b.v3.readdir(dir, Position::default(), count)?;
        let expected = [Status::TooSmall, Status::Invalid];
        b.advise(
            answered.status() == Some(Status::TooSmall),
            "the status for too little space should be NFS3ERR_TOOSMALL",
        );
        answered.refused(&expected)?;
    }
    Ok(())
}

/// Returns the names behind a position.
fn names_from(b: &mut Bench<'_>, dir: Handle, from: Position) -> Result<Vec<Vec<u8>>, Stop> {
    let (mut names, mut from) = (Vec::new(), from);
    loop {
        let page = b.v3.readdir(dir, from, 2048)?.done()?;
        names.extend(page.entries.iter().map(|entry| entry.name.clone()));
        match page.entries.last() {
            Some(last) if !page.end => {
                from = Position { cookie: last.cookie, verifier: page.verifier };
            }
            _ => return Ok(names),
        }
    }
}

fn each_cookie_goes_on_behind_its_name(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 30)?;
    let page = first_page(b, dir, 32_768)?;
    ensure!(page.end, "30 names do not fit in 32 KiB");
    let all: Vec<Vec<u8>> = page.entries.iter().map(|entry| entry.name.clone()).collect();
    for (index, entry) in page.entries.iter().enumerate() {
        let from = Position { cookie: entry.cookie, verifier: page.verifier };
        let rest = names_from(b, dir, from)?;
        ensure!(
            rest == all[index + 1..],
            "after {} there are {} names instead of {}",
            entry.name.escape_ascii(),
            rest.len(),
            all.len() - index - 1
        );
    }
    Ok(())
}

fn the_last_cookie_leads_to_the_end(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 3)?;
    let page = first_page(b, dir, 4096)?;
    let last = page.entries.last().ok_or_else(|| Stop::fail("a listing has no names"))?;
    let from = Position { cookie: last.cookie, verifier: page.verifier };
    let page = b.v3.readdir(dir, from, 4096)?.done()?;
    equal("(entries, end)", (page.entries.len(), page.end), (0, true))
}

fn cookies_differ(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 50)?;
    let mut cookies: Vec<Cookie> = b.v3.list(dir, 4096)?.iter().map(|e| e.cookie).collect();
    ensure!(!cookies.contains(&Cookie(0)), "a cookie is zero, which is the start");
    let count = cookies.len();
    cookies.sort_unstable();
    cookies.dedup();
    equal("different cookies", cookies.len(), count)
}

fn a_wrong_verifier_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 50)?;
    let page = first_page(b, dir, 1024)?;
    let cookie = page.entries.last().map(|entry| entry.cookie).unwrap_or_default();
    let verifier = page.verifier.map(|byte| !byte);
    let answered = b.v3.readdir(dir, Position { cookie, verifier }, 32_768)?;
    // If cookies never become stale a server may ignore the verifier.
    if !answered.is_done() {
        answered.refused(&[Status::BadCookie])?;
        return Ok(());
    }
    let rest = answered.done()?;
    let all = [page.entries, rest.entries].concat();
    has_just(&all, &names)
}

fn a_made_up_cookie_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 10)?;
    let verifier = first_page(b, dir, 4096)?.verifier;
    for cookie in [1, 2, 77, 1 << 31, 1 << 32, u64::MAX >> 1, 1 << 63, u64::MAX] {
        let from = Position { cookie: Cookie(cookie), verifier };
        let answered = b.v3.readdir(dir, from, 4096)?;
        if !answered.is_done() {
            answered.refused(&[Status::BadCookie, Status::Invalid])?;
        }
    }
    b.still_serves()
}

fn a_file_is_no_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.readdir(file, Position::default(), 4096)?.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn a_stranger_needs_permission(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    user.setattr(own, mode(0o711))?.done()?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.readdir(own, Position::default(), 4096)?.refused(&[Status::Access])?;
    let plus = stranger.readdirplus(own, Position::default(), 4096, 8192)?;
    plus.refused(&[Status::Access, Status::NotSupported])?;
    Ok(())
}

fn attributes_of_the_directory_come_along(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 3)?;
    match first_page(b, dir, 4096)?.attributes {
        Some(attributes) => super::same("attributes", attributes, b.v3.attributes(dir)?),
        None => {
            b.advise(false, "READDIR should give the attributes of the directory");
            Ok(())
        }
    }
}

fn a_thousand_names_are_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 1000)?;
    has_just(&b.v3.list(dir, 8192)?, &names)?;
    has_just(&b.v3.list(dir, 65_536)?, &names)
}

fn long_names_are_listed_whole(b: &mut Bench<'_>) -> Verdict {
    let length = usize::try_from(b.limits()?.name_bytes_max.min(250)).unwrap_or(0);
    let dir = b.dir()?;
    let names: Vec<String> =
        (0..20).map(|number| format!("{number:02}{}", "x".repeat(length - 2))).collect();
    fill(&mut b.v3, dir, &names)?;
    has_just(&b.v3.list(dir, 1024)?, &names)
}

/// READDIRPLUS of the whole directory; skips the case without READDIRPLUS.
fn plus(b: &mut Bench<'_>, dir: Handle) -> Result<Vec<Entry>, Stop> {
    let answered = b.v3.readdirplus(dir, Position::default(), 8192, 32_768)?;
    if answered.status() == Some(Status::NotSupported) {
        return Err(Stop::skip("READDIRPLUS is not supported"));
    }
    answered.done()?;
    b.v3.list_plus(dir, 8192, 32_768)
}

fn plus_lists_all_names_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 100)?;
    has_just(&plus(b, dir)?, &names)
}

fn plus_gives_the_attributes_of_each(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 10)?;
    let (mut missing, entries) = (0, plus(b, dir)?);
    for entry in entries {
        let Some(attributes) = entry.attributes else {
            missing += 1;
            continue;
        };
        let name = entry.name.escape_ascii().to_string();
        equal(&name, entry.file_id, attributes.file_id.0)?;
        if entry.name != b".." {
            let object = b.v3.find(dir, &entry.name)?;
            super::same(&name, attributes, b.v3.attributes(object)?)?;
        }
    }
    b.advise(missing == 0, format!("READDIRPLUS gives no attributes for {missing} names"));
    Ok(())
}

fn plus_gives_handles_that_work(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 10)?;
    let (mut missing, entries) = (0, plus(b, dir)?);
    for entry in entries {
        match entry.object {
            None => missing += 1,
            Some(object) => {
                let name = entry.name.escape_ascii().to_string();
                equal(&name, b.v3.attributes(object)?.file_id.0, entry.file_id)?;
            }
        }
    }
    b.advise(missing == 0, format!("READDIRPLUS gives no handles for {missing} names"));
    Ok(())
}

fn plus_is_not_larger_than_asked(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 100)?;
    plus(b, dir)?;
    for count in [600, 1024, 4096, 8192, 32_768] {
        let page = b.v3.readdirplus(dir, Position::default(), count, count)?.done()?;
        ensure!(page.bytes <= count as usize, "READDIRPLUS of {count} bytes gives {}", page.bytes);
    }
    Ok(())
}

fn plus_in_small_pages_lists_all_names_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 100)?;
    plus(b, dir)?;
    for (names_count, count) in [(512, 1024), (4096, 1024), (200, 8192)] {
        has_just(&b.v3.list_plus(dir, names_count, count)?, &names)?;
    }
    Ok(())
}

fn plus_without_room_is_too_small(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 3)?;
    plus(b, dir)?;
    for count in [0, 16, 100] {
        let answered = b.v3.readdirplus(dir, Position::default(), count, count)?;
        answered.refused(&[Status::TooSmall, Status::Invalid])?;
    }
    Ok(())
}

fn plus_of_a_file_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    plus(b, dir)?;
    let file = b.v3.file(dir, "file", b"")?;
    let answered = b.v3.readdirplus(file, Position::default(), 4096, 8192)?;
    answered.refused(&[Status::NotDirectory])?;
    Ok(())
}

fn plus_shows_what_just_changed(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 5)?;
    let file = b.v3.find(dir, &names[2])?;
    plus(b, dir)?;
    b.v3.put(file, 0, b"12345")?;
    let entries = plus(b, dir)?;
    let entry = entries.iter().find(|entry| entry.name == names[2].as_bytes());
    let attributes = entry.and_then(|entry| entry.attributes);
    if let Some(attributes) = attributes {
        equal("size", attributes.size, 5)?;
    }
    Ok(())
}

fn plus_with_a_small_dircount_goes_on(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 10)?;
    plus(b, dir)?;
    // A dircount without space for one name is a hint that the server cannot follow.
    let page = b.v3.readdirplus(dir, Position::default(), 1, 8192)?;
    if !page.is_done() {
        page.refused(&[Status::TooSmall, Status::Invalid])?;
        return Ok(());
    }
    has_just(&b.v3.list_plus(dir, 1, 8192)?, &names)
}
