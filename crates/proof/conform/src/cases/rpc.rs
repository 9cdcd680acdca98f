//! The calls themselves: versions, programs, procedures, flavours, records.

use std::time::Duration;

use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Reader, Writer};
use leasehold_wire::rpc::{AuthStatus, Reply, ReplyStatus, flavor};
use leasehold_wire::{nfs3, rpc};

use super::prelude::*;
use crate::bench::{call_head, replied};
use crate::client::{Credential, encoded, fresh_xid, head};
use crate::net::{Got, Stream};
use crate::talk::Procedure;

pub(crate) const GROUP: Group = Group {
    name: "rpc",
    about: "the calls themselves: versions, programs, procedures, flavours, records",
    needs: Needs::Nothing,
    company: Company::Shared,
    cases: cases! {
        null_does_nothing_and_is_answered: "RFC 1813 3.3.0",
        null_needs_no_credential: "RFC 1813 3.3.0",
        the_reply_carries_the_number_of_the_call: "RFC 5531 9",
        any_number_is_taken: "RFC 5531 9",
        another_version_of_rpc_is_denied: "RFC 5531 9, RPC_MISMATCH",
        rpc_version_0_is_denied: "RFC 5531 9, RPC_MISMATCH",
        an_unknown_program_is_unavailable: "RFC 5531 9, PROG_UNAVAIL",
        program_0_is_unavailable: "RFC 5531 9, PROG_UNAVAIL",
        an_unknown_version_names_those_that_are_there: "RFC 5531 9, PROG_MISMATCH",
        version_0_is_a_mismatch: "RFC 5531 9, PROG_MISMATCH",
        an_unknown_procedure_is_unavailable: "RFC 5531 9, PROC_UNAVAIL",
        the_first_unused_procedure_is_unavailable: "RFC 5531 9, PROC_UNAVAIL",
        arguments_that_end_early_are_garbage: "RFC 5531 9, GARBAGE_ARGS",
        a_handle_of_65_bytes_is_garbage: "RFC 1813 2.4, NFS3_FHSIZE",
        a_boolean_of_2_is_garbage: "RFC 4506 4.4",
        an_unknown_enumeration_is_no_success: "RFC 4506 4.3",
        bytes_behind_the_arguments_do_no_harm: "RFC 5531 9",
        null_with_arguments_does_no_harm: "RFC 1813 3.3.0",
        an_unknown_flavour_is_refused: "RFC 5531 8.2",
        a_broken_auth_sys_credential_is_refused: "RFC 5531 appendix A",
        more_than_16_groups_are_refused: "RFC 5531 appendix A",
        sixteen_groups_are_taken: "RFC 5531 appendix A",
        a_machine_name_of_255_bytes_is_taken: "RFC 5531 appendix A",
        a_machine_name_of_256_bytes_is_refused: "RFC 5531 appendix A",
        a_credential_of_401_bytes_is_refused: "RFC 5531 8.2",
        short_credentials_never_given_out_are_refused: "RFC 5531 appendix A",
        gss_without_a_context_is_refused: "RFC 2203 5.3.3.3",
        a_record_may_come_in_two_fragments: "RFC 5531 11",
        a_record_may_come_in_many_fragments: "RFC 5531 11",
        fragments_may_be_empty: "RFC 5531 11",
        a_record_may_come_byte_by_byte: "RFC 5531 11",
        two_records_may_come_at_once: "RFC 5531 11",
        many_calls_may_be_on_their_way: "RFC 5531 4",
        a_reply_is_not_answered: "RFC 5531 9",
        null_is_answered_over_udp: "RFC 5531 5",
        every_denial_is_answered_over_udp: "RFC 5531 9",
        half_a_call_over_udp_does_no_harm: "RFC 5531 9",
        a_closed_sending_side_is_answered_first: "RFC 5531 5",
    },
};

/// The timeout of a reply that a server need not send.
const SOON: Duration = Duration::from_millis(500);

/// Returns the status of a call with these words: version of RPC, program, version, procedure.
fn received(bench: &mut Bench<'_>, words: [u32; 4]) -> Result<ReplyStatus, Stop> {
    let xid = fresh_xid();
    let [rpc_version, program, version, procedure] = words;
    let message = call_head(xid, [0, rpc_version, program, version, procedure], &bench.server.me);
    let procedure = Procedure { program, version, number: procedure };
    let got = bench.v3.client.exchange(xid, &message)?;
    head(procedure, got).map(|(status, _)| status)
}

