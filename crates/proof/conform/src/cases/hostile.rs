//! Malformed, truncated, oversized and forged input: the server refuses it, and continues to serve
//! other clients.

use std::time::Duration;

use bytes::Bytes;
use leasehold_wire::every::PROCEDURES;
use leasehold_wire::nfs3::{
    self, Handle, SetAttributes as Set, access, commit, create, fsinfo, getattr, link, lookup,
    mkdir, mknod, read, readdir, readdirplus, remove, rename, setattr, symlink, write,
};

use super::prelude::*;
use crate::bench::replied;
use crate::client::{Words, encoded, fresh_xid};
use crate::net::Got;
use crate::v3::{mode, place, procedure, write_args};

pub(crate) const GROUP: Group = Group {
    name: "hostile",
    about: "malformed, truncated, oversized and forged input: refused, and other clients are served",
    needs: Needs::Version3,
    company: Company::Shared,
    cases: cases! {
        no_bit_of_a_handle_can_be_changed: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        handles_of_any_length_are_refused: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        handles_of_zeros_and_ones_are_refused: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        a_cut_handle_is_refused: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        a_lengthened_handle_is_refused: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        random_handles_are_refused: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        every_procedure_refuses_a_forged_handle: "RFC 1813 2.6, NFS3ERR_BADHANDLE",
        cut_arguments_are_garbage_everywhere: "RFC 5531 9, GARBAGE_ARGS",
        lengths_of_4_gib_are_garbage: "RFC 5531 9, GARBAGE_ARGS",
        random_arguments_do_no_harm: "RFC 5531 9",
        random_words_for_every_program_do_no_harm: "RFC 5531 9",
        random_bytes_do_no_harm: "RFC 5531 11",
        a_record_of_2_gib_is_not_waited_for: "RFC 5531 11",
        fragments_without_end_are_not_kept: "RFC 5531 11",
        an_empty_record_does_no_harm: "RFC 5531 11",
        records_of_every_small_length_do_no_harm: "RFC 5531 9",
        half_a_record_does_not_hold_others_up: "RFC 5531 11",
        half_a_mark_does_not_hold_others_up: "RFC 5531 11",
        a_client_that_reads_nothing_does_not_hold_others_up: "RFC 5531 4",
        a_connection_reset_in_between_does_no_harm: "RFC 5531 5",
        many_connections_that_come_and_go_do_no_harm: "RFC 5531 5",
        a_call_that_nobody_waits_for_does_no_harm: "RFC 5531 5",
        http_is_not_answered_with_a_crash: "RFC 5531 11",
        a_name_length_of_4_gib_is_garbage: "RFC 4506 4.11",
        datagrams_of_every_small_length_do_no_harm: "RFC 5531 9",
        random_datagrams_do_no_harm: "RFC 5531 9",
        a_datagram_of_64_kib_does_no_harm: "RFC 5531 5",
        padding_that_is_not_zero_is_taken_or_refused: "RFC 4506 4.10",
        a_write_whose_data_is_missing_is_garbage: "RFC 5531 9, GARBAGE_ARGS",
        a_credential_for_nobody_gets_no_more: "RFC 5531 10.1",
    },
};

/// The timeout of a reply that may not come.
const SOON: Duration = Duration::from_millis(100);

/// Fails unless the server refuses a handle that it has not issued.
fn refused(b: &mut Bench<'_>, handle: Handle, what: &str) -> Verdict {
    let answered = b.v3.getattr(handle)?;
    let right = matches!(
        answered.status(),
        Some(Status::BadHandle | Status::Stale | Status::Invalid | Status::ServerFault)
    );
    ensure!(right, "{what} is answered {:?}", answered.status());
    b.advise(
        answered.status() == Some(Status::BadHandle) || answered.status() == Some(Status::Stale),
        "an invalid handle should get NFS3ERR_BADHANDLE",
    );
    Ok(())
}

