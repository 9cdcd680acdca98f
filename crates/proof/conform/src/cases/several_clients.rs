//! Several concurrent clients: each sees the changes of the others.

use std::collections::BTreeSet;

use leasehold_wire::nfs3::{create, mkdir, remove, rename};

use super::prelude::*;
use crate::v3::{V3, mode, place, procedure};

pub(crate) const GROUP: Group = Group {
    name: "several_clients",
    about: "several concurrent clients: each sees the changes of the others",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        what_one_writes_the_other_reads: "RFC 1813 4.11",
        what_one_makes_the_other_finds: "RFC 1813 4.11",
        what_one_removes_the_other_does_not_find: "RFC 1813 4.11",
        what_one_renames_the_other_finds_anew: "RFC 1813 4.11",
        a_mode_that_one_sets_binds_the_other: "RFC 1813 4.4",
        sizes_are_seen_at_once: "RFC 1813 4.11",
        each_writes_its_part: "RFC 1813 3.3.7",
        one_of_many_makes_the_file: "RFC 1813 3.3.8, GUARDED",
        one_of_many_makes_the_directory: "RFC 1813 3.3.9",
        one_of_many_removes_the_file: "RFC 1813 3.3.12",
        one_of_many_renames_the_file: "RFC 1813 3.3.14",
        a_name_is_there_while_it_is_replaced: "RFC 1813 3.3.14, atomic",
        names_made_by_many_are_all_listed: "RFC 1813 3.3.16",
        a_write_is_not_mixed_with_another: "RFC 1094 2.2.9",
        fifty_connections_are_served: "RFC 5531 5",
        a_connection_that_asks_nothing_does_not_matter: "RFC 5531 5",
        users_do_not_get_each_others_rights: "RFC 5531 appendix A",
        users_on_one_connection_are_told_apart: "RFC 5531 appendix A",
        tcp_and_udp_see_one_file_system: "RFC 5531 5",
    },
};

fn what_one_writes_the_other_reads(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    let file = b.v3.file(dir, "file", b"")?;
    for round in 0..20_u8 {
        b.v3.write(file, 0, [round; 100], Stability::Unstable)?.done()?;
        ensure!(
            other.get(file, 0, 200)? == [round; 100],
            "the data of round {round} is not visible"
        );
    }
    Ok(())
}

fn what_one_makes_the_other_finds(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    for name in ["a", "b", "c"] {
        other.lookup(dir, name)?.refused(&[Status::NotFound])?;
        b.v3.file(dir, name, b"")?;
        other.find(dir, name)?;
    }
    Ok(())
}

fn what_one_removes_the_other_does_not_find(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    for name in ["a", "b", "c"] {
        b.v3.file(dir, name, b"")?;
        other.find(dir, name)?;
        b.v3.remove(dir, name)?.done()?;
        other.lookup(dir, name)?.refused(&[Status::NotFound])?;
    }
    Ok(())
}

fn what_one_renames_the_other_finds_anew(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    b.v3.file(dir, "old", b"123")?;
    other.find(dir, "old")?;
    b.v3.rename((dir, "old"), (dir, "new"))?.done()?;
    other.lookup(dir, "old")?.refused(&[Status::NotFound])?;
    let found = other.find(dir, "new")?;
    equal("contents", other.get(found, 0, 10)?, b"123".to_vec())
}

fn a_mode_that_one_sets_binds_the_other(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let mut stranger = b.another_as(&b.user(1)?);
    let file = user.file(own, "file", b"123")?;
    for _ in 0..3 {
        user.setattr(file, mode(0o644))?.done()?;
        stranger.read(file, 0, 3)?.done()?;
        user.setattr(file, mode(0o600))?.done()?;
        stranger.read(file, 0, 3)?.refused(&[Status::Access])?;
    }
    Ok(())
}

fn sizes_are_seen_at_once(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    let file = b.v3.file(dir, "file", b"")?;
    for round in 1..50 {
        b.v3.write(file, round - 1, b"x", Stability::Unstable)?.done()?;
        equal("size", other.attributes(file)?.size, round)?;
    }
    b.v3.setattr(file, crate::v3::size(3))?.done()?;
    equal("size", other.attributes(file)?.size, 3)
}