/// Returns the status of NULL with a credential.
fn with_credential(
    bench: &mut Bench<'_>,
    procedure: Procedure,
    flavor: u32,
    body: &[u8],
) -> Result<ReplyStatus, Stop> {
    let (xid, args) = (fresh_xid(), root_args(bench)?);
    let message = message_with(xid, procedure, flavor, body, &args);
    let got = bench.v3.client.exchange(xid, &message)?;
    head(procedure, got).map(|(status, _)| status)
}

/// A call with any credential.
fn message_with(xid: Xid, procedure: Procedure, flavor: u32, body: &[u8], args: &[u8]) -> Vec<u8> {
    let Procedure { program, version, number } = procedure;
    let mut writer = Writer::new();
    writer.words(&[xid.0, 0, rpc::RPC_VERSION, program, version, number, flavor]);
    writer.opaque(body);
    writer.u64(0);
    [&writer.finish().into_bytes(), args].concat()
}

/// GETATTR of either version: for it a server has to identify its caller.
fn getattr(bench: &Bench<'_>) -> Procedure {
    Procedure { number: nfs3::getattr::NUMBER, ..bench.null() }
}

/// The root, encoded as the arguments of GETATTR.
fn root_args(bench: &Bench<'_>) -> Result<Vec<u8>, Stop> {
    match (bench.server.root3, bench.server.root2) {
        (Some(root), _) => Ok(encoded(&root)),
        (None, Some(root)) => Ok(encoded(&root)),
        (None, None) => Err(Stop::skip("nothing is mounted")),
    }
}

fn expect_auth_error(status: &ReplyStatus, allowed: &[AuthStatus]) -> Verdict {
    let right = matches!(status, ReplyStatus::AuthError(why) if allowed.contains(why));
    ensure!(right, "expected AUTH_ERROR with one of {allowed:?}, got {status:?}");
    Ok(())
}

fn null_does_nothing_and_is_answered(b: &mut Bench<'_>) -> Verdict {
    if b.server.root3.is_some() { b.v3.null() } else { b.v2.null() }
}

fn null_needs_no_credential(b: &mut Bench<'_>) -> Verdict {
    b.v3.client.credential = Credential::None;
    let null = b.null();
    let status = b.v3.client.received(null, &())?;
    // "A server may choose to ignore this convention."
    let refused = matches!(status, ReplyStatus::AuthError(AuthStatus::TooWeak));
    b.advise(!refused, "NULL should need no authentication");
    ensure!(refused || status == ReplyStatus::Success, "NULL is answered {status:?}");
    Ok(())
}

fn the_reply_carries_the_number_of_the_call(b: &mut Bench<'_>) -> Verdict {
    let (xid, message) = b.message(b.null(), &());
    let mut stream = b.stream()?;
    let got = replied(&mut stream, &message, b.server.patience)?;
    let Got::Message(reply) = got else {
        return Err(Stop::fail(format!("NULL got an invalid reply: {got:?}")));
    };
    let reply = Reply::decode(&mut Reader::new(&reply))
        .map_err(|error| Stop::fail(format!("the header of the reply is malformed: {error}")))?;
    equal("number of the reply", reply.xid, xid)
}

fn any_number_is_taken(b: &mut Bench<'_>) -> Verdict {
    for number in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let xid = Xid(number);
        let message = b.v3.client.message(xid, b.null(), &());
        let got = b.v3.client.exchange(xid, &message)?;
        let (status, _) = head(b.null(), got)?;
        equal("NULL", status, ReplyStatus::Success)?;
    }
    Ok(())
}

fn another_version_of_rpc_is_denied(b: &mut Bench<'_>) -> Verdict {
    let null = b.null();
    let status = received(b, [3, null.program, null.version, 0])?;
    equal("a call of RPC version 3", status, ReplyStatus::RpcMismatch)
}

fn rpc_version_0_is_denied(b: &mut Bench<'_>) -> Verdict {
    let null = b.null();
    let status = received(b, [0, null.program, null.version, 0])?;
    equal("a call of RPC version 0", status, ReplyStatus::RpcMismatch)
}

/// An unused program number from the range for local use.
const NOBODYS_PROGRAM: u32 = 0x3fff_fffe;

fn an_unknown_program_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let status = received(b, [2, NOBODYS_PROGRAM, 1, 0])?;
    equal("a call of an unknown program", status, ReplyStatus::ProgramUnavailable)
}

fn program_0_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let status = received(b, [2, 0, 1, 0])?;
    equal("a call of program 0", status, ReplyStatus::ProgramUnavailable)
}

