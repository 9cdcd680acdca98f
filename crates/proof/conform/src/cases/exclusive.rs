//! Exclusive CREATE: it creates one file, however often it is repeated.

use leasehold_wire::nfs3::{FileType, Handle, SetTime as Set, Time, create::How};

use super::prelude::*;
use crate::v3::mode;

pub(crate) const GROUP: Group = Group {
    name: "exclusive",
    about: "exclusive CREATE: it creates one file, however often it is repeated",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        a_file_is_made: "RFC 1813 3.3.8, EXCLUSIVE",
        the_same_verifier_again_is_a_success: "RFC 1813 3.3.8, EXCLUSIVE",
        the_same_verifier_again_gives_the_same_file: "RFC 1813 3.3.8, EXCLUSIVE",
        another_verifier_is_refused: "RFC 1813 3.3.8, NFS3ERR_EXIST",
        any_verifier_works: "RFC 1813 3.3.8, createverf3",
        verifiers_that_differ_in_one_bit_differ: "RFC 1813 3.3.8, createverf3",
        another_connection_may_ask_again: "RFC 1813 3.3.8, implementation",
        a_file_that_is_there_is_refused: "RFC 1813 3.3.8, NFS3ERR_EXIST",
        a_directory_that_is_there_is_refused: "RFC 1813 3.3.8, NFS3ERR_EXIST",
        a_link_that_is_there_is_refused: "RFC 1813 3.3.8, NFS3ERR_EXIST",
        the_file_is_empty_and_can_be_written: "RFC 1813 3.3.8, EXCLUSIVE",
        setattr_gives_it_its_mode: "RFC 1813 3.3.8, implementation",
        setattr_gives_it_times_of_today: "RFC 1813 3.3.8, implementation",
        no_time_is_made_of_the_verifier: "RFC 1813 3.3.8, implementation",
        asking_again_leaves_what_was_written: "RFC 1813 3.3.8, implementation",
        names_do_not_share_a_verifier: "RFC 1813 3.3.8",
        one_of_two_askers_wins: "RFC 1813 3.3.8, implementation",
        a_removed_file_can_be_made_again: "RFC 1813 3.3.8",
        a_name_with_a_slash_is_refused: "RFC 1813 3.2, comment 5",
        a_stranger_may_not: "RFC 1813 2.6, NFS3ERR_ACCES",
        unchecked_and_guarded_see_it: "RFC 1813 3.3.8, GUARDED",
    },
};

const VERIFIER: [u8; 8] = *b"conform!";

/// Creates a file exclusively, or skips the case if the server does not support that.
fn made(b: &mut Bench<'_>, name: &str, verifier: [u8; 8]) -> Result<Handle, Stop> {
    let dir = b.dir()?;
    let answered = b.v3.create(dir, name, How::Exclusive(verifier))?;
    if answered.status() == Some(Status::NotSupported) {
        return Err(Stop::skip("exclusive CREATE is not supported"));
    }
    b.v3.made(answered, dir, name)
}

/// A verifier that no other case of this run uses.
fn verifier(b: &mut Bench<'_>) -> [u8; 8] {
    b.random.next_u64().to_be_bytes()
}

fn a_file_is_made(b: &mut Bench<'_>) -> Verdict {
    let file = made(b, "file", VERIFIER)?;
    ensure!(b.v3.is(file, FileType::Regular)?, "exclusive CREATE made no file");
    let dir = b.dir()?;
    b.v3.find(dir, "file")?;
    Ok(())
}

fn the_same_verifier_again_is_a_success(b: &mut Bench<'_>) -> Verdict {
    made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    for _ in 0..3 {
        b.v3.create(dir, "file", How::Exclusive(VERIFIER))?.done()?;
    }
    Ok(())
}

fn the_same_verifier_again_gives_the_same_file(b: &mut Bench<'_>) -> Verdict {
    let (one, two) = (made(b, "file", VERIFIER)?, made(b, "file", VERIFIER)?);
    equal("number", b.v3.attributes(two)?.file_id, b.v3.attributes(one)?.file_id)
}

