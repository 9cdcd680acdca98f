//! Listings while names are created and removed: every name that exists throughout is listed
//! exactly once.

use std::collections::BTreeMap;

use leasehold_wire::nfs3::Handle;

use super::prelude::*;
use super::v3_readdir::{fill, filled, has_just};
use crate::v3::{Page, Position};

pub(crate) const GROUP: Group = Group {
    name: "cookies",
    about: "listings during changes: names that exist throughout are listed once",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        names_that_come_in_between_do_no_harm: "RFC 1813 3.3.16, cookie",
        names_that_go_in_between_do_no_harm: "RFC 1813 3.3.16, cookie",
        names_that_come_and_go_do_no_harm: "RFC 1813 3.3.16, cookie",
        names_that_change_do_no_harm: "RFC 1813 3.3.14",
        everything_can_be_removed_while_it_is_listed: "RFC 1813 3.3.16, cookie",
        the_name_of_a_cookie_can_be_removed: "RFC 1813 3.3.16, cookie",
        plus_lists_once_while_names_come_and_go: "RFC 1813 3.3.17, cookie",
        links_to_one_file_are_all_listed: "RFC 1813 3.3.15",
        two_listings_do_not_disturb_each_other: "RFC 1813 3.3.16, cookie",
        another_connection_goes_on: "RFC 1813 3.3.16, cookie",
        readdir_and_plus_list_the_same: "RFC 1813 3.3.17",
        a_cookie_stays_good_for_a_while: "RFC 1813 3.3.16, cookie",
        a_name_that_comes_back_is_listed_once: "RFC 1813 3.3.16",
        writing_to_files_does_not_disturb: "RFC 1813 3.3.16",
        three_thousand_names_are_listed_once: "RFC 1813 3.3.16",
    },
};

/// The names that each step of a churn removes and creates.
struct Churn {
    removed: Vec<String>,
    made: Vec<String>,
}

/// Lists a directory page by page and calls `between` between pages. A server that detects a stale
/// cookie may report it; then the listing starts again, as in a client.
fn listed_while(
    b: &mut Bench<'_>,
    dir: Handle,
    mut page: impl FnMut(&mut Bench<'_>, Handle, Position) -> Result<Option<Page>, Stop>,
    mut between: impl FnMut(&mut Bench<'_>, usize) -> Verdict,
) -> Result<BTreeMap<Vec<u8>, usize>, Stop> {
    'anew: for _ in 0..5 {
        let (mut counts, mut from) = (BTreeMap::<Vec<u8>, usize>::new(), Position::default());
        for round in 0.. {
            let Some(page) = page(b, dir, from)? else {
                continue 'anew;
            };
            for entry in &page.entries {
                *counts.entry(entry.name.clone()).or_default() += 1;
            }
            if page.end {
                return Ok(counts);
            }
            let last = page.entries.last();
            let last =
                last.ok_or_else(|| Stop::fail("a page of a listing is empty before its end"))?;
            from = Position { cookie: last.cookie, verifier: page.verifier };
            ensure!(round < 2000, "a listing has no end");
            between(b, round)?;
        }
    }
    // A client "should be careful to avoid holding cookies across operations that modify".
    Err(Stop::skip("every change invalidates the server's cookies, as the RFC permits"))
}

/// A page of READDIR; `None` if its cookie is stale.
fn small_page(b: &mut Bench<'_>, dir: Handle, from: Position) -> Result<Option<Page>, Stop> {
    match b.v3.readdir(dir, from, 1024)?.either() {
        Ok(page) => Ok(Some(page)),
        Err((Status::BadCookie, _)) => Ok(None),
        Err((status, _)) => Err(Stop::fail(format!("READDIR: expected success, got {status:?}"))),
    }
}

/// A page of READDIRPLUS; `None` if its cookie is stale.
fn plus_page(b: &mut Bench<'_>, dir: Handle, from: Position) -> Result<Option<Page>, Stop> {
    match b.v3.readdirplus(dir, from, 1024, 4096)?.either() {
        Ok(page) => Ok(Some(page)),
        Err((Status::BadCookie, _)) => Ok(None),
        Err((Status::NotSupported, _)) => Err(Stop::skip("READDIRPLUS is not supported")),
        Err((status, _)) => {
            Err(Stop::fail(format!("READDIRPLUS: expected success, got {status:?}")))
        }
    }
}

/// Fails unless all these names were listed once, and no other name more than once.
fn once(counts: &BTreeMap<Vec<u8>, usize>, names: &[String]) -> Verdict {
    for name in names {
        let count = counts.get(name.as_bytes()).copied().unwrap_or(0);
        equal(&format!("times that {name} is listed"), count, 1)?;
    }
    let twice = counts.iter().find(|(_, count)| **count > 1);
    ensure!(twice.is_none(), "a name is listed more than once: {twice:?}");
    Ok(())
}

fn names_that_come_in_between_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 200)?;
    let counts = listed_while(b, dir, small_page, |b, round| {
        if round > 20 {
            return Ok(());
        }
        let new: Vec<String> = (0..10).map(|n| format!("{n} new {round}")).collect();
        // An earlier attempt may have created them.
        if b.v3.lookup(dir, &new[0])?.is_done() { Ok(()) } else { fill(&mut b.v3, dir, &new) }
    })?;
    once(&counts, &names)
}