fn mismatch(b: &mut Bench<'_>, version: u32) -> Verdict {
    let null = b.null();
    let status = received(b, [2, null.program, version, 0])?;
    let ReplyStatus::ProgramMismatch(versions) = status else {
        return Err(Stop::fail(format!("expected PROG_MISMATCH, got {status:?}")));
    };
    let there = versions.low..=versions.high;
    ensure!(
        there.contains(&null.version) && !there.contains(&version),
        "PROG_MISMATCH for version {version} names {there:?}, and {} is served",
        null.version
    );
    Ok(())
}

fn an_unknown_version_names_those_that_are_there(b: &mut Bench<'_>) -> Verdict {
    mismatch(b, 99)
}

fn version_0_is_a_mismatch(b: &mut Bench<'_>) -> Verdict {
    mismatch(b, 0)
}

fn an_unknown_procedure_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let null = b.null();
    let status = received(b, [2, null.program, null.version, 1000])?;
    equal("a call of procedure 1000", status, ReplyStatus::ProcedureUnavailable)
}

fn the_first_unused_procedure_is_unavailable(b: &mut Bench<'_>) -> Verdict {
    let null = b.null();
    let first = if null.version == nfs3::VERSION { 22 } else { 18 };
    let status = received(b, [2, null.program, null.version, first])?;
    equal("a call of the first unused procedure", status, ReplyStatus::ProcedureUnavailable)
}

/// Returns the status of a procedure of version 3 with these words as arguments.
fn with_words(b: &mut Bench<'_>, number: u32, words: &[u32]) -> Result<ReplyStatus, Stop> {
    b.root()?;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    with_bytes(b, number, &bytes)
}

fn with_bytes(b: &mut Bench<'_>, number: u32, bytes: &[u8]) -> Result<ReplyStatus, Stop> {
    let procedure = crate::v3::procedure(number);
    let (xid, mut message) = b.message(procedure, &());
    message.extend_from_slice(bytes);
    let got = b.v3.client.exchange(xid, &message)?;
    head(procedure, got).map(|(status, _)| status)
}

fn arguments_that_end_early_are_garbage(b: &mut Bench<'_>) -> Verdict {
    let status = with_words(b, nfs3::getattr::NUMBER, &[32, 1, 2])?;
    equal("GETATTR with half a handle", status, ReplyStatus::GarbageArguments)
}

fn a_handle_of_65_bytes_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let words: Vec<u32> = std::iter::once(65).chain([0; 17]).collect();
    let status = with_words(b, nfs3::getattr::NUMBER, &words)?;
    equal("GETATTR with a handle of 65 bytes", status, ReplyStatus::GarbageArguments)
}

fn a_boolean_of_2_is_garbage(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let mut args = encoded(&b.v3.file(dir, "file", b"")?);
    // The first of the attributes is mode: a flag for its presence, and its value.
    args.extend_from_slice(&2_u32.to_be_bytes());
    args.extend_from_slice(&[0; 6 * 4]);
    let status = with_bytes(b, nfs3::setattr::NUMBER, &args)?;
    equal("SETATTR with a boolean of 2", status, ReplyStatus::GarbageArguments)
}

fn an_unknown_enumeration_is_no_success(b: &mut Bench<'_>) -> Verdict {
    let dir = b.dir()?;
    let file = b.v3.file(dir, "file", b"")?;
    let mut args = encoded(&crate::v3::write_args(file, 0, b"", Stability::FileSync));
    // stable_how is the word before the data, and the empty data is only its length.
    let at = args.len() - 8;
    args[at..at + 4].copy_from_slice(&7_u32.to_be_bytes());
    let procedure = crate::v3::procedure(nfs3::write::NUMBER);
    let (xid, mut message) = b.message(procedure, &());
    message.extend(args);
    let got = b.v3.client.exchange(xid, &message)?;
    let (status, results) = head(procedure, got)?;
    let refused = results.first_chunk().is_some_and(|word| *word != [0; 4]);
    ensure!(
        status == ReplyStatus::GarbageArguments || (status == ReplyStatus::Success && refused),
        "WRITE with stable_how of 7 is answered {status:?}, and written"
    );
    Ok(())
}

fn bytes_behind_the_arguments_do_no_harm(b: &mut Bench<'_>) -> Verdict {
    let args = [encoded(&b.root()?), vec![0; 8]].concat();
    let status = with_bytes(b, nfs3::getattr::NUMBER, &args)?;
    let right = matches!(status, ReplyStatus::GarbageArguments | ReplyStatus::Success);
    ensure!(right, "GETATTR with bytes left over is answered {status:?}");
    b.still_serves()
}