fn no_bit_of_a_handle_can_be_changed(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"secret")?;
    let number = b.v3.attributes(file)?.file_id;
    let mut taken = 0;
    for bit in 0..file.as_bytes().len() * 8 {
        let mut bytes = file.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let forged = Handle::new(&bytes).expect("the handle is as long as before");
        // The whole call may be refused: the handle may seem to belong to an export of other
        // clients.
        let (xid, message) = b.message(procedure(getattr::NUMBER), &forged);
        let got = b.v3.client.exchange(xid, &message)?;
        let (_, results) = crate::client::head(procedure(getattr::NUMBER), got)?;
        if results.starts_with(&[0; 4]) {
            taken += 1;
            let reply = crate::v3::readable::<getattr::Reply>("NFS3 GETATTR", &results)?;
            let same =
                matches!(reply, nfs3::Reply::Done(done) if done.attributes.file_id == number);
            ensure!(same, "with bit {bit} changed the handle names another object");
        }
    }
    b.advise(taken == 0, format!("{taken} bits of a handle can be changed without effect"));
    Ok(())
}

fn handles_of_any_length_are_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let right = dir.as_bytes().len();
    for length in (0..=64).filter(|length| *length != right) {
        let handle = Handle::new(&vec![1; length]).expect("the handle is short enough");
        refused(b, handle, &format!("a handle of {length} bytes"))?;
    }
    Ok(())
}

fn handles_of_zeros_and_ones_are_refused(b: &mut Bench<'_>) -> Verdict {
    let length = b.dir()?.as_bytes().len();
    for byte in [0, 1, 0x7f, 0x80, 0xff] {
        let handle = Handle::new(&vec![byte; length]).expect("the handle is as long as before");
        refused(b, handle, &format!("a handle of {byte:#x} throughout"))?;
    }
    Ok(())
}

fn a_cut_handle_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for length in 0..dir.as_bytes().len() {
        let handle = Handle::new(&dir.as_bytes()[..length]).expect("the handle is shorter");
        refused(b, handle, &format!("the first {length} bytes of a handle"))?;
    }
    Ok(())
}

fn a_lengthened_handle_is_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let bytes = dir.as_bytes();
    for length in bytes.len() + 1..=64 {
        let mut longer = bytes.to_vec();
        longer.resize(length, 0);
        let handle = Handle::new(&longer).expect("the handle is short enough");
        let answered = b.v3.getattr(handle)?;
        b.advise(!answered.is_done(), "a handle with zeros behind it is accepted");
    }
    Ok(())
}

fn random_handles_are_refused(b: &mut Bench<'_>) -> Verdict {
    let length = b.dir()?.as_bytes().len();
    for _ in 0..100 {
        let handle = Handle::new(&b.bytes(length)).expect("the handle is as long as before");
        refused(b, handle, "a random handle")?;
    }
    Ok(())
}