fn each_writes_its_part(b: &mut Bench<'_>) -> Verdict {
    const PART: usize = 4096;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut clients: Vec<V3> = (0..8).map(|_| b.another()).collect();
    let data = b.bytes(64 * PART);
    for (number, part) in data.chunks(PART).enumerate() {
        let client = &mut clients[number % 8];
        client.put(file, (number * PART) as u64, part)?;
    }
    let length = u32::try_from(data.len()).expect("the data is short");
    ensure!(b.v3.get(file, 0, length)? == data, "the file is not made of all parts");
    Ok(())
}

/// Sends one call of each client before it waits for a reply, and counts successes.
fn winners(
    b: &mut Bench<'_>,
    number: u32,
    args: &[impl leasehold_base::xdr::Encode],
) -> Result<usize, Stop> {
    let mut clients: Vec<V3> = args.iter().map(|_| b.another()).collect();
    let mut calls = Vec::new();
    for (client, args) in clients.iter_mut().zip(args) {
        let xid = crate::client::fresh_xid();
        let message = client.client.message(xid, procedure(number), args);
        client.client.send(&message)?;
        calls.push((xid, message));
    }
    let mut winners = 0;
    for (client, (xid, message)) in clients.iter_mut().zip(calls) {
        let got = client.client.await_reply(xid, &message)?;
        let (status, results) = crate::client::head(procedure(number), got)?;
        ensure!(
            status == leasehold_wire::rpc::ReplyStatus::Success,
            "one of many calls is answered {status:?}"
        );
        winners += usize::from(results.starts_with(&[0; 4]));
    }
    Ok(winners)
}

fn one_of_many_makes_the_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for round in 0..5 {
        let name = format!("file {round}");
        let args = create::Args { place: place(dir, &name), how: super::plain_file() };
        equal("clients that created the file", winners(b, create::NUMBER, &[args; 8])?, 1)?;
    }
    Ok(())
}

fn one_of_many_makes_the_directory(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for round in 0..5 {
        let name = format!("dir {round}");
        let args = mkdir::Args { place: place(dir, &name), attributes: mode(0o755) };
        equal("clients that created the directory", winners(b, mkdir::NUMBER, &[args; 8])?, 1)?;
    }
    Ok(())
}

fn one_of_many_removes_the_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for _ in 0..5 {
        b.v3.file(dir, "file", b"")?;
        let args = place(dir, "file");
        equal("clients that removed the file", winners(b, remove::NUMBER, &[args; 8])?, 1)?;
    }
    Ok(())
}

fn one_of_many_renames_the_file(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for _ in 0..5 {
        b.v3.file(dir, "file", b"")?;
        let names: Vec<String> = (0..8).map(|number| format!("new {number}")).collect();
        let args: Vec<rename::Args<'_>> = names
            .iter()
            .map(|name| rename::Args { from: place(dir, "file"), to: place(dir, name) })
            .collect();
        equal("clients that renamed the file", winners(b, rename::NUMBER, &args)?, 1)?;
        let mut there = 0;
        for name in &names {
            there += usize::from(b.v3.remove(dir, name)?.is_done());
        }
        equal("names that the file has got", there, 1)?;
    }
    Ok(())
}

fn a_name_is_there_while_it_is_replaced(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut other = b.another();
    b.v3.file(dir, "file", b"old")?;
    for round in 0..30 {
        b.v3.file(dir, "new", b"new")?;
        let args = rename::Args { from: place(dir, "new"), to: place(dir, "file") };
        let xid = crate::client::fresh_xid();
        let message = b.v3.client.message(xid, procedure(rename::NUMBER), &args);
        b.v3.client.send(&message)?;
        // During the rename the name always names an object.
        for _ in 0..5 {
            let found = other.lookup(dir, "file")?;
            ensure!(found.is_done(), "in round {round} the name was missing");
        }
        b.v3.client.await_reply(xid, &message)?;
    }
    Ok(())
}