fn null_with_arguments_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let status = with_words(b, rpc::null::NUMBER, &[1, 2, 3])?;
    let right = matches!(status, ReplyStatus::GarbageArguments | ReplyStatus::Success);
    ensure!(right, "NULL with arguments is answered {status:?}");
    b.still_serves()
}

fn an_unknown_flavour_is_refused(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, 0x3fff_ffff, &[])?;
    let allowed = [AuthStatus::BadCredential, AuthStatus::RejectedCredential, AuthStatus::TooWeak];
    expect_auth_error(&status, &allowed)
}

/// An AUTH_SYS credential with this number of groups, or its first words.
fn sys_body(machine_name: usize, groups: u32) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.u32(0);
    writer.opaque(&vec![b'm'; machine_name]);
    writer.words(&[0, 0, groups]);
    (0..groups).for_each(|group| writer.u32(group));
    writer.finish().into_bytes().into()
}

fn a_broken_auth_sys_credential_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (getattr, body) = (getattr(b), sys_body(4, 0));
    let status = with_credential(b, getattr, flavor::SYS, &body[..body.len() - 8])?;
    expect_auth_error(&status, &[AuthStatus::BadCredential, AuthStatus::RejectedCredential])
}

fn more_than_16_groups_are_refused(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, flavor::SYS, &sys_body(4, 17))?;
    expect_auth_error(&status, &[AuthStatus::BadCredential, AuthStatus::RejectedCredential])
}

fn sixteen_groups_are_taken(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, flavor::SYS, &sys_body(4, 16))?;
    equal("GETATTR with 16 groups", status, ReplyStatus::Success)
}

fn a_machine_name_of_255_bytes_is_taken(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, flavor::SYS, &sys_body(255, 0))?;
    equal("GETATTR with a machine name of 255 bytes", status, ReplyStatus::Success)
}

fn a_machine_name_of_256_bytes_is_refused(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, flavor::SYS, &sys_body(256, 0))?;
    expect_auth_error(&status, &[AuthStatus::BadCredential, AuthStatus::RejectedCredential])
}

fn a_credential_of_401_bytes_is_refused(b: &mut Bench<'_>) -> Verdict {
    let (xid, procedure) = (fresh_xid(), getattr(b));
    let mut body = sys_body(4, 0);
    body.resize(401, 0);
    let message = message_with(xid, procedure, flavor::SYS, &body, &root_args(b)?);
    // By its type the message is no call, so a server need not reply; but it must not run it.
    if let Got::Message(reply) = b.v3.client.exchange(xid, &message)? {
        let (status, _) = head(procedure, Got::Message(reply))?;
        ensure!(status != ReplyStatus::Success, "a credential of 401 bytes is accepted");
    }
    b.still_serves()
}

fn short_credentials_never_given_out_are_refused(b: &mut Bench<'_>) -> Verdict {
    let getattr = getattr(b);
    let status = with_credential(b, getattr, flavor::SHORT, &[1; 8])?;
    let allowed = [AuthStatus::BadCredential, AuthStatus::RejectedCredential, AuthStatus::TooWeak];
    expect_auth_error(&status, &allowed)
}

fn gss_without_a_context_is_refused(b: &mut Bench<'_>) -> Verdict {
    /// The flavour, and a credential of version 1 for data, with a handle of four bytes.
    const GSS: u32 = 6;
    let words = [1_u32, 0, 1, 1, 4, 0x0102_0304];
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let getattr = getattr(b);
    let status = with_credential(b, getattr, GSS, &body)?;
    let allowed = [
        AuthStatus::BadCredential,
        AuthStatus::RejectedCredential,
        AuthStatus::TooWeak,
        AuthStatus::GssCredential,
        AuthStatus::GssContext,
        AuthStatus::Failed,
        AuthStatus::BadVerifier,
    ];
    expect_auth_error(&status, &allowed)
}

/// Returns true if NULL gets its reply, sent in any way.
fn null_sent(
    b: &mut Bench<'_>,
    send: impl FnOnce(&mut Stream, &[u8]) -> std::io::Result<()>,
) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    let mut stream = b.stream()?;
    send(&mut stream, &message)
        .map_err(|error| Stop::fail(format!("the server accepts no more data: {error}")))?;
    let (status, _) = head(b.null(), stream.receive(b.server.patience))?;
    equal("NULL", status, ReplyStatus::Success)
}