fn every_procedure_refuses_a_forged_handle(b: &mut Bench<'_>) -> Verdict {
    let object = Handle::new(&[0x55; 32]).expect("the handle is short enough");
    let place = place(object, "name");
    let (cookie, verifier, directory) = (leasehold_base::units::Cookie(0), [0; 8], object);
    let nothing = Set::default();
    let calls: [(u32, Vec<u8>); 20] = [
        (getattr::NUMBER, encoded(&object)),
        (setattr::NUMBER, encoded(&setattr::Args { object, attributes: nothing, guard: None })),
        (lookup::NUMBER, encoded(&place)),
        (access::NUMBER, encoded(&access::Args { object, access: access::Access::default() })),
        (nfs3::readlink::NUMBER, encoded(&object)),
        (read::NUMBER, encoded(&read::Args { file: object, offset: 0, count: 1 })),
        (write::NUMBER, encoded(&write_args(object, 0, b"a", Stability::FileSync))),
        (create::NUMBER, encoded(&create::Args { place, how: super::plain_file() })),
        (mkdir::NUMBER, encoded(&mkdir::Args { place, attributes: nothing })),
        (
            symlink::NUMBER,
            encoded(&symlink::Args { place, attributes: nothing, target: nfs3::Path(b"x") }),
        ),
        (mknod::NUMBER, encoded(&mknod::Args { place, node: mknod::Node::Fifo(mode(0o600)) })),
        (remove::NUMBER, encoded(&place)),
        (nfs3::rmdir::NUMBER, encoded(&place)),
        (rename::NUMBER, encoded(&rename::Args { from: place, to: place })),
        (link::NUMBER, encoded(&link::Args { file: object, link: place })),
        (readdir::NUMBER, encoded(&readdir::Args { directory, cookie, verifier, count: 4096 })),
        (
            readdirplus::NUMBER,
            encoded(&readdirplus::Args {
                directory,
                cookie,
                verifier,
                names_count: 4096,
                count: 8192,
            }),
        ),
        (nfs3::fsstat::NUMBER, encoded(&object)),
        (fsinfo::NUMBER, encoded(&object)),
        (commit::NUMBER, encoded(&commit::Args { file: object, offset: 0, count: 0 })),
    ];
    for (number, args) in calls {
        let results = b.v3.client.call(procedure(number), &Raw(&args))?;
        let status = results.first_chunk().map(|word| u32::from_be_bytes(*word));
        let name = crate::talk::procedure_name(procedure(number));
        let allowed = [
            Status::BadHandle,
            Status::Stale,
            Status::Invalid,
            Status::ServerFault,
            Status::NotSupported,
        ]
        .map(|status| Some(status as u32));
        ensure!(allowed.contains(&status), "{name} of a forged handle is answered {status:?}");
    }
    Ok(())
}

/// Arguments that are already encoded.
struct Raw<'a>(&'a [u8]);

impl leasehold_base::xdr::Encode for Raw<'_> {
    fn encode(&self, writer: &mut leasehold_base::xdr::Writer) {
        writer.fixed(self.0);
    }
}

fn cut_arguments_are_garbage_everywhere(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let args = create::Args { place: place(dir, "name"), how: super::plain_file() };
    let whole = encoded(&args);
    for number in 1..=21 {
        // Valid arguments of one procedure are invalid for another; half of them are invalid for
        // all.
        for length in [0, 4, 8, 20] {
            let (xid, mut message) = b.message(procedure(number), &());
            message.extend_from_slice(&whole[..length]);
            let got = b.v3.client.exchange(xid, &message)?;
            let Got::Message(_) = got else {
                let name = crate::talk::procedure_name(procedure(number));
                return Err(Stop::fail(format!("{name} cut after {length} bytes gives {got:?}")));
            };
        }
    }
    b.v3.lookup(dir, "name")?.refused(&[Status::NotFound])?;
    Ok(())
}

fn lengths_of_4_gib_are_garbage(b: &mut Bench<'_>) -> Verdict {
    for length in [u32::MAX, 0x8000_0000, 0x7fff_ffff, 1 << 30, 0x0100_0000] {
        for number in [getattr::NUMBER, lookup::NUMBER, write::NUMBER, symlink::NUMBER] {
            let words = Words(&[length, 1, 2, 3, 4, 5, 6, 7, 8]);
            let status = b.v3.client.received(procedure(number), &words)?;
            let garbage = leasehold_wire::rpc::ReplyStatus::GarbageArguments;
            equal("a handle of gigabytes", status, garbage)?;
        }
    }
    Ok(())
}

fn random_arguments_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    b.dir()?;
    for _ in 0..200 {
        let number = u32::try_from(b.random.below(22)).expect("the number is small");
        let length = usize::try_from(b.random.below(50)).expect("the length is small") * 4;
        let (xid, mut message) = b.message(procedure(number), &());
        message.extend(b.bytes(length));
        let got = b.v3.client.exchange(xid, &message)?;
        ensure!(matches!(got, Got::Message(_)), "random arguments give {got:?}");
    }
    b.still_serves()
}

