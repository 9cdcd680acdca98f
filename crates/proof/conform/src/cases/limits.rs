//! The limits that a server reports, and its behaviour at them.

use std::time::{Duration, Instant};

use leasehold_wire::nfs3::Handle;

use super::prelude::*;
use super::v3_readdir::{fill, filled, has_just};
use crate::v3::{V3, mode, size};

pub(crate) const GROUP: Group = Group {
    name: "limits",
    about: "the limits that a server reports, and its behaviour at them",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_file_of_several_megabytes_is_kept: "RFC 1813 3.3.6",
        a_sparse_file_of_a_terabyte_is_kept: "RFC 1813 1.1, 64-bit sizes",
        a_write_of_wtmax_and_one_is_short_or_refused: "RFC 1813 3.3.19, wtmax",
        every_size_around_a_page_is_kept: "RFC 1813 3.3.7",
        every_size_around_64_kib_is_read: "RFC 1813 3.3.6",
        a_name_of_each_length_is_kept: "RFC 1813 3.3.20, name_max",
        a_listing_of_the_longest_names_is_whole: "RFC 1813 3.3.16",
        a_page_of_dtpref_is_given: "RFC 1813 3.3.19, dtpref",
        a_page_of_a_megabyte_does_no_harm: "RFC 1813 3.3.16, count",
        a_page_of_4_gib_does_no_harm: "RFC 1813 3.3.16, count",
        plus_of_4_gib_does_no_harm: "RFC 1813 3.3.17, maxcount",
        fifty_directories_lie_within_each_other: "RFC 1813 3.3.9",
        a_hundred_links_are_kept: "RFC 1813 3.3.20, linkmax",
        a_link_text_of_the_greatest_length: "RFC 1813 2.5, nfspath3",
        a_thousand_calls_on_one_connection: "RFC 5531 4",
        a_hundred_calls_at_a_time: "RFC 5531 4",
        two_thousand_handles_stay_good: "RFC 1813 2.6, NFS3ERR_STALE",
        calls_that_come_one_by_one_are_not_held_back (advice): "RFC 5531 11",
        large_replies_at_the_same_time_are_whole: "RFC 5531 11",
        large_calls_at_the_same_time_are_whole: "RFC 5531 11",
        datagrams_carry_what_fits: "RFC 5531 5",
        the_last_byte_of_maxfilesize: "RFC 1813 3.3.19, maxfilesize",
    },
};

/// Creates a file with random contents, and returns both.
fn large_file(b: &mut Bench<'_>, length: usize) -> Result<(Handle, Vec<u8>), Stop> {
    let (dir, data) = (b.dir()?, b.bytes(length));
    let file = b.v3.file(dir, "large", b"")?;
    for (number, piece) in data.chunks(256 << 10).enumerate() {
        b.v3.put(file, (number * (256 << 10)) as u64, piece)?;
    }
    Ok((file, data))
}

fn a_file_of_several_megabytes_is_kept(b: &mut Bench<'_>) -> Verdict {
    let (file, data) = large_file(b, 5_000_001)?;
    equal("size", b.v3.attributes(file)?.size, 5_000_001)?;
    let got = b.another().get(file, 0, 6_000_000)?;
    ensure!(got == data, "other bytes are read than were written");
    Ok(())
}

fn a_sparse_file_of_a_terabyte_is_kept(b: &mut Bench<'_>) -> Verdict {
    const SIZE: u64 = 1 << 40;
    if b.info()?.file_bytes_max < SIZE {
        return Err(Stop::skip("FSINFO reports that files are smaller"));
    }
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"start")?;
    let answered = b.v3.write(file, SIZE - 3, b"end", Stability::FileSync)?;
    if answered.status() == Some(Status::NoSpace) {
        return Err(Stop::skip("there is no space for a file of a terabyte"));
    }
    answered.done()?;
    equal("size", b.v3.attributes(file)?.size, SIZE)?;
    equal("the end", b.v3.get(file, SIZE - 5, 10)?, b"\0\0end".to_vec())?;
    b.v3.setattr(file, size(5))?.done()?;
    equal("the start", b.v3.get(file, 0, 10)?, b"start".to_vec())
}

fn a_write_of_wtmax_and_one_is_short_or_refused(b: &mut Bench<'_>) -> Verdict {
    let most = b.info()?.write_bytes_max;
    if most >= 2 << 20 {
        return Err(Stop::skip("wtmax is more than this client sends"));
    }
    let (dir, data) = (b.dir()?, b.bytes(most as usize + 1));
    let file = b.v3.file(dir, "file", b"")?;
    let args = crate::v3::write_args(file, 0, &data, Stability::FileSync);
    let write = crate::v3::procedure(leasehold_wire::nfs3::write::NUMBER);
    let (xid, message) = b.message(write, &args);
    // "There is no guarantee that a server can handle a larger write."
    b.v3.client.exchange(xid, &message)?;
    b.v3.client.disconnect();
    let size = b.v3.attributes(file)?.size;
    ensure!(size <= data.len() as u64, "a write of {} bytes makes {size}", data.len());
    let got = b.v3.get(file, 0, most)?;
    ensure!(data.starts_with(&got), "a write that is too large writes other bytes");
    Ok(())
}

