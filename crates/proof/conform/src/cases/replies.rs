//! Retransmitted calls: a call that must not run twice runs once, and gets the same reply again.

use std::time::Duration;

use leasehold_base::units::Xid;
use leasehold_base::xdr::Encode;
use leasehold_wire::nfs2;
use leasehold_wire::nfs3::{
    Path, create, getattr, link, mkdir, mknod, remove, rename, rmdir, setattr, symlink,
};

use super::prelude::*;
use crate::client::Client;
use crate::net::{Got, Source, Stream};
use crate::talk::Procedure;
use crate::v3::{mode, place, procedure};

pub(crate) const GROUP: Group = Group {
    name: "replies",
    about: "retransmitted calls: run once, and answered again",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        remove_over_udp: "NFS Version 3, 4.1, note 1",
        rmdir_over_udp: "NFS Version 3, 4.1, note 1",
        create_over_udp: "NFS Version 3, 4.1, note 1",
        mkdir_over_udp: "NFS Version 3, 4.1, note 1",
        symlink_over_udp: "NFS Version 3, 4.1, note 1",
        mknod_over_udp: "NFS Version 3, 4.1, note 1",
        rename_over_udp: "NFS Version 3, 4.1, note 1",
        link_over_udp: "NFS Version 3, 4.1, note 1",
        setattr_over_udp: "NFS Version 3, 4.1, note 1",
        remove_of_version_2_over_udp: "NFS Version 3, 4.1, note 1",
        create_and_remove_over_one_connection: "NFS Version 3, 4.1, note 1",
        remove_after_a_reconnect: "NFS Version 3, 4.1, note 1",
        rename_after_a_reconnect: "NFS Version 3, 4.1, note 1",
        create_after_a_reconnect: "NFS Version 3, 4.1, note 1",
        mkdir_after_a_reconnect_from_another_port: "NFS Version 3, 4.1, note 1",
        a_failure_is_answered_again_too: "RFC 1813 4.5",
        many_other_calls_in_between_do_not_matter: "RFC 1813 4.5",
        copies_at_the_same_time_are_done_once: "RFC 1813 4.5",
        another_number_is_another_call: "RFC 5531 9",
        the_same_number_for_another_call_is_another_call: "RFC 1813 4.5",
        the_same_number_for_another_procedure_is_another_call: "RFC 1813 4.5",
        the_same_number_of_another_client_is_another_call: "RFC 1813 4.5",
        what_only_looks_is_answered_each_time: "RFC 1813 4.5",
        a_copy_is_answered_byte_for_byte: "RFC 1813 4.5",
    },
};

/// The timeout of a reply that may not come.
const SOON: Duration = Duration::from_millis(100);

/// The status in a reply of a procedure; `None` in another reply.
fn status(reply: &Got) -> Option<u32> {
    let Got::Message(reply) = reply else {
        return None;
    };
    // Xid, reply, accepted, verifier of two words, success: then the results.
    reply.get(24..28).and_then(|word| Some(u32::from_be_bytes(*word.first_chunk()?)))
}

/// Sends one call twice through a client, and expects success both times.
fn twice(
    client: &mut Client,
    number: u32,
    args: &impl Encode,
    reconnect: impl FnOnce(&mut Client),
) -> Verdict {
    let (xid, message) = call(client, procedure(number), args);
    let first = client.exchange(xid, &message)?;
    equal("status of the first reply", status(&first), Some(0))?;
    reconnect(client);
    let second = client.exchange(xid, &message)?;
    equal("status of the second reply", status(&second), Some(0))
}

fn call(client: &Client, procedure: Procedure, args: &impl Encode) -> (Xid, Vec<u8>) {
    let xid = crate::client::fresh_xid();
    (xid, client.message(xid, procedure, args))
}

/// The same over UDP.
fn over_udp(b: &mut Bench<'_>, number: u32, args: &impl Encode) -> Verdict {
    twice(&mut b.udp()?.client, number, args, |_| {})
}

fn remove_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    over_udp(b, remove::NUMBER, &place(dir, "file"))
}

fn rmdir_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "dir")?;
    over_udp(b, rmdir::NUMBER, &place(dir, "dir"))
}

fn create_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "file"), how: super::plain_file() };
    over_udp(b, create::NUMBER, &args)
}

fn mkdir_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    over_udp(b, mkdir::NUMBER, &mkdir::Args { place: place(dir, "dir"), attributes: mode(0o755) })
}

fn symlink_over_udp(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    let (attributes, target) = (SetAttributes::default(), Path(b"x"));
    over_udp(b, symlink::NUMBER, &symlink::Args { place: place(dir, "link"), attributes, target })
}