fn another_verifier_is_refused(b: &mut Bench<'_>) -> Verdict {
    made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    let other = How::Exclusive(*b"another!");
    b.v3.create(dir, "file", other)?.refused(&[Status::AlreadyExists])?;
    Ok(())
}

fn any_verifier_works(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let random = verifier(b);
    for (number, verifier) in
        [[0; 8], [0xff; 8], [0x80, 0, 0, 0, 0, 0, 0, 0], *b"\0\0\0\0\xff\xff\xff\xff", random]
            .into_iter()
            .enumerate()
    {
        let name = format!("file {number}");
        made(b, &name, verifier)?;
        b.v3.create(dir, &name, How::Exclusive(verifier))?.done()?;
        let other = How::Exclusive(verifier.map(|byte| byte ^ 0x55));
        b.v3.create(dir, &name, other)?.refused(&[Status::AlreadyExists])?;
    }
    Ok(())
}

fn verifiers_that_differ_in_one_bit_differ(b: &mut Bench<'_>) -> Verdict {
    let (dir, verifier) = (b.dir()?, verifier(b));
    made(b, "file", verifier)?;
    for bit in 0..64 {
        let mut other = verifier;
        other[bit / 8] ^= 1 << (bit % 8);
        let answered = b.v3.create(dir, "file", How::Exclusive(other))?;
        let same = answered.is_done();
        ensure!(!same, "verifiers that differ in bit {bit} count as equal");
    }
    Ok(())
}

fn another_connection_may_ask_again(b: &mut Bench<'_>) -> Verdict {
    let one = made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    let mut other = b.another();
    let answered = other.create(dir, "file", How::Exclusive(VERIFIER))?;
    let two = other.made(answered, dir, "file")?;
    equal("number", b.v3.attributes(two)?.file_id, b.v3.attributes(one)?.file_id)
}

fn refused(b: &mut Bench<'_>, name: &str) -> Verdict {
    made(b, "probe", VERIFIER)?;
    let dir = b.dir()?;
    let answered = b.v3.create(dir, name, How::Exclusive(VERIFIER))?;
    answered.refused(&[Status::AlreadyExists]).map(|_| ())
}

fn a_file_that_is_there_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "name", b"123")?;
    refused(b, "name")
}

fn a_directory_that_is_there_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.directory(dir, "name")?;
    refused(b, "name")
}