fn names_that_go_in_between_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, mut names) = filled(b, 300)?;
    let going = names.split_off(150);
    let counts = listed_while(b, dir, small_page, |b, round| {
        for name in going.iter().skip(round * 10).take(10) {
            b.v3.remove(dir, name)?.status();
        }
        Ok(())
    })?;
    once(&counts, &names)
}

/// Random changes between pages, fixed by the seed.
fn churn(b: &mut Bench<'_>, dir: Handle, state: &mut Churn, round: usize) -> Verdict {
    for step in 0..5 {
        if b.random.one_in(2) && !state.removed.is_empty() {
            let name = state.removed.swap_remove(0);
            b.v3.remove(dir, &name)?.done()?;
        } else {
            let name = format!("{:04} came {round} {step}", b.random.below(10_000));
            b.v3.create(dir, &name, super::plain_file())?.done()?;
            state.made.push(name);
        }
        if b.random.one_in(3) && !state.made.is_empty() {
            let index = usize::try_from(b.random.below(state.made.len() as u64)).unwrap_or(0);
            let name = state.made.swap_remove(index);
            b.v3.remove(dir, &name)?.done()?;
        }
    }
    Ok(())
}

fn names_that_come_and_go_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, mut names) = filled(b, 300)?;
    let mut state = Churn { removed: names.split_off(200), made: Vec::new() };
    let counts = listed_while(b, dir, small_page, |b, round| churn(b, dir, &mut state, round))?;
    once(&counts, &names)
}

fn names_that_change_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (dir, mut names) = filled(b, 300)?;
    let changing = names.split_off(200);
    let counts = listed_while(b, dir, small_page, |b, round| {
        if let Some(name) = changing.get(round) {
            b.v3.rename((dir, name), (dir, format!("x {name}")))?.status();
        }
        Ok(())
    })?;
    once(&counts, &names)
}

fn everything_can_be_removed_while_it_is_listed(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 300)?;
    let mut from = Position::default();
    let mut removed = 0;
    // As in `rm -r`: the names of a page are removed before the next page is requested.
    for _ in 0..1000 {
        let Some(page) = small_page(b, dir, from)? else {
            from = Position::default();
            continue;
        };
        for entry in page.entries.iter().filter(|entry| !entry.name.starts_with(b".")) {
            b.v3.remove(dir, &entry.name)?.done()?;
            removed += 1;
        }
        if page.end {
            break;
        }
        if let Some(last) = page.entries.last() {
            from = Position { cookie: last.cookie, verifier: page.verifier };
        }
    }
    equal("names removed", removed, names.len())?;
    has_just(&b.v3.list(dir, 4096)?, &[])
}