fn mknod_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let node = mknod::Node::Fifo(mode(0o644));
    if !b.v3.mknod(dir, "probe", node)?.is_done() {
        return Err(Stop::skip("MKNOD is not supported"));
    }
    over_udp(b, mknod::NUMBER, &mknod::Args { place: place(dir, "pipe"), node })
}

fn rename_over_udp(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"")?;
    let args = rename::Args { from: place(dir, "old"), to: place(dir, "new") };
    over_udp(b, rename::NUMBER, &args)
}

fn link_over_udp(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "one", b"")?;
    over_udp(b, link::NUMBER, &link::Args { file, link: place(dir, "two") })?;
    equal("number of names", b.v3.attributes(file)?.link_count, 2)
}

/// A SETATTR that can run only once: its guard is the time before it.
fn guarded(b: &mut Bench<'_>) -> Result<setattr::Args, Stop> {
    let dir = b.dir()?;
    let object = b.v3.file(dir, "file", b"")?;
    let guard = b.v3.attributes(object)?.changed;
    b.wait_past(guard)?;
    Ok(setattr::Args { object, attributes: mode(0o600), guard: Some(guard) })
}

fn setattr_over_udp(b: &mut Bench<'_>) -> Verdict {
    let args = guarded(b)?;
    over_udp(b, setattr::NUMBER, &args)
}

fn remove_of_version_2_over_udp(b: &mut Bench<'_>) -> Verdict {
    let mut udp = b.udp2()?;
    let dir = b.dir2()?;
    b.v2.file(dir, "file", b"")?;
    let args = crate::v2::place(dir, "file");
    let (xid, message) = call(&udp.client, crate::v2::procedure(nfs2::remove::NUMBER), &args);
    for copy in 0..3 {
        let reply = udp.client.exchange(xid, &message)?;
        equal(&format!("status of reply {copy}"), status(&reply), Some(0))?;
    }
    Ok(())
}

fn create_and_remove_over_one_connection(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "file"), how: super::plain_file() };
    twice(&mut b.v3.client, create::NUMBER, &args, |_| {})?;
    twice(&mut b.v3.client, remove::NUMBER, &place(dir, "file"), |_| {})
}

/// Sends a call, loses the connection, and sends it again from the same port.
fn after_a_reconnect(b: &mut Bench<'_>, number: u32, args: &impl Encode) -> Verdict {
    let (xid, message) = call(&b.v3.client, procedure(number), args);
    let mut stream = b.stream_from(Source::Port(0))?;
    let port = stream.port();
    let first = sent(&mut stream, xid, &message, b.server.patience)?;
    equal("status of the first reply", status(&first), Some(0))?;
    stream.abort();
    let mut stream = b.stream_from(Source::Port(port))?;
    let second = sent(&mut stream, xid, &message, b.server.patience)?;
    equal("status of the second reply", status(&second), Some(0))
}

fn sent(stream: &mut Stream, xid: Xid, message: &[u8], patience: Duration) -> Result<Got, Stop> {
    stream.send(message).map_err(|error| Stop::fail(error.to_string()))?;
    loop {
        let got = stream.receive(patience);
        let number = xid.0.to_be_bytes();
        if !matches!(&got, Got::Message(reply) if !reply.starts_with(&number)) {
            return Ok(got);
        }
    }
}

fn remove_after_a_reconnect(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    after_a_reconnect(b, remove::NUMBER, &place(dir, "file"))
}

fn rename_after_a_reconnect(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "old", b"")?;
    let args = rename::Args { from: place(dir, "old"), to: place(dir, "new") };
    after_a_reconnect(b, rename::NUMBER, &args)
}

fn create_after_a_reconnect(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "file"), how: super::plain_file() };
    after_a_reconnect(b, create::NUMBER, &args)
}

fn mkdir_after_a_reconnect_from_another_port(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = mkdir::Args { place: place(dir, "dir"), attributes: mode(0o755) };
    let (xid, message) = call(&b.v3.client, procedure(mkdir::NUMBER), &args);
    let first = b.v3.client.exchange(xid, &message)?;
    equal("status of the first reply", status(&first), Some(0))?;
    b.v3.client.disconnect();
    let second = b.v3.client.exchange(xid, &message)?;
    // The standards do not require that a server identifies a client by its address alone.
    b.advise(
        status(&second) == Some(0),
        "a call that is retransmitted from another port, after the first one closed, runs again",
    );
    Ok(())
}

