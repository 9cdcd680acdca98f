//! Listing directories, and space on the file system.

use std::collections::BTreeMap;

use leasehold_base::units::Cookie;

use super::cases;
use super::world::{UNLIMITED, World, below, lasting, name, new_file, refused};
use crate::{Allowance, Budget, FsError, NewNode, ObjectId, Wanted};

cases! {
    Nothing, "RFC 1813 3.3.16":
        an_empty_directory_has_two_entries
        entries_have_the_numbers_of_their_objects
        pages_go_on_where_the_last_one_ended
        as_many_entries_come_as_fit
        a_budget_for_no_entry_is_too_small
        behind_the_last_entry_is_the_end
        cookies_differ_and_are_not_zero
        a_listing_comes_again
        a_cookie_that_was_never_given_out_does_no_harm
        only_directories_can_be_listed;
    Nothing, "Store::readdir":
        names_that_stay_come_once_under_churn
        a_directory_can_be_emptied_while_it_is_listed
        a_replaced_name_comes_once
        a_large_directory_comes_whole;
    Nothing, "RFC 1813 3.3.17":
        everything_that_is_told_is_true
        each_name_of_an_object_is_listed_with_it
        names_alone_bring_no_attributes
        names_have_a_budget_of_their_own;
    Nothing, "RFC 1813 3.3.18":
        room_makes_sense;
}

/// The parts of an entry that the cases compare.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    name: Vec<u8>,
    file_id: u64,
    cookie: Cookie,
}

/// Returns the entries of one page, and true at the end of the directory.
async fn list(
    world: &World<'_>,
    directory: &ObjectId,
    cookie: Cookie,
    budget: Budget,
) -> (Vec<Listed>, bool) {
    let page = world.page(directory, cookie, budget).await.expect("it can be listed");
    assert_eq!(lasting(page.attributes), lasting(world.attributes(directory).await));
    let listed = page.entries.iter().map(|entry| Listed {
        name: entry.name.to_vec(),
        file_id: entry.file_id.0,
        cookie: entry.cookie,
    });
    (listed.collect(), page.end)
}

/// Returns all entries of a directory, page by page.
async fn list_all(world: &World<'_>, directory: &ObjectId, budget: Budget) -> Vec<Listed> {
    let (mut all, mut cookie) = (Vec::new(), Cookie(0));
    loop {
        let (page, end) = list(world, directory, cookie, budget).await;
        assert!(end || !page.is_empty(), "a page that is not the last has entries");
        cookie = page.last().map_or(cookie, |entry| entry.cookie);
        all.extend(page);
        if end {
            return all;
        }
    }
}

/// Returns a budget for `entries` entries with names of up to four bytes.
fn budget_for(entries: u32) -> Budget {
    Budget { reply: Allowance { bytes: entries * 24, entry_bytes: 20 }, ..UNLIMITED }
}

/// Creates files with names of up to four bytes.
async fn files(world: &World<'_>, count: usize) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    for number in 0..count {
        world.file(&number.to_string()).await;
        names.push(number.to_string().into_bytes());
    }
    names
}

fn named(entries: &[Listed]) -> Vec<Vec<u8>> {
    let mut names: Vec<_> = entries.iter().map(|entry| entry.name.clone()).collect();
    names.sort();
    names
}

async fn an_empty_directory_has_two_entries(world: &World<'_>) {
    let directory = world.directory("directory").await;
    let (entries, end) = list(world, &directory, Cookie(0), UNLIMITED).await;
    assert!(end);
    assert_eq!(named(&entries), [&b"."[..], b".."]);
    for entry in entries {
        let object = if entry.name == b"." { directory } else { world.top };
        assert_eq!(entry.file_id, world.attributes(&object).await.file_id.0);
    }
}