fn a_record_may_come_in_two_fragments(b: &mut Bench<'_>) -> Verdict {
    null_sent(b, |stream, message| stream.send_in_fragments(message, &[8]))
}

fn a_record_may_come_in_many_fragments(b: &mut Bench<'_>) -> Verdict {
    null_sent(b, |stream, message| stream.send_in_fragments(message, &vec![1; message.len() - 1]))
}

fn fragments_may_be_empty(b: &mut Bench<'_>) -> Verdict {
    null_sent(b, |stream, message| stream.send_in_fragments(message, &[0, 4, 0, 8]))
}

/// The offsets in a record at which the sender pauses: within its mark, behind it, in the call.
const PAUSES: [usize; 4] = [0, 2, 3, 20];

/// Long enough for the server to read the earlier bytes separately.
const A_WHILE: Duration = Duration::from_millis(40);

fn a_record_may_come_byte_by_byte(b: &mut Bench<'_>) -> Verdict {
    null_sent(b, |stream, message| {
        let record = [&leasehold_wire::record::mark(message.len()), message].concat();
        for (at, byte) in record.chunks(1).enumerate() {
            stream.send_bytes(byte)?;
            if PAUSES.contains(&at) {
                std::thread::sleep(A_WHILE);
            }
        }
        Ok(())
    })
}

fn two_records_may_come_at_once(b: &mut Bench<'_>) -> Verdict {
    let (first, one) = b.message(b.null(), &());
    let (second, two) = b.message(b.null(), &());
    let mut stream = b.stream()?;
    let records = [&one, &two]
        .map(|message| [&leasehold_wire::record::mark(message.len()), &message[..]].concat());
    stream.send_bytes(&records.concat()).map_err(|error| Stop::fail(error.to_string()))?;
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let got = stream.receive(b.server.patience);
        let Got::Message(reply) = got else {
            return Err(Stop::fail(format!("after {} replies came {got:?}", numbers.len())));
        };
        numbers.push(reply.first_chunk().map(|word| u32::from_be_bytes(*word)));
    }
    numbers.sort_unstable();
    let mut expected = vec![Some(first.0), Some(second.0)];
    expected.sort_unstable();
    equal("numbers of the replies", numbers, expected)
}

fn many_calls_may_be_on_their_way(b: &mut Bench<'_>) -> Verdict {
    let null = b.null();
    let results = b.v3.client.call_many(null, &[(); 100])?;
    ensure!(results.iter().all(bytes::Bytes::is_empty), "NULL answers with results");
    Ok(())
}

fn a_reply_is_not_answered(b: &mut Bench<'_>) -> Verdict {
    let xid = fresh_xid();
    let reply = encoded(&Reply { xid, status: ReplyStatus::Success });
    let mut stream = b.stream()?;
    let got = replied(&mut stream, &reply, SOON)?;
    // A server may treat it as an attack and close the connection.
    ensure!(matches!(got, Got::Silence | Got::Closed), "a reply was answered: {got:?}");
    b.still_serves()
}

fn null_is_answered_over_udp(b: &mut Bench<'_>) -> Verdict {
    b.udp_null()
}

fn every_denial_is_answered_over_udp(b: &mut Bench<'_>) -> Verdict {
    b.v3.client.route = b.udp_route()?;
    another_version_of_rpc_is_denied(b)?;
    an_unknown_program_is_unavailable(b)?;
    an_unknown_version_names_those_that_are_there(b)?;
    an_unknown_procedure_is_unavailable(b)
}

fn half_a_call_over_udp_does_no_harm(b: &mut Bench<'_>) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    let mut datagrams = b.datagrams()?;
    for length in [0, 3, 4, 7, 20, message.len() / 2] {
        // A failed send does no harm either.
        let _ = datagrams.send(&message[..length]);
    }
    null_is_answered_over_udp(b)
}

fn a_closed_sending_side_is_answered_first(b: &mut Bench<'_>) -> Verdict {
    let (_, message) = b.message(b.null(), &());
    let mut stream = b.stream()?;
    let sent = stream.send(&message).and_then(|()| stream.finish());
    sent.map_err(|error| Stop::fail(error.to_string()))?;
    let got = stream.receive(b.server.patience);
    let answered = matches!(got, Got::Message(_));
    b.advise(answered, format!("a call and the end of the stream give {got:?}"));
    b.still_serves()
}