fn every_size_around_a_page_is_kept(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for length in [4095, 4096, 4097, 8191, 8192, 8193] {
        let data = b.bytes(length);
        let file = b.v3.file(dir, format!("{length}"), &data)?;
        equal("size", b.v3.attributes(file)?.size, length as u64)?;
        ensure!(b.v3.get(file, 0, 10_000)? == data, "a file of {length} bytes reads otherwise");
    }
    Ok(())
}

fn every_size_around_64_kib_is_read(b: &mut Bench<'_>) -> Verdict {
    let (file, data) = large_file(b, 200_000)?;
    for length in [65_535, 65_536, 65_537, 131_071, 131_072, 131_073] {
        let got = b.v3.get(file, 3, length)?;
        ensure!(got == data[3..3 + length as usize], "{length} bytes are read otherwise");
    }
    Ok(())
}

fn a_name_of_each_length_is_kept(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let most = usize::try_from(b.limits()?.name_bytes_max.min(255)).expect("the limit is small");
    let lengths = (1..most).step_by(17);
    let names: Vec<String> = lengths.map(|length| "n".repeat(length)).collect();
    fill(&mut b.v3, dir, &names)?;
    for name in &names {
        b.v3.find(dir, name)?;
    }
    has_just(&b.v3.list(dir, 2048)?, &names)
}

fn a_listing_of_the_longest_names_is_whole(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let most = usize::try_from(b.limits()?.name_bytes_max.min(250)).expect("the limit is small");
    let names: Vec<String> =
        (0..100).map(|number| format!("{number:03}{}", "x".repeat(most - 3))).collect();
    fill(&mut b.v3, dir, &names)?;
    has_just(&b.v3.list(dir, 1024)?, &names)?;
    has_just(&b.v3.list(dir, 65_536)?, &names)
}

fn a_page_of_dtpref_is_given(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let count = b.info()?.directory_bytes_best.min(1 << 20);
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    fill(&mut b.v3, dir, &names)?;
    has_just(&b.v3.list(dir, count)?, &names)
}

/// Checks that a page of any size is no longer than requested, and that the listing is complete.
fn page_of(b: &mut Bench<'_>, count: u32) -> Verdict {
    let dir = b.dir()?;
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    fill(&mut b.v3, dir, &names)?;
    has_just(&b.v3.list(dir, count)?, &names)
}

fn a_page_of_a_megabyte_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    page_of(b, 1 << 20)
}

fn a_page_of_4_gib_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    page_of(b, u32::MAX)
}

fn plus_of_4_gib_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    fill(&mut b.v3, dir, &names)?;
    let probe = b.v3.readdirplus(dir, crate::v3::Position::default(), u32::MAX, u32::MAX)?;
    if probe.status() == Some(Status::NotSupported) {
        return Err(Stop::skip("READDIRPLUS is not supported"));
    }
    has_just(&b.v3.list_plus(dir, u32::MAX, u32::MAX)?, &names)
}

fn fifty_directories_lie_within_each_other(b: &mut Bench<'_>) -> Verdict {
    let mut here = b.dir()?;
    for _ in 0..50 {
        here = b.v3.directory(here, "d")?;
    }
    let file = b.v3.file(here, "file", b"deep")?;
    equal("contents", b.v3.get(file, 0, 10)?, b"deep".to_vec())
}

fn a_hundred_links_are_kept(b: &mut Bench<'_>) -> Verdict {
    b.needs_links()?;
    let dir = b.dir()?;
    let file = b.v3.file(dir, "0", b"one")?;
    let count = b.limits()?.link_max.clamp(2, 100);
    for number in 1..count {
        b.v3.link(file, dir, number.to_string())?.done()?;
    }
    equal("number of names", b.v3.attributes(file)?.link_count, count)?;
    let last = b.v3.find(dir, (count - 1).to_string())?;
    equal("contents", b.v3.get(last, 0, 10)?, b"one".to_vec())
}

fn a_link_text_of_the_greatest_length(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    for length in [1024, 4095, 4096] {
        let text = "t".repeat(length);
        let answered = b.v3.symlink(dir, format!("{length}"), &text)?;
        if answered.is_done() {
            let link = b.v3.made(answered, dir, format!("{length}"))?;
            equal("text", b.v3.readlink(link)?.done()?.target, text.into_bytes())?;
        } else {
            answered.refused(&[Status::NameTooLong, Status::Invalid, Status::NoSpace])?;
        }
    }
    Ok(())
}

fn a_thousand_calls_on_one_connection(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let expected = b.v3.attributes(dir)?.file_id;
    for _ in 0..1000 {
        equal("number", b.v3.attributes(dir)?.file_id, expected)?;
    }
    Ok(())
}