fn names_made_by_many_are_all_listed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut clients: Vec<V3> = (0..6).map(|_| b.another()).collect();
    let mut names = Vec::new();
    for round in 0..20 {
        for (number, client) in clients.iter_mut().enumerate() {
            let name = format!("client {number} round {round}");
            client.create(dir, &name, super::plain_file())?.done()?;
            names.push(name);
        }
    }
    let entries = b.v3.list(dir, 4096)?;
    let listed: BTreeSet<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    for name in names {
        ensure!(listed.contains(name.as_bytes()), "{name} is not listed");
    }
    Ok(())
}

fn a_write_is_not_mixed_with_another(b: &mut Bench<'_>) -> Verdict {
    use leasehold_wire::nfs3::write;
    const SIZE: usize = 8192;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut clients: Vec<V3> = (0..4).map(|_| b.another()).collect();
    for round in 0..10_u8 {
        let mut calls = Vec::new();
        for (client, number) in clients.iter_mut().zip(0_u8..) {
            let data = [round * 4 + number; SIZE];
            let args = crate::v3::write_args(file, 0, &data, Stability::Unstable);
            let xid = crate::client::fresh_xid();
            let message = client.client.message(xid, procedure(write::NUMBER), &args);
            client.client.send(&message)?;
            calls.push((xid, message));
        }
        for (client, (xid, message)) in clients.iter_mut().zip(calls) {
            client.client.await_reply(xid, &message)?;
        }
        let got = b.v3.get(file, 0, 10_000)?;
        let whole = got.len() == SIZE && got.iter().all(|byte| *byte == got[0]);
        // Version 2 promises it; version 3 does not mention it.
        b.advise(whole, "two WRITEs of 8 KiB at one place were mixed");
    }
    Ok(())
}

fn fifty_connections_are_served(b: &mut Bench<'_>) -> Verdict {
    let mut clients: Vec<V3> = (0..50).map(|_| b.another()).collect();
    for client in &mut clients {
        client.null()?;
    }
    let dir = b.dir()?;
    for client in clients.iter_mut().rev() {
        client.attributes(dir)?;
    }
    Ok(())
}

fn a_connection_that_asks_nothing_does_not_matter(b: &mut Bench<'_>) -> Verdict {
    let idle: Vec<_> = (0..20).map(|_| b.stream()).collect::<Result<_, _>>()?;
    let dir = b.dir()?;
    // One client that connected before, and one that connects late.
    let mut late = b.another();
    for _ in 0..20 {
        b.v3.attributes(dir)?;
        late.attributes(dir)?;
    }
    drop(idle);
    Ok(())
}

fn users_do_not_get_each_others_rights(b: &mut Bench<'_>) -> Verdict {
    let (mut one, of_one) = b.users_dir(0)?;
    let (mut two, of_two) = b.users_dir(1)?;
    for (user, own) in [(&mut one, of_one), (&mut two, of_two)] {
        let file = user.file(own, "file", b"123")?;
        user.setattr(file, mode(0o600))?.done()?;
    }
    for _ in 0..5 {
        let (first, second) = (one.find(of_one, "file")?, two.find(of_two, "file")?);
        one.read(first, 0, 3)?.done()?;
        two.read(first, 0, 3)?.refused(&[Status::Access])?;
        two.read(second, 0, 3)?.done()?;
        one.read(second, 0, 3)?.refused(&[Status::Access])?;
    }
    Ok(())
}

fn users_on_one_connection_are_told_apart(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o600))?.done()?;
    let (first, second) = (b.user(0)?, b.user(1)?);
    for _ in 0..10 {
        user.client.credential = first.clone();
        user.read(file, 0, 3)?.done()?;
        user.client.credential = second.clone();
        user.read(file, 0, 3)?.refused(&[Status::Access])?;
    }
    Ok(())
}

fn tcp_and_udp_see_one_file_system(b: &mut Bench<'_>) -> Verdict {
    let mut udp = b.udp()?;
    let dir = b.dir()?;
    let file = udp.file(dir, "file", b"123")?;
    equal("contents by TCP", b.v3.get(file, 0, 10)?, b"123".to_vec())?;
    b.v3.put(file, 3, b"456")?;
    equal("contents by UDP", udp.get(file, 0, 10)?, b"123456".to_vec())?;
    udp.remove(dir, "file")?.done()?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    Ok(())
}