async fn entries_have_the_numbers_of_their_objects(world: &World<'_>) {
    let mut truth = BTreeMap::new();
    let objects = [
        ("file", world.file("file").await),
        ("directory", world.directory("directory").await),
        ("symlink", world.node("symlink", NewNode::Symlink(b"file")).await),
        ("fifo", world.node("fifo", NewNode::Fifo).await),
    ];
    for (text, object) in objects {
        truth.insert(text.as_bytes().to_vec(), world.attributes(&object).await.file_id.0);
    }
    let entries = list_all(world, &world.top, UNLIMITED).await.into_iter();
    let entries = entries.filter(|entry| !entry.name.starts_with(b"."));
    assert_eq!(entries.map(|entry| (entry.name, entry.file_id)).collect::<BTreeMap<_, _>>(), truth);
}

async fn pages_go_on_where_the_last_one_ended(world: &World<'_>) {
    let mut names = files(world, 30).await;
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    for entries in [1, 2, 3, 7, 31, 32, 33] {
        let all = list_all(world, &world.top, budget_for(entries)).await;
        assert_eq!(named(&all), names, "{entries} at a time");
    }
}

async fn as_many_entries_come_as_fit(world: &World<'_>) {
    for text in ["a", "ab", "abc", "abcd", "abcde", "a-name-of-twenty-one-", "abcdefgh"] {
        world.file(text).await;
    }
    let all = list_all(world, &world.top, UNLIMITED).await;
    for bytes in 24..300 {
        let budget = Budget { reply: Allowance { bytes, entry_bytes: 20 }, ..UNLIMITED };
        let mut left = budget;
        let fit = all.iter().take_while(|entry| left.take(&entry.name)).count();
        if fit == 0 {
            let page = world.page(&world.top, Cookie(0), budget).await;
            refused(page, FsError::TooSmall);
            continue;
        }
        let (page, end) = list(world, &world.top, Cookie(0), budget).await;
        assert_eq!(page, all[..fit], "{bytes} bytes");
        assert_eq!(end, fit == all.len(), "{bytes} bytes");
    }
}

async fn a_budget_for_no_entry_is_too_small(world: &World<'_>) {
    files(world, 3).await;
    let budget = Budget { reply: Allowance { bytes: 23, entry_bytes: 20 }, ..UNLIMITED };
    let all = list_all(world, &world.top, UNLIMITED).await;
    for entry in &all[..all.len() - 1] {
        refused(world.page(&world.top, entry.cookie, budget).await, FsError::TooSmall);
    }
    refused(world.page(&world.top, Cookie(0), budget).await, FsError::TooSmall);
}

async fn behind_the_last_entry_is_the_end(world: &World<'_>) {
    files(world, 3).await;
    let all = list_all(world, &world.top, UNLIMITED).await;
    let last = all.last().expect("there are entries").cookie;
    for budget in [UNLIMITED, budget_for(1), budget_for(0)] {
        assert_eq!(list(world, &world.top, last, budget).await, (Vec::new(), true));
    }
    let before = all[all.len() - 2].cookie;
    let (page, end) = list(world, &world.top, before, budget_for(1)).await;
    assert_eq!((page.len(), end), (1, true));
}

async fn cookies_differ_and_are_not_zero(world: &World<'_>) {
    files(world, 50).await;
    let all = list_all(world, &world.top, UNLIMITED).await;
    let mut cookies: Vec<_> = all.iter().map(|entry| entry.cookie).collect();
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), 52);
    assert_ne!(cookies[0], Cookie(0));
}

async fn a_listing_comes_again(world: &World<'_>) {
    files(world, 20).await;
    let first = list_all(world, &world.top, UNLIMITED).await;
    let again = list_all(world, &world.top, budget_for(3)).await;
    assert_eq!(first, again);
    for (number, entry) in first.iter().enumerate() {
        let (rest, end) = list(world, &world.top, entry.cookie, UNLIMITED).await;
        assert!(end);
        assert_eq!(rest, first[number + 1..], "behind entry {number}");
    }
}

async fn a_cookie_that_was_never_given_out_does_no_harm(world: &World<'_>) {
    files(world, 3).await;
    for cookie in [Cookie(u64::MAX), Cookie(u64::MAX / 3)] {
        match world.page(&world.top, cookie, UNLIMITED).await {
            Err(error) => assert_eq!(error, FsError::BadCookie),
            Ok(page) => assert!(page.end && page.entries.len() <= 5),
        }
    }
}