fn a_failure_is_answered_again_too(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = place(dir, "file");
    let (xid, message) = call(&b.v3.client, procedure(remove::NUMBER), &args);
    let first = b.v3.client.exchange(xid, &message)?;
    equal("status of the first reply", status(&first), Some(Status::NotFound as u32))?;
    b.v3.file(dir, "file", b"")?;
    let second = b.v3.client.exchange(xid, &message)?;
    let same = status(&second) == status(&first);
    b.advise(same, "a retransmission of a failed call runs again");
    Ok(())
}

fn many_other_calls_in_between_do_not_matter(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "file"), how: super::plain_file() };
    let (xid, message) = call(&b.v3.client, procedure(create::NUMBER), &args);
    let first = b.v3.client.exchange(xid, &message)?;
    equal("status of the first reply", status(&first), Some(0))?;
    // Calls without effect must not evict the replies of changes.
    let looks = vec![getattr::Args { object: dir }; 2000];
    b.another_here().client.call_many(procedure(getattr::NUMBER), &looks)?;
    b.v3.client.call_many(procedure(getattr::NUMBER), &looks)?;
    let second = b.v3.client.exchange(xid, &message)?;
    equal("status of the second reply", status(&second), Some(0))
}

fn copies_at_the_same_time_are_done_once(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut udp = b.udp()?;
    for round in 0..10 {
        let name = format!("file {round}");
        let args = create::Args { place: place(dir, &name), how: super::plain_file() };
        let (xid, message) = call(&udp.client, procedure(create::NUMBER), &args);
        for _ in 0..5 {
            udp.client.send(&message)?;
        }
        let first = udp.client.await_reply(xid, &message)?;
        equal("status of the first reply", status(&first), Some(0))?;
        // The server may drop copies of a call in progress, or send the same reply.
        while let Got::Message(reply) = udp.client.receive(SOON)? {
            equal("status of a further reply", status(&Got::Message(reply)), Some(0))?;
        }
    }
    Ok(())
}

fn another_number_is_another_call(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    b.v3.remove(dir, "file")?.done()?;
    b.v3.remove(dir, "file")?.refused(&[Status::NotFound])?;
    Ok(())
}

/// Sends two calls under one xid and returns both replies.
fn under_one_number(
    b: &mut Bench<'_>,
    first: (u32, &impl Encode),
    second: (u32, &impl Encode),
) -> Result<(Got, Got), Stop> {
    let (xid, one) = call(&b.v3.client, procedure(first.0), first.1);
    let two = b.v3.client.message(xid, procedure(second.0), second.1);
    Ok((b.v3.client.exchange(xid, &one)?, b.v3.client.exchange(xid, &two)?))
}

fn the_same_number_for_another_call_is_another_call(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let of =
        |name: &'static str| create::Args { place: place(dir, name), how: super::plain_file() };
    let replies = under_one_number(b, (create::NUMBER, &of("one")), (create::NUMBER, &of("two")))?;
    equal("statuses", (status(&replies.0), status(&replies.1)), (Some(0), Some(0)))?;
    // A reused xid, or a restarted client, is no copy.
    b.v3.find(dir, "two")?;
    Ok(())
}

fn the_same_number_for_another_procedure_is_another_call(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let make = create::Args { place: place(dir, "file"), how: super::plain_file() };
    let args = place(dir, "file");
    under_one_number(b, (create::NUMBER, &make), (remove::NUMBER, &args))?;
    b.v3.lookup(dir, "file")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn the_same_number_of_another_client_is_another_call(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file", b"")?;
    let args = place(dir, "file");
    let (xid, message) = call(&b.v3.client, procedure(remove::NUMBER), &args);
    let first = b.v3.client.exchange(xid, &message)?;
    equal("status of the first client", status(&first), Some(0))?;
    // The first connection still exists, so this is another client of the same machine.
    let second = b.another_here().client.exchange(xid, &message)?;
    let run = status(&second) == Some(Status::NotFound as u32);
    b.advise(run, "a call of another client on the machine counts as a copy");
    Ok(())
}

fn what_only_looks_is_answered_each_time(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let object = b.v3.file(dir, "file", b"")?;
    let args = getattr::Args { object };
    let (xid, message) = call(&b.v3.client, procedure(getattr::NUMBER), &args);
    for copy in 0..3 {
        let reply = b.v3.client.exchange(xid, &message)?;
        equal(&format!("status of reply {copy}"), status(&reply), Some(0))?;
    }
    Ok(())
}

fn a_copy_is_answered_byte_for_byte(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "file"), how: super::plain_file() };
    let (xid, message) = call(&b.v3.client, procedure(create::NUMBER), &args);
    let first = b.v3.client.exchange(xid, &message)?;
    let second = b.v3.client.exchange(xid, &message)?;
    equal("status of the second reply", status(&second), Some(0))?;
    b.advise(first == second, "the second reply has other attributes than the first");
    Ok(())
}
