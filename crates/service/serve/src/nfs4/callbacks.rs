//! The encoding of callbacks, and the decoding of their answers.

use leasehold_base::units::Xid;
use leasehold_base::xdr::{Decode as _, Encode as _, Message, Reader, Writer};
use leasehold_core::sessions::{Answer, CallbackCall, CallbackProgram, Request, SlotId};
use leasehold_wire::list::Array;
use leasehold_wire::nfs4::callback::{self, CallWriter, sequence};
use leasehold_wire::nfs4::compound::ReplyHeader;
use leasehold_wire::nfs4::{self as wire, Completion, Status, Tag};
use leasehold_wire::rpc::{Call, OpaqueAuth, flavor};

/// Encodes a callback with CB_SEQUENCE and at most one operation after it.
pub(super) fn encode(
    xid: Xid,
    program: &CallbackProgram,
    call: &CallbackCall,
    operation: Option<&callback::Args<'_>>,
) -> Message {
    let credential = match program.credential.is_empty() {
        true => OpaqueAuth::NONE,
        false => OpaqueAuth { flavor: flavor::SYS, body: &program.credential },
    };
    let mut writer = Writer::new();
    Call {
        xid,
        program: program.program,
        version: callback::VERSION,
        procedure: callback::COMPOUND,
        credential,
        verifier: OpaqueAuth::NONE,
    }
    .encode(&mut writer);
    let mut calls = CallWriter::new(writer, Tag(b""), program.minor);
    calls.append(&callback::Args::Sequence(sequence::Args {
        session: wire::SessionId(call.session.0),
        sequence: wire::SequenceId(call.sequence.0),
        slot: wire::SlotId(call.slot.0),
        highest_slot: wire::SlotId(call.highest.0),
        cache: false,
        referring: Array(referring(&call.referring)),
    }));
    if let Some(operation) = operation {
        calls.append(operation);
    }
    calls.finish().finish()
}

/// Groups the requests to which a callback refers by their sessions.
fn referring(requests: &[Request]) -> Vec<sequence::ReferringCalls> {
    let of_session = |requests: &[Request]| {
        let session = wire::SessionId(requests.first()?.session.0);
        let call = |request: &Request| sequence::ReferringCall {
            sequence: wire::SequenceId(request.sequence.0),
            slot: wire::SlotId(request.slot.0),
        };
        let calls = Array(requests.iter().map(call).collect());
        Some(sequence::ReferringCalls { session, calls })
    };
    requests.chunk_by(|one, next| one.session == next.session).filter_map(of_session).collect()
}

/// Decodes the answer to a callback, after the RPC header.
pub(super) fn answer(reader: &mut Reader<'_>) -> Answer {
    try_answer(reader).unwrap_or(Answer::Garbled)
}

fn try_answer(reader: &mut Reader<'_>) -> Option<Answer> {
    let header = ReplyHeader::decode(reader).ok()?;
    if header.count == 0 {
        return None;
    }
    let first = callback::Results::decode(reader).ok()?;
    let callback::Results::Sequence(first) = first else { return None };
    Some(match first {
        sequence::Reply::Done(done) => {
            let target = SlotId(done.target_highest_slot.0);
            match header.status {
                Completion::Failed(Status::Delay) => Answer::Delay { is_sequenced: true },
                Completion::Failed(_) | Completion::Done(()) => Answer::Done { target },
            }
        }
        sequence::Reply::Failed(status) => failed(status),
    })
}

/// Returns the meaning of a failed CB_SEQUENCE.
fn failed(status: Status) -> Answer {
    let is_one_of = |statuses: &[Status]| statuses.contains(&status);
    if status == Status::Delay {
        Answer::Delay { is_sequenced: false }
    } else if is_one_of(&[Status::SequenceMisordered, Status::BadSlot, Status::BadHighSlot]) {
        Answer::Misordered
    } else if is_one_of(&[Status::SequenceFalseRetry, Status::RetryUncachedReply]) {
        Answer::Done { target: SlotId(0) }
    } else {
        Answer::Garbled
    }
}