async fn only_directories_can_be_listed(world: &World<'_>) {
    let file = world.file("file").await;
    let symlink = world.node("symlink", NewNode::Symlink(b".")).await;
    for object in [file, symlink] {
        refused(world.page(&object, Cookie(0), UNLIMITED).await, FsError::NotDirectory);
    }
    let gone = world.gone_directory("directory").await;
    refused(world.page(&gone, Cookie(0), UNLIMITED).await, FsError::Stale);
}

/// Lists while names change: some are new, some are renamed, a third stays.
async fn names_that_stay_come_once_under_churn(world: &World<'_>) {
    files(world, 90).await;
    let (mut seen, mut cookie, mut turn) = (Vec::new(), Cookie(0), 0);
    loop {
        let (page, end) = list(world, &world.top, cookie, budget_for(4)).await;
        cookie = page.last().map_or(cookie, |entry| entry.cookie);
        seen.extend(page.into_iter().map(|entry| entry.name));
        if end {
            break;
        }
        if turn < 30 {
            let [gone, from] = [1, 2].map(|above| (turn * 3 + above).to_string());
            let [to, new] = ["r", "n"].map(|letter| format!("{letter}{turn}"));
            world.remove(world.place(&gone)).await.result.expect("it is there");
            let renamed = world.rename(world.place(&from), world.place(&to)).await;
            renamed.result.expect("it is there");
            world.file(&new).await;
        }
        turn += 1;
    }
    assert!(turn >= 15, "the listing took many pages");
    for stays in (0..90).step_by(3).map(|number| number.to_string()).chain([".".into()]) {
        let times = seen.iter().filter(|name| **name == stays.as_bytes()).count();
        assert_eq!(times, 1, "{stays}");
    }
}

async fn a_directory_can_be_emptied_while_it_is_listed(world: &World<'_>) {
    files(world, 100).await;
    let mut cookie = Cookie(0);
    loop {
        let (page, end) = list(world, &world.top, cookie, budget_for(7)).await;
        for entry in &page {
            cookie = entry.cookie;
            if !entry.name.starts_with(b".") {
                let text = core::str::from_utf8(&entry.name).expect("it is a number");
                world.remove(world.place(text)).await.result.expect("it occurs once");
            }
        }
        if end {
            break;
        }
    }
    assert!(world.names(&world.top).await.is_empty());
}

async fn a_replaced_name_comes_once(world: &World<'_>) {
    files(world, 20).await;
    let directory = world.directory("elsewhere").await;
    let (mut seen, mut cookie, mut turn) = (Vec::new(), Cookie(0), 0);
    loop {
        let (page, end) = list(world, &world.top, cookie, budget_for(3)).await;
        cookie = page.last().map_or(cookie, |entry| entry.cookie);
        seen.extend(page.into_iter().map(|entry| entry.name));
        if end {
            break;
        }
        let from = below(&directory, "new");
        world.create(from, new_file()).await.result.expect("the name is free");
        let to = (turn * 7 % 20).to_string();
        world.rename(from, world.place(&to)).await.result.expect("a file can be replaced");
        turn += 1;
    }
    for number in 0..20 {
        let times = seen.iter().filter(|name| **name == number.to_string().as_bytes()).count();
        assert_eq!(times, 1, "{number}");
    }
}

async fn a_large_directory_comes_whole(world: &World<'_>) {
    let mut names = Vec::new();
    for number in 0..700 {
        let text = format!("a-rather-long-name-of-file-number-{number}");
        world.file(&text).await;
        names.push(text.into_bytes());
    }
    names.extend([b".".to_vec(), b"..".to_vec()]);
    names.sort();
    let budget = Budget { reply: Allowance { bytes: 4096, entry_bytes: 24 }, ..UNLIMITED };
    assert_eq!(named(&list_all(world, &world.top, budget).await), names);
}