/// Sends all calls at once, and waits for their replies.
fn at_once(
    v3: &mut V3,
    number: u32,
    args: &[impl leasehold_base::xdr::Encode],
) -> Result<Vec<usize>, Stop> {
    let mut waiting = std::collections::BTreeSet::new();
    for args in args {
        let xid = crate::client::fresh_xid();
        let message = v3.client.message(xid, crate::v3::procedure(number), args);
        v3.client.send(&message)?;
        waiting.insert(xid.0);
    }
    let mut lengths = Vec::new();
    while !waiting.is_empty() {
        let got = v3.client.receive(v3.client.route.patience)?;
        let crate::net::Got::Message(reply) = got else {
            return Err(Stop::fail(format!("{} replies are missing: {got:?}", waiting.len())));
        };
        let xid = reply.first_chunk().map(|word| u32::from_be_bytes(*word));
        ensure!(xid.is_some_and(|xid| waiting.remove(&xid)), "a reply belongs to no call");
        lengths.push(reply.len());
    }
    Ok(lengths)
}

fn a_hundred_calls_at_a_time(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    at_once(&mut b.v3, leasehold_wire::nfs3::getattr::NUMBER, &[dir; 100])?;
    Ok(())
}

fn two_thousand_handles_stay_good(b: &mut Bench<'_>) -> Verdict {
    let (dir, names) = filled(b, 2000)?;
    let (first, number) = {
        let first = b.v3.find(dir, &names[0])?;
        (first, b.v3.attributes(first)?.file_id)
    };
    // A server that finds its handles in a table of some size has to forget one now.
    let args: Vec<_> = names.iter().map(|name| crate::v3::place(dir, name)).collect();
    b.v3.client.call_many(crate::v3::procedure(leasehold_wire::nfs3::lookup::NUMBER), &args)?;
    equal("number", b.v3.attributes(first)?.file_id, number)
}

/// The longest duration of a call that waits for nothing: a peer's delayed acknowledgement takes 40
/// ms or more.
const HARDLY_ANY_TIME: Duration = Duration::from_millis(30);

fn calls_that_come_one_by_one_are_not_held_back(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let data = b.bytes(4096);
    let file = b.v3.file(dir, "file", &data)?;
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..15 {
        let [nulls, reads] = &mut times;
        let start = Instant::now();
        b.v3.null()?;
        nulls.push(start.elapsed());
        let start = Instant::now();
        b.v3.read(file, 0, 4096)?.done()?;
        reads.push(start.elapsed());
    }
    let [null, read] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    // If all calls take long, the network or the machine is slow.
    ensure!(
        read < HARDLY_ANY_TIME || null > read / 4,
        "half of the READs take longer than {read:?}, and NULLs take {null:?}"
    );
    Ok(())
}

fn large_replies_at_the_same_time_are_whole(b: &mut Bench<'_>) -> Verdict {
    use leasehold_wire::nfs3::read;
    let (file, _) = large_file(b, 100_000)?;
    let args = vec![read::Args { file, offset: 0, count: 32_768 }; 30];
    for length in at_once(&mut b.v3, read::NUMBER, &args)? {
        ensure!(length > 32_768, "a reply of 32 KiB is {length} bytes long");
    }
    Ok(())
}

fn large_calls_at_the_same_time_are_whole(b: &mut Bench<'_>) -> Verdict {
    use leasehold_wire::nfs3::write;
    const PIECE: usize = 32_768;
    let (dir, data) = (b.dir()?, b.bytes(20 * PIECE));
    let file = b.v3.file(dir, "file", b"")?;
    let args: Vec<write::Args> = data
        .chunks(PIECE)
        .zip(0_u64..)
        .map(|(piece, number)| {
            crate::v3::write_args(file, number * PIECE as u64, piece, Stability::Unstable)
        })
        .collect();
    at_once(&mut b.v3, write::NUMBER, &args)?;
    let length = u32::try_from(data.len()).expect("the data is short");
    ensure!(b.v3.get(file, 0, length)? == data, "other bytes are read than were written");
    Ok(())
}

fn datagrams_carry_what_fits(b: &mut Bench<'_>) -> Verdict {
    let mut udp = b.udp()?;
    let (file, data) = large_file(b, 60_000)?;
    for count in [1000, 8192, 32_768, 60_000] {
        let done = udp.read(file, 0, count)?.done()?;
        ensure!(
            !done.data.is_empty() && data.starts_with(&done.data),
            "READ of {count} bytes over UDP gives {} bytes, or others",
            done.data.len()
        );
    }
    let root = b.root()?;
    let most = udp.fsinfo(root)?.done()?.read_bytes_max;
    b.advise(most <= 65_507, "over UDP FSINFO reports a size beyond a datagram");
    Ok(())
}

fn the_last_byte_of_maxfilesize(b: &mut Bench<'_>) -> Verdict {
    let (dir, most) = (b.dir()?, b.info()?.file_bytes_max);
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.setattr(file, mode(0o644))?.done()?;
    let answered = b.v3.setattr(file, size(most.saturating_add(1)))?;
    if most < u64::MAX {
        b.advise(!answered.is_done(), "a file can be larger than maxfilesize");
    }
    b.v3.setattr(file, size(0))?.done()?;
    equal("size", b.v3.attributes(file)?.size, 0)
}