fn random_words_for_every_program_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    for known in PROCEDURES {
        // Portmap and MOUNT may share a port; every program here has to survive the calls.
        let words: Vec<u32> =
            (0..8).map(|_| u32::try_from(b.random.below(5)).expect("the word is small")).collect();
        let at = crate::talk::Procedure {
            program: known.program,
            version: known.version,
            number: known.number,
        };
        // The list of mounts belongs to other clients.
        if at.program == leasehold_wire::mount::PROGRAM && at.number == 4 {
            continue;
        }
        let (xid, message) = b.message(at, &Words(&words));
        let got = b.v3.client.exchange(xid, &message)?;
        ensure!(matches!(got, Got::Message(_)), "{} gives {got:?}", known.name);
    }
    b.still_serves()
}

/// Sends raw bytes on a separate connection, and checks that the server continues to serve.
fn sent(b: &mut Bench<'_>, bytes: &[u8]) -> Verdict {
    let mut stream = b.stream()?;
    // A server may close the connection during the send; that is also right.
    let _ = stream.send_bytes(bytes);
    stream.receive(SOON);
    b.still_serves()
}

fn random_bytes_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    for length in [1, 7, 64, 1000, 20_000, 300_000] {
        let bytes = b.bytes(length);
        sent(b, &bytes)?;
    }
    Ok(())
}

fn a_record_of_2_gib_is_not_waited_for(b: &mut Bench<'_>) -> Verdict {
    sent(b, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])?;
    sent(b, &[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0])
}

fn fragments_without_end_are_not_kept(b: &mut Bench<'_>) -> Verdict {
    let mut bytes = Vec::new();
    for _ in 0..2000 {
        bytes.extend_from_slice(&[0, 0, 0x10, 0]);
        bytes.extend_from_slice(&[0; 0x1000]);
    }
    // Eight megabytes without a complete record.
    sent(b, &bytes)?;
    // The same number of empty record marks.
    sent(b, &[0; 200_000])
}

fn an_empty_record_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    sent(b, &[0x80, 0, 0, 0])?;
    sent(b, &[0x80, 0, 0, 0].repeat(1000))
}

fn records_of_every_small_length_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    for length in 0..message.len() {
        let mut stream = b.stream()?;
        if let Got::Message(reply) =
            replied(&mut stream, &message[..length], Duration::from_millis(5))?
        {
            ensure!(reply.len() >= 12, "{length} bytes of a call give a reply of {}", reply.len());
        }
    }
    b.still_serves()
}

fn half_a_record_does_not_hold_others_up(b: &mut Bench<'_>) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut stream = b.stream()?;
        let record = [&leasehold_wire::record::mark(message.len()), &message[..]].concat();
        stream.send_bytes(&record[..record.len() / 2]).map_err(|e| Stop::fail(e.to_string()))?;
        streams.push(stream);
    }
    b.still_serves()
}

fn half_a_mark_does_not_hold_others_up(b: &mut Bench<'_>) -> Verdict {
    let mut streams = Vec::new();
    for length in [1, 2, 3] {
        let mut stream = b.stream()?;
        stream.send_bytes(&[0x80, 0, 0][..length]).map_err(|e| Stop::fail(e.to_string()))?;
        streams.push(stream);
    }
    b.still_serves()
}

fn a_client_that_reads_nothing_does_not_hold_others_up(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    b.v3.setattr(file, crate::v3::size(1 << 20))?.done()?;
    let args = read::Args { file, offset: 0, count: 64 << 10 };
    let mut stream = b.stream()?;
    // A thousand replies of 64 KiB exceed all buffers on the way.
    for _ in 0..1000 {
        let (_, message) = b.message(procedure(read::NUMBER), &args);
        if stream.send(&message).is_err() {
            break;
        }
    }
    b.still_serves()?;
    let dir = b.dir()?;
    b.another_here().attributes(dir)?;
    stream.abort();
    b.still_serves()
}

fn a_connection_reset_in_between_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for number in 0..20 {
        let name = format!("file {number}");
        let args = create::Args { place: place(dir, &name), how: super::plain_file() };
        let (_, message) = b.message(procedure(create::NUMBER), &args);
        let mut stream = b.stream()?;
        stream.send(&message).map_err(|error| Stop::fail(error.to_string()))?;
        stream.abort();
    }
    b.still_serves()
}