async fn everything_that_is_told_is_true(world: &World<'_>) {
    world.file("file").await;
    world.directory("directory").await;
    world.node("symlink", NewNode::Symlink(b"file")).await;
    world.node("fifo", NewNode::Fifo).await;
    let everything = Wanted::Everything;
    let page =
        world.store.readdir(world.owner(), &world.top, Cookie(0), UNLIMITED, everything).await;
    let page = page.expect("it can be listed");
    assert_eq!(page.entries.len(), 6);
    for entry in page.entries.iter() {
        let found = match entry.name {
            b"." => world.top,
            b".." => world.store.root(),
            text => {
                let text = core::str::from_utf8(text).expect("it is text");
                let found = world.store.lookup(world.owner(), &world.top, name(text)).await;
                found.expect("it is there").object
            }
        };
        if let Some(object) = entry.object {
            assert!(world.same(&object, &found), "{entry:?}");
        }
        if let Some(attributes) = entry.attributes {
            assert_eq!(lasting(attributes), lasting(world.attributes(&found).await));
            assert_eq!(attributes.file_id, entry.file_id);
        }
    }
}

/// Two of the names are in one directory, and a third in another.
async fn each_name_of_an_object_is_listed_with_it(world: &World<'_>) {
    let file = world.file("file").await;
    let directory = world.directory("directory").await;
    for place in [world.place("second"), below(&directory, "third")] {
        world.link(&file, place).await.result.expect("a file can be linked");
    }
    let all = list_all(world, &world.top, budget_for(2)).await;
    let of_file = |all: &[Listed], number| {
        named(&all.iter().filter(|entry| entry.file_id == number).cloned().collect::<Vec<_>>())
    };
    let number = world.attributes(&file).await.file_id.0;
    assert_eq!(of_file(&all, number), [&b"file"[..], b"second"]);
    assert_eq!(of_file(&list_all(world, &directory, UNLIMITED).await, number), [b"third"]);
    for (directory, count) in [(world.top, 2), (directory, 1)] {
        let everything = Wanted::Everything;
        let page =
            world.store.readdir(world.owner(), &directory, Cookie(0), UNLIMITED, everything).await;
        let page = page.expect("it can be listed");
        let names: Vec<_> = page.entries.iter().filter(|entry| entry.file_id.0 == number).collect();
        assert_eq!(names.len(), count);
        for entry in names {
            assert!(entry.object.is_none_or(|object| world.same(&object, &file)), "{entry:?}");
            assert!(entry.attributes.is_none_or(|told| told.link_count == 3), "{entry:?}");
        }
    }
    world.remove(world.place("file")).await.result.expect("it is there");
    let all = list_all(world, &world.top, UNLIMITED).await;
    assert_eq!(of_file(&all, number), [b"second"], "the object has its other names");
}

async fn names_alone_bring_no_attributes(world: &World<'_>) {
    world.file("file").await;
    let page = world.page(&world.top, Cookie(0), UNLIMITED).await.expect("it can be listed");
    for entry in page.entries.iter() {
        assert_eq!((entry.attributes, entry.object), (None, None));
    }
}

async fn names_have_a_budget_of_their_own(world: &World<'_>) {
    files(world, 10).await;
    let names = Allowance { bytes: 24 * 5 + 23, entry_bytes: 20 };
    let budget = Budget { names, reply: Allowance { bytes: 10_000, entry_bytes: 200 } };
    let (page, end) = list(world, &world.top, Cookie(0), budget).await;
    assert_eq!((page.len(), end), (5, false));
    let budget = Budget { names, reply: Allowance { bytes: 204 * 3, entry_bytes: 200 } };
    let (page, end) = list(world, &world.top, Cookie(0), budget).await;
    assert_eq!((page.len(), end), (3, false));
}

async fn room_makes_sense(world: &World<'_>) {
    let file = world.file("file").await;
    for object in [world.top, file] {
        let (space, attributes) =
            world.store.space(world.owner(), &object).await.expect("it is there");
        assert_eq!(lasting(attributes), lasting(world.attributes(&object).await));
        assert!(space.bytes >= space.free_bytes && space.free_bytes >= space.available_bytes);
        assert!(space.files >= space.free_files && space.free_files >= space.available_files);
        assert!(space.available_bytes > 0);
    }
    let gone = world.gone_file("gone").await;
    refused(world.store.space(world.owner(), &gone).await, FsError::Stale);
}