fn the_name_of_a_cookie_can_be_removed(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 50)?;
    let first = b.v3.readdir(dir, Position::default(), 1024)?.done()?;
    let last = first.entries.last().cloned();
    let last = last.ok_or_else(|| Stop::fail("a page of a listing is empty before its end"))?;
    b.v3.remove(dir, &last.name)?.done()?;
    let mut from = Position { cookie: last.cookie, verifier: first.verifier };
    let mut all = first.entries;
    loop {
        let Some(page) = small_page(b, dir, from)? else {
            return Ok(());
        };
        all.extend(page.entries.clone());
        if page.end {
            break;
        }
        if let Some(last) = page.entries.last() {
            from = Position { cookie: last.cookie, verifier: page.verifier };
        }
    }
    has_just(&all, &names)
}

fn plus_lists_once_while_names_come_and_go(b: &mut Bench<'_>) -> Verdict {
    let (dir, mut names) = filled(b, 200)?;
    let mut state = Churn { removed: names.split_off(120), made: Vec::new() };
    let counts = listed_while(b, dir, plus_page, |b, round| churn(b, dir, &mut state, round))?;
    once(&counts, &names)
}

fn links_to_one_file_are_all_listed(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let (dir, mut names) = filled(b, 1)?;
    let file = b.v3.find(dir, &names[0])?;
    for number in 0..60 {
        let name = format!("link {number}");
        b.v3.link(file, dir, &name)?.done()?;
        names.push(name);
    }
    // Cookies that consist of file numbers alone lose all but one of them.
    has_just(&b.v3.list(dir, 1024)?, &names)
}

fn two_listings_do_not_disturb_each_other(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 150)?;
    let mut other = b.another();
    let counts = listed_while(b, dir, small_page, |_, _| {
        other.readdir(dir, Position::default(), 512)?.done().map(|_| ())
    })?;
    once(&counts, &names)
}

fn another_connection_goes_on(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 150)?;
    let page = |b: &mut Bench<'_>, dir, from| {
        b.v3.client.disconnect();
        small_page(b, dir, from)
    };
    let counts = listed_while(b, dir, page, |_, _| Ok(()))?;
    once(&counts, &names)
}

fn readdir_and_plus_list_the_same(b: &mut Bench<'_>) -> Verdict {
    let (dir, _) = filled(b, 100)?;
    plus_page(b, dir, Position::default())?;
    let bare = b.v3.list(dir, 2048)?;
    let full = b.v3.list_plus(dir, 2048, 8192)?;
    let pairs = |entries: &[crate::v3::Entry]| {
        let mut pairs: Vec<(Vec<u8>, u64)> =
            entries.iter().map(|entry| (entry.name.clone(), entry.file_id)).collect();
        pairs.sort_unstable();
        pairs
    };
    ensure!(pairs(&bare) == pairs(&full), "READDIR and READDIRPLUS list other names or numbers");
    Ok(())
}

fn a_cookie_stays_good_for_a_while(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 60)?;
    let first = b.v3.readdir(dir, Position::default(), 1024)?.done()?;
    let Some(last) = first.entries.last() else {
        return Err(Stop::fail("a page of a listing is empty before its end"));
    };
    let from = Position { cookie: last.cookie, verifier: first.verifier };
    // Many other changes happen meanwhile.
    let own = b.dir()?;
    let many: Vec<String> = (0..200).map(|number| format!("elsewhere {number}")).collect();
    fill(&mut b.v3, own, &many)?;
    b.v3.list(own, 1024)?;
    let rest = b.v3.readdir(dir, from, 32_768)?.done()?;
    let all = [first.entries.clone(), rest.entries].concat();
    has_just(&all, &names)
}

fn a_name_that_comes_back_is_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 20)?;
    for name in &names {
        b.v3.remove(dir, name)?.done()?;
    }
    fill(&mut b.v3, dir, &names)?;
    has_just(&b.v3.list(dir, 512)?, &names)
}

fn writing_to_files_does_not_disturb(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 120)?;
    let file = b.v3.find(dir, &names[60])?;
    let counts = listed_while(b, dir, small_page, |b, round| {
        b.v3.put(file, round as u64, b"x")?;
        b.v3.setattr(file, crate::v3::mode(0o600))?.done().map(|_| ())
    })?;
    once(&counts, &names)
}

fn three_thousand_names_are_listed_once(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 3000)?;
    has_just(&b.v3.list(dir, 4096)?, &names)
}