fn many_connections_that_come_and_go_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    for round in 0..200 {
        let stream = b.stream()?;
        if round % 2 == 0 {
            stream.abort();
        }
    }
    b.still_serves()
}

fn a_call_that_nobody_waits_for_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for _ in 0..50 {
        let mut stream = b.stream()?;
        let (_, message) = b.message(procedure(getattr::NUMBER), &dir);
        stream.send(&message).map_err(|error| Stop::fail(error.to_string()))?;
    }
    b.still_serves()
}

fn http_is_not_answered_with_a_crash(b: &mut Bench<'_>) -> Verdict {
    sent(b, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n")?;
    sent(b, b"SSH-2.0-OpenSSH_9.2\r\n")?;
    sent(b, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3])
}

fn a_name_length_of_4_gib_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    for length in [u32::MAX, 1 << 31, 1 << 20] {
        let args = [encoded(&dir), length.to_be_bytes().to_vec(), b"name".to_vec()].concat();
        let status = b.v3.client.received(procedure(lookup::NUMBER), &Raw(&args))?;
        let garbage = leasehold_wire::rpc::ReplyStatus::GarbageArguments;
        equal("a name of gigabytes", status, garbage)?;
    }
    Ok(())
}

fn datagrams_of_every_small_length_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    let mut datagrams = b.datagrams()?;
    for length in 0..message.len() {
        // A failed send does no harm either.
        let _ = datagrams.send(&message[..length]);
    }
    b.udp_null()
}

fn random_datagrams_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let mut datagrams = b.datagrams()?;
    for _ in 0..100 {
        let length = usize::try_from(b.random.below(2000)).expect("the length is small");
        let bytes = b.bytes(length);
        let _ = datagrams.send(&bytes);
    }
    b.udp_null()
}

fn a_datagram_of_64_kib_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let mut datagrams = b.datagrams()?;
    let (_, mut message) = b.message(b.null(), &());
    message.resize(65_507, 0);
    let _ = datagrams.send(&message);
    b.udp_null()
}

fn padding_that_is_not_zero_is_taken_or_refused(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    b.v3.file(dir, "file1", b"")?;
    let mut args = encoded(&place(dir, "file1"));
    let end = args.len();
    args[end - 3..].copy_from_slice(&[0xff; 3]);
    let (xid, mut message) = b.message(procedure(lookup::NUMBER), &());
    message.extend(args);
    let got = b.v3.client.exchange(xid, &message)?;
    ensure!(matches!(got, Got::Message(_)), "padding that is not zero gives {got:?}");
    Ok(())
}

fn a_write_whose_data_is_missing_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"0123")?;
    let mut args = encoded(&write_args(file, 0, b"", Stability::FileSync));
    let end = args.len();
    args[end - 4..].copy_from_slice(&1000_u32.to_be_bytes());
    let status = b.v3.client.received(procedure(write::NUMBER), &Raw(&args))?;
    let garbage = leasehold_wire::rpc::ReplyStatus::GarbageArguments;
    equal("WRITE without its data", status, garbage)?;
    equal("contents", b.v3.get(file, 0, 10)?, b"0123".to_vec())
}

fn a_credential_for_nobody_gets_no_more(b: &mut Bench<'_>) -> Verdict {
    let (mut user, own) = b.users_dir(0)?;
    let file = user.file(own, "file", b"123")?;
    user.setattr(file, mode(0o600))?.done()?;
    let mut nobody = b.as_user(&crate::client::Credential::None);
    let args = read::Args { file, offset: 0, count: 3 };
    let xid = fresh_xid();
    let message = nobody.client.message(xid, procedure(read::NUMBER), &args);
    let got = nobody.client.exchange(xid, &message)?;
    let (status, results) = crate::client::head(procedure(read::NUMBER), got)?;
    let refused = status != leasehold_wire::rpc::ReplyStatus::Success
        || results != Bytes::new() && !results.starts_with(&[0; 4]);
    ensure!(refused, "a caller without a credential reads a file of mode 0600");
    Ok(())
}