fn a_link_that_is_there_is_refused(b: &mut Bench<'_>) -> Verdict {
    b.needs_symlinks()?;
    let dir = b.dir()?;
    b.v3.symlink(dir, "name", "nowhere")?.done()?;
    refused(b, "name")?;
    b.v3.lookup(dir, "nowhere")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn the_file_is_empty_and_can_be_written(b: &mut Bench<'_>) -> Verdict {
    let file = made(b, "file", VERIFIER)?;
    equal("size", b.v3.attributes(file)?.size, 0)?;
    b.v3.setattr(file, mode(0o644))?.done()?;
    b.v3.put(file, 0, b"123")?;
    equal("contents", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn setattr_gives_it_its_mode(b: &mut Bench<'_>) -> Verdict {
    let file = made(b, "file", VERIFIER)?;
    b.v3.setattr(file, mode(0o640))?.done()?;
    equal("mode", b.v3.attributes(file)?.mode & 0o7777, 0o640)
}

/// The SETATTR that clients send after an exclusive CREATE.
fn usual(b: &mut Bench<'_>, file: Handle) -> Verdict {
    let set = SetAttributes { accessed: Set::Now, modified: Set::Now, ..mode(0o644) };
    b.v3.setattr(file, set)?.done()?;
    Ok(())
}

/// Returns true if a time is near the present of the server's clock, which its latest change shows.
fn is_recent(b: &mut Bench<'_>, time: Time) -> Result<bool, Stop> {
    let dir = b.dir()?;
    let made = b.v3.create(dir, "clock", How::Unchecked(mode(0o644)))?;
    let clock = b.v3.made(made, dir, "clock")?;
    let now = b.v3.attributes(clock)?.changed.seconds;
    Ok(time.seconds.abs_diff(now) < 60)
}

fn setattr_gives_it_times_of_today(b: &mut Bench<'_>) -> Verdict {
    let verifier = verifier(b);
    let file = made(b, "file", verifier)?;
    usual(b, file)?;
    let attributes = b.v3.attributes(file)?;
    for time in [attributes.accessed, attributes.modified] {
        ensure!(is_recent(b, time)?, "after SETATTR a time is {time:?}");
    }
    Ok(())
}

fn no_time_is_made_of_the_verifier(b: &mut Bench<'_>) -> Verdict {
    // 0x6ffffff0 seconds are a day in 2029.
    let file = made(b, "file", [0x6f, 0xff, 0xff, 0xf0, 0x6f, 0xff, 0xff, 0xf0])?;
    let attributes = b.v3.attributes(file)?;
    for time in [attributes.accessed, attributes.modified] {
        let recent = is_recent(b, time)?;
        // "It should not rely upon any of the file attributes" until it sets them.
        b.advise(recent, "a time contains the verifier until it is set");
    }
    Ok(())
}

fn asking_again_leaves_what_was_written(b: &mut Bench<'_>) -> Verdict {
    let file = made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    b.v3.put(file, 0, b"123")?;
    // The first reply may come late, after the client has sent another call. Then the verifier may
    // be gone, and the file exists.
    let answered = b.v3.create(dir, "file", How::Exclusive(VERIFIER))?;
    if !answered.is_done() {
        answered.refused(&[Status::AlreadyExists])?;
    }
    equal("contents", b.v3.get(file, 0, 10)?, b"123".to_vec())
}

fn names_do_not_share_a_verifier(b: &mut Bench<'_>) -> Verdict {
    let (one, two) = (made(b, "one", VERIFIER)?, made(b, "two", VERIFIER)?);
    ensure!(
        b.v3.attributes(one)?.file_id != b.v3.attributes(two)?.file_id,
        "two names with one verifier became one file"
    );
    Ok(())
}

fn one_of_two_askers_wins(b: &mut Bench<'_>) -> Verdict {
    use leasehold_wire::nfs3::create;
    made(b, "probe", VERIFIER)?;
    let dir = b.dir()?;
    for round in 0..10 {
        let name = format!("file {round}");
        let args: Vec<create::Args<'_>> = (0..8_u64)
            .map(|asker| create::Args {
                place: crate::v3::place(dir, &name),
                how: How::Exclusive((asker + 1000).to_be_bytes()),
            })
            .collect();
        let results = b.v3.client.call_many(crate::v3::procedure(create::NUMBER), &args)?;
        let winners = results.iter().filter(|results| results.starts_with(&[0; 4])).count();
        equal("clients that created the file", winners, 1)?;
    }
    Ok(())
}

fn a_removed_file_can_be_made_again(b: &mut Bench<'_>) -> Verdict {
    let one = made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    b.v3.remove(dir, "file")?.done()?;
    let two = made(b, "file", VERIFIER)?;
    ensure!(one != two, "a new file has the handle of the removed one");
    Ok(())
}

fn a_name_with_a_slash_is_refused(b: &mut Bench<'_>) -> Verdict {
    made(b, "probe", VERIFIER)?;
    let dir = b.dir()?;
    super::refuses_paths(b, |b, name| {
        Ok(b.v3.create(dir, name, How::Exclusive(VERIFIER))?.is_done())
    })
}

fn a_stranger_may_not(b: &mut Bench<'_>) -> Verdict {
    made(b, "probe", VERIFIER)?;
    let (_, own) = b.users_dir(0)?;
    let mut stranger = b.as_user(&b.user(1)?);
    stranger.create(own, "file", How::Exclusive(VERIFIER))?.refused(&[Status::Access])?;
    Ok(())
}

fn unchecked_and_guarded_see_it(b: &mut Bench<'_>) -> Verdict {
    let file = made(b, "file", VERIFIER)?;
    let dir = b.dir()?;
    b.v3.create(dir, "file", super::plain_file())?.refused(&[Status::AlreadyExists])?;
    let answered = b.v3.create(dir, "file", How::Unchecked(SetAttributes::default()))?;
    let taken = b.v3.made(answered, dir, "file")?;
    equal("number", b.v3.attributes(taken)?.file_id, b.v3.attributes(file)?.file_id)
}
